//! Which command tests or builds a project.

use super::config::Configuration;
use super::detect::{self, Detected};
use super::quote::quoted;
use std::fmt;
use std::path::{Path, PathBuf};

/// What is wanted of the project.
#[derive(Clone, Copy, Debug)]
pub enum Goal<'a> {
    /// Its tests.
    Test {
        /// Only those that this selects, in the tool's own syntax.
        filter: Option<&'a str>,
    },
    /// Its build.
    Build {
        /// Only this part, as the tool names it.
        target: Option<&'a str>,
        /// Optimised.
        release: bool,
    },
}

impl Goal<'_> {
    /// `test` or `build`: the key under `commands:`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Test { .. } => "test",
            Self::Build { .. } => "build",
        }
    }
}

/// A command and why it is the one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// For `sh -c`.
    pub command: String,
    /// Where it runs.
    pub directory: PathBuf,
    /// One clause: `Cargo.toml` is there; the configuration says so.
    pub because: String,
    /// Test reports that the tool writes.
    pub reports: Vec<String>,
}

/// Why no command can be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChooseError {
    /// Nothing in the directory or above shows a tool that can do it.
    Nothing {
        /// From where it was looked.
        directory: PathBuf,
        /// `test` or `build`.
        goal: &'static str,
        /// What is there that can't, and why.
        unfit: Vec<String>,
    },
    /// The configuration's command can't take this option.
    NoPlace {
        /// Which file.
        file: PathBuf,
        /// `test` or `build`.
        goal: &'static str,
        /// `filter`, `target` or `release`.
        option: &'static str,
    },
    /// The configuration's entry is wrong.
    Configuration(super::ConfigProblem),
}

impl fmt::Display for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing { directory, goal, unfit } => {
                write!(f, "no command is known that would {goal} `{}`", directory.display())?;
                if !unfit.is_empty() {
                    write!(f, " ({})", unfit.join("; "))?;
                }
                write!(
                    f,
                    "; give one as `command`, or write it once into .buildpool/config.yaml as `commands: {{{goal}: \"…\"}}`"
                )
            }
            Self::NoPlace { file, goal, option } => write!(
                f,
                "{}: commands.{goal} has no place for `{option}`; write {{{option}}} where it belongs, or give the whole \
                 command as `command`",
                file.display()
            ),
            Self::Configuration(problem) => problem.fmt(f),
        }
    }
}

impl std::error::Error for ChooseError {}

/// Chooses: the configuration's command, else that of the tool whose files are nearest; where no tool shows, files that pytest
/// would collect do. Nothing above `top` counts, which is the directory or above it: that belongs to something or somebody
/// else.
///
/// # Errors
/// When there is none, or it can't do what is wanted; each says what to write where.
pub fn choose(
    configuration: &Configuration,
    directory: &Path,
    top: &Path,
    goal: Goal<'_>,
) -> Result<Chosen, ChooseError> {
    let mut unfit = Vec::new();
    if configuration.is_below(top) {
        if let Some(problem) = configuration.problem_of_command(goal.name()) {
            return Err(ChooseError::Configuration(problem.clone()));
        }
        if let Some((file, command)) = configuration.command(goal.name()) {
            return configured(file, configuration.root(), command, goal);
        }
    } else if let Some(file) = configuration.file() {
        unfit.push(format!("{}: its commands are for what lies above the project", file.display()));
    }
    for place in directory.ancestors().take_while(|place| place.starts_with(top)).map(Path::to_owned) {
        let found = detect::detect(&place);
        for tool in &found {
            match tool.command(goal) {
                Ok(command) => {
                    return Ok(Chosen {
                        command,
                        directory: place.clone(),
                        because: because(tool, &found, directory, &place),
                        reports: tool.reports(goal),
                    });
                }
                Err(reason) => unfit.push(format!("{}: {reason}", tool.marker)),
            }
        }
    }
    if let Some(tool) = detect::loose_tests(directory)
        && let Ok(command) = tool.command(goal)
    {
        let because = because(&tool, &[], directory, directory);
        return Ok(Chosen { command, directory: directory.to_owned(), because, reports: tool.reports(goal) });
    }
    Err(ChooseError::Nothing { directory: directory.to_owned(), goal: goal.name(), unfit })
}

