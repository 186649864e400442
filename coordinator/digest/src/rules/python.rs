//! pytest, unittest, CPython's regrtest, tracebacks, mypy and pyright's own words.

use super::TestEvent::{Failed, Started};
use super::{Act, Count, Draft, ERROR, FATAL, Indicator, Join, Kind, Next, Rule, Sign, problem};
use crate::tally::{Counts, Family};

fn last_place(draft: &mut Draft) {
    for line in draft.lines.iter().rev() {
        let trimmed = line.trim_start();
        if let Some(rest) = trimmed.strip_prefix("File \"")
            && let Some((file, rest)) = rest.split_once("\", line ")
        {
            draft.file = Some(file.to_owned());
            draft.line = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|row| row.parse().ok());
            return;
        }
        let mut parts = trimmed.splitn(3, ':');
        if let (Some(file), Some(row), Some(_)) = (parts.next(), parts.next(), parts.next())
            && file.ends_with(".py")
            && !file.contains(' ')
            && let Ok(row) = row.parse()
        {
            draft.file = Some(file.to_owned());
            draft.line = Some(row);
            return;
        }
    }
}

/// The name that a section's heading and its line in the summary have in common: `Class.test[case]` or a file.
fn common_name(test: &str) -> String {
    let inner = test.split_once(".py::").map_or(test, |(_, inner)| inner);
    inner.replace("::", ".")
}

fn block(draft: &mut Draft) {
    last_place(draft);
    draft.join = draft.test.as_deref().map(|test| Join::Block(common_name(test)));
}

fn title(draft: &mut Draft) {
    draft.join = draft.test.as_deref().map(|test| Join::Title(common_name(test)));
}

