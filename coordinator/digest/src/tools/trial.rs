//! Output of trial.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("trial") };

const RULES: &[Rule] = &[Rule {
    // An unexpected success does not count as a failure, in its text and in its exit code.
    name: "trial.passed",
    pattern: r"^PASSED \((?:(?:skips=(?P<skipped>\d+)|expectedFailures=(?P<expected>\d+)|(?:unexpectedSuccesses|successes)=\d+)(?:, )?)+\)$",
    effects: &[Effect::Of(ToolId::Unittest, &[Effect::Own(|line| line.moves(SORTS))]), Effect::Summary],
}];
