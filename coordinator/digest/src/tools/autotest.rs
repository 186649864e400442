//! Output of suites of Autotest, a part of autoconf.

use crate::rules::{ERROR, Effect, Fails, Kind, Rule, one_more, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("Autotest") };

const RULES: &[Rule] = &[
    Rule {
        name: "autotest.failed",
        pattern: r"^ *\d+[:.] (?:\S+\.at:\d+: (?:testing )?)?(?P<t>\S.*?) +(?:\.\.\. +)?(?:FAILED|UNEXPECTED PASS) \((?P<f>[^\s:()]+\.at):(?P<l>\d+)\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).fails(Fails::Always))],
    },
    Rule {
        name: "autotest.bad",
        pattern: r"^ERROR: (?:All )?\d+ tests? (?:was|were) run,$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 60).follow(one_more)),
            Effect::Failure,
            Effect::Summary,
        ],
    },
];
