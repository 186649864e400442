//! Output of cocotb, which tests hardware in a simulator. The simulator may exit with 0 after failed tests.

use super::pytest::last_place;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, TOTAL, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("cocotb") };

/// The traceback of a test, below the columns of its log.
fn traceback(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start();
    let is_deep = line.len() - text.len() >= 20;
    if is_deep && !text.is_empty() && !text.starts_with("**") && so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The last line of the traceback names the failure.
fn failed(diagnostic: &mut Diagnostic) {
    diagnostic.head = diagnostic.lines.len().checked_sub(1).filter(|last| *last > 0);
    last_place(diagnostic);
}

const RULES: &[Rule] = &[
    Rule {
        name: "cocotb.failed",
        pattern: r"^ *[\d.]+[a-z]{1,2} +(?:ERROR|INFO|WARNING) +cocotb\.\S+ +(?:\S+ +in \S+ +)?(?:Test Failed: )?(?P<t>[\w.]+) (?:\x1b\[\d+m)?(?:failed|\(result was \w+\))(?:\x1b\[\d+m)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(traceback).owning().refine(failed))],
    },
    Rule {
        name: "cocotb.row",
        pattern: r"^ *\*\* \w\S* +FAIL +[\d.]+ +[\d.]+ +\S+ +\*\*$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "cocotb.total",
        pattern: r"^ *\*\* TESTS=(?P<n>\d+) PASS=\d+ FAIL=(?P<failed>\d+) SKIP=(?P<skipped>\d+) ",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
];
