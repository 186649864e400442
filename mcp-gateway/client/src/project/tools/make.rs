//! make, by the targets of the makefile.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

/// Limit on targets that a message lists.
const LISTED_MAX: usize = 20;

struct Make {
    rules: Vec<Rule>,
}

/// A target and the commands of its rule.
#[derive(PartialEq, Eq, Debug)]
struct Rule {
    target: String,
    recipe: String,
    is_phony: bool,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["GNUmakefile", "makefile", "Makefile"])?;
    let rules = rules(&directory.text(&marker).unwrap_or_default());
    Some(Detected::new(Make { rules }, marker))
}

/// Returns the rules with plain target names, in the order of the file.
fn rules(text: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut phony: Vec<&str> = Vec::new();
    // The rules of the last header line, to which the following recipe lines belong.
    let mut current = 0;
    for line in text.lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            for rule in rules.iter_mut().skip(current) {
                rule.recipe.push_str(recipe);
                rule.recipe.push('\n');
            }
            continue;
        }
        let Some((names, rest)) = line.split_once(':') else { continue };
        if names.trim() == ".PHONY" {
            phony.extend(rest.split_whitespace());
            continue;
        }
        let is_rule = !rest.trim_start_matches(':').starts_with('=')
            && !line.starts_with([' ', '#', '.'])
            && !names.contains(['$', '%', '=', '"']);
        if is_rule {
            current = rules.len();
            rules.extend(names.split_whitespace().map(|name| Rule {
                target: name.to_owned(),
                recipe: String::new(),
                is_phony: false,
            }));
        }
    }
    for rule in &mut rules {
        rule.is_phony = phony.contains(&rule.target.as_str());
    }
    rules
}

impl Rule {
    /// Returns true if the rule creates the file of its target: the recipe mentions it.
    fn creates_its_file(&self) -> bool {
        let mentions = |word: &str| word.trim_matches(['"', '\'']) == self.target;
        !self.is_phony && (self.recipe.contains("$@") || self.recipe.split_whitespace().any(mentions))
    }
}

impl Make {
    fn has(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.target == name)
    }

    /// Targets that `make` may build by default. The first target of a makefile can be anything,
    /// also a deployment.
    fn default_target(&self) -> Result<&str, Refusal> {
        let named = ["all", "build", "default"].into_iter().find(|name| self.has(name));
        let first =
            self.rules.first().filter(|rule| rule.creates_its_file()).map(|rule| rule.target.as_str());
        named.or(first).ok_or_else(|| {
            let targets: Vec<&str> =
                self.rules.iter().map(|rule| rule.target.as_str()).take(LISTED_MAX).collect();
            let listed = match targets.is_empty() {
                true => "it has no targets".to_owned(),
                false => format!("its targets are {}; give one as `target`", targets.join(", ")),
            };
            Refusal::Goal(format!("it has no target all, build or default; {listed}"))
        })
    }
}

impl Tool for Make {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let Some(target) = ["test", "check", "tests"].into_iter().find(|name| self.has(name)) else {
            return Err(Refusal::Goal("it has no target test, check or tests".to_owned()));
        };
        match filter {
            None => Ok(format!("make {target}")),
            Some(_) => Err(no_option("make", "filter", "give the whole command as `command`")),
        }
    }

    fn build(&self, target: Option<&str>, release: bool, parallel: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("make", "release", "give a target that builds it as `target`"));
        }
        let target = match target {
            Some(target) => target,
            None => self.default_target()?,
        };
        Ok(format!("make -j{} {}", parallel.word(), quoted(target)))
    }
}

#[cfg(test)]
mod tests {
    use super::rules;

    #[test]
    fn rules_have_names_recipes_and_phony_marks() {
        let text = "CC := cc\n.PHONY: check\napp tool: main.c\n\t$(CC) -o $@ $<\n%.o: %.c\n\t$(CC)\ncheck: app\n\t./run\n";
        let found = rules(text);
        let names: Vec<_> = found.iter().map(|rule| (rule.target.as_str(), rule.is_phony)).collect();
        assert_eq!(names, [("app", false), ("tool", false), ("check", true)]);
        assert!(found[0].creates_its_file() && found[1].creates_its_file());
        assert!(!found[2].creates_its_file());
        assert_eq!(found[2].recipe, "./run\n");
    }
}
