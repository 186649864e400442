//! just: recipes named `test` and `build`.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

struct Just {
    recipes: Vec<Recipe>,
}

struct Recipe {
    name: String,
    takes_arguments: bool,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["justfile", "Justfile", ".justfile"])?;
    let recipes = recipes(&directory.text(&marker).unwrap_or_default());
    Some(Detected::new(Just { recipes }, marker))
}

/// Returns the recipes of a justfile: `name parameters: dependencies`, not indented.
fn recipes(text: &str) -> Vec<Recipe> {
    let header = |line: &str| {
        let (head, rest) = line.split_once(':')?;
        let mut words = head.trim_start_matches('@').split_whitespace();
        let name = words.next()?;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let is_recipe = is_name && !rest.starts_with('=') && !line.starts_with([' ', '\t']);
        is_recipe.then(|| Recipe { name: name.to_owned(), takes_arguments: words.next().is_some() })
    };
    text.lines().filter_map(header).collect()
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
        match filter {
            None => Ok("just test".to_owned()),
            Some(filter) if recipe.takes_arguments => Ok(format!("just test {}", quoted(filter))),
            Some(_) => Err(no_option("the recipe `test`", "filter", "add a parameter to the recipe")),
        }
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
    fn recipes_are_told_from_assignments_and_bodies() {
        let text =
            "set shell := [\"sh\"]\nv := 'a:b'\n\ntest *args: build\n  cargo test: x\n@build:\n  make\n";
        let found = recipes(text);
        let found: Vec<_> = found.iter().map(|r| (r.name.as_str(), r.takes_arguments)).collect();
        assert_eq!(found, [("test", true), ("build", false)]);
    }
}
