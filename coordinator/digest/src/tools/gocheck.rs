//! Output of gocheck, below go test.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("gocheck") };

/// The report of a test, up to the next one or the total.
fn report(so_far: &[String], line: &str) -> Next {
    let ends = ["----------", "OOPS: ", "--- FAIL: "].iter().any(|end| line.starts_with(end));
    if ends || so_far.len() > 40 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The last place is the one of the assertion: `a_test.go:20:`.
fn assertion(diagnostic: &mut Diagnostic) {
    let is_place = |line: &String| line.ends_with(':') && line.contains(".go:");
    let at = diagnostic.lines.iter().rposition(is_place);
    if let Some(at) = at {
        let place = diagnostic.lines[at].clone();
        let _placed = set_place(diagnostic, &place);
        diagnostic.head = Some(at + 1).filter(|head| *head < diagnostic.lines.len());
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "gocheck.failed",
        pattern: r"^(?:FAIL|PANIC): (?P<f>[^\s:]+\.go):(?P<l>\d+): (?P<t>\w+\.\w+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(report).owning().refine(assertion))],
    },
    Rule {
        name: "gocheck.bad",
        pattern: r"^OOPS: \d+ passed, ",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
