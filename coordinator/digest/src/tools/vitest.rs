//! Output of vitest.

use super::compiler::DIED;
use super::jest::jest_console;
use super::mocha::{WORKER_DIED, is_message, js_place};
use super::places::reread;
use super::tap::{tap_lines, tap_place};
use crate::records::{Event, RecordFormat};
use crate::rules::{BEGINS, Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, TestEvent, problem};
use crate::tally::Counts;
use crate::tool::{Announced, Apart, Tool, ToolId};
use serde::Deserialize;

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    apart: Apart::Always,
    announces: Some(Announced::ByHeading),
    one_total: true,
    rules: RULES,
    records: &[RecordFormat {
        name: "vitest.report",
        beginnings: &[br#"{"numTotalTestSuites":"#],
        read: report,
    }],
    ..Tool::named("vitest")
};

/// Report of `--reporter json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    num_total_tests: u64,
    num_passed_tests: u64,
    num_failed_tests: u64,
    #[serde(default)]
    num_pending_tests: u64,
    #[serde(default)]
    num_todo_tests: u64,
    #[serde(default = "succeeded")]
    success: bool,
    #[serde(default)]
    test_results: Vec<TestFile>,
}

/// Older reports lack the field.
const fn succeeded() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestFile {
    name: String,
    status: String,
    message: String,
    assertion_results: Vec<TestCase>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TestCase {
    ancestor_titles: Vec<String>,
    title: String,
    status: String,
    failure_messages: Option<Vec<String>>,
}

fn report(line: &[u8]) -> Option<Vec<Event>> {
    report_of(ToolId::Vitest, " > ", line)
}

/// Events of a report in the format that jest and vitest share.
pub(super) fn report_of(tool: ToolId, separator: &str, line: &[u8]) -> Option<Vec<Event>> {
    let first = line.split(|byte| *byte == b'"').nth(1)?;
    let is_of_jest = first == b"numFailedTestSuites";
    let report: Report =
        serde_json::from_slice(line).ok().filter(|_| is_of_jest == (tool == ToolId::JestJson))?;
    let mut events = vec![Event::Planned(tool, report.num_total_tests)];
    let problem = problem(ERROR, Kind::Test, 93);
    let failure = |file: &TestFile, names: Vec<&str>, message: &str| {
        let name = names.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join(separator);
        let name = match (tool, name.is_empty()) {
            (_, true) => file.name.clone(),
            (ToolId::Vitest, false) => format!("{}{separator}{name}", file.name),
            (_, false) => name,
        };
        let lines = message.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let mut diagnostic = Diagnostic {
            lines: std::iter::once(name.as_str()).chain(lines).map(str::to_owned).collect(),
            test: Some(name.clone()),
            ..Diagnostic::default()
        };
        js_place(&mut diagnostic);
        if diagnostic.line.is_none() {
            diagnostic.file = Some(file.name.clone());
            reread(&mut diagnostic);
        }
        Event::Problem(problem, Box::new(diagnostic))
    };
    for file in &report.test_results {
        for test in file.assertion_results.iter().filter(|test| test.status == "failed") {
            let names = test.ancestor_titles.iter().chain([&test.title]).map(String::as_str).collect();
            let message = test.failure_messages.as_deref().unwrap_or_default().join("\n");
            events.push(failure(file, names, &message));
        }
        if file.assertion_results.is_empty() && file.status == "failed" {
            let message = file.message.trim_start();
            let says = message.lines().next().is_some_and(is_message);
            if tool == ToolId::JestJson {
                let lines = file.message.lines().map(str::to_owned).collect();
                let file = Some(file.name.clone());
                let mut diagnostic = Diagnostic { lines, file, ..Diagnostic::default() };
                jest_console(&mut diagnostic);
                events.push(Event::Problem(problem, Box::new(diagnostic)));
                continue;
            }
            let prefix = if says { "" } else { "Error: " };
            events.push(failure(file, Vec::new(), &format!("{prefix}{message}")));
        }
    }
    if !report.success || report.test_results.iter().any(|file| file.status == "failed") {
        events.push(Event::Failed(tool, format!("{} reports a run that failed", tool.name)));
    }
    let counts = Counts {
        passed: report.num_passed_tests,
        failed: report.num_failed_tests,
        skipped: report.num_pending_tests.saturating_add(report.num_todo_tests),
        expected: 0,
    };
    let Counts { passed, failed, skipped, .. } = counts;
    let text = format!("Tests  {failed} failed | {passed} passed | {skipped} skipped");
    events.push(Event::Total(tool, counts, text));
    Some(events)
}

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
fn vitest_failure(diagnostic: &mut Diagnostic) {
    js_place(diagnostic);
    let file = diagnostic.test.as_deref().filter(|test| !test.contains(" > "));
    if let Some((file, _)) = file.and_then(|test| test.strip_suffix(" ]")?.split_once(" [ ")) {
        let file = file.rsplit(' ').next().unwrap_or(file).to_owned();
        diagnostic.head = diagnostic.lines.iter().position(|line| is_message(line));
        if diagnostic.line.is_none() {
            diagnostic.file = Some(file);
            reread(diagnostic);
        }
    }
}

fn no_problem(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = true;
}

const RULES: &[Rule] = &[
    Rule {
        name: "vitest.worker",
        pattern: r"^\s*(?:Caused by: )?Error: (?:\[vitest-pool(?:-runner)?\]: )?Worker (?:\w+ )?(?:exited unexpectedly|emitted error)",
        effects: &[Effect::Problem(DIED.follow(super::node::stack)), WORKER_DIED],
    },
    Rule {
        // vitest's files and suites. The tests inside are counted.
        name: "vitest.tap_suite",
        pattern: r"^ *(?:not )?ok \d+ - \S.*? # time=[\d.]+ms \{$",
        effects: &[Effect::Harmless, Effect::Alone],
    },
    Rule {
        name: "vitest.tap_failed",
        pattern: r"^ +not ok \d+ - (?P<t>.*?) # time=[\d.]+ms$",
        effects: &[
            Effect::Of(ToolId::Tap, &[Effect::Test(TestEvent::Failed)]),
            Effect::Problem(problem(ERROR, Kind::Test, 90).follow(tap_lines).refine(tap_place)),
            Effect::Of(ToolId::Tap, &[Effect::Failure]),
            Effect::Alone,
        ],
    },
    Rule {
        name: "vitest.tap_passed",
        pattern: r"^ +ok \d+ - (?P<t>.*?) # time=[\d.]+ms$",
        effects: &[Effect::Of(ToolId::Tap, &[Effect::Test(TestEvent::Passed)]), Effect::Alone],
    },
    Rule {
        name: "vitest.tap_skipped",
        pattern: r"^ {4,}ok \d+ - (?P<t>.*?) # (?:SKIP|TODO)$",
        effects: &[Effect::Of(ToolId::Tap, &[Effect::Test(TestEvent::Skipped)]), Effect::Alone],
    },
    Rule {
        name: "vitest.heading",
        pattern: r"^\s*FAIL  (?P<t>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(vitest).owning().refine(vitest_failure),
        )],
    },
    Rule {
        // Up to the next blank line a test's own output stands below it.
        name: "vitest.printed",
        pattern: r"^(?:stdout|stderr) \| \S+[._-](?:test|spec)\.[cm]?[jt]sx?(?: > .*)?$",
        effects: &[
            Effect::Problem(
                problem(crate::rules::INFO, Kind::Test, 40).follow(printed).owning().refine(no_problem),
            ),
            Effect::Alone,
        ],
    },
    Rule {
        name: "vitest.tests",
        pattern: r"^\s*Tests  +(?:(?:(?P<failed>\d+) failed|(?P<passed>\d+) passed|(?P<expected>\d+) expected fail|(?P<skipped>\d+) skipped|(?P<skipped2>\d+) todo)(?: \| )?)+ \(\d+\)",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
    Rule { name: "vitest.run", pattern: r"^\s*(?:RUN|DEV) +v\d", effects: &[BEGINS] },
    Rule { name: "vitest.files", pattern: r"^\s*Test Files  +\d+ ", effects: &[Effect::Heading] },
    Rule {
        name: "vitest.bad",
        pattern: r"^\s*Test Files  +[1-9]\d* failed",
        effects: &[Effect::Own(|line| line.tally.other_failure(line.tool)), Effect::Failure],
    },
    Rule {
        name: "vitest.errors",
        pattern: r"^\s*(?:Errors  +[1-9]\d* errors?|Type Errors  +[1-9]\d* failed|Vitest caught \d+ unhandled errors? during the test run.*)$",
        effects: &[Effect::Failure, Effect::Summary],
    },
];
