//! Output of prove.

use crate::rules::{Effect, FAILS_WITHOUT_TESTS, RUNS, Rule};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, drives: true, begins_in_silence: true, rules: RULES, ..Tool::named("prove") };

const RULES: &[Rule] = &[
    Rule { name: "prove.bad", pattern: r"^Result: FAIL$", effects: &[Effect::Failure, Effect::Summary] },
    Rule {
        name: "prove.none",
        pattern: r"^Result: NOTESTS$",
        effects: &[FAILS_WITHOUT_TESTS, Effect::Summary],
    },
    Rule { name: "prove.files", pattern: r"^Files=\d+, Tests=\d+, ", effects: &[RUNS] },
    Rule {
        name: "prove.good",
        pattern: r"^Result: PASS$",
        effects: &[Effect::Summary, Effect::IfKnown(ToolId::Prove), Effect::Success],
    },
];