/// A section of pytest's failures: up to the next heading or rule.
fn section(_: &[String], line: &str) -> Next {
    let rule = |mark: &str| line.starts_with(mark) && line.ends_with(mark);
    if rule("====") || rule("____") && line.contains(' ') && !line.starts_with("_ _") || rule("!!!!") {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// A test that unittest reports: heading, rule, traceback, up to the next rule.
fn unittest(so_far: &[String], line: &str) -> Next {
    // Below the heading, and the first line of the test's description, there is a rule.
    let is_rule = |line: &str| line.starts_with("------");
    let short = so_far[0].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let ruled = is_rule(line) || so_far.iter().any(|line| is_rule(line));
    if !ruled && so_far.len() >= if short { 1 } else { 2 } {
        return Next::Beyond;
    }
    if line.starts_with("======") || line.starts_with("------") && so_far.len() > 3 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// A traceback ends with the first line that is not indented, which names the exception.
fn traceback(so_far: &[String], line: &str) -> Next {
    let chained = ["Traceback (most recent", "During handling of", "The above exception was"];
    if line.trim().is_empty() {
        return Next::Maybe;
    }
    if chained.iter().any(|start| line.trim_start().starts_with(start)) {
        return Next::Part;
    }
    if line.starts_with([' ', '\t']) {
        return if ended(so_far) { Next::Beyond } else { Next::Part };
    }
    if ended(so_far) { Next::Beyond } else { Next::Part }
}

/// Whether the exception's own line is there already.
fn ended(so_far: &[String]) -> bool {
    let last = so_far.iter().rev().find(|line| !line.trim().is_empty());
    so_far.len() > 1
        && last.is_some_and(|line| {
            !line.starts_with([' ', '\t'])
                && !line.starts_with("Traceback")
                && !line.starts_with("During handling")
                && !line.starts_with("The above")
        })
}

/// A traceback inside prefixes (`| `, `E   `) belongs to others.
fn stack(so_far: &[String], line: &str) -> Next {
    if so_far.len() < 60 && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

const PYTEST: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed") + groups.number("xpassed"),
        failed: groups.number("failed") + groups.number("errors"),
        skipped: groups.number("skipped"),
        expected: groups.number("xfailed"),
    })
};

const UNITTEST: Count =
    |groups| Some(Counts { passed: groups.number("n"), failed: 0, skipped: 0, expected: 0 });

const UNITTEST_REST: Count = |groups| {
    Some(Counts {
        passed: 0,
        failed: groups.number("failed") + groups.number("errors") + groups.number("unexpected"),
        skipped: groups.number("skipped"),
        expected: groups.number("expected"),
    })
};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "pytest.session",
        pattern: r"^=+ test session starts =+$",
        acts: &[Act::Session(Family::Pytest)],
    },
    Rule {
        name: "pytest.section",
        pattern: r"^_{3,} (?:ERROR (?:collecting|at (?:setup|teardown) of) )?(?P<t>\S.*?) _{3,}$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(section).owning().refine(block))],
    },
    Rule {
        name: "pytest.failed",
        pattern: r"^(?:FAILED|ERROR)(?: \[[\d.]+s\])? (?P<t>\S+?\.py(?:::[^\s\[]+)*(?:\[.*?\])?)(?: - (?P<m>.*)|\s*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).refine(title))],
    },
    Rule {
        name: "pytest.summary",
        pattern: r"^=* ?(?:(?:no tests (?:ran|collected)|(?P<failed>\d+) failed|(?P<passed>\d+) passed|(?P<skipped>\d+) skipped|(?P<errors>\d+) errors?|(?P<xfailed>\d+) xfailed|(?P<xpassed>\d+) xpassed|\d+ (?:deselected|warnings?|rerun|reruns|subtests passed))(?:, )?)+ in [\d.]+s(?: \(.*\))? ?=*$",
        acts: &[Act::Counts(Family::Pytest, PYTEST), Act::Summary],
    },
    Rule {
        name: "pytest.interrupted",
        pattern: r"^!{4,} (?P<m>.*?) !{4,}$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 85)), Act::Sign(Sign::Failure("pytest"))],
    },
    Rule {
        name: "pytest.internal",
        pattern: r"^INTERNALERROR> (?P<m>\S+(?:Error|Exception)\b.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88)), Act::Sign(Sign::Failure("pytest"))],
    },
    Rule {
        name: "pytest.usage",
        pattern: r"^(?:ERROR: (?:usage|not found|file or directory not found|file not found)|pytest: error:).*",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90).follow(super::indented))],
    },
    Rule {
        name: "unittest.heading",
        pattern: r"^(?:FAIL|ERROR): (?P<t>\S+ \(.*?\).*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(unittest).owning().refine(last_place))],
    },
    Rule {
        name: "unittest.heading_short",
        pattern: r"^(?:FAIL|ERROR): (?P<t>[A-Za-z_]\w*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90).follow(unittest).owning().refine(last_place))],
    },
    Rule {
        name: "unittest.line_failed",
        pattern: r"^(?P<t>\S+ \([\w.]+\))(?: \[.*\])? \.\.\. (?:FAIL|ERROR)$",
        acts: &[Act::Test(Family::Unittest, Failed), Act::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule { name: "unittest.rule", pattern: r"^-{70}$", acts: &[Act::Heading(Family::Unittest)] },
    Rule {
        name: "unittest.ran",
        pattern: r"^Ran (?P<n>\d+) tests? in [\d.]+s",
        acts: &[Act::Partial(Family::Unittest, UNITTEST), Act::Summary],
    },
    Rule {
        name: "unittest.failed",
        pattern: r"^FAILED \((?:(?:failures=(?P<failed>\d+)|errors=(?P<errors>\d+)|skipped=(?P<skipped>\d+)|expected failures=(?P<expected>\d+)|unexpected successes=(?P<unexpected>\d+))(?:, )?)+\)",
        acts: &[Act::Moves(Family::Unittest, UNITTEST_REST), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "unittest.ok",
        pattern: r"^OK(?: \((?:(?:skipped=(?P<skipped>\d+)|expected failures=(?P<expected>\d+)|unexpected successes=\d+)(?:, )?)+\))?$",
        acts: &[Act::Moves(Family::Unittest, UNITTEST_REST)],
    },
    Rule {
        name: "regrtest.success",
        pattern: r"^(?:== Tests result: SUCCESS ==|Result: SUCCESS|Tests result: SUCCESS)",
        acts: &[Act::Sign(Sign::Success("regrtest")), Act::Summary],
    },
    Rule {
        name: "regrtest.failure",
        pattern: r"^(?:== Tests result: FAILURE.*|Result: FAILURE|Tests result: FAILURE.*)",
        acts: &[Act::Sign(Sign::Failure("regrtest")), Act::Summary],
    },
    Rule {
        name: "regrtest.total",
        pattern: r"^Total tests: run=(?P<n>[\d,]+)(?: failures=(?P<failed>[\d,]+))?(?: skipped=(?P<skipped>[\d,]+))?",
        acts: &[
            Act::Counts(Family::Regrtest, |groups| {
                let (run, failed, skipped) =
                    (groups.number("n"), groups.number("failed"), groups.number("skipped"));
                Some(Counts { passed: run.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
            }),
            Act::Summary,
        ],
    },
    Rule {
        name: "python.traceback",
        pattern: r"^\s*Traceback \(most recent call last\):$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88).follow(traceback).refine(last_place))],
    },
    Rule {
        name: "python.fatal",
        pattern: r"^Fatal Python error: (?P<m>.*)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 96).follow(fatal_lines)),
            Act::Sign(Sign::Crash(Indicator::FatalError)),
        ],
    },
    Rule {
        name: "python.exception",
        pattern: r"^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout)(?:: (?P<m>.*))?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 72).follow(stack_if_indented))],
    },
    Rule {
        name: "python.syntax",
        pattern: r#"^  File "(?P<f>[^"]+)", line (?P<l>\d+)$"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 80).follow(syntax).refine(syntax_only))],
    },
    Rule {
        name: "mypy.found",
        pattern: r"^Found \d+ errors? in \d+ files?",
        acts: &[Act::Sign(Sign::Failure("mypy")), Act::Summary],
    },
    Rule {
        name: "mypy.success",
        pattern: r"^Success: no issues found in \d+ source files?",
        acts: &[Act::Sign(Sign::Success("mypy")), Act::Summary],
    },
    Rule {
        name: "pyright.found",
        pattern: r"^(?P<n>\d+) errors?, \d+ warnings?, \d+ informations?",
        acts: &[Act::Summary],
    },
    Rule {
        name: "pytest.running",
        pattern: r"^(?P<t>\S+\.py::\S+) $",
        acts: &[Act::Test(Family::Pytest, Started)],
    },
    Rule {
        name: "pytest.ended",
        pattern: r"^.*(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.*\))? +\[ *\d+%\]$",
        acts: &[Act::Ends(Family::Pytest)],
    },
];

fn fatal_lines(so_far: &[String], line: &str) -> Next {
    let known = line.starts_with("Current thread")
        || line.starts_with("Thread ")
        || line.starts_with("Extension modules");
    if line.trim().is_empty() {
        Next::Maybe
    } else if known || line.starts_with("  ") {
        stack(so_far, line)
    } else {
        Next::Beyond
    }
}

fn stack_if_indented(_: &[String], line: &str) -> Next {
    if line.starts_with("    ") && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

/// The code, the caret and the error under a place without a traceback's heading.
fn syntax(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 6 {
        Next::Beyond
    } else if line.starts_with("    ") {
        Next::Part
    } else if line.contains("Error: ") && !line.starts_with(' ') {
        Next::Last
    } else {
        Next::Beyond
    }
}

fn syntax_only(draft: &mut Draft) {
    draft.spurious = !draft.lines.last().is_some_and(|line| line.contains("Error: "));
}
