//! Output of tcltest.

use crate::rules::{ERROR, Effect, Kind, Next, Rule, SORTS, problem};
use crate::tool::Tool;

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
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(tcltest_lines).owning())],
    },
    Rule {
        name: "tcltest.summary",
        pattern: r"^(?P<t>[^\s:]+):\tTotal\t\d+\tPassed\t(?P<passed>\d+)\tSkipped\t(?P<skipped>\d+)\tFailed\t(?P<failed>\d+)$",
        effects: &[Effect::Session, Effect::Own(|line| line.part()), Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "tcltest.exited",
        pattern: r"^Test files exiting with errors: *$",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
