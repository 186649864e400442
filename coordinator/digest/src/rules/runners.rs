//! Test runners that have no table of their own: ScalaTest, Bazel, Flutter, Playwright, Deno, Bun, Cucumber, behave, Robot
//! Framework, testthat, busted, prove, doctest, tox, pre-commit; and that there were no tests.

use super::TestEvent::{Failed, Passed};
use super::{
    Act, Count, Draft, ERROR, Kind, Next, Rule, SORTS, Sign, TOTAL, indented, indented_or_blank, problem,
    set_place, up_to_rule,
};
use crate::tally::Counts;
use crate::tool::ToolId;

/// cucumber has several sorts of those that did not run.
const SCENARIOS: Count = |groups| {
    let skipped = groups.number("skipped") + groups.number("undefined") + groups.number("pending");
    SORTS(groups).map(|counts| Counts { skipped, ..counts })
};

/// Up to the rule that closes a report.
fn in_rules(so_far: &[String], line: &str) -> Next {
    up_to_rule("════════", so_far, line)
}

/// A failed task with an ignored failure.
fn ignoring(_: &[String], line: &str) -> Next {
    if line.trim() == "...ignoring" { Next::Last } else { Next::Beyond }
}

fn ignored(draft: &mut Draft) {
    draft.spurious = draft.lines.len() > 1;
}

const BAZEL: Count = |groups| {
    let failed = groups.number("failed") + groups.number("failed2");
    let skipped = groups.number("skipped");
    Some(Counts { passed: groups.number("passed"), failed, skipped, expected: 0 })
};

/// Lines that sbt marks as the failure's own: deeper than the test's name.
fn scalatest_lines(_: &[String], line: &str) -> Next {
    let body = line.strip_prefix("[info] ").unwrap_or(line);
    if body.starts_with("  ") && !body.trim_start().starts_with("- ") { Next::Part } else { Next::Beyond }
}

/// The last place in brackets: `4 did not equal 3 (MathSpec.scala:12)`.
fn in_brackets(draft: &mut Draft) {
    let places: Vec<String> = draft
        .lines
        .iter()
        .filter_map(|line| Some(line.trim_end().strip_suffix(')')?.rsplit_once('(')?.1.to_owned()))
        .collect();
    let _found = places.iter().any(|place| set_place(draft, place));
}

/// Up to the rule that ends a test.
fn robot_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("---") || line.starts_with("===") || line.contains("| FAIL |") || so_far.len() > 12 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// A message of Robot's dotted output: up to the next rule.
fn robot_dotted(so_far: &[String], line: &str) -> Next {
    let is_result = ["PASS:", "FAIL:", "SKIP:", "XFAIL:", "ERROR:"].iter().any(|word| line.starts_with(word));
    let is_rule = line.len() > 60 && line.bytes().all(|byte| matches!(byte, b'-' | b'='));
    match (is_rule, is_result || so_far.len() > 12) {
        (true, _) => Next::Last,
        (false, true) => Next::Beyond,
        (false, false) => Next::Maybe,
    }
}

/// Removes the rule below the message.
fn without_rule(draft: &mut Draft) {
    if draft.lines.len() > 1 {
        draft.lines.pop();
    }
}

/// A step of behave: `Then the result is 7 # features/steps/s.py:8`.
fn is_step(line: &str) -> bool {
    let words = ["Given ", "When ", "Then ", "And ", "But ", "* "];
    line.contains(" # ") && words.iter().any(|word| line.trim_start().starts_with(word))
}

/// The place of the failed step's code. The steps above it are not part of the message.
fn step_place(draft: &mut Draft) {
    let steps = draft.lines.iter().take_while(|line| is_step(line)).count();
    draft.lines.drain(..steps.saturating_sub(1));
    draft.head = Some(steps.min(1));
    let place = draft.lines.first().and_then(|line| Some(line.rsplit_once(" # ")?.1.to_owned()));
    draft.spurious = place.is_none();
    let _placed = place.is_some_and(|place| set_place(draft, &place));
}

/// The lines below `Failure → a_spec.lua @ 3`, up to a blank one.
fn busted_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() || so_far.len() > 30 { Next::Beyond } else { Next::Part }
}

