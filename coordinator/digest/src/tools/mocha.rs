//! Output of mocha.

use super::bats::numbered;
use super::compiler::DIED;
use super::crystal;
use crate::records::{Event, RecordFormat, failed_test};
use crate::rules::{Diagnostic, ERROR, Effect, Indicator, Kind, Next, Role, Rule, SORTS, problem};
use crate::tally::Counts;
use crate::tool::{Announced, Tool, ToolId};
use serde::Deserialize;
use serde_json::Value;

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    selections: &["-g", "--grep"],
    begins_in_silence: true,
    always_totals: true,
    one_total: true,
    announces: Some(Announced::ByBlankLine),
    totals_begin: true,
    begins_at_suite: true,
    rules: RULES,
    records: &[RecordFormat { name: "mocha.stream", beginnings: BEGINNINGS, read: record }],
    ..Tool::named("mocha")
};

pub(super) const JSON: Tool = Tool {
    program: Some(ToolId::Mocha),
    reports_as: Some(ToolId::Mocha),
    totals_begin: true,
    ..Tool::named("mocha")
};

/// A test runner reports the death of one of its processes.
pub(super) const WORKER_DIED: Effect = Effect::RunnerSays(Indicator::ChildDied(""));

/// `exitCode: null`, `signalCode: SIGSEGV`.
fn codes(so_far: &[String], line: &str) -> Next {
    let own = line.trim_start();
    let is_code = own.starts_with("exitCode:") || own.starts_with("signalCode:");
    if is_code && so_far.len() < 4 { Next::Part } else { Next::Beyond }
}

/// Part of the addresses of Cypress's own files.
const CYPRESS_RUNNER: &str = "/__cypress/runner/";

/// The file of a frame in a browser: `webpack:///./a.cy.ts`, `http://localhost:9000/__cypress/tests?p=a.spec.js`.
fn in_project(file: &str) -> &str {
    let file = file.split_once("__cypress/tests?p=").map_or(file, |(_, file)| file);
    match file.strip_prefix("webpack://") {
        Some(file) => file.split_once("/./").map_or(file.trim_start_matches('/'), |(_, file)| file),
        None => file,
    }
}

/// The first stack line outside node_modules has the location.
pub(super) fn js_place(diagnostic: &mut Diagnostic) {
    let mut served = None;
    for line in &diagnostic.lines {
        let trimmed = line.trim_start();
        let Some(rest) = trimmed.strip_prefix("at ").or_else(|| trimmed.strip_prefix("❯ ")) else {
            continue;
        };
        if rest.contains("node_modules") || rest.contains("node:") {
            continue;
        }
        let place = rest.rsplit_once('(').map_or(rest, |(_, place)| place).trim_end_matches(')');
        let place = place.rsplit(' ').next().unwrap_or(place).trim_start_matches("file://");
        let mut parts = place.rsplitn(3, ':');
        if let (Some(column), Some(row), Some(file)) = (parts.next(), parts.next(), parts.next())
            && let (Ok(column), Ok(row)) = (column.parse(), row.parse())
            && !file.contains(CYPRESS_RUNNER)
        {
            let place = (in_project(file).to_owned(), row, column);
            if place.0.contains("://") {
                served.get_or_insert(place);
                continue;
            }
            (diagnostic.file, diagnostic.line, diagnostic.column) = (Some(place.0), Some(row), Some(column));
            return;
        }
    }
    if let Some((file, row, column)) = served {
        (diagnostic.file, diagnostic.line, diagnostic.column) = (Some(file), Some(row), Some(column));
        return;
    }
    crate::rules::pointed(diagnostic);
}

/// A failure of mocha: the lines of its message stand where the message has them, up to the stack.
fn mocha_lines(so_far: &[String], line: &str) -> Next {
    let next = numbered(so_far, line);
    let at_margin = !line.starts_with("  ") && !line.trim().is_empty();
    if next != Next::Beyond || !at_margin || so_far.len() >= 80 {
        return next;
    }
    let begun = so_far.iter().skip(1).any(|line| is_message(line));
    let is_frame = |line: &String| ["at ", "# "].iter().any(|frame| line.trim_start().starts_with(frame));
    if !begun || so_far.iter().any(is_frame) {
        Next::Beyond
    } else if line.starts_with(|c: char| c.is_alphanumeric()) {
        // Only the following text separates a message's next line from another program's output.
        Next::Maybe
    } else {
        Next::Part
    }
}

