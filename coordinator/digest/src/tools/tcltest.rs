//! Output of tcltest.

use crate::rules::{Act, ERROR, Kind, Next, Rule, SORTS, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("tcltest") };

/// `==== a-2 bad FAILED`, up to `==== a-2 FAILED`.
fn tcltest_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("==== ") && line.ends_with(" FAILED") {
        Next::Last
    } else if so_far.len() > 60 {
        Next::Beyond
    } else {
        Next::Part
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "tcltest.failed",
        pattern: r"^==== (?P<t>\S+) .*\bFAILED$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(tcltest_lines).owning())],
    },
    Rule {
        name: "tcltest.summary",
        pattern: r"^(?P<t>[^\s:]+):\tTotal\t\d+\tPassed\t(?P<passed>\d+)\tSkipped\t(?P<skipped>\d+)\tFailed\t(?P<failed>\d+)$",
        acts: &[
            Act::Session(ToolId::TclTest),
            Act::Part(ToolId::TclTest),
            Act::Counts(ToolId::TclTest, SORTS),
            Act::Summary,
        ],
    },
    Rule {
        name: "tcltest.exited",
        pattern: r"^Test files exiting with errors: *$",
        acts: &[Act::Sign(Sign::Failure(ToolId::TclTest)), Act::Summary],
    },
];
