//! Python: pytest and the builder in the project's environment.

use super::{Detected, Parallel, Refusal, Tool, no_option, with_filter};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;
use regex::Regex;
use std::sync::LazyLock;

/// The environment that runs the project's programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Environment {
    /// A tool with a lock file. It runs a command by `TOOL run`.
    Manager(&'static str),
    /// A virtual environment in `.venv`. If it is not part of the snapshot, the machine's Python is
    /// used.
    Venv,
    /// tox, and whether its configuration passes arguments on.
    Tox { passes_arguments: bool },
    /// nox, and whether its configuration passes arguments on.
    Nox { passes_arguments: bool },
    /// The machine's Python.
    System,
}

/// Lock files and the tools that own them.
const MANAGERS: [(&str, &str); 4] =
    [("uv.lock", "uv"), ("poetry.lock", "poetry"), ("pdm.lock", "pdm"), ("Pipfile.lock", "pipenv")];

struct Python {
    environment: Environment,
    has_tests: bool,
    has_build: bool,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let environment = environment(directory);
    let pytest = pytest_marker(directory);
    let has_build = directory.text("pyproject.toml").is_some_and(|text| text.contains("[build-system]"));
    let has_tests =
        pytest.is_some() || matches!(environment, Environment::Tox { .. } | Environment::Nox { .. });
    let marker = pytest.or_else(|| {
        directory.first_file(&["tox.ini", "noxfile.py", "pyproject.toml", "setup.py", "setup.cfg"])
    })?;
    Some(Detected::new(Python { environment, has_tests, has_build }, marker))
}

/// Returns pytest if the directory itself has files that pytest collects. For directories without a
/// detected tool.
pub(in crate::project) fn loose_tests(directory: &Directory<'_>) -> Option<Detected> {
    let marker = test_file(directory.names())?.to_owned();
    let python = Python { environment: environment(directory), has_tests: true, has_build: false };
    Some(Detected::new(python, marker))
}

fn environment(directory: &Directory<'_>) -> Environment {
    if let Some((_, tool)) = MANAGERS.iter().find(|(file, _)| directory.has(file)) {
        return Environment::Manager(tool);
    }
    if directory.has(".venv/bin/python3") {
        return Environment::Venv;
    }
    if let Some(text) = directory.text("tox.ini").filter(|text| text.contains("[testenv")) {
        return Environment::Tox { passes_arguments: text.contains("{posargs") };
    }
    if let Some(text) = directory.text("noxfile.py") {
        return Environment::Nox { passes_arguments: text.contains("posargs") };
    }
    Environment::System
}

/// Returns the file that indicates pytest.
fn pytest_marker(directory: &Directory<'_>) -> Option<String> {
    for (file, section) in [
        ("pytest.ini", ""),
        ("pyproject.toml", "[tool.pytest"),
        ("tox.ini", "[pytest]"),
        ("setup.cfg", "[tool:pytest]"),
        ("conftest.py", ""),
        ("tests/conftest.py", ""),
    ] {
        if directory.text(file).is_some_and(|text| text.contains(section)) {
            return Some(file.to_owned());
        }
    }
    ["tests", "test"].iter().find_map(|folder| {
        let names = directory.entries_of(folder);
        test_file(names.iter().map(String::as_str)).map(|name| format!("{folder}/{name}"))
    })
}

/// Returns the first name that pytest collects.
fn test_file<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_test = |name: &&str| {
        name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    };
    names.filter(is_test).min()
}

impl Environment {
    /// Returns the command of a program in the environment.
    fn command(self, program: &str) -> String {
        match self {
            Self::Manager(tool) => format!("{tool} run {program}"),
            Self::Venv => format!("PATH=\"$PWD/.venv/bin:$PATH\" python3 -m {program}"),
            Self::Tox { .. } | Self::Nox { .. } | Self::System => format!("python3 -m {program}"),
        }
    }
}

