//! Last lines of tools that only repeat that something failed.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("tools' last lines") };

const RULES: &[Rule] = &[Rule {
    name: "consequences",
    pattern: r"^(?:Error: (?:cabal: Failed to build|\[S-\d+\]$|\d+ chart\(s\) linted|HH\d+: Compilation failed|Build failed with \d+ errors?:)|Error compiling project \(|error: (?:build failed$|external command `[^`]*` exited|metadata-generation-failed|subprocess-exited-with-error|aborting due to )|\xc3\x97 Encountered error while|ERR! => Failed to build|ghdl: compilation error|gnatmake: |error: (?:called from$|ignoring const execution_exception)|(?:HTML build pipeline|error from build pipeline))",
    effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40))],
}];
