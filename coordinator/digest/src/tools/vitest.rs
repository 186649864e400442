//! Output of vitest.

use super::compiler::DIED;
use super::mocha::{JEST, WORKER_DIED, is_message, js_place};
use super::tap::{tap_lines, tap_place};
use crate::rules::{Act, Draft, ERROR, Kind, Next, Rule, Sign, TestEvent, problem};
use crate::tool::{Announced, Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    apart: Apart::Always,
    announces: Some(Announced::ByHeading),
    rules: RULES,
    ..Tool::named("vitest")
};

/// Limit on lines that count as output of a vitest test.
const PRINTED_LINES_MAX: usize = 40;

/// A vitest failure: up to the rule or the next heading.
fn vitest(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    if trimmed.starts_with("⎯⎯")
        || trimmed.starts_with("FAIL ")
        || trimmed.starts_with("Test Files")
        || trimmed.starts_with("Tests:")
        || so_far.len() > 40
    {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Output of a test, up to a blank line; vitest prints no blank line if the text has no line end.
fn printed(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let own = ["FAIL ", "✓ ", "❯ ", "× ", "⎯⎯", "Test Files ", "Tests ", "stdout | ", "stderr | "];
    if so_far.len() > PRINTED_LINES_MAX || own.iter().any(|own| trimmed.starts_with(own)) {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Last
    } else {
        Next::Part
    }
}

/// A heading with a file and no test, `a.spec.mjs [ a.spec.mjs ]`, does not contain the error.
fn vitest_failure(draft: &mut Draft) {
    js_place(draft);
    if draft.test.as_deref().is_some_and(|test| !test.contains(" > ") && test.ends_with(" ]")) {
        draft.head = draft.lines.iter().position(|line| is_message(line));
    }
}

fn no_problem(draft: &mut Draft) {
    draft.spurious = true;
}

const RULES: &[Rule] = &[
    Rule {
        name: "vitest.worker",
        pattern: r"^\s*(?:Caused by: )?Error: (?:\[vitest-pool(?:-runner)?\]: )?Worker (?:\w+ )?(?:exited unexpectedly|emitted error)",
        acts: &[Act::Problem(DIED.follow(super::node::stack)), WORKER_DIED],
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
            Act::Test(ToolId::Tap, TestEvent::Failed),
            Act::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines).refine(tap_place)),
            Act::Sign(Sign::Failure(ToolId::Tap)),
            Act::Alone,
        ],
    },
    Rule {
        name: "vitest.tap_passed",
        pattern: r"^ +ok \d+ - (?P<t>.*?) # time=[\d.]+ms$",
        acts: &[Act::Test(ToolId::Tap, TestEvent::Passed), Act::Alone],
    },
    Rule {
        name: "vitest.tap_skipped",
        pattern: r"^ {4,}ok \d+ - (?P<t>.*?) # (?:SKIP|TODO)$",
        acts: &[Act::Test(ToolId::Tap, TestEvent::Skipped), Act::Alone],
    },
    Rule {
        name: "vitest.heading",
        pattern: r"^\s*FAIL  (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(vitest).owning().refine(vitest_failure))],
    },
    Rule {
        // Up to the next blank line a test's own output stands below it.
        name: "vitest.printed",
        pattern: r"^(?:stdout|stderr) \| \S+[._-](?:test|spec)\.[cm]?[jt]sx?(?: > .*)?$",
        acts: &[
            Act::Problem(
                problem(crate::rules::INFO, Kind::Test, 40).follow(printed).owning().refine(no_problem),
            ),
            Act::Alone,
        ],
    },
    Rule {
        name: "vitest.tests",
        pattern: r"^\s*Tests  +(?:(?:(?P<failed>\d+) failed|(?P<passed>\d+) passed|(?P<expected>\d+) expected fail|(?P<skipped>\d+) skipped|(?P<todo>\d+) todo)(?: \| )?)+ \(\d+\)",
        acts: &[Act::Counts(ToolId::Vitest, JEST), Act::Summary],
    },
    Rule {
        name: "vitest.run",
        pattern: r"^\s*(?:RUN|DEV) +v\d",
        acts: &[Act::Sign(Sign::Begins(ToolId::Vitest))],
    },
    Rule { name: "vitest.files", pattern: r"^\s*Test Files  +\d+ ", acts: &[Act::Heading(ToolId::Vitest)] },
    Rule {
        name: "vitest.bad",
        pattern: r"^\s*Test Files  +[1-9]\d* failed",
        acts: &[Act::Amiss(ToolId::Vitest)],
    },
    Rule {
        name: "vitest.errors",
        pattern: r"^\s*(?:Errors  +[1-9]\d* errors?|Type Errors  +[1-9]\d* failed|Vitest caught \d+ unhandled errors? during the test run.*)$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Vitest)), Act::Summary],
    },
];
