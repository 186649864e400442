//! just: recipes named `test` and `build`.

use super::{Detected, Parallel, Refusal, Tool, cargo, no_option, python, script, with_filter};
use crate::project::configured::is_quoted;
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Just {
    recipes: Vec<Recipe>,
}

struct Recipe {
    name: String,
    /// Name of its first parameter.
    parameter: Option<String>,
    body: Vec<String>,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["justfile", "Justfile", ".justfile"])?;
    let recipes = recipes(&directory.text(&marker).unwrap_or_default());
    Some(Detected::new(Just { recipes }, marker))
}

/// Returns the recipes of a justfile: `name parameters: dependencies`, not indented. The indented lines below
/// are its body.
fn recipes(text: &str) -> Vec<Recipe> {
    let header = |line: &str| {
        let (head, rest) = line.split_once(':')?;
        let mut words = head.trim_start_matches('@').split_whitespace();
        let name = words.next()?;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let is_recipe = is_name && !rest.starts_with('=') && !line.starts_with([' ', '\t']);
        let bare = |word: &str| word.trim_start_matches(['*', '+', '$']).split('=').next().map(str::to_owned);
        let parameter = words.next().and_then(bare);
        is_recipe.then(|| Recipe { name: name.to_owned(), parameter, body: Vec::new() })
    };
    let mut recipes: Vec<Recipe> = Vec::new();
    for line in text.lines() {
        match recipes.last_mut() {
            Some(recipe) if line.starts_with([' ', '\t']) => recipe.body.push(line.trim().to_owned()),
            _ => recipes.extend(header(line)),
        }
    }
    recipes
}

/// Returns the arguments of the runner in a command that select tests, quoted for a shell.
fn selection(command: &str, filter: &str) -> String {
    let calls = |words: &str| command.contains(words);
    let is_pytest = command.split_whitespace().any(|word| word == "pytest" || word.ends_with("/pytest"));
    if is_pytest {
        python::selection(filter)
    } else if calls("cargo test") {
        cargo::selection(filter)
    } else if calls("go test") {
        with_filter("-run", "", Some(&filter::pattern(filter)))
    } else {
        script::arguments(command, filter).unwrap_or_else(|| quoted(filter))
    }
}

impl Recipe {
    /// Returns the arguments of the recipe that select tests. A recipe that inserts its parameter as a text gets
    /// them as one text. A recipe that passes its arguments on gets them as they are.
    fn arguments(&self, filter: &str) -> Option<String> {
        let parameter = self.parameter.as_ref()?;
        let forms = [format!("{{{{{parameter}}}}}"), format!("{{{{ {parameter} }}}}")];
        let inserts = |line: &&String| forms.iter().any(|form| line.contains(form.as_str()));
        if let Some(line) = self.body.iter().find(inserts) {
            let is_inside_quotes = forms.iter().any(|form| is_quoted(line, form));
            return Some(quoted(&if is_inside_quotes { filter.to_owned() } else { selection(line, filter) }));
        }
        let passes = |line: &&String| line.contains("$@") || line.contains("$1");
        let line = self.body.iter().find(passes);
        Some(line.map_or_else(|| quoted(filter), |line| selection(line, filter)))
    }
}

impl Just {
    fn recipe(&self, name: &str) -> Result<&Recipe, Refusal> {
        let missing = || Refusal::Goal(format!("it has no recipe `{name}`"));
        self.recipes.iter().find(|recipe| recipe.name == name).ok_or_else(missing)
    }
}

impl Tool for Just {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let recipe = self.recipe("test")?;
        let Some(filter) = filter else { return Ok("just test".to_owned()) };
        let arguments = recipe.arguments(filter);
        let refusal = || no_option("the recipe `test`", "filter", "add a parameter to the recipe");
        arguments.map(|arguments| format!("just test {arguments}")).ok_or_else(refusal)
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("just", "release", "give the recipe as `target`"));
        }
        let name = target.unwrap_or("build");
        self.recipe(name).map(|_| format!("just {}", quoted(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::recipes;

    #[test]
    fn a_filter_takes_the_form_of_the_runner_in_the_recipe() {
        for (text, filter, expected) in [
            ("test *args:\n  pytest {{args}}\n", "A.b", "\"-k 'A and b'\""),
            (
                "test *args:\n  pytest {{ args }}\n",
                "t/test_a.py::test_x[a b]",
                "\"'t/test_a.py::test_x[a b]'\"",
            ),
            ("test *args:\n  pytest \"$@\"\n", "A.b", "-k 'A and b'"),
            ("test name='':\n  @cargo test {{name}}\n", "a b", "\"'a b'\""),
            ("test *args:\n  npx jest {{args}}\n", "adds", "'-t adds'"),
            ("test name:\n  pytest -k '{{name}}'\n", "adds", "adds"),
            ("test name:\n  ./run {{name}}\n", "x; touch y", "\"'x; touch y'\""),
        ] {
            assert_eq!(recipes(text)[0].arguments(filter).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(recipes("test:\n  pytest\n")[0].arguments("a"), None);
    }

    #[test]
    fn recipes_are_told_from_assignments_and_bodies() {
        let text =
            "set shell := [\"sh\"]\nv := 'a:b'\n\ntest *args: build\n  cargo test: x\n@build:\n  make\n";
        let found = recipes(text);
        let found: Vec<_> = found.iter().map(|r| (r.name.as_str(), r.parameter.is_some())).collect();
        assert_eq!(found, [("test", true), ("build", false)]);
    }
}
