//! Output of R.

use super::compiler::DIED;
use crate::rules::{Act, ERROR, Indicator, Kind, Rule, Sign, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("R") };

const RULES: &[Rule] = &[
    Rule {
        name: "r.segfault",
        pattern: r"^ ?\*\*\* caught (?:segfault|bus error|illegal operation) \*\*\*",
        acts: &[
            Act::Problem(DIED.follow(crate::rules::one_more)),
            Act::Sign(Sign::Crash(Indicator::Died("SIGSEGV"))),
        ],
    },
    Rule {
        name: "r.error",
        pattern: r"^Error in (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 78).follow(indented))],
    },
    Rule {
        name: "r.halted",
        pattern: r"^Execution halted$",
        acts: &[Act::Sign(Sign::Failure(ToolId::R)), Act::Summary],
    },
];
