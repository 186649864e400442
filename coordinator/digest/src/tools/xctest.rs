//! Output of XCTest.

use crate::rules::{BEGINS, Count, Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, TestEvent, problem};
use crate::tally::Counts;
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool {
    one_name: Some(class_and_method),
    by_test: true,
    reports_its_end: true,
    nests_totals: true,
    rules: RULES,
    ..Tool::named("XCTest")
};

const EXECUTED: Count = |groups| {
    let (total, failed) = (groups.number("n"), groups.number("failed"));
    let skipped = groups.number("skipped");
    Some(Counts {
        passed: total.saturating_sub(failed + skipped),
        failed: failed.min(total),
        skipped,
        expected: 0,
    })
};

/// Lines of an assertion's message that XCTest prints after the first one.
fn assertion(so_far: &[String], line: &str) -> Next {
    let ends = ["Test Case '", "Test case '", "Test Suite '", "Executed ", "◇", "✔", "✘"];
    if ends.iter().any(|end| line.trim_start().starts_with(end)) || so_far.len() > 40 {
        return Next::Beyond;
    }
    let open = so_far.iter().flat_map(|line| line.chars()).filter(|c| matches!(c, '"')).count() % 2 == 1;
    let diff =
        line.starts_with(['+', '-', '−', ' ', '\t', '@', '"', ')', ']', '}']) && !line.trim().is_empty();
    if diff || open && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

fn xctest_name(diagnostic: &mut Diagnostic) {
    if let Some(test) = &mut diagnostic.test {
        *test = test.trim_start_matches("-[").trim_end_matches(']').to_owned();
    }
}

/// XCTest on a Mac prints two names: `-[Module.Class test]` and `Class.test()`.
fn class_and_method(test: &str) -> String {
    let bare = test.strip_prefix("-[").unwrap_or(test).trim_end_matches(']');
    let bare = bare.strip_suffix("()").unwrap_or(bare);
    let last = |text: &str| memchr::memrchr3(b' ', b'.', b'/', text.as_bytes());
    let Some(end) = last(bare) else { return bare.to_owned() };
    let (class, name) = (&bare[..end], &bare[end + 1..]);
    [&class[last(class).map_or(0, |at| at + 1)..], ".", name].concat()
}

const RULES: &[Rule] = &[
    Rule {
        name: "xctest.begun",
        pattern: r"^Test Suite '(?:All tests|Selected tests)' started at ",
        effects: &[BEGINS],
    },
    Rule {
        name: "xctest.started",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' started(?: at .*|\.)?$",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "xctest.passed",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' passed (?:on '|\()",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
    Rule {
        name: "xctest.skipped",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' skipped (?:on '|\()",
        effects: &[Effect::Test(TestEvent::Skipped)],
    },
    Rule {
        name: "xctest.failed",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' failed (?:on '|\()",
        effects: &[
            Effect::Test(TestEvent::Failed),
            Effect::Problem(problem(ERROR, Kind::Test, 90).bare().refine(xctest_name)),
        ],
    },
    Rule {
        name: "xctest.expected",
        pattern: r"^(?P<f>[^:]+):(?P<l>\d+): (?:-\[.*\]|[\w.]+) : Expected failure",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "xctest.skip_reason",
        pattern: r"^(?P<f>/[^:]+):(?P<l>\d+): (?P<t>-\[.*?\]|[\w.]+) : Test skipped(?: - .*)?",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "xctest.assertion",
        pattern: r"^(?P<f>[^:]+):(?P<l>\d+): error: (?P<t>-\[.*?\]|[\w]+\.[\w.]+(?:\(\))?) : (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 95).follow(assertion).refine(xctest_name).fails(Fails::Always),
        )],
    },
    Rule {
        name: "xctest.executed",
        pattern: r"^\s*Executed (?P<n>\d+) tests?, with (?:(?P<skipped>\d+) tests? skipped and )?(?P<failed>\d+) failures?",
        effects: &[Effect::Partial(EXECUTED)],
    },
    Rule {
        name: "xctest.executed_failed",
        pattern: r"^\s*Executed \d+ tests?, with (?:\d+ tests? skipped and )?[1-9]\d* failures?",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "xctest.all_passed",
        pattern: r"^Test Suite '(?:All tests|Selected tests)' passed",
        effects: &[Effect::Success, Effect::Summary],
    },
    Rule {
        name: "xctest.all_failed",
        pattern: r"^Test Suite '(?:All tests|Selected tests|.*\.xctest)' failed",
        effects: &[Effect::Failure],
    },
];
