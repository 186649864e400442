//! Output of regrtest.

use crate::rules::{Effect, Rule, TOTAL};
use crate::tool::{Includes, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    drives: true,
    begins_in_silence: true,
    includes: Includes::AllOthers,
    rules: RULES,
    ..Tool::named("regrtest")
};

const RULES: &[Rule] = &[
    Rule {
        name: "regrtest.success",
        pattern: r"^(?:== )?Tests result: SUCCESS",
        effects: &[Effect::Success, Effect::Summary],
    },
    Rule {
        name: "regrtest.result",
        pattern: r"^Result: SUCCESS",
        effects: &[Effect::Summary, Effect::IfKnown(ToolId::Regrtest), Effect::Success],
    },
    Rule {
        name: "regrtest.failure",
        pattern: r"^(?:== Tests result: FAILURE.*|Result: FAILURE|Tests result: FAILURE.*)",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "regrtest.total",
        pattern: r"^Total tests: run=(?P<n>[\d,]+)(?: failures=(?P<failed>[\d,]+))?(?: skipped=(?P<skipped>[\d,]+))?",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
];
