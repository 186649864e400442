//! Last lines of tools that only repeat that something failed.

use crate::rules::{ERROR, Effect, Fails, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("tools' last lines") };

const RULES: &[Rule] = &[
    Rule {
        name: "consequences.of_failure",
        pattern: r"^(?:=> Failed to build the preview|The following tests failed\b|Internal Error at \(1\):$| *ERROR +run failed: command .*exited|Error compiling project \(| {4}error: (?:update|preview|destroy|refresh) failed$|Error: \d+ chart\(s\) linted, [1-9]\d* chart\(s\) failed|\[!\] (?:Error building(?:/testing)? the application|Tests have failed)|(?:\[\w+\] |[Ee]rror:? )?`?pod install`? exited with (?:non-zero|(?:.* )?[1-9])|Aborted with (?:a BuildError|\d+ (?:warnings?|configuration errors?))\b)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40).fails(Fails::Always))],
    },
    Rule {
        name: "consequences",
        pattern: r"^(?:Error: (?:cabal: Failed to build|\[S-\d+\]$|HH\d+: Compilation failed|Build failed with \d+ errors?:)|error: (?:build failed$|external command `[^`]*` exited|metadata-generation-failed|subprocess-exited-with-error|aborting due to )|\xc3\x97 Encountered error while|ERR! => Failed to build|ghdl: compilation error|gnatmake: | {2}\xc3\x97 Some (?:errors|warnings) were emitted while running checks|error: (?:Test failed$|called from$|ignoring const execution_exception)|(?:HTML build pipeline|error from build pipeline))",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40))],
    },
];
