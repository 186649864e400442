//! package.json: which scripts there are, and which program runs them.

use super::quote::quoted;
use serde_json::Value;

/// A package with scripts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Package {
    manager: Manager,
    has_test: bool,
    has_build: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manager {
    Npm,
    Pnpm,
    Yarn,
}

/// The script that `npm init` writes when there are no tests.
const NO_TESTS: &str = "no test specified";

impl Package {
    /// Reads package.json; the lock file or the field `packageManager` tells the program.
    pub(super) fn read(text: &str, has: impl Fn(&str) -> bool) -> Option<Self> {
        let package: Value = serde_json::from_str(text).ok()?;
        let script =
            |name: &str| package.get("scripts").and_then(|scripts| scripts.get(name)).and_then(Value::as_str);
        let named = package.get("packageManager").and_then(Value::as_str).unwrap_or_default();
        let manager = if named.starts_with("pnpm@") || has("pnpm-lock.yaml") {
            Manager::Pnpm
        } else if named.starts_with("yarn@") || has("yarn.lock") {
            Manager::Yarn
        } else {
            Manager::Npm
        };
        Some(Self {
            manager,
            has_test: script("test").is_some_and(|script| !script.contains(NO_TESTS)),
            has_build: script("build").is_some(),
        })
    }

    pub(super) fn test(&self, filter: Option<&str>) -> Result<String, String> {
        if !self.has_test {
            return Err("it has no script `test`".to_owned());
        }
        let command = match self.manager {
            Manager::Npm => "npm test",
            Manager::Pnpm => "pnpm test",
            Manager::Yarn => "yarn test",
        };
        Ok(match (filter, self.manager) {
            (None, _) => command.to_owned(),
            // Only npm keeps for itself what is not behind two dashes.
            (Some(filter), Manager::Npm) => format!("{command} -- {}", quoted(filter)),
            (Some(filter), Manager::Pnpm | Manager::Yarn) => format!("{command} {}", quoted(filter)),
        })
    }

    pub(super) fn build(&self, target: Option<&str>) -> Result<String, String> {
        if !self.has_build && target.is_none() {
            return Err("it has no script `build`".to_owned());
        }
        let target = target.map(quoted);
        Ok(match (self.manager, target) {
            (Manager::Npm, None) => "npm run build".to_owned(),
            (Manager::Npm, Some(part)) => format!("npm run build --workspace={part}"),
            (Manager::Pnpm, None) => "pnpm run build".to_owned(),
            (Manager::Pnpm, Some(part)) => format!("pnpm --filter {part} run build"),
            (Manager::Yarn, None) => "yarn run build".to_owned(),
            (Manager::Yarn, Some(part)) => format!("yarn workspace {part} run build"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Package;

    #[test]
    fn the_script_that_npm_init_writes_is_no_test() {
        let package = |text: &str| Package::read(text, |_| false).unwrap();
        let initial = package(r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#);
        assert!(initial.test(None).is_err());
        let named = package(r#"{"packageManager":"pnpm@9.0.0","scripts":{"test":"vitest"}}"#);
        assert_eq!(named.test(None).unwrap(), "pnpm test");
        assert!(Package::read("{", |_| false).is_none());
    }
}
