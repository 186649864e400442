//! Output of regrtest.

use crate::rules::{Effect, Marker, Rule, TOTAL};
use crate::tool::{Includes, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { drives: true, includes: Includes::AllOthers, rules: RULES, ..Tool::named("regrtest") };

const RULES: &[Rule] = &[
    Rule {
        name: "regrtest.success",
        pattern: r"^(?:== )?Tests result: SUCCESS",
        effects: &[Effect::Marker(Marker::Success(ToolId::Regrtest)), Effect::Summary],
    },
    Rule {
        name: "regrtest.result",
        pattern: r"^Result: SUCCESS",
        effects: &[
            Effect::Summary,
            Effect::IfKnown(ToolId::Regrtest),
            Effect::Marker(Marker::Success(ToolId::Regrtest)),
        ],
    },
    Rule {
        name: "regrtest.failure",
        pattern: r"^(?:== Tests result: FAILURE.*|Result: FAILURE|Tests result: FAILURE.*)",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Regrtest)), Effect::Summary],
    },
    Rule {
        name: "regrtest.total",
        pattern: r"^Total tests: run=(?P<n>[\d,]+)(?: failures=(?P<failed>[\d,]+))?(?: skipped=(?P<skipped>[\d,]+))?",
        effects: &[
            Effect::Session(ToolId::Regrtest),
            Effect::Counts(ToolId::Regrtest, TOTAL),
            Effect::Summary,
        ],
    },
];
