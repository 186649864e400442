//! Output of kyua.

use crate::rules::{ERROR, Effect, Kind, Rule, SORTS, problem};
use crate::tool::{Announced, Tool};

pub(super) const TOOL: Tool =
    Tool { announces: Some(Announced::ByHeading), rules: RULES, ..Tool::named("kyua") };

const RULES: &[Rule] = &[
    Rule {
        name: "kyua.failed",
        pattern: r"^(?P<t>\S+:\S+)  ->  (?:failed|broken): (?P<m>.*?)  \[[\d.]+s\]$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92))],
    },
    Rule {
        name: "kyua.results",
        pattern: r"^Results saved to \S.*\.db$",
        effects: &[Effect::Session, Effect::Heading],
    },
    Rule {
        name: "kyua.total",
        pattern: r"^(?P<passed>\d+)/\d+ passed \((?P<failed>\d+) failed\)$",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
];
