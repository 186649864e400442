//! Output of tinytest, the test runner of tor and libevent.

use crate::rules::{Count, Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem};
use crate::tally::Counts;
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("tinytest") };

/// The line that ends the test: `  [name FAILED]`.
fn end(so_far: &[String], line: &str) -> Next {
    let is_end = line.trim_start().starts_with('[') && line.trim_end().ends_with(" FAILED]");
    if is_end && so_far.len() < 20 { Next::Last } else { Next::Beyond }
}

/// The line that begins the test: `group/name: [forking]`.
fn is_name(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(name, _)| name.contains('/') && !name.contains(' '))
        || line.ends_with(':') && line.contains('/') && !line.contains(' ')
}

fn named(diagnostic: &mut Diagnostic) {
    let first = diagnostic.first();
    if is_name(first) {
        diagnostic.test = first.split(':').next().map(str::to_owned);
        diagnostic.head = Some(1);
    }
}

/// Skipped tests are not in the total.
const COUNTS: Count = |groups| {
    let (failed, skipped) = (groups.number("failed"), groups.number("skipped"));
    Some(Counts {
        passed: (groups.number("n") + groups.number("n2")).saturating_sub(failed),
        failed,
        skipped,
        expected: 0,
    })
};

const RULES: &[Rule] = &[
    Rule {
        name: "tinytest.failed",
        pattern: r"^ +FAIL (?P<f>[^\s:]+):(?P<l>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).lead(is_name).follow(end).refine(named).fails(Fails::Always),
        )],
    },
    Rule {
        name: "tinytest.total",
        pattern: r"^(?:(?P<failed>[1-9]\d*)/(?P<n>\d+) TESTS FAILED\.|(?P<n2>\d+) tests ok\.) +\((?P<skipped>\d+) skipped\)$",
        effects: &[Effect::Session, Effect::Counts(COUNTS), Effect::Summary],
    },
];
