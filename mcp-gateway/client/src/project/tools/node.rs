//! package.json: its scripts, and the package manager that runs them.

use super::script::{self, Filtered};
use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;
use serde_json::Value;

/// A package with scripts.
struct Node {
    manager: Manager,
    package: Value,
    /// nx or turbo builds the parts of a root without a script `build`.
    has_task_runner: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

/// The command of bun's own test runner.
const BUN_TEST: &str = "bun test";
/// Part of the script that `npm init` writes when there are no tests.
const NO_TESTS: &str = "no test specified";

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["package.json"])?;
    let package: Value = serde_json::from_str(&directory.text(&marker)?).ok()?;
    let manager = Manager::of_package(&package, directory);
    let has_task_runner = directory.first_file(&["nx.json", "turbo.json", "turbo.jsonc"]).is_some();
    Some(Detected::new(Node { manager, package, has_task_runner }, marker))
}

/// Returns the command that runs a program of the directory's packages.
pub(super) fn exec(directory: &Directory<'_>) -> &'static str {
    let text = directory.text("package.json").unwrap_or_default();
    match Manager::of_package(&serde_json::from_str(&text).unwrap_or_default(), directory) {
        Manager::Npm => "npx",
        Manager::Pnpm => "pnpm exec",
        Manager::Yarn => "yarn",
        Manager::Bun => "bunx",
    }
}

impl Manager {
    /// Returns the manager of the field `packageManager`, else that of the lock file.
    fn of_package(package: &Value, directory: &Directory<'_>) -> Self {
        let named = package.get("packageManager").and_then(Value::as_str).unwrap_or_default();
        let by_name =
            [("pnpm@", Self::Pnpm), ("yarn@", Self::Yarn), ("bun@", Self::Bun), ("npm@", Self::Npm)];
        let by_lock = [
            ("pnpm-lock.yaml", Self::Pnpm),
            ("yarn.lock", Self::Yarn),
            ("bun.lock", Self::Bun),
            ("bun.lockb", Self::Bun),
        ];
        let named = by_name.iter().find(|(prefix, _)| named.starts_with(prefix));
        let locked = || by_lock.iter().find(|(file, _)| directory.has(file));
        named.or_else(locked).map_or(Self::Npm, |(_, manager)| *manager)
    }

    /// Returns the name of the program.
    const fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
        }
    }

    /// Returns the command that runs the script `test`. `bun test` is bun's own test runner
    /// instead.
    const fn test(self) -> &'static str {
        match self {
            Self::Npm => "npm test",
            Self::Pnpm => "pnpm test",
            Self::Yarn => "yarn test",
            Self::Bun => "bun run test",
        }
    }
}

impl Node {
    fn script(&self, name: &str) -> Option<String> {
        let script = self.package.get("scripts")?.get(name)?.as_str()?;
        (!script.contains(NO_TESTS)).then(|| script.to_owned())
    }

    /// Returns a command that runs a filtered script and its `pretest` script, outside the package
    /// manager.
    fn rewritten(&self, text: &str) -> String {
        let before = self.script("pretest").map(|_| format!("{} run pretest && ", self.manager.name()));
        let path = if script::needs_packages(text) { "PATH=\"$PWD/node_modules/.bin:$PATH\"; " } else { "" };
        format!("{}{path}{text}", before.unwrap_or_default())
    }
}

impl Tool for Node {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // Without a script, bun's own test runner runs the tests.
        let (script, command) = match (self.script("test"), self.manager) {
            (Some(script), manager) => (script, manager.test()),
            (None, Manager::Bun) => (BUN_TEST.to_owned(), BUN_TEST),
            (None, _) => return Err(Refusal::Goal("it has no script `test`".to_owned())),
        };
        let Some(filter) = filter else { return Ok(command.to_owned()) };
        let filtered = script::filtered(&script, filter, &|name| self.script(name)).map_err(|reason| {
            no_option(
                "the script `test`",
                "filter",
                &format!("{reason}; give the whole command as `command`"),
            )
        })?;
        Ok(match (filtered, self.manager) {
            // npm passes only arguments after `--` to the script.
            (Filtered::Appended(options), Manager::Npm) => format!("{command} -- {options}"),
            (Filtered::Appended(options), _) => format!("{command} {options}"),
            (Filtered::Rewritten(text), _) => self.rewritten(&text),
        })
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if self.script("build").is_none() && (target.is_none() || self.has_task_runner) {
            return Err(Refusal::Goal("it has no script `build`".to_owned()));
        }
        if release {
            return Err(no_option("a package", "release", "the script `build` decides; or give `command`"));
        }
        let target = target.map(quoted);
        Ok(match (self.manager, target) {
            (manager, None) => format!("{} run build", manager.name()),
            (Manager::Npm, Some(part)) => format!("npm run build --workspace={part}"),
            (Manager::Pnpm, Some(part)) => format!("pnpm --filter {part} run build"),
            (Manager::Yarn, Some(part)) => format!("yarn workspace {part} run build"),
            (Manager::Bun, Some(part)) => format!("bun run --filter {part} build"),
        })
    }
}
