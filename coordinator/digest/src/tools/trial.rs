//! Output of trial.

use crate::rules::{Effect, Rule, SORTS};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("trial") };

const RULES: &[Rule] = &[Rule {
    // An unexpected success does not count as a failure, in its text and in its exit code.
    name: "trial.passed",
    pattern: r"^PASSED \((?:(?:skips=(?P<skipped>\d+)|expectedFailures=(?P<expected>\d+)|(?:unexpectedSuccesses|successes)=\d+)(?:, )?)+\)$",
    effects: &[Effect::Moves(ToolId::Unittest, SORTS), Effect::Summary],
}];
