//! Output of TestCafe.

use crate::rules::{Effect, Rule, TOTAL};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, commands: &["testcafe"], rules: RULES, ..Tool::named("TestCafe") };

const RULES: &[Rule] = &[
    Rule { name: "testcafe.begun", pattern: r"^ Running tests in:$", effects: &[Effect::AtWork] },
    Rule {
        name: "testcafe.failed",
        pattern: r"^ (?P<failed>[1-9]\d*)/(?P<n>\d+) failed \((?:\d+[hms] ?)+\)$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        name: "testcafe.passed",
        pattern: r"^ (?P<n>\d+) passed \((?:\d+[hms] ?)+\)$",
        effects: &[
            Effect::IfKnown(ToolId::TestCafe),
            Effect::Session,
            Effect::Counts(TOTAL),
            Effect::Summary,
        ],
    },
];
