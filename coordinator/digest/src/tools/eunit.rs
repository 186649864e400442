//! Output of EUnit.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, TOTAL, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("EUnit") };

/// EUnit's lines about a failed test: up to a blank line, or the rule above its total.
fn eunit_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() || line.starts_with("=====") || so_far.len() > 40 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// `in function a_tests:b_test/0 (test/a_tests.erl, line 4)`: the test's own module, or the innermost place.
fn eunit_place(diagnostic: &mut Diagnostic) {
    let places = || {
        diagnostic.lines.iter().filter_map(|line| {
            let (_, place) = line.strip_prefix("in ")?.rsplit_once(" (")?;
            let (file, row) = place.strip_suffix(')')?.split_once(", line ")?;
            Some((file.to_owned(), row.parse().ok()))
        })
    };
    let module = diagnostic.test.as_deref().and_then(|test| test.split(':').next()).unwrap_or_default();
    let is_own = |(file, _): &(String, _)| {
        file.strip_suffix(".erl").is_some_and(|file| file.rsplit('/').next() == Some(module))
    };
    let place = places().find(is_own).or_else(|| places().next());
    if let Some((file, row)) = place {
        (diagnostic.file, diagnostic.line) = (Some(file), row);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "eunit.failed",
        pattern: r"^ *(?P<t>\w+:(?:\d+:)? \S.*?)\.\.\.\*(?:failed|timed out|could not start test process|unexpected termination of test process)\*$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(eunit_lines).owning().refine(eunit_place),
        )],
    },
    Rule {
        // Printed only after a failure or a cancellation; the number of cancelled tests is missing.
        name: "eunit.summary",
        pattern: r"^  Failed: (?P<failed>\d+)\.  Skipped: (?P<skipped>\d+)\.  Passed: (?P<passed>\d+)\.$",
        effects: &[Effect::Session, Effect::Partial(SORTS), Effect::Failure, Effect::Summary],
    },
    Rule {
        // rebar3 counts the tests that were cancelled among all, and fails for them.
        name: "eunit.cancelled",
        pattern: r"^(?P<n>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) skipped)?, (?P<errors>\d+) cancelled$",
        effects: &[Effect::Of(ToolId::Bats, &[Effect::Session, Effect::Counts(TOTAL)]), Effect::Summary],
    },
];
