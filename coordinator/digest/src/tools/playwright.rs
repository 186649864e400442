//! Output of Playwright.

use super::compiler::DIED;
use super::mocha::{WORKER_DIED, is_message, js_place};
use crate::records::{Event, RecordFormat};
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, problem};
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};
use serde::Deserialize;

pub(super) const TOOL: Tool = Tool {
    commands: &["playwright test"],
    runs_tests: true,
    selections: &["-g", "--grep"],
    rules: RULES,
    records: &[RecordFormat { name: "playwright.report", beginnings: &[], read: report }],
    ..Tool::named("Playwright")
};

/// Report of `--reporter json`.
#[derive(Debug, Deserialize)]
struct Report {
    suites: Vec<Suite>,
    errors: Vec<Problem>,
    stats: Stats,
}

#[derive(Debug, Deserialize)]
struct Stats {
    expected: u64,
    skipped: u64,
    unexpected: u64,
    flaky: u64,
}

#[derive(Debug, Deserialize)]
struct Suite {
    title: String,
    #[serde(default)]
    suites: Vec<Suite>,
    #[serde(default)]
    specs: Vec<Spec>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    title: String,
    file: String,
    line: u32,
    tests: Vec<Test>,
}

#[derive(Debug, Deserialize)]
struct Test {
    status: String,
    results: Vec<TestResult>,
}

#[derive(Debug, Deserialize)]
struct TestResult {
    #[serde(default)]
    errors: Vec<Problem>,
}

#[derive(Debug, Deserialize)]
struct Problem {
    #[serde(default)]
    message: String,
    location: Option<Location>,
}

#[derive(Debug, Deserialize)]
struct Location {
    file: String,
    line: u32,
    column: u32,
}

/// Maximum number of suites in each other. Playwright itself reads deeper ones, and a project has few.
const DEPTH_MAX: usize = 32;

fn report(document: &[u8]) -> Option<Vec<Event>> {
    let Report { suites, errors, stats } = serde_json::from_slice(document).ok()?;
    let Stats { expected: passed, skipped, unexpected: failed, flaky } = stats;
    let counts = Counts { passed: passed.saturating_add(flaky), failed, skipped, expected: 0 };
    let mut events = vec![Event::Planned(ToolId::Playwright, counts.total())];
    for suite in &suites {
        failures(suite, "", 0, &mut events);
    }
    events.extend(errors.iter().map(|error| failure(None, error)));
    if !errors.is_empty() {
        events
            .push(Event::Failed(ToolId::Playwright, "Playwright reports errors outside of tests".to_owned()));
    }
    let text = format!("{failed} failed, {flaky} flaky, {skipped} skipped, {passed} passed");
    events.push(Event::Total(ToolId::Playwright, counts, text));
    Some(events)
}

/// Adds the failures of a suite. `above` is the title of the suites that it is in; that of the outermost is its file.
fn failures(suite: &Suite, above: &str, depth: usize, events: &mut Vec<Event>) {
    for spec in &suite.specs {
        for test in spec.tests.iter().filter(|test| test.status == "unexpected") {
            let name = format!("{above}{}", spec.title);
            let of_last = test.results.last().map_or(&[][..], |result| &result.errors);
            let told: Vec<Event> = of_last.iter().map(|error| failure(Some((&name, spec)), error)).collect();
            if told.is_empty() {
                let error = Problem { message: "failed".to_owned(), location: None };
                events.push(failure(Some((&name, spec)), &error));
            }
            events.extend(told);
        }
    }
    for inner in suite.suites.iter().filter(|_| depth < DEPTH_MAX) {
        failures(inner, &format!("{above}{} › ", inner.title), depth + 1, events);
    }
}

fn failure(test: Option<(&str, &Spec)>, error: &Problem) -> Event {
    let name = test.map(|(name, _)| name.to_owned());
    let message = error.message.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned);
    let (file, line, column) = match (&error.location, test) {
        (Some(place), _) => (Some(place.file.clone()), Some(place.line), Some(place.column)),
        (None, Some((_, spec))) => (Some(spec.file.clone()), Some(spec.line), None),
        (None, None) => (None, None, None),
    };
    let lines = name.clone().into_iter().chain(message).collect();
    let diagnostic = Diagnostic { lines, test: name, file, line, column, ..Diagnostic::default() };
    Event::Problem(problem(ERROR, Kind::Test, 92), Box::new(diagnostic))
}

