//! Test frameworks that end with words of their own: Boost.Test, Check, CUnit, stestr, lab, alcotest, ward, kyua, zope.testrunner,
//! Catch2 in compact form, Nim's unittest, rebar3's EUnit and Common Test; and go vet.

use super::{
    Act, Count, Draft, ERROR, Kind, Next, Rule, SORTS, Sign, TOTAL, indented, place, problem, set_place,
    up_to_rule,
};
use crate::tally::Counts;
use crate::tool::ToolId;

/// Boost.Test counts the failures and not the tests.
const SOME_FAILED: Count = |_| Some(Counts { failed: 1, ..Counts::default() });
const ALL_PASSED: Count = |_| Some(Counts { passed: 1, ..Counts::default() });

/// lab prints the number of skipped tests separately from the total.
const WITHOUT_SKIPPED: Count = |groups| {
    let (total, failed) = (groups.number("n") + groups.number("all"), groups.number("failed"));
    Some(Counts {
        passed: total.saturating_sub(failed),
        failed,
        skipped: groups.number("skipped"),
        expected: 0,
    })
};

/// Last known position of a program that did not print the location of its failure: `a.cc(10): last checkpoint: …`.
fn checkpoint(_: &[String], line: &str) -> Next {
    if line.contains(": last checkpoint: ") { Next::Last } else { Next::Beyond }
}

fn last_checkpoint(draft: &mut Draft) {
    let checkpoint = draft.lines.iter().find_map(|line| line.split_once(": last checkpoint: "));
    let place = checkpoint
        .and_then(|(place, _)| place.trim_start_matches('*').trim_end_matches(')').rsplit_once(['(', ':']));
    if let Some((file, line)) = place {
        (draft.file, draft.line) = (Some(file.to_owned()), line.parse().ok());
    } else {
        (draft.file, draft.line) = (None, None);
    }
}

/// The first assertion below a test's name: `    1. a.c:3  - 1==2`.
fn first_assertion(draft: &mut Draft) {
    let place = draft.lines.iter().skip(1).find_map(|line| {
        let (number, rest) = line.trim_start().split_once(". ")?;
        number.parse::<u32>().ok()?;
        place(rest.split("  - ").next()?)
    });
    if let Some((file, line, column)) = place {
        (draft.file, draft.line, draft.column) = (file, line, column);
    }
}