/// The test's name is the next line. The message begins below it, with the place of the failed assertion.
fn busted_name(draft: &mut Draft) {
    draft.spurious = draft.lines.len() < 3;
    draft.test = draft.lines.get(1).map(|name| name.trim().to_owned());
    if let Some(message) = draft.lines.get(2).cloned() {
        draft.head = Some(2);
        let _placed = message.split_once(": ").is_some_and(|(place, _)| set_place(draft, place));
    }
}

fn diagnostics(so_far: &[String], line: &str) -> Next {
    let own = line.starts_with("# ") && !line.starts_with("# Looks like") && !line.contains("Failed test");
    if own && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// `#   at t/a.t line 12.`
fn at_line(draft: &mut Draft) {
    for line in &draft.lines {
        if let Some((_, place)) = line.split_once(" at ").filter(|_| line.ends_with('.'))
            && let Some((file, row)) = place.trim_end_matches('.').split_once(" line ")
        {
            draft.file = Some(file.to_owned());
            draft.line = row.parse().ok();
            return;
        }
    }
}

fn hook_lines(_: &[String], line: &str) -> Next {
    if line.starts_with("- ") { Next::Part } else { Next::Beyond }
}

fn text_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() || so_far.len() > 30 { Next::Beyond } else { Next::Part }
}

/// A case of a JUnit report; its failure follows.
fn xml_case(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("<testcase ") && !line.ends_with("/>") && !line.ends_with("</testcase>")
}

fn xml_lines(so_far: &[String], line: &str) -> Next {
    let closed =
        |line: &str| line.contains("</failure>") || line.contains("</error>") || line.ends_with("/>");
    if so_far.last().is_some_and(|last| closed(last)) || so_far.len() > 60 {
        Next::Beyond
    } else if closed(line) {
        Next::Last
    } else {
        Next::Part
    }
}

