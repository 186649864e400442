//! Output of cargo.

use crate::rules::{Act, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::Always, builds: true, rules: RULES, ..Tool::named("cargo") };

pub(super) const BUILD: Tool = Tool { program: Some(ToolId::Cargo), ..Tool::named("cargo build") };

const RULES: &[Rule] = &[
    Rule {
        name: "cargo.unit",
        pattern: r"^\s+(?:Compiling|Checking|Documenting) (?P<u>\S+) v\d",
        acts: &[Act::Unit(ToolId::CargoBuild)],
    },
    Rule {
        name: "cargo.failed_unit",
        pattern: r"^error: could not (?:compile|document) `(?P<u>[^`]+)`",
        acts: &[Act::FailedUnit(ToolId::CargoBuild)],
    },
    Rule {
        // The total of the tests has this information too.
        name: "cargo.test_failed",
        pattern: r"^error: test failed, to rerun(?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 50)),
            Act::Sign(Sign::FailureToo(ToolId::CargoTest)),
            Act::Summary,
        ],
    },
    Rule {
        name: "cargo.could_not_compile",
        pattern: r"^error: (?:could not compile|aborting due to|test run failed|\d+ targets? failed|doctest failed|process didn't exit)(?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 50)),
            Act::Sign(Sign::Failure(ToolId::Cargo)),
            Act::Summary,
        ],
    },
    Rule {
        name: "cargo.finished",
        pattern: r"^\s+Finished (?:`|dev|release|test|bench|\w+ \[)(?P<m>.*)",
        acts: &[Act::Sign(Sign::Success(ToolId::CargoBuild)), Act::Summary],
    },
    Rule {
        name: "cargo.json_finished",
        pattern: r#"^\{"reason":"build-finished","success":true\}$"#,
        acts: &[Act::Sign(Sign::Success(ToolId::CargoBuild))],
    },
    Rule {
        name: "cargo.json_failed",
        pattern: r#"^\{"reason":"build-finished","success":false\}$"#,
        acts: &[Act::Sign(Sign::Failure(ToolId::Cargo))],
    },
    Rule {
        name: "cargo.running",
        pattern: r"^\s+(?P<t>Running (?:unittests |tests/|benches/|`).*|Doc-tests \S+)$",
        acts: &[
            Act::Over(ToolId::Nextest, false),
            Act::Heading(ToolId::CargoTest),
            Act::Part(ToolId::CargoTest),
        ],
    },
];