/// The lines of a failure, up to the next one or the totals.
fn lines(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let depth = line.len() - text.len();
    let is_next = digits > 0 && depth <= 2 && text[digits..].starts_with([')', ' ']);
    if text.is_empty() {
        Next::Maybe
    } else if is_next || !line.starts_with(' ') || so_far.len() > 80 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// Returns true for a line that only names a file with more.
fn is_of_attachment(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with("Error Context: ") || text.starts_with("attachment #") || text.starts_with("────")
}

/// The place is the first frame in the project, or else the test's own. The message is the summary.
fn failed(diagnostic: &mut Diagnostic) {
    let (file, line, column) = (diagnostic.file.take(), diagnostic.line, diagnostic.column);
    (diagnostic.line, diagnostic.column) = (None, None);
    js_place(diagnostic);
    if diagnostic.line.is_none() {
        (diagnostic.file, diagnostic.line, diagnostic.column) = (file.clone(), line, column);
    }
    // The frames have absolute paths, and the heading the path in the project.
    if let (Some(own), Some(found)) = (file, &mut diagnostic.file)
        && found.ends_with(&format!("/{own}"))
    {
        *found = own;
    }
    diagnostic.lines.retain(|line| !is_of_attachment(line));
    let is_text = |line: &String| !line.trim().is_empty();
    let message = diagnostic.lines.iter().skip(1).position(|line| is_message(line));
    diagnostic.head = message.or_else(|| diagnostic.lines.iter().skip(1).position(is_text)).map(|at| at + 1);
    if let Some(test) = &mut diagnostic.test {
        test.truncate(test.trim_end_matches(['─', ' ']).len());
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "playwright.failed",
        pattern: r"^ {0,2}\d+\) (?:\[[^\]]+\] \xe2\x80\xba )?(?P<f>[^\s:]+\.[cm]?[jt]sx?):(?P<l>\d+):(?P<c>\d+) \xe2\x80\xba (?P<t>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(lines).owning().refine(failed))],
    },
    Rule {
        // An entry of the list at the end.
        name: "playwright.entry",
        pattern: r"^ {4}(?:\[[^\]]+\] \xe2\x80\xba )?(?P<f>[^\s:]+\.[cm]?[jt]sx?):(?P<l>\d+):(?P<c>\d+) \xe2\x80\xba (?P<t>\S.*?) ?(?:\xe2\x94\x80)+$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 80).bare())],
    },
    Rule {
        // A line of the list reporter. The block at the end has the message.
        name: "playwright.line",
        pattern: r"^ {2}(?:\xe2\x9c\x98|x) +\d+ (?:\[[^\]]+\] \xe2\x80\xba )?(?P<f>[^\s:]+\.[cm]?[jt]sx?):(?P<l>\d+):(?P<c>\d+) \xe2\x80\xba (?P<t>\S.*?)(?: \(retry #\d+\))? \([\d.]+m?s\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 80).bare())],
    },
    Rule {
        name: "playwright.worker",
        pattern: r"^\s*Error: worker process exited unexpectedly \(code=\w+, signal=(?:(?P<sig>SIG[A-Z]+)|null)\)",
        effects: &[Effect::Problem(DIED), WORKER_DIED],
    },
    Rule {
        name: "playwright.session",
        pattern: r"^Running (?P<n>\d+) tests? using \d+ workers?",
        effects: &[Effect::Session, Effect::Announces],
    },
    Rule {
        name: "playwright.counts",
        pattern: r"^  (?:(?P<failed>\d+) (?:failed|interrupted)|(?P<skipped>\d+) (?:skipped|did not run)|(?P<passed>\d+) (?:passed \([\d.]+(?:ms|[smhd])\)|flaky))$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
    Rule {
        // They were to run, and the run was over before.
        name: "playwright.other_failure",
        pattern: r"^  [1-9]\d* (?:did not run|errors? (?:was|were) not a part of any test, see above for details)$",
        effects: &[Effect::Own(|line| line.tally.other_failure(line.tool)), Effect::Failure, Effect::Summary],
    },
];
