//! GoogleTest, cmocka, ctest, Catch2, TAP, bats.

use super::TestEvent::{ExpectedFailure, Failed, Passed, Skipped, Started};
use super::{
    Act, Count, Draft, ERROR, FATAL, INFO, Indicator, Kind, Next, Problem, Rule, SORTS, Sign, problem,
};
use crate::tally::Counts;
use crate::tool::ToolId;

/// A GoogleTest failure's lines: up to the next bracketed line.
fn gtest_lines(so_far: &[String], line: &str) -> Next {
    // `ctest -V` puts the test's number before each line.
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let line = line[digits..].strip_prefix(": ").filter(|_| digits > 0).unwrap_or(line);
    if line.starts_with('[') || line.contains(": Failure") || line.trim().is_empty() || so_far.len() > 40 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// cmocka's message is above the line with its location.
fn cmocka_lead(line: &str) -> bool {
    line.starts_with("[  ERROR   ] --- ")
}

/// busted's message is above its last line, which names the test.
fn busted_lead(line: &str) -> bool {
    !line.starts_with('[')
}

/// Lines above a failure of Catch2: the heading with the names of the test case and its sections.
fn catch2_lead(line: &str) -> bool {
    !line.starts_with("~~~~") && !line.starts_with("====")
}

/// Reads the test's name from the heading between two rules, and removes the lines above it.
fn catch2_name(draft: &mut Draft) {
    let Some(head) = draft.lines.iter().position(|line| line.ends_with(": FAILED:")) else { return };
    let is_rule = |line: &String| line.len() > 40 && line.bytes().all(|byte| byte == b'-');
    let mut names = Vec::new();
    let mut rules = draft.lines[..head].iter().enumerate().rev().filter(|(_, line)| is_rule(line));
    if let (Some((end, _)), Some((start, _))) = (rules.next(), rules.next()) {
        names = draft.lines[start + 1..end].to_vec();
    }
    if !names.is_empty() {
        draft.test = Some(names.iter().map(|name| name.trim()).collect::<Vec<_>>().join(" / "));
    }
    draft.head = Some(names.len());
    draft.lines.splice(..head, names);
}

/// Lines of node's output about a test file that it could not load, up to its version.
fn node_comment(so_far: &[String], line: &str) -> Next {
    if !line.starts_with('#') || so_far.len() > 20 {
        Next::Beyond
    } else if line.starts_with("# Node.js v") {
        Next::Last
    } else {
        Next::Part
    }
}

/// Such output has a line with the error; without one it is a comment.
fn node_not_loaded(draft: &mut Draft) {
    let says = |line: &String| line.strip_prefix("# ").is_some_and(is_error_of_node);
    draft.head = draft.lines.iter().position(says);
    draft.spurious = draft.head.is_none();
}

/// `SyntaxError: …`, `Error [ERR_MODULE_NOT_FOUND]: …`.
fn is_error_of_node(text: &str) -> bool {
    text.split_once(':').is_some_and(|(name, _)| {
        let name = name.split(' ').next().unwrap_or_default();
        name.ends_with("Error") && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A TAP failure's YAML block up to `...`, or `#` diagnostics.
fn tap_lines(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    if so_far.get(1).is_some_and(|line| line.trim() == "---") {
        return if trimmed == "..." { Next::Last } else { super::indented_or_blank(so_far, line) };
    }
    if trimmed.starts_with('#') && !trimmed.starts_with("# tests ")
        || line.starts_with("  ") && !trimmed.is_empty()
    {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Messages of node and others in YAML. The failure of a test because of an inner test is reported by the inner one.
fn tap_place(draft: &mut Draft) {
    for line in &draft.lines {
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        let value = value.trim_matches(['\'', '"']);
        let value =
            value.rsplit_once(" (").map_or(value, |(_, place)| place.trim_end_matches(')')).to_owned();
        if key == "location" || key == "at" {
            let _placed = super::set_place(draft, &value);
            break;
        }
    }
    let says = |text: &str| draft.lines.iter().any(|line| line.trim() == text);
    // node could not load the file, and has printed the reason above.
    let is_of_file = says("error: 'test failed'") && says("failureType: 'testCodeFailure'");
    if is_of_file || draft.lines.iter().any(|line| line.contains("'subtestsFailed'")) {
        draft.kind = Some(Kind::Consequence);
    }
}

fn bats_lines(_: &[String], line: &str) -> Next {
    if line.starts_with("   ") && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

fn list(_: &[String], line: &str) -> Next {
    if line.starts_with([' ', '\t']) && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

const CTEST: Count = |groups| {
    let (failed, total) = (groups.number("failed"), groups.number("n"));
    Some(Counts { passed: total.saturating_sub(failed), failed, skipped: 0, expected: 0 })
};

const SKIPPED: Count =
    |groups| Some(Counts { passed: 0, failed: 0, skipped: groups.number("n"), expected: 0 });

const FAILED: Count =
    |groups| Some(Counts { passed: 0, failed: groups.number("n"), skipped: 0, expected: 0 });

const ONE_SKIPPED: Count = |_| Some(Counts { passed: 0, failed: 0, skipped: 1, expected: 0 });

const GTEST_PASSED: Count =
    |groups| Some(Counts { passed: groups.number("n"), failed: 0, skipped: 0, expected: 0 });

const BATS: Count = |groups| {
    let total = groups.number("n") + groups.number("doctests") + groups.number("properties");
    // Those that were invalid could not be set up; those that were excluded are in the total and did not run.
    let failed = groups.number("failed") + groups.number("invalid");
    let skipped = groups.number("skipped");
    let others = failed + skipped + groups.number("excluded");
    Some(Counts { passed: total.saturating_sub(others), failed, skipped, expected: 0 })
};

/// A ctest line names the signal of a test program.
fn ctest_name(draft: &mut Draft) {
    if let Some(test) = &mut draft.test {
        *test = test.trim_end_matches([' ', '.']).to_owned();
    }
}

/// An expected failure with its message.
const TODO: Problem = problem(INFO, Kind::Test, 50).follow(tap_lines).owning();

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "gtest.session",
        pattern: r"^(?:\d+: )?\[==========\] (?:(?P<t>\S.*): )?Running (?P<n>\d+) test(?:s? from |\(s\)\.$)",
        acts: &[
            Act::Session(ToolId::GoogleTest),
            Act::Part(ToolId::GoogleTest),
            Act::Announces(ToolId::GoogleTest),
        ],
    },
    Rule {
        name: "gtest.run",
        pattern: r"^.*\[ RUN      \] (?P<t>\S+)$",
        acts: &[Act::Test(ToolId::GoogleTest, Started)],
    },
    Rule {
        name: "gtest.ok",
        pattern: r"^.*\[       OK \] (?P<t>[^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?$",
        acts: &[Act::Test(ToolId::GoogleTest, Passed)],
    },
    Rule {
        name: "gtest.skipped",
        pattern: r"^.*\[  SKIPPED \] (?P<t>[^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?$",
        acts: &[Act::Test(ToolId::GoogleTest, Skipped)],
    },
    Rule {
        name: "gtest.failed",
        pattern: r"^.*\[  FAILED  \] (?P<t>[^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?$",
        acts: &[Act::Test(ToolId::GoogleTest, Failed), Act::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        name: "gtest.place",
        pattern: r"^(?:\d+: )?(?P<f>[^\s:]+):(?P<l>\d+): Failure$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 95).follow(gtest_lines))],
    },
    Rule {
        name: "cmocka.place",
        pattern: r"^\[   LINE   \] --- (?P<f>[^\s:]+):(?P<l>\d+): error: .*$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 95).lead(cmocka_lead))],
    },
    Rule {
        name: "gtest.exception",
        pattern: r"^(?:\d+: )?(?:unknown file: Failure|C\+\+ exception with description)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(gtest_lines))],
    },
    Rule {
        name: "gtest.passed",
        pattern: r"^(?:\d+: )?\[  PASSED  \] (?P<n>\d+) test(?:s|\(s\))?\.",
        acts: &[Act::Counts(ToolId::GoogleTest, GTEST_PASSED), Act::Summary],
    },
    Rule {
        // busted prints in GoogleTest's form, with sorts of its own.
        name: "busted.gtest_begun",
        pattern: r"^\[==========\] Running tests from scanned files\.$",
        acts: &[Act::Session(ToolId::GoogleTest)],
    },
    Rule {
        name: "busted.gtest_failed",
        pattern: r"^\[  (?:FAILED |ERROR  ) \] (?P<t>(?P<f>\S+) @ (?P<l>\d+): .*?) \([\d.]+ ms\)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).lead(busted_lead))],
    },
    Rule {
        name: "busted.gtest_sorts",
        pattern: r"^\[ (?: ERROR  |SKIPPED ) \] (?:(?P<skipped>\d+) tests?|(?P<errors>\d+) errors?), listed below:$",
        acts: &[Act::Adds(ToolId::GoogleTest, SORTS)],
    },
    Rule {
        // A failure outside of tests: printed only after a failure. Other runners end with this line without one.
        name: "gtest.failed_outside",
        pattern: r"^(?:\d+: )?\s+0 FAILED TESTS$",
        acts: &[Act::Sign(Sign::FailureUnder(ToolId::GoogleTest)), Act::Summary],
    },
    Rule {
        name: "gtest.failures",
        pattern: r"^(?:\d+: )?\s*(?P<n>[1-9]\d*) FAILED TEST(?:S|\(S\))?$",
        acts: &[Act::Adds(ToolId::GoogleTest, FAILED), Act::Summary],
    },
    Rule {
        name: "gtest.skips",
        pattern: r"^(?:\d+: )?\[  SKIPPED \] (?:\S.*: )?(?P<n>\d+) test(?:s|\(s\))?, listed below:$",
        acts: &[Act::Adds(ToolId::GoogleTest, SKIPPED)],
    },
    Rule {
        name: "ctest.project",
        pattern: r"^Test project (?P<t>\S.*)$",
        acts: &[Act::Heading(ToolId::CTest), Act::Part(ToolId::CTest)],
    },
    Rule {
        name: "ctest.begun",
        pattern: r"^\s+Start\s+\d+: (?P<t>\S.*)$",
        acts: &[Act::Test(ToolId::CTest, Started)],
    },
    Rule {
        name: "ctest.passed",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>\S.*?) \.*\s*Passed ",
        acts: &[Act::Test(ToolId::CTest, Passed)],
    },
    Rule {
        name: "ctest.not_run",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>\S.*?) \.*\s*\*\*\*(?:Skipped|Not Run \(Disabled\))",
        acts: &[Act::Test(ToolId::CTest, Skipped)],
    },
    Rule {
        name: "ctest.crashed",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>.+?) \.*\s?\*\*\*Exception: *(?P<m>SegFault|SEGFAULT)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 93).refine(ctest_name)),
            Act::Sign(Sign::Crash(Indicator::ChildDied("SIGSEGV"))),
        ],
    },
    Rule {
        name: "ctest.aborted",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>.+?) \.*\s?\*\*\*Exception: *(?:(?:Child|Subprocess) (?:aborted|killed|terminated)|Illegal|Numerical|Bus error|Other)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 93).refine(ctest_name)),
            Act::Sign(Sign::Crash(Indicator::ChildDied(""))),
        ],
    },
    Rule {
        name: "ctest.failed",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>.+?) \.*\s*\*\*\*(?:Failed|Timeout|Not Run *(?:[\d.]+ sec)?$|Exception)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 88).refine(ctest_name)),
            Act::Test(ToolId::CTest, Failed),
        ],
    },
    Rule {
        name: "ctest.list",
        pattern: r"^The following tests FAILED:",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 80).follow(list)),
            Act::Sign(Sign::Failure(ToolId::CTest)),
        ],
    },
    Rule {
        name: "ctest.summary",
        pattern: r"^\d+% tests passed(?:, (?P<failed>\d+) tests? failed)? out of (?P<n>\d+)",
        acts: &[Act::Session(ToolId::CTest), Act::Counts(ToolId::CTest, CTEST), Act::Summary],
    },
    Rule {
        name: "ctest.skipped",
        pattern: r"^\s+\d+ - (?P<t>\S+) \(Skipped\)$",
        acts: &[Act::Moves(ToolId::CTest, ONE_SKIPPED)],
    },
    Rule {
        name: "ctest.disabled",
        pattern: r"^\s+\d+ - (?P<t>\S+) \(Disabled\)$",
        acts: &[Act::Adds(ToolId::CTest, ONE_SKIPPED)],
    },
    Rule {
        name: "ctest.advice",
        pattern: "^Use \"--rerun-failed --output-on-failure\" ",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "ctest.errors",
        pattern: r"^Errors while running CTest$",
        acts: &[Act::Sign(Sign::Failure(ToolId::CTest)), Act::Summary],
    },
    Rule {
        name: "catch2.place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+): FAILED:",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 94).lead(catch2_lead).follow(gtest_lines).refine(catch2_name),
        )],
    },
    Rule {
        name: "catch2.passed",
        pattern: r"^All tests passed \(\d+ assertions? in (?P<passed>\d+) test cases?\)",
        acts: &[Act::Session(ToolId::Catch2), Act::Counts(ToolId::Catch2, SORTS), Act::Summary],
    },
    Rule {
        name: "catch2.summary",
        pattern: r"^(?:\[doctest\] )?test cases: +\d+(?: *\| *(?:(?P<passed>\d+) passed|(?P<expected>\d+) failed as expected|(?P<failed>\d+) failed|(?P<skipped>\d+) skipped))+ *$",
        acts: &[Act::Session(ToolId::Catch2), Act::Counts(ToolId::Catch2, SORTS), Act::Summary],
    },
    Rule {
        name: "meson.failed",
        pattern: r"^ *\d+/\d+ (?P<t>\S.*?) +(?:FAIL|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS) +[\d.]+ ?s(?: .*)?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90)), Act::Sign(Sign::Failure(ToolId::Meson))],
    },
    Rule {
        name: "meson.ok",
        pattern: r"^Ok: +(?P<passed>\d+) *$",
        acts: &[Act::Session(ToolId::Meson), Act::Counts(ToolId::Meson, SORTS), Act::Summary],
    },
    Rule {
        name: "meson.others",
        pattern: r"^(?:Expected Fail: +(?P<expected>\d+)|(?:Fail|Unexpected Pass|Timeout): +(?P<failed>\d+)|Skipped: +(?P<skipped>\d+)) *$",
        acts: &[Act::Adds(ToolId::Meson, SORTS), Act::Harmless],
    },
    Rule {
        name: "automake.heading",
        pattern: r"^Testsuite summary(?: for (?P<t>.*))?$",
        acts: &[Act::Heading(ToolId::Automake), Act::Part(ToolId::Automake)],
    },
    Rule {
        // The log of all tests, which may be printed too, begins with the same numbers.
        name: "automake.total",
        pattern: r"^# TOTAL: +\d+$",
        acts: &[Act::Partial(ToolId::Automake, SORTS)],
    },
    Rule {
        name: "automake.sorts",
        pattern: r"^# (?:PASS: +(?P<passed>\d+)|(?:FAIL|XPASS|ERROR): +(?P<failed>\d+)|SKIP: +(?P<skipped>\d+)|XFAIL: +(?P<expected>\d+))$",
        acts: &[Act::Adds(ToolId::Automake, SORTS), Act::Summary],
    },
    Rule { name: "tap.plan", pattern: r"^1\.\.(?P<n>\d+)(?: #.*)?$", acts: &[Act::Plan(ToolId::Tap)] },
    Rule {
        name: "tap.version",
        pattern: r"^TAP version \d+$",
        acts: &[Act::AtWork(ToolId::NodeTest), Act::AtWork(ToolId::Tap)],
    },
    Rule {
        name: "tap.bail",
        pattern: r"^\s*Bail out!(?: +(?P<m>.*))?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90)), Act::Sign(Sign::Failure(ToolId::Tap))],
    },
    Rule {
        name: "node_test.not_loaded",
        pattern: r"^# (?P<f>(?:/|file:///)\S+\.[cm]?[jt]sx?):(?P<l>\d+)$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Build, 93).follow(node_comment).owning().refine(node_not_loaded),
        )],
    },
    Rule {
        // Perl's Test::More, where too few tests ran or the program ended after them.
        name: "tap.unplanned",
        pattern: r"^# Looks like (?P<m>you planned \d+ tests? but ran \d+|your test exited with \d+ .*)\.?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88)), Act::Sign(Sign::Failure(ToolId::Tap))],
    },
    Rule {
        name: "tap.todo",
        pattern: r"^not ok\b(?: (?P<k>\d+))?(?: -)? ?(?P<t>.*?) ?# *(?i:todo)\b",
        acts: &[Act::Test(ToolId::Tap, ExpectedFailure), Act::Problem(TODO), Act::Alone],
    },
    Rule {
        name: "tap.todo_inside",
        pattern: r"^ +not ok\b(?: \d+)?(?: -)? ?(?P<t>.*?) ?# *(?i:todo)\b",
        acts: &[Act::Problem(TODO), Act::Alone],
    },
    Rule {
        name: "tap.skip",
        pattern: r"^ok\b(?: (?P<k>\d+))?(?: -)? ?(?P<t>.*?) ?# *(?i:skip)",
        acts: &[Act::Test(ToolId::Tap, Skipped), Act::Alone],
    },
    Rule {
        // cmocka's line for a skipped test. Other tools print `ok` for one, without a name after the word.
        name: "tap.cmocka_skip",
        pattern: r"^not ok (?P<k>\d+) # SKIP (?P<t>\w+)$",
        acts: &[Act::Test(ToolId::Tap, Skipped), Act::Alone],
    },
    Rule {
        // vitest's files and suites. The tests inside are counted.
        name: "vitest.tap_suite",
        pattern: r"^ *(?:not )?ok \d+ - \S.*? # time=[\d.]+ms \{$",
        acts: &[Act::Harmless, Act::Alone],
    },
    Rule {
        name: "vitest.tap_failed",
        pattern: r"^ +not ok \d+ - (?P<t>.*?) # time=[\d.]+ms$",
        acts: &[
            Act::Test(ToolId::Tap, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines).refine(tap_place)),
            Act::Sign(Sign::Failure(ToolId::Tap)),
            Act::Alone,
        ],
    },
    Rule {
        name: "vitest.tap_passed",
        pattern: r"^ +ok \d+ - (?P<t>.*?) # time=[\d.]+ms$",
        acts: &[Act::Test(ToolId::Tap, Passed), Act::Alone],
    },
    Rule {
        name: "vitest.tap_skipped",
        pattern: r"^ {4,}ok \d+ - (?P<t>.*?) # (?:SKIP|TODO)$",
        acts: &[Act::Test(ToolId::Tap, Skipped), Act::Alone],
    },
    Rule {
        name: "tap.not_ok",
        pattern: r"^not ok (?:(?P<k>\d+)(?: -)? ?)?(?P<t>.*?)(?: # .*)?$",
        acts: &[
            Act::Test(ToolId::Tap, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines).refine(tap_place)),
            Act::Sign(Sign::Failure(ToolId::Tap)),
        ],
    },
    Rule {
        name: "tap.not_ok_inside",
        pattern: r"^ +not ok \d+(?: -)? (?P<t>.*?)(?: # .*)?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines).refine(tap_place))],
    },
    Rule {
        name: "tap.ok",
        pattern: r"^ok (?:(?P<k>\d+)(?: -)? ?|- )(?P<t>.*?)(?: # .*)?$",
        acts: &[Act::Test(ToolId::Tap, Passed)],
    },
    Rule {
        name: "bats.failed",
        pattern: r"^ (?:\xe2\x9c\x97) (?P<t>.+)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).follow(bats_lines))],
    },
    Rule {
        name: "bats.summary",
        pattern: r"^(?:(?P<doctests>\d+) doctests?, )?(?:(?P<properties>\d+) propert(?:y|ies), )?(?P<n>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<excluded>\d+) excluded)?(?:, (?P<invalid>\d+) invalid)?(?:, (?P<skipped>\d+) skipped)?(?: \(\d+ excluded\))?(?: in .*)?$",
        acts: &[Act::Session(ToolId::Bats), Act::Counts(ToolId::Bats, BATS), Act::Summary],
    },
];
