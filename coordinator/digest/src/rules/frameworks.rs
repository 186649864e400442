//! Test frameworks of languages that have no table of their own: EUnit, tcltest, DejaGnu, SRFI 64.

use super::{Act, Count, Draft, ERROR, Kind, Next, Rule, SORTS, Sign, problem};
use crate::tally::Counts;
use crate::tool::ToolId;

/// Begins a total with its numbers on separate lines.
const NONE_YET: Count = |_| Some(Counts::default());

/// EUnit's lines about a failed test: up to a blank line, or the rule above its total.
fn eunit_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() || line.starts_with("=====") || so_far.len() > 40 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// `in function a_tests:b_test/0 (test/a_tests.erl, line 4)`: the test's own module, or the innermost place.
fn eunit_place(draft: &mut Draft) {
    let places = || {
        draft.lines.iter().filter_map(|line| {
            let (_, place) = line.strip_prefix("in ")?.rsplit_once(" (")?;
            let (file, row) = place.strip_suffix(')')?.split_once(", line ")?;
            Some((file.to_owned(), row.parse().ok()))
        })
    };
    let module = draft.test.as_deref().and_then(|test| test.split(':').next()).unwrap_or_default();
    let is_own = |(file, _): &(String, _)| {
        file.strip_suffix(".erl").is_some_and(|file| file.rsplit('/').next() == Some(module))
    };
    let place = places().find(is_own).or_else(|| places().next());
    if let Some((file, row)) = place {
        (draft.file, draft.line) = (Some(file), row);
    }
}

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

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "eunit.failed",
        pattern: r"^ *(?P<t>\w+:(?:\d+:)? \S.*?)\.\.\.\*(?:failed|timed out|could not start test process|unexpected termination of test process)\*$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 92).follow(eunit_lines).owning().refine(eunit_place),
        )],
    },
    Rule {
        // Printed only after a failure or a cancellation; the number of cancelled tests is missing.
        name: "eunit.summary",
        pattern: r"^  Failed: (?P<failed>\d+)\.  Skipped: (?P<skipped>\d+)\.  Passed: (?P<passed>\d+)\.$",
        acts: &[
            Act::Session(ToolId::EUnit),
            Act::Partial(ToolId::EUnit, SORTS),
            Act::Sign(Sign::Failure(ToolId::EUnit)),
            Act::Summary,
        ],
    },
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
    Rule {
        // Of several targets each has a summary as well; this is that of all.
        name: "dejagnu.summary",
        pattern: r"^\t\t=== \S+ Summary ===$",
        acts: &[Act::Heading(ToolId::DejaGnu), Act::Partial(ToolId::DejaGnu, NONE_YET)],
    },
    Rule {
        name: "dejagnu.part",
        pattern: r"^\t\t=== \S+ Summary for .* ===$",
        acts: &[Act::Partial(ToolId::DejaGnu, NONE_YET)],
    },
    Rule {
        name: "dejagnu.sorts",
        pattern: r"^# of (?:expected passes\t\t(?P<passed>\d+)|(?:unexpected failures|unexpected successes|unknown successes|unresolved testcases)\t(?P<failed>\d+)|(?:expected|known) failures\t\t(?P<expected>\d+)|(?:untested testcases|unsupported tests)\t{1,2}(?P<skipped>\d+))$",
        acts: &[Act::Adds(ToolId::DejaGnu, SORTS), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "srfi64.failed",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+): (?:FAIL|XPASS) (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 85))],
    },
    Rule {
        name: "srfi64.sorts",
        pattern: r"^# of (?:expected passes {6}(?P<passed>\d+)|unexpected (?:failures {2}|successes )(?P<failed>\d+)|expected failures {4}(?P<expected>\d+)|skipped tests {8}(?P<skipped>\d+))$",
        acts: &[Act::Adds(ToolId::Srfi64, SORTS), Act::Summary, Act::Harmless],
    },
];
