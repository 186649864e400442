//! Output of R.

use super::compiler::DIED;
use crate::rules::{ERROR, Effect, Indicator, Kind, Marker, Rule, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("R") };

const RULES: &[Rule] = &[
    Rule {
        name: "r.segfault",
        pattern: r"^ ?\*\*\* caught (?:segfault|bus error|illegal operation) \*\*\*",
        effects: &[
            Effect::Problem(DIED.follow(crate::rules::one_more)),
            Effect::Marker(Marker::Crash(Indicator::Died("SIGSEGV"))),
        ],
    },
    Rule {
        name: "r.error",
        pattern: r"^Error in (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 78).follow(indented))],
    },
    Rule {
        name: "r.halted",
        pattern: r"^Execution halted$",
        effects: &[Effect::Marker(Marker::Failure(ToolId::R)), Effect::Summary],
    },
];