/// node's output for an exception: its message, which may have several lines and an excerpt, its stack and its own fields.
fn exception_lines(so_far: &[String], line: &str) -> Next {
    let is_frame = |line: &str| line.trim_start().starts_with("at ");
    let framed = so_far.iter().any(|line| is_frame(line));
    let ended = so_far.last().is_some_and(|last| last == "}" || is_frame(last) && !last.ends_with('{'));
    if so_far.len() > 40 || ended && !is_frame(line) {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else if framed || so_far.len() < 12 {
        // Only a stack separates a message's next lines from other output.
        if framed || is_frame(line) { Next::Part } else { Next::Maybe }
    } else {
        Next::Beyond
    }
}

/// The exception's own line stands first, or below the place in a file that cannot be read as a program.
fn exception(diagnostic: &mut Diagnostic) {
    js_place(diagnostic);
    let said = diagnostic.lines.first().and_then(|line| line.split_once(": ")).map(|(_, said)| said);
    let place = said.map(|said| said.trim_start_matches("file://").to_owned());
    let Some(place) = place.filter(|place| place.starts_with('/')) else { return };
    diagnostic.head = diagnostic.lines.iter().skip(1).position(|line| is_message(line)).map(|at| at + 1);
    if diagnostic.file.is_none() {
        let _placed = crate::rules::set_place(diagnostic, &place);
    }
}

/// A test of mocha's JSON, up to its error.
fn json_test(so_far: &[String], line: &str) -> Next {
    if line.trim_start().starts_with("\"err\": {}") || line.starts_with("    }") {
        Next::Last
    } else if so_far.len() > 40 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// Bytes with which the records of `--reporter json-stream` begin that matter.
const BEGINNINGS: &[&[u8]] = &[br#"["fail",{"#, br#"["end",{"#];

/// A record of `--reporter json-stream`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    full_title: String,
    /// A text, or an object of the test.
    err: Value,
    stack: Option<String>,
    passes: u64,
    pending: u64,
    failures: u64,
}

fn record(line: &[u8]) -> Option<Vec<Event>> {
    let (event, record): (String, Record) = serde_json::from_slice(line).ok()?;
    if event == "fail" {
        let message = record.stack.or_else(|| Some(record.err.as_str()?.to_owned())).unwrap_or_default();
        let problem = problem(ERROR, Kind::Test, 90).refine(js_place);
        return Some(vec![failed_test(problem, &record.full_title, &message)]);
    }
    let Record { passes: passed, failures: failed, pending: skipped, .. } = record;
    let text = format!("{passed} passing, {failed} failing, {skipped} pending");
    let counts = Counts { passed, failed, skipped, expected: 0 };
    let tool = ToolId::MochaJson;
    Some(vec![Event::Planned(tool, counts.total()), Event::Total(tool, counts, text)])
}

/// The error as mocha would have printed it. Empty if there is no error.
fn json_failure(diagnostic: &mut Diagnostic) {
    let value = |key: &str| {
        let line = diagnostic.lines.iter().find_map(|line| line.trim_start().strip_prefix(key))?;
        serde_json::from_str::<String>(line.trim_end_matches(',')).ok()
    };
    let Some(said) = value("\"stack\": ").or_else(|| value("\"message\": ")) else {
        diagnostic.spurious = true;
        return;
    };
    diagnostic.lines = diagnostic.test.iter().cloned().chain(said.lines().map(str::to_owned)).collect();
    js_place(diagnostic);
}

/// `AssertionError [ERR_ASSERTION]: no`, `Error: no`.
pub(super) fn is_message(line: &str) -> bool {
    let name = line.trim_start().split([':', ' ']).next().unwrap_or_default();
    (name.ends_with("Error") || name.ends_with("Exception")) && name.chars().all(char::is_alphanumeric)
}

/// A numbered line without anything under it is a line of a spec report, not the failure's own block.
fn mocha_only(diagnostic: &mut Diagnostic) {
    // RSpec's text under a pending example begins like a comment.
    let next = diagnostic.lines.iter().skip(1).map(|line| line.trim()).find(|line| !line.is_empty());
    let pending = next.is_some_and(|next| next.starts_with("# "));
    // In a spec report a test that is skipped may come next.
    let skipped = next.is_some_and(|next| next.starts_with("- "));
    // So may the next suite, or a line of another test.
    let deep = |line: &str| line.len() - line.trim_start().len();
    let heading = diagnostic.lines.first().map_or(0, |line| deep(line));
    let mut below = diagnostic.lines.iter().skip(1).filter(|line| !line.trim().is_empty());
    let told = below.any(|line| deep(line) > heading);
    diagnostic.spurious = !told || pending || skipped;
    js_place(diagnostic);
    if let Some(name) = mocha_name(&diagnostic.lines) {
        diagnostic.test = Some(name);
    }
    if let Some(test) = &mut diagnostic.test {
        // Playwright's heading ends with a rule, and begins with the place of the test.
        test.truncate(test.trim_end_matches(['─', ' ']).len());
    }
    // RSpec's frames look like comments.
    let frame = diagnostic.lines.iter().find_map(|line| {
        let place = line.trim_start().strip_prefix("# ./")?;
        place.split(":in ").next()
    });
    if let (None, Some(place)) = (&diagnostic.file, frame) {
        let place = format!("./{place}");
        let _placed = crate::rules::set_place(diagnostic, &place);
    }
    // Crystal has the place of the expectation, or the frames of an exception.
    let frame = diagnostic.lines.iter().find_map(|line| {
        let place = line.trim_start().strip_prefix("# ").filter(|place| place.contains(".cr:"));
        place.or_else(|| crystal::own_frame(line)).map(str::to_owned)
    });
    if let (None, Some(place)) = (&diagnostic.file, frame) {
        let _placed = crate::rules::set_place(diagnostic, &place);
    }
    let named = diagnostic.test.as_deref().and_then(|test| test.split(" › ").next()).map(str::to_owned);
    if let (None, Some(place)) = (&diagnostic.file, named) {
        let _placed =
            place.ends_with(|c: char| c.is_ascii_digit()) && crate::rules::set_place(diagnostic, &place);
    }
}

/// Full name of a test of mocha, as its option `--grep` matches it: the suites and the test, one a
/// line, each deeper than the message. The last one ends with a colon.
fn mocha_name(lines: &[String]) -> Option<String> {
    let (_, first) = lines.first()?.split_once(") ")?;
    let mut name = first.trim_end().to_owned();
    for line in lines.iter().skip(1).take(NAME_LINES_MAX) {
        if name.ends_with(':') || !line.starts_with(NAME_INDENT) {
            break;
        }
        name.push(' ');
        name.push_str(line.trim());
    }
    name.strip_suffix(':').map(str::to_owned)
}

/// Indentation of the lines of a name below its first one.
const NAME_INDENT: &str = "       ";
/// Most such lines.
const NAME_LINES_MAX: usize = 12;

const RULES: &[Rule] = &[
    Rule {
        name: "mocha.worker",
        pattern: r"^\s*(?:Uncaught )?(?:Error: )?Workerpool Worker terminated Unexpectedly",
        effects: &[Effect::Problem(DIED.follow(codes)), WORKER_DIED],
    },
    Rule {
        name: "mocha.worker_signal",
        pattern: r"^\s+signalCode: `?(?P<sig>SIG[A-Z]+)`?",
        effects: &[Effect::Within("Workerpool Worker terminated", &WORKER_DIED)],
    },
    Rule {
        name: "mocha.numbered",
        pattern: r"^\s{1,4}(?P<n>\d+)\) (?P<t>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 88)
                .follow(mocha_lines)
                .owning()
                .apart_after_blank()
                .refine(mocha_only),
        )],
    },
    Rule { name: "mocha.passed", pattern: r"^ {2,}\xe2\x9c[\x93\x94] \S", effects: &[Effect::AtWork] },
    Rule {
        name: "mocha.passing",
        pattern: r"^\s+(?P<passed>\d+) passing \(",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "mocha.pending",
        pattern: r"^\s+(?P<skipped>[1-9]\d*) pending$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
    Rule {
        name: "mocha.failing",
        pattern: r"^\s+(?P<failed>[1-9]\d*) failing$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
    Rule {
        // Of a file that it could not load. No test ran then, and no total follows.
        name: "mocha.exception",
        pattern: r"^(?: Exception during run:|\xe2\x9c\x96 ERROR:) (?P<m>\S.*)$",
        effects: &[
            Effect::Problem(
                problem(ERROR, Kind::Runtime, 90)
                    .follow(exception_lines)
                    .owning()
                    .refine(exception)
                    .role(Role::Loading),
            ),
            Effect::Failure,
            Effect::Summary,
        ],
    },
    Rule {
        name: "mocha.no_files",
        pattern: r"^Error: No test files found: ",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        // Playwright's JSON has stats too, without suites.
        name: "mocha.json_stats",
        pattern: r#"^    "suites": \d+,$"#,
        effects: &[Effect::Of(ToolId::MochaJson, &[Effect::Session, Effect::Partial(SORTS)])],
    },
    Rule {
        name: "mocha.json_counts",
        pattern: r#"^    "(?:passes": (?P<passed>\d+)|failures": (?P<failed>\d+)|pending": (?P<skipped>\d+)),$"#,
        effects: &[Effect::Of(ToolId::MochaJson, &[Effect::Adds(SORTS)]), Effect::Harmless],
    },
    Rule {
        name: "mocha.json_test",
        pattern: r#"^      "fullTitle": "(?P<t>.*)",$"#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 88).follow(json_test).owning().refine(json_failure),
        )],
    },
];