/// Common Test's lines about a case, up to a blank line or the next case.
fn case_lines(so_far: &[String], line: &str) -> Next {
    let suite = so_far[0].split(" ==> ").next().unwrap_or_default();
    let of_suite = line.strip_prefix(suite).and_then(|rest| rest.strip_prefix(" ==> "));
    let is_reason = of_suite.is_some_and(|rest| so_far.len() == 1 || rest.starts_with(['{', '"', ' ']));
    if is_reason || line.starts_with(' ') && !line.trim().is_empty() && so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The first frame outside Erlang's own sources, which have no directory.
fn erlang_frame(draft: &mut Draft) {
    let text = draft.lines.join(" ");
    let place = text.split("{file,\"").skip(1).find_map(|frame| {
        let (file, rest) = frame.split_once('"')?;
        let (_, row) = rest.split_once("{line,")?;
        let row = row.split('}').next()?;
        file.contains('/').then(|| format!("{file}:{row}"))
    });
    if let Some(place) = place {
        let _placed = set_place(draft, &place);
    }
}

/// alcotest's lines below the box with a test's name, up to a rule.
fn below_box(so_far: &[String], line: &str) -> Next {
    up_to_rule(" ───", so_far, line)
}

/// Lines of Nim's unittest about a check, up to the line that names the failed test.
fn nim_lines(so_far: &[String], line: &str) -> Next {
    let said = line.trim_start();
    if said.starts_with("[FAILED] ") {
        Next::Last
    } else if said.starts_with("[OK] ") || said.contains(".nim(") || so_far.len() > 20 {
        Next::Beyond
    } else if said.is_empty() {
        Next::Maybe
    } else if line.starts_with(' ') {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The test is named in the last line. Without it and without a place it may be anybody's exception.
fn nim_test(draft: &mut Draft) {
    let last = draft.lines.last().map_or("", |line| line.trim_start());
    draft.test = last.strip_prefix("[FAILED] ").map(str::to_owned);
    draft.spurious = draft.test.is_none() && draft.file.is_none();
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "nim.check",
        pattern: r"^ +(?:(?P<f>\S+\.nim)\((?P<l>\d+), (?P<c>\d+)\): (?:Check failed: |Expect Failed, )|Unhandled exception: .* \[\w+\]$)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(nim_lines).refine(nim_test))],
    },
    Rule {
        name: "nim.program",
        pattern: r"^Error: execution of an external program failed: ",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 50)),
            Act::Sign(Sign::Failure(ToolId::Nim)),
            Act::Summary,
        ],
    },
    Rule {
        name: "boost.unplaced",
        pattern: r#"^\**unknown location(?:\(0\)|:0): (?:fatal )?error: in "(?P<t>[^"]+)": (?P<m>.*)"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(checkpoint).refine(last_checkpoint))],
    },
    Rule {
        // The stars are its progress.
        name: "boost.failed",
        pattern: r#"^\**(?P<f>[^\s:(*][^:(]*)[(:](?P<l>\d+)\)?: (?:fatal )?error: in "(?P<t>[^"]+)": (?P<m>.*)"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94))],
    },
    Rule {
        // A failure names the module, a success does not: the number of its tests identifies a run.
        name: "boost.begun",
        pattern: r"^Running (?P<t>\d+) test cases?\.\.\.$",
        acts: &[Act::Part(ToolId::BoostTest)],
    },
    Rule {
        name: "boost.bad",
        pattern: r#"^\*\*\* (?:\d+ failures? (?:(?:is|are) )?detected(?: \(\d+ failures? (?:(?:is|are) )?expected\))? in (?:the )?test (?:module|suite|case) ".*"|[Ee]rrors (?:w?h?ere )?detected in (?:the )?test (?:module|suite|case) ".*"; see standard output for details|The test (?:module|suite|case) ".*" was (?:aborted|timed out); see standard output for details)$"#,
        acts: &[
            Act::Session(ToolId::BoostTest),
            Act::Partial(ToolId::BoostTest, SOME_FAILED),
            Act::Sign(Sign::Failure(ToolId::BoostTest)),
            Act::Summary,
        ],
    },
    Rule {
        name: "boost.good",
        pattern: r#"^(?:\*\*\* No errors detected|Test module ".*" has passed with:)$"#,
        acts: &[
            Act::Session(ToolId::BoostTest),
            Act::Partial(ToolId::BoostTest, ALL_PASSED),
            Act::Sign(Sign::Success(ToolId::BoostTest)),
            Act::Summary,
        ],
    },
    Rule {
        name: "boost.report",
        pattern: r#"^Test module ".*" (?:has failed|was aborted) with:$"#,
        acts: &[
            Act::Session(ToolId::BoostTest),
            Act::Partial(ToolId::BoostTest, SOME_FAILED),
            Act::Sign(Sign::Failure(ToolId::BoostTest)),
            Act::Summary,
        ],
    },
    Rule {
        name: "check.total",
        pattern: r"^\d+%: Checks: (?P<n>\d+), Failures: (?P<failed>\d+), Errors: (?P<errors>\d+)$",
        acts: &[Act::Session(ToolId::Check), Act::Counts(ToolId::Check, TOTAL), Act::Summary],
    },
    Rule {
        name: "check.failed",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):[FE]:[^:]*:(?P<t>[^:]+):-?\d+: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93))],
    },
    Rule {
        name: "cunit.summary",
        pattern: r"^(?:--)?Run Summary: +Type +Total +Ran +Passed +Failed",
        acts: &[Act::Session(ToolId::CUnit), Act::Heading(ToolId::CUnit)],
    },
    Rule {
        name: "cunit.tests",
        pattern: r"^ +tests +\d+ +\d+ +(?P<passed>\d+) +(?P<failed>\d+)(?: +(?P<skipped>\d+))?$",
        acts: &[Act::Counts(ToolId::CUnit, SORTS), Act::Summary],
    },
    Rule {
        name: "cunit.failed",
        pattern: r"^  Test: (?P<t>\S.*?) \.\.\. ?FAILED$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(indented).refine(first_assertion))],
    },
    Rule {
        name: "cunit.had_failures",
        pattern: r"^Suite \S.*, Test (?P<t>\S.*) had failures:$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(indented).refine(first_assertion))],
    },
    Rule {
        name: "stestr.ran",
        pattern: r"^Ran: \d+ tests? in [\d.]+ sec\.$",
        acts: &[Act::Session(ToolId::Stestr), Act::Partial(ToolId::Stestr, SORTS)],
    },
    Rule {
        name: "stestr.sorts",
        pattern: r"^ - (?:Passed: (?P<passed>\d+)|Skipped: (?P<skipped>\d+)|Expected Fail: (?P<expected>\d+)|(?:Unexpected Success|Failed): (?P<failed>\d+))$",
        acts: &[Act::Adds(ToolId::Stestr, SORTS), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "lab.total",
        pattern: r"^(?:(?P<failed>\d+) of (?P<n>\d+) tests? failed|(?P<all>\d+) tests? (?:passed|complete))(?: \((?:(?P<skipped>\d+) skipped|\d+ todo)(?:, \d+ todo)?\))?$",
        acts: &[Act::Awaits(ToolId::Lab, WITHOUT_SKIPPED)],
    },
    Rule {
        name: "lab.duration",
        pattern: r"^Test duration: [\d.]+ ms$",
        acts: &[Act::Confirms(ToolId::Lab)],
    },
    Rule {
        name: "alcotest.test",
        pattern: r"^\xe2\x94\x82 \[FAIL\] +(?P<t>\S.*?)\.? +\xe2\x94\x82$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(below_box).owning())],
    },
    Rule {
        name: "alcotest.failed",
        pattern: r"^(?P<failed>\d+) (?:failure|error)s?! in [\d.]+s\. (?P<n>\d+) tests? run\.$",
        acts: &[Act::Session(ToolId::Alcotest), Act::Counts(ToolId::Alcotest, TOTAL), Act::Summary],
    },
    Rule {
        name: "alcotest.good",
        pattern: r"^Test Successful in [\d.]+s\. (?P<n>\d+) tests? run\.$",
        acts: &[Act::Session(ToolId::Alcotest), Act::Counts(ToolId::Alcotest, TOTAL), Act::Summary],
    },
    Rule {
        // Else it looks like a file of jest or vitest.
        name: "ward.failed",
        pattern: r"^ FAIL  \S+:\d+ (?P<t>\S.*?) +\d+%$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).bare())],
    },
    Rule {
        name: "ward.encountered",
        pattern: r"^\xe2\x94\x82 +\d+ +Tests? Encountered +\xe2\x94\x82$",
        acts: &[Act::Session(ToolId::Ward), Act::Partial(ToolId::Ward, SORTS)],
    },
    Rule {
        name: "ward.sorts",
        pattern: r"^\xe2\x94\x82 +(?:(?P<passed>\d+) +Pass(?:es)?|(?P<failed>\d+) +(?:Failures?|Unexpected Pass(?:es)?)|(?P<skipped>\d+) +Skips?|(?P<expected>\d+) +Expected Failures?) +\([\d.]+%\) +\xe2\x94\x82$",
        acts: &[Act::Adds(ToolId::Ward, SORTS), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "kyua.failed",
        pattern: r"^(?P<t>\S+:\S+)  ->  (?:failed|broken): (?P<m>.*?)  \[[\d.]+s\]$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92))],
    },
    Rule {
        name: "kyua.results",
        pattern: r"^Results saved to \S.*\.db$",
        acts: &[Act::Session(ToolId::Kyua), Act::Heading(ToolId::Kyua)],
    },
    Rule {
        name: "kyua.total",
        pattern: r"^(?P<passed>\d+)/\d+ passed \((?P<failed>\d+) failed\)$",
        acts: &[Act::Counts(ToolId::Kyua, SORTS), Act::Summary],
    },
    Rule {
        // One of each layer.
        name: "zope.layer",
        pattern: r"^  Ran (?P<n>\d+) tests with (?P<failed>\d+) failures(?:, | and )(?P<errors>\d+) errors(?: and (?P<skipped>\d+) skipped)? in (?:\d+ \w+ )*[\d.]+ seconds\.$",
        acts: &[Act::Adds(ToolId::Zope, TOTAL), Act::Summary],
    },
    Rule {
        // Of all layers, where there were more than one.
        name: "zope.total",
        pattern: r"^Total: (?P<n>\d+) tests, (?P<failed>\d+) failures(?:, | and )(?P<errors>\d+) errors(?: and (?P<skipped>\d+) skipped)? in (?:\d+ \w+ )*[\d.]+ seconds\.$",
        acts: &[Act::Counts(ToolId::Zope, TOTAL), Act::Session(ToolId::Zope), Act::Summary],
    },
    Rule {
        // The number of passed tests is missing.
        name: "catch2.compact_failed",
        pattern: r"^Failed (?:both |all )?(?P<failed>[1-9]\d*) test cases?, failed (?:both |all )?\d+ assertions?\.$",
        acts: &[Act::Session(ToolId::Catch2), Act::Counts(ToolId::Catch2, SORTS), Act::Summary],
    },
    Rule {
        name: "catch2.compact_passed",
        pattern: r"^Passed (?:both |all )?(?P<passed>\d+) test cases? (?:with \d+ assertions?|\(no assertions\))\.$",
        acts: &[Act::Session(ToolId::Catch2), Act::Counts(ToolId::Catch2, SORTS), Act::Summary],
    },
    Rule {
        // rebar3 counts the tests that were cancelled among all, and fails for them.
        name: "eunit.cancelled",
        pattern: r"^(?P<n>\d+) tests?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) skipped)?, (?P<errors>\d+) cancelled$",
        acts: &[Act::Session(ToolId::Bats), Act::Counts(ToolId::Bats, TOTAL), Act::Summary],
    },
    Rule {
        name: "common_test.failed",
        pattern: r"^%%% \S+ ==> (?P<t>\S.*): FAILED$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 93).follow(case_lines).owning().refine(erlang_frame),
        )],
    },
    Rule {
        // Progress, or the result of a case; the total of a good run comes directly after the last one.
        name: "common_test.case",
        pattern: r"^(?:%%% \w+_SUITE(?:: \.*$| ==> )|Testing \S+: TEST COMPLETE, )",
        acts: &[Act::Heading(ToolId::CommonTest)],
    },
    Rule {
        name: "common_test.good",
        pattern: r"^All (?P<n>\d+) tests passed\. ?$",
        acts: &[Act::Announced(ToolId::CommonTest, TOTAL)],
    },
    Rule {
        name: "common_test.total",
        pattern: r"^(?:Failed (?P<failed>\d+) tests\. (?:Skipped (?P<skipped>\d+) \(\d+, \d+\) tests\. )?|Skipped (?P<skipped_only>\d+) \(\d+, \d+\) tests\. )Passed (?P<passed>\d+) tests\. ?$",
        acts: &[
            Act::Session(ToolId::CommonTest),
            Act::Counts(ToolId::CommonTest, |groups| {
                Some(Counts {
                    passed: groups.number("passed"),
                    failed: groups.number("failed"),
                    skipped: groups.number("skipped") + groups.number("skipped_only"),
                    expected: 0,
                })
            }),
            Act::Summary,
        ],
    },
    Rule {
        name: "rebar3.failed",
        pattern: r"^===> (?:Error running tests$|Failures occurred running tests: |Compiling \S+ failed$)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 40)),
            Act::Sign(Sign::Failure(ToolId::Rebar3)),
            Act::Summary,
        ],
    },
    Rule {
        name: "vet.failed",
        pattern: r"^vet: \S+\.go:\d+:\d+: ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Vet))],
    },
];
