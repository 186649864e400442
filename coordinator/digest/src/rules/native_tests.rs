//! GoogleTest, ctest, Catch2, TAP, bats.

use super::TestEvent::{Failed, Passed, Skipped, Started};
use super::{Act, Count, Draft, ERROR, FATAL, Indicator, Kind, Next, Rule, Sign, problem};
use crate::tally::{Counts, Family};

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

/// A TAP failure's YAML block or `#` diagnostics.
fn tap_lines(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    if trimmed.starts_with('#') && !trimmed.starts_with("# tests ")
        || line.starts_with("  ") && !trimmed.is_empty()
    {
        Next::Part
    } else {
        Next::Beyond
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

const GTEST_PASSED: Count =
    |groups| Some(Counts { passed: groups.number("n"), failed: 0, skipped: 0, expected: 0 });

const BATS: Count = |groups| {
    let (total, failed, skipped) = (groups.number("n"), groups.number("failed"), groups.number("skipped"));
    Some(Counts { passed: total.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
};

/// A ctest line names the signal of a test program.
fn ctest_name(draft: &mut Draft) {
    if let Some(test) = &mut draft.test {
        *test = test.trim_end_matches([' ', '.']).to_owned();
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "gtest.run",
        pattern: r"^(?:\d+: )?\[ RUN      \] (?P<t>\S+)",
        acts: &[Act::Test(Family::GoogleTest, Started)],
    },
    Rule {
        name: "gtest.ok",
        pattern: r"^(?:\d+: )?\[       OK \] (?P<t>\S+)",
        acts: &[Act::Test(Family::GoogleTest, Passed)],
    },
    Rule {
        name: "gtest.skipped",
        pattern: r"^(?:\d+: )?\[  SKIPPED \] (?P<t>\S+) \(",
        acts: &[Act::Test(Family::GoogleTest, Skipped)],
    },
    Rule {
        name: "gtest.failed",
        pattern: r"^(?:\d+: )?\[  FAILED  \] (?P<t>[^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?$",
        acts: &[Act::Test(Family::GoogleTest, Failed), Act::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        name: "gtest.place",
        pattern: r"^(?:\d+: )?(?P<f>[^\s:]+):(?P<l>\d+): Failure$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 95).follow(gtest_lines))],
    },
    Rule {
        name: "gtest.exception",
        pattern: r"^(?:\d+: )?(?:unknown file: Failure|C\+\+ exception with description)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(gtest_lines))],
    },
    Rule {
        name: "gtest.passed",
        pattern: r"^(?:\d+: )?\[  PASSED  \] (?P<n>\d+) tests?\.",
        acts: &[Act::Counts(Family::GoogleTest, GTEST_PASSED), Act::Summary],
    },
    Rule {
        name: "gtest.failures",
        pattern: r"^(?:\d+: )?\s*(?P<n>\d+) FAILED TESTS?$",
        acts: &[Act::Sign(Sign::Failure("GoogleTest")), Act::Summary],
    },
    Rule {
        name: "ctest.crashed",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>.+?) \.*\s?\*\*\*Exception: *(?P<m>SegFault|SEGFAULT)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 93).refine(ctest_name)),
            Act::Sign(Sign::Crash(Indicator::Died("SIGSEGV"))),
        ],
    },
    Rule {
        name: "ctest.aborted",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>.+?) \.*\s?\*\*\*Exception: *(?:Child aborted|Subprocess aborted|Illegal|Numerical|Bus error|Other)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 93).refine(ctest_name)),
            Act::Sign(Sign::Crash(Indicator::UnexpectedSignal)),
        ],
    },
    Rule {
        name: "ctest.failed",
        pattern: r"^\s*\d+/\d+ Test\s+#\d+: (?P<t>.+?) \.*\s?\*\*\*(?:Failed|Timeout|Not Run|Skipped|Exception)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).refine(ctest_name))],
    },
    Rule {
        name: "ctest.list",
        pattern: r"^The following tests FAILED:",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 80).follow(list)), Act::Sign(Sign::Failure("ctest"))],
    },
    Rule {
        name: "ctest.summary",
        pattern: r"^\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<n>\d+)",
        acts: &[Act::Counts(Family::CTest, CTEST), Act::Summary],
    },
    Rule { name: "ctest.passed", pattern: r"^100% tests passed", acts: &[Act::Sign(Sign::Success("ctest"))] },
    Rule {
        name: "catch2.place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+): FAILED:",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(gtest_lines))],
    },
    Rule {
        name: "catch2.passed",
        pattern: r"^All tests passed \(\d+ assertions? in \d+ test cases?\)",
        acts: &[Act::Sign(Sign::Success("Catch2")), Act::Summary],
    },
    Rule {
        name: "catch2.failed",
        pattern: r"^test cases: .*\d+ failed",
        acts: &[Act::Sign(Sign::Failure("Catch2")), Act::Summary],
    },
    Rule {
        name: "tap.not_ok",
        pattern: r"^\s*not ok (?P<n>\d+)(?: -)? (?P<t>[^#]*?)(?: #.*)?$",
        acts: &[
            Act::Test(Family::Tap, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines)),
            Act::Sign(Sign::Failure("TAP")),
        ],
    },
    Rule {
        name: "tap.ok",
        pattern: r"^ok (?P<n>\d+)(?: -)? (?P<t>[^#]+?)(?: # time=.*)?$",
        acts: &[Act::Test(Family::Tap, Passed)],
    },
    Rule {
        name: "tap.skip",
        pattern: r"^ok \d+(?: -)? (?P<t>[^#]*?) # (?:skip|SKIP|todo|TODO)",
        acts: &[Act::Test(Family::Tap, Skipped)],
    },
    Rule {
        name: "bats.failed",
        pattern: r"^ (?:\xe2\x9c\x97) (?P<t>.+)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).follow(bats_lines))],
    },
    Rule {
        name: "bats.summary",
        pattern: r"^(?P<n>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) skipped)?(?: in .*)?$",
        acts: &[Act::Counts(Family::Bats, BATS), Act::Summary],
    },
    Rule {
        name: "bats.bad",
        pattern: r"^\d+ tests?, [1-9]\d* failures?(?:, .*)?(?: in .*)?$",
        acts: &[Act::Sign(Sign::Failure("test"))],
    },
    Rule {
        name: "bats.good",
        pattern: r"^[1-9]\d* tests?, 0 failures(?:, .*)?(?: in .*)?$",
        acts: &[Act::Sign(Sign::Success("test"))],
    },
];