/// The case names the test; the place is where the stack has it.
fn xml_failure(draft: &mut Draft) {
    let case = draft.lines.first().cloned().unwrap_or_default();
    let value = |key: &str| {
        let (_, rest) = case.split_once(&format!(" {key}=\""))?;
        let (value, _) = rest.split_once('"')?;
        let named = [("&gt;", ">"), ("&lt;", "<"), ("&quot;", "\""), ("&#x22;", "\""), ("&amp;", "&")];
        Some(named.iter().fold(value.to_owned(), |value, (name, sign)| value.replace(name, sign)))
    };
    draft.test = value("name");
    super::javascript::js_place(draft);
    if draft.file.is_none() {
        draft.file = value("file");
        draft.line = value("line").and_then(|line| line.parse().ok());
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "runner.no_tests",
        pattern: r"^(?:\[(?:INFO|WARNING|ERROR)\] )?(?:No tests? (?:files? )?found(?:,| related| for given|\.|$)|No tests to run|No tests (?:were )?(?:executed|found|matched)|NO TESTS RAN$|No (?:test|spec) files (?:were )?found|No matching test cases were run|No test (?:is available in|matches the given)|> No tests found for given|ERROR: (?:not found: .*::|file or directory not found: .*::))",
        acts: &[Act::Sign(Sign::NoTests), Act::Summary],
    },
    Rule {
        name: "scalatest.failed",
        pattern: r"^(?:\[info\] )?\s*- (?P<t>.*?) \*\*\* FAILED \*\*\*.*",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(scalatest_lines).refine(in_brackets))],
    },
    Rule {
        name: "scalatest.summary",
        pattern: r"^(?:\[info\] )?Tests: succeeded (?P<passed>\d+), failed (?P<failed>\d+), canceled \d+, ignored (?P<skipped>\d+), pending",
        acts: &[Act::Session(ToolId::ScalaTest), Act::Counts(ToolId::ScalaTest, SORTS), Act::Summary],
    },
    Rule {
        name: "bazel.target",
        pattern: r"^INFO: Analyzed target (?P<u>\S+) \(",
        acts: &[Act::Unit(ToolId::Bazel)],
    },
    Rule {
        name: "bazel.output",
        pattern: r"^={20} Test output for (?P<t>@?@?\w*//[^\s:]*:[^\s:]+)(?: \(.*\))?:$",
        acts: &[Act::TargetOutput],
    },
    Rule {
        name: "bazel.test_passed",
        pattern: r"^(?P<t>@?@?\w*//\S+)\s+(?:\(cached\) )?PASSED(?: in .*)?$",
        acts: &[Act::Test(ToolId::BazelTest, Passed)],
    },
    Rule {
        name: "bazel.test_failed",
        pattern: r"^(?P<t>@?@?\w*//\S+)\s+(?:FAILED|TIMEOUT)(?: in .*)?$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 88).follow(indented).bare()),
            Act::Test(ToolId::BazelTest, Failed),
            Act::Sign(Sign::Failure(ToolId::Bazel)),
        ],
    },
    Rule {
        name: "ansible.fatal",
        pattern: r"^(?:fatal|failed): \[(?P<h>[^\]]+)\](?:: | )(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88).follow(ignoring).refine(ignored))],
    },
    Rule {
        name: "gotestsum.failed",
        pattern: r"^=== FAIL: (?P<p>\S+) (?P<t>\S+) \([\d.]+s\)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(text_lines).refine(super::go::log_place))],
    },
    Rule {
        name: "gotestsum.summary",
        pattern: r"^DONE (?P<n>\d+) tests?(?:, (?P<skipped>\d+) skipped)?(?:, (?P<failed>\d+) failures?)?(?:, (?P<errors>\d+) errors?)? in [\d.]+s$",
        acts: &[Act::Counts(ToolId::GoTest, TOTAL), Act::Summary],
    },
    Rule {
        name: "unity.failed",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<t>\w+):FAIL(?::(?P<m>.*))?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93))],
    },
    Rule {
        name: "zig.failed",
        pattern: r"^\d+/\d+ (?P<t>\S+?)\.{3} ?FAIL \((?P<m>.*)\)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(text_lines))],
    },
    Rule {
        name: "munit.failed",
        pattern: r"^==> X (?P<t>\S.*?) +[\d.]+m?s(?: (?P<m>.*))?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(indented))],
    },
    Rule {
        name: "julia.failed",
        pattern: r"^(?P<t>\S.*): (?:Test Failed|Error During Test) at (?P<f>\S+):(?P<l>\d+)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(indented))],
    },
    Rule {
        name: "bazel.executed",
        pattern: r"^Executed \d+ out of (?P<n>\d+) tests?: (?:(?P<passed>\d+) tests? pass(?:es)?|(?P<failed>\d+) fails?(?: to build| locally| remotely)?)(?:,? (?:and )?(?:(?P<failed2>\d+) fails?(?: to build| locally| remotely)?|(?P<skipped>\d+) (?:was|were) skipped))*\.",
        acts: &[Act::Session(ToolId::BazelTest), Act::Counts(ToolId::BazelTest, BAZEL), Act::Summary],
    },
    Rule {
        name: "flutter.counts",
        pattern: r"^\d\d:\d\d \+(?P<passed>\d+)(?: ~(?P<skipped>\d+))?(?: -(?P<failed>\d+))?: ",
        acts: &[Act::Partial(ToolId::Flutter, SORTS)],
    },
    Rule {
        name: "flutter.exception",
        pattern: r"^(?:\xe2\x95\x90){2}\xe2\x95\xa1 EXCEPTION CAUGHT BY .*",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(in_rules).owning())],
    },
    Rule {
        name: "flutter.failed",
        pattern: r"^\d\d:\d\d \+\d+(?: ~\d+)? -\d+: (?P<t>.*) \[E\]$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(indented_or_blank))],
    },
    Rule {
        name: "flutter.bad",
        pattern: r"^\d\d:\d\d \+\d+(?: ~\d+)?(?: -\d+)?: Some tests failed\.",
        acts: &[Act::Sign(Sign::Failure(ToolId::Flutter)), Act::Summary],
    },
    Rule {
        name: "flutter.good",
        pattern: r"^\d\d:\d\d \+[1-9]\d*(?: ~\d+)?: All (?:other )?tests passed!",
        acts: &[Act::Sign(Sign::Success(ToolId::Flutter)), Act::Summary],
    },
    Rule {
        name: "ansible.recap_bad",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +(?:unreachable=[1-9]\d*|unreachable=0 +failed=[1-9]\d*) ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Ansible)), Act::Summary],
    },
    Rule {
        name: "ansible.recap_good",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +unreachable=0 +failed=0 ",
        acts: &[Act::Summary],
    },
    Rule {
        name: "nox.failed",
        pattern: r"^nox > Session \S+ (?:failed|aborted|raised exception .*)\.$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 60)),
            Act::Sign(Sign::Failure(ToolId::Nox)),
            Act::Summary,
        ],
    },
    Rule {
        // A report that is printed and not written.
        name: "junit.bad_suite",
        pattern: r#"^\s*<testsuites? (?:[^>]* )?(?:failures|errors)=["'][1-9]"#,
        acts: &[Act::Sign(Sign::Failure(ToolId::JUnit)), Act::Harmless],
    },
    Rule {
        name: "junit.failure",
        pattern: r#"^\s*(?:<testcase [^>]*[^/]>)?<(?:failure|error)\b"#,
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 88).lead(xml_case).follow(xml_lines).owning().refine(xml_failure),
        )],
    },
    Rule {
        name: "playwright.session",
        pattern: r"^Running (?P<n>\d+) tests? using \d+ workers?",
        acts: &[Act::Session(ToolId::Playwright), Act::Announces(ToolId::Playwright)],
    },
    Rule {
        name: "playwright.counts",
        pattern: r"^  (?:(?P<failed>\d+) (?:failed|interrupted)|(?P<skipped>\d+) (?:skipped|did not run)|(?P<passed>\d+) (?:passed \([\d.]+(?:ms|[smhd])\)|flaky))$",
        acts: &[Act::Adds(ToolId::Playwright, SORTS), Act::Summary],
    },
    Rule {
        // They were to run, and the run was over before.
        name: "playwright.amiss",
        pattern: r"^  [1-9]\d* (?:did not run|errors? (?:was|were) not a part of any test, see above for details)$",
        acts: &[Act::Amiss(ToolId::Playwright), Act::Summary],
    },
    Rule {
        name: "deno.summary",
        pattern: r"^(?:ok|FAILED) \| (?P<passed>\d+) passed(?: \([^)]*\))? \| (?P<failed>\d+) failed(?: \([^)]*\))?(?: \| (?P<skipped>\d+) ignored)?",
        acts: &[Act::Session(ToolId::Deno), Act::Counts(ToolId::Deno, SORTS), Act::Summary],
    },
    Rule {
        name: "bun.counts",
        pattern: r"^ (?:(?P<passed>\d+) pass|(?P<failed>\d+) fail|(?P<skipped>\d+) (?:skip|todo))$",
        acts: &[Act::Adds(ToolId::Bun, SORTS), Act::Summary],
    },
    Rule {
        name: "bun.failed",
        pattern: r"^\(fail\) (?P<t>.*?)(?: \[[\d.]+ ?m?s\])?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88))],
    },
    Rule {
        name: "cucumber.failed",
        pattern: r"^cucumber (?:.* )?(?P<f>\S+\.feature):(?P<l>\d+)(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90))],
    },
    Rule {
        name: "cucumber.summary",
        pattern: r"^\d+ scenarios? \((?:(?:(?P<failed>\d+) failed|(?P<errors>\d+) ambiguous|(?P<skipped>\d+) skipped|(?P<undefined>\d+) undefined|(?P<pending>\d+) pending|(?P<passed>\d+) passed)(?:, )?)+\)$",
        acts: &[Act::Session(ToolId::Cucumber), Act::Counts(ToolId::Cucumber, SCENARIOS), Act::Summary],
    },
    Rule {
        // With only skipped tests it was a dry run, which ends well.
        name: "cucumber.bad",
        pattern: r"^\d+ scenarios? \((?:[1-9]\d* undefined\)|.*\b[1-9]\d* undefined, .*\b(?:pending|passed)\))$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Cucumber))],
    },
    Rule {
        name: "behave.failed",
        pattern: r"^\s+(?P<f>\S+\.feature):(?P<l>\d+)  (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88))],
    },
    Rule {
        name: "behave.summary",
        pattern: r"^(?P<passed>\d+) scenarios? passed, (?P<failed>\d+) failed,(?: (?P<errors>\d+) errors?,)? (?P<skipped>\d+) skipped",
        acts: &[Act::Session(ToolId::Behave), Act::Counts(ToolId::Behave, SORTS), Act::Summary],
    },
    Rule {
        name: "behave.assertion",
        pattern: r"^ +(?:ASSERT FAILED|Assertion Failed): (?P<m>.*)$",
        acts: &[
            Act::Problem(
                problem(ERROR, Kind::Test, 93).lead(is_step).follow(indented).owning().refine(step_place),
            ),
            Act::Sign(Sign::Failure(ToolId::Behave)),
        ],
    },
    Rule {
        name: "robot.dotted",
        pattern: r"^FAIL: (?P<t>[^\s():][^():]*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(robot_dotted).refine(without_rule))],
    },
    Rule {
        name: "robot.failed",
        pattern: r"^(?P<t>\S.*?) +\| FAIL \|$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(robot_lines))],
    },
    Rule {
        name: "robot.summary",
        pattern: r"^\d+ tests?, (?P<passed>\d+) passed, (?P<failed>\d+) failed(?:, (?P<skipped>\d+) skipped)?$",
        acts: &[Act::Counts(ToolId::Robot, SORTS), Act::Summary],
    },
    Rule {
        // Each suite has a total before the one that it is in; this ends them all.
        name: "robot.output",
        pattern: r"^Output: {2}\S.*\.xml$",
        acts: &[Act::Session(ToolId::Robot)],
    },
    Rule {
        name: "testthat.failed",
        pattern: r"^(?:\xe2\x94\x80)+ (?:Failure|Error) \('?(?P<f>[^\s:']+):(?P<l>\d+)(?::(?P<c>\d+))?'?\): (?P<t>.*?)[ \xe2\x94\x80]*$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(text_lines).owning())],
    },
    Rule {
        name: "testthat.summary",
        pattern: r"^\[ FAIL (?P<failed>\d+) \| WARN \d+ \| SKIP (?P<skipped>\d+) \| PASS (?P<passed>\d+) \]",
        acts: &[Act::Counts(ToolId::TestThat, SORTS), Act::Summary],
    },
    Rule {
        name: "busted.failed",
        pattern: r"^(?:Failure|Error) (?:\xe2\x86\x92|->) (?P<f>\S.*?) @ (?P<l>\d+)$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 93).follow(busted_lines).owning().refine(busted_name),
        )],
    },
    Rule {
        name: "busted.summary",
        pattern: r"^(?P<passed>\d+) success(?:es)? / (?P<failed>\d+) failures? / (?P<errors>\d+) errors? / (?P<skipped>\d+) pending",
        acts: &[Act::Session(ToolId::Busted), Act::Counts(ToolId::Busted, SORTS), Act::Summary],
    },
    Rule {
        name: "perl.test",
        pattern: r"^#   Failed test (?:'(?P<t>.*)')?",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).follow(diagnostics).refine(at_line))],
    },
    Rule {
        name: "prove.bad",
        pattern: r"^Result: FAIL$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Prove)), Act::Summary],
    },
    Rule {
        name: "prove.good",
        pattern: r"^Result: PASS$",
        acts: &[Act::Sign(Sign::Success(ToolId::Prove)), Act::Summary],
    },
    Rule {
        name: "doctest.bad",
        pattern: r"^\*\*\*Test Failed\*\*\* \d+ failures?",
        acts: &[Act::Sign(Sign::Failure(ToolId::Doctest)), Act::Summary],
    },
    Rule {
        name: "tox.failed",
        pattern: r"^\s+(?P<t>\S+): FAIL(?: code \d+)? \(.*",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 70)), Act::Sign(Sign::Failure(ToolId::Tox))],
    },
    Rule {
        name: "pre_commit.failed",
        pattern: r"^(?P<m>\S.*?)\.{3,}Failed$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Lint, 86).follow(hook_lines)),
            Act::Sign(Sign::Failure(ToolId::PreCommit)),
        ],
    },
];