/// Returns the arguments of pytest that select tests.
///
/// Node ids and paths are arguments. `Class.test`, `Class::test` and unittest's `test (module.Class)`
/// become an expression for `-k`.
pub(super) fn selection(filter: &str) -> String {
    static DOTTED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\w+(?:\.\w+)+$").ok());
    static UNITTEST: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^(\w+) \(([\w.]+)\)$").ok());
    // A node id begins with a file. pytest refuses one that begins with a class.
    let file = filter.split("::").next().unwrap_or(filter);
    if file.contains('/') || file.ends_with(".py") {
        return quoted(filter);
    }
    // The parameters of a test may contain anything.
    let (base, parameters) = filter.split_at(filter.find('[').unwrap_or(filter.len()));
    let mut name = base.replace("::", ".");
    if let Some(found) = UNITTEST.as_ref().and_then(|form| form.captures(base)) {
        // Python 3.11 prints the test's name inside the parentheses as well.
        name = match found[2].ends_with(&format!(".{}", &found[1])) {
            true => found[2].to_owned(),
            false => format!("{}.{}", &found[2], &found[1]),
        };
    }
    if DOTTED.as_ref().is_some_and(|form| form.is_match(&name)) {
        // `-k` matches the class and the test, but not the package.
        let parts: Vec<&str> = name.rsplitn(3, '.').take(2).collect();
        name = parts.into_iter().rev().collect::<Vec<_>>().join(" and ");
    }
    format!("-k {}", quoted(&(name + &keywords(parameters))))
}

/// Returns parameters as a part of an expression for `-k`. Between words, the expression accepts only some
/// characters (pytest source, `_pytest/mark/expression.py`). The parts between the others are joined by `and`.
fn keywords(parameters: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || "_:+-.[]\\/".contains(c);
    let parts = parameters.split(|c| !is_part(c)).filter(|part| !matches!(*part, "" | "and" | "or" | "not"));
    parts.collect::<Vec<_>>().join(" and ")
}

impl Tool for Python {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        if !self.has_tests {
            return Err(Refusal::Goal("no tests of pytest are found".to_owned()));
        }
        let (runner, passes_arguments) = match self.environment {
            Environment::Tox { passes_arguments } => ("tox", passes_arguments),
            Environment::Nox { passes_arguments } => ("nox", passes_arguments),
            other @ (Environment::Manager(_) | Environment::Venv | Environment::System) => {
                let command = other.command("pytest");
                return Ok(filter
                    .map_or_else(|| command.clone(), |filter| format!("{command} {}", selection(filter))));
            }
        };
        match filter {
            None => Ok(runner.to_owned()),
            Some(filter) if passes_arguments => Ok(format!("{runner} -- {}", selection(filter))),
            Some(_) => {
                let instead = "use posargs in its configuration, or give the whole command as `command`";
                Err(no_option(runner, "filter", instead))
            }
        }
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if !self.has_build {
            return Err(Refusal::Goal("pyproject.toml has no [build-system]".to_owned()));
        }
        if release {
            return Err(no_option("a Python package", "release", "leave it out"));
        }
        let command = match self.environment {
            Environment::Manager(tool @ ("uv" | "poetry" | "pdm")) => format!("{tool} build"),
            other => other.command("build"),
        };
        Ok(with_filter(&command, "", target))
    }
}

#[cfg(test)]
mod tests {
    use super::selection;

    #[test]
    fn names_become_what_pytest_selects_by() {
        for (filter, expected) in [
            ("tests/test_a.py::test_x", "tests/test_a.py::test_x"),
            ("test_a.py", "test_a.py"),
            ("login and not slow", "-k 'login and not slow'"),
            ("TestLogin.test_ok", "-k 'TestLogin and test_ok'"),
            ("tests.test_a.TestLogin.test_ok", "-k 'TestLogin and test_ok'"),
            ("test_ok (tests.test_a.TestLogin)", "-k 'TestLogin and test_ok'"),
            ("test_ok (tests.test_a.TestLogin.test_ok)", "-k 'TestLogin and test_ok'"),
            ("TestLogin::test_ok", "-k 'TestLogin and test_ok'"),
            ("test_x[1]", "-k 'test_x[1]'"),
            ("test_x[a::b]", "-k 'test_x[a::b]'"),
            ("test_x[it's a (b) or c]", "-k 'test_x[it and s and a and b and c]'"),
            ("TestLogin::test_ok[1.5]", "-k 'TestLogin and test_ok[1.5]'"),
        ] {
            assert_eq!(selection(filter), expected, "{filter}");
        }
    }
}