/// The root of the repository that a directory lies in.
pub fn repository_of(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|place| place.join(".git").exists())
}

fn because(tool: &Detected, found: &[Detected], asked: &Path, place: &Path) -> String {
    let mut text = format!("{} is there", tool.marker);
    if asked != place {
        text = format!("{} is in {}", tool.marker, place.display());
    }
    let others: Vec<&str> =
        found.iter().filter(|other| other.marker != tool.marker).map(|other| other.marker.as_str()).collect();
    if !others.is_empty() {
        text.push_str(&format!(" (so is {}; give `command` for another tool)", others.join(", ")));
    }
    text
}

/// Puts the wishes into the places that the configured command has for them.
fn configured(file: &Path, root: &Path, command: &str, goal: Goal<'_>) -> Result<Chosen, ChooseError> {
    let mut text = command.to_owned();
    let mut place = |option: &'static str, value: Option<String>| {
        let mark = format!("{{{option}}}");
        if value.is_some() && !text.contains(&mark) {
            return Err(ChooseError::NoPlace { file: file.to_owned(), goal: goal.name(), option });
        }
        text = text.replace(&mark, &value.unwrap_or_default());
        Ok(())
    };
    match goal {
        Goal::Test { filter } => place("filter", filter.map(quoted))?,
        Goal::Build { target, release } => {
            place("target", target.map(quoted))?;
            place("release", release.then(|| "release".to_owned()))?;
        }
    }
    Ok(Chosen {
        command: text.trim_end().to_owned(),
        directory: root.to_owned(),
        because: format!("{} says so", file.display()),
        reports: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(".git")).unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    fn chosen(files: &[(&str, &str)], goal: Goal<'_>) -> Result<Chosen, ChooseError> {
        let directory = project(files);
        choose(&Configuration::load(directory.path()), directory.path(), directory.path(), goal)
    }

    const TEST: Goal<'static> = Goal::Test { filter: None };
    /// Whose tools know no such thing by one name.
    const WITHOUT_RELEASE: [&str; 3] = ["pom.xml", "build.gradle.kts", "package.json"];

    const BUILD: Goal<'static> = Goal::Build { target: None, release: false };

    #[test]
    fn each_tool_has_its_commands() {
        let package = r#"{"scripts":{"test":"vitest run","build":"tsc"}}"#;
        let filter = Goal::Test { filter: Some("a b") };
        let part = Goal::Build { target: Some("app"), release: false };
        let release = Goal::Build { target: Some("app"), release: true };
        for (files, test, filtered, build, released) in [
            (
                vec![("Cargo.toml", "")],
                "cargo test",
                "cargo test 'a b'",
                "cargo build",
                "cargo build --package app --release",
            ),
            (
                vec![("Package.swift", "")],
                "swift test",
                "swift test --filter 'a b'",
                "swift build",
                "swift build --target app --configuration release",
            ),
            (
                vec![("go.mod", "")],
                "go test ./...",
                "go test ./... -run 'a b'",
                "go build ./...",
                "go build -trimpath -ldflags '-s -w' app",
            ),
            (
                vec![("pom.xml", "")],
                "mvn --batch-mode test",
                "mvn --batch-mode test -Dtest='a b' -Dsurefire.failIfNoSpecifiedTests=false",
                "mvn --batch-mode package -DskipTests",
                "mvn --batch-mode package -DskipTests --projects app --also-make",
            ),
            (
                vec![("build.gradle.kts", ""), ("gradlew", "")],
                "./gradlew --no-daemon test",
                "./gradlew --no-daemon test --tests 'a b'",
                "./gradlew --no-daemon assemble",
                "./gradlew --no-daemon app",
            ),
            (
                vec![("package.json", package)],
                "npm test",
                "npm test -- 'a b'",
                "npm run build",
                "npm run build --workspace=app",
            ),
            (
                vec![("package.json", package), ("pnpm-lock.yaml", "")],
                "pnpm test",
                "pnpm test 'a b'",
                "pnpm run build",
                "pnpm --filter app run build",
            ),
            (
                vec![("package.json", package), ("yarn.lock", "")],
                "yarn test",
                "yarn test 'a b'",
                "yarn run build",
                "yarn workspace app run build",
            ),
            (
                vec![("CMakeLists.txt", "")],
                "cmake -S . -B build && cmake --build build --parallel && ctest --test-dir build --output-on-failure",
                "cmake -S . -B build && cmake --build build --parallel && ctest --test-dir build --output-on-failure \
                 --tests-regex 'a b'",
                "cmake -S . -B build && cmake --build build --parallel",
                "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build --parallel --config Release \
                 --target app",
            ),
        ] {
            let check = |goal, expected: &str| {
                assert_eq!(chosen(&files, goal).unwrap().command, expected, "{files:?} {goal:?}");
            };
            check(TEST, test);
            check(filter, filtered);
            check(BUILD, build);
            if files.iter().any(|(file, _)| WITHOUT_RELEASE.contains(file)) {
                check(part, released);
                let error = chosen(&files, release).unwrap_err().to_string();
                assert!(error.contains("has no `release`; "), "{files:?}: {error}");
            } else {
                check(release, released);
            }
        }
    }

    #[test]
    fn xcode_needs_one_shared_scheme_or_a_target() {
        let scheme = ("App.xcodeproj/xcshareddata/xcschemes/App.xcscheme", "");
        let other = ("App.xcodeproj/xcshareddata/xcschemes/Tool.xcscheme", "");
        let one = chosen(&[scheme], Goal::Test { filter: Some("AppTests/Login") }).unwrap();
        assert_eq!(
            one.command,
            "xcodebuild test -project App.xcodeproj -scheme App -only-testing:AppTests/Login"
        );
        let error = chosen(&[scheme, other], TEST).unwrap_err().to_string();
        assert!(error.contains("App, Tool") && error.contains(".buildpool/config.yaml"), "{error}");
        let named = chosen(&[scheme, other], Goal::Build { target: Some("Tool"), release: true }).unwrap();
        assert_eq!(
            named.command,
            "xcodebuild build -project App.xcodeproj -scheme Tool -configuration Release"
        );
        let workspace = chosen(&[("App.xcworkspace/contents.xcworkspacedata", ""), scheme], TEST).unwrap();
        assert_eq!(workspace.command, "xcodebuild test -workspace App.xcworkspace -scheme App");
    }

    #[test]
    fn pytest_and_make_are_known_by_what_they_contain() {
        let pytest = [("pyproject.toml", "[tool.pytest.ini_options]\n")];
        assert_eq!(chosen(&pytest, TEST).unwrap().command, "python3 -m pytest");
        let by_name = chosen(&pytest, Goal::Test { filter: Some("login and not slow") }).unwrap();
        assert_eq!(by_name.command, "python3 -m pytest -k 'login and not slow'");
        let by_path = chosen(&pytest, Goal::Test { filter: Some("tests/test_a.py::test_x") }).unwrap();
        assert_eq!(by_path.command, "python3 -m pytest tests/test_a.py::test_x");
        assert!(chosen(&pytest, BUILD).unwrap_err().to_string().contains("commands: {build:"));
        for name in ["test_a.py", "a_test.py"] {
            let loose = chosen(&[(name, "")], TEST).unwrap();
            assert_eq!(loose.command, "python3 -m pytest");
            assert!(loose.because.contains(name), "{loose:?}");
            let make = ("Makefile", "test:\n\ttrue\n");
            assert_eq!(chosen(&[(name, ""), make], TEST).unwrap().command, "make test");
        }
        assert!(chosen(&[("test_a.py", "")], BUILD).is_err());

        let make = [("Makefile", "all: x\n\ncheck: all\n\t./run\n.PHONY: check\n")];
        assert_eq!(chosen(&make, TEST).unwrap().command, "make check");
        assert_eq!(
            chosen(&make, Goal::Build { target: Some("x"), release: false }).unwrap().command,
            "make x"
        );
        assert!(chosen(&make, Goal::Test { filter: Some("x") }).unwrap_err().to_string().contains("filter"));
        assert!(chosen(&[("Makefile", "all:\n")], TEST).unwrap_err().to_string().contains("test"));
    }

    #[test]
    fn a_package_without_the_script_gives_way_and_the_choice_is_explained() {
        let files = [("package.json", r#"{"scripts":{"lint":"x"}}"#), ("Makefile", "test:\n\ttrue\n")];
        let chosen = chosen(&files, TEST).unwrap();
        assert_eq!(chosen.command, "make test");
        assert!(
            chosen.because.contains("Makefile") && chosen.because.contains("package.json"),
            "{}",
            chosen.because
        );
    }

    #[test]
    fn the_nearest_marker_decides_and_the_search_ends_at_the_repository() {
        let directory = project(&[
            ("Cargo.toml", ""),
            ("web/package.json", r#"{"scripts":{"test":"x"}}"#),
            ("doc/a", ""),
        ]);
        let at = |place: &str| {
            let place = directory.path().join(place);
            choose(&Configuration::load(&place), &place, repository_of(&place).unwrap(), TEST)
        };
        assert_eq!(at("web").unwrap().command, "npm test");
        let above = at("doc").unwrap();
        assert_eq!((above.command.as_str(), above.directory.as_path()), ("cargo test", directory.path()));
        fs::remove_file(directory.path().join("Cargo.toml")).unwrap();
        assert!(matches!(at("doc"), Err(ChooseError::Nothing { .. })));
    }

    #[test]
    fn nothing_above_the_top_decides_what_runs() {
        let up = project(&[(".buildpool/config.yaml", "commands: {test: make theirs}"), ("Cargo.toml", "")]);
        let own = up.path().join("own");
        fs::create_dir_all(own.join("sub")).unwrap();
        let at = |place: &Path| choose(&Configuration::load(place), place, &own, TEST);
        let error = at(&own.join("sub")).unwrap_err().to_string();
        assert!(error.contains("config.yaml: its commands are for what lies above"), "{error}");
        assert!(matches!(at(&own), Err(ChooseError::Nothing { .. })));
        fs::write(own.join("Makefile"), "test:\n\ttrue\n").unwrap();
        let chosen = at(&own.join("sub")).unwrap();
        assert_eq!((chosen.command.as_str(), chosen.directory.as_path()), ("make test", own.as_path()));
    }

    #[test]
    fn the_configuration_wins_and_takes_options_where_it_has_a_place() {
        let files = |text| [("Cargo.toml", ""), (".buildpool/config.yaml", text)];
        let plain = files("commands:\n  test: just test {filter}\n  build: just build\n");
        assert_eq!(chosen(&plain, TEST).unwrap().command, "just test");
        let filtered = chosen(&plain, Goal::Test { filter: Some("a b") }).unwrap();
        assert_eq!(filtered.command, "just test 'a b'");
        assert!(filtered.because.contains("config.yaml"));
        let error =
            chosen(&plain, Goal::Build { target: Some("x"), release: false }).unwrap_err().to_string();
        assert!(error.contains("commands.build") && error.contains("{target}"), "{error}");
        let wrong = chosen(&files("commands:\n  test: 7\n"), TEST).unwrap_err().to_string();
        assert!(
            wrong.contains("config.yaml") && wrong.contains("commands.test") && wrong.contains("7"),
            "{wrong}"
        );
        assert_eq!(chosen(&files("commands:\n  test: 7\n"), BUILD).unwrap().command, "cargo build");
    }
}
