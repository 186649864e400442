//! Parses libtest's JSON (`cargo test -- -Zunstable-options --format json`, nextest's
//! `libtest-json`) and compiler messages of `cargo --message-format json` in one stream.

mod suites;

use crate::formats::json_lines::{Unread, json_lines};
use crate::limits::ISSUES_MAX;
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::{Location, Severity};
use serde::Deserialize;
use suites::{Binaries, Suites};

/// Limit on the earlier runs of a test that are counted.
const RUNS_MAX: u32 = 100;
/// The first bytes of an event line.
const OPENINGS: &[&str] = &["{\"type\":", "{ \"type\":", "{\"reason\":"];
const EARLIER: &str = "an earlier run failed; the stream has no reason";

#[derive(Deserialize)]
struct CargoEvent {
    #[serde(rename = "type")]
    kind: Option<String>,
    event: Option<String>,
    name: Option<String>,
    exec_time: Option<f64>,
    stdout: Option<String>,
    message: Option<Message>,
    reason: Option<String>,
    success: Option<bool>,
    failed: Option<u64>,
    ignored: Option<u64>,
    nextest: Option<NextestSuite>,
}

/// Names of nextest for the binary of a suite.
#[derive(Deserialize)]
struct NextestSuite {
    #[serde(rename = "crate", default)]
    package: String,
    #[serde(default)]
    test_binary: String,
}

/// A string in a test event, an object in a compiler event.
#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Text(String),
    Diagnostic(Box<Diagnostic>),
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Diagnostic {
    #[serde(default)]
    message: String,
    #[serde(default)]
    rendered: Option<String>,
    #[serde(default)]
    level: String,
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    column_start: u32,
    #[serde(default)]
    is_primary: bool,
}

/// State of the parser.
#[derive(Default)]
struct CargoStream {
    tally: Tally,
    binaries: Binaries,
    suites: Suites,
    issues: Vec<ReportIssue>,
    /// True if cargo reported that it built something.
    is_build: bool,
    /// Result of the build as reported by cargo: `Some(false)` after any failure, `None` before a
    /// result.
    built: Option<bool>,
}

/// Parses a stream. Lines that are not events are ignored.
pub(crate) fn parse(bytes: &[u8]) -> (Parsed, Vec<ReportIssue>) {
    let mut stream = CargoStream::default();
    let unread = json_lines(bytes, OPENINGS, |event| stream.event(event));
    stream.finish(&unread)
}

impl CargoStream {
    fn event(&mut self, event: CargoEvent) {
        match (event.reason.as_deref(), event.kind.as_deref()) {
            (Some("compiler-message"), _) => self.compiler_said(event.message),
            (Some("compiler-artifact"), _) => self.is_build = true,
            // A later successful build does not clear an earlier failure.
            (Some("build-finished"), _) => {
                self.built = Some(event.success.unwrap_or(false) && self.built.unwrap_or(true));
            }
            (_, Some("suite")) => self.suite(&event),
            (_, Some("test")) => self.test(event),
            _ => {}
        }
    }

    fn compiler_said(&mut self, message: Option<Message>) {
        if let Some(Message::Diagnostic(diagnostic)) = message
            && self.issues.len() < ISSUES_MAX
        {
            self.issues.extend(compiler_issue(&diagnostic));
        }
    }

    fn suite(&mut self, event: &CargoEvent) {
        let binary = event.nextest.as_ref().map(|suite| format!("{}::{}", suite.package, suite.test_binary));
        match event.event.as_deref() {
            Some("started") => {
                self.binaries.begin_binary();
                self.suites.began();
            }
            Some(word @ ("ok" | "failed")) => {
                let count = |number: Option<u64>| number.unwrap_or(0);
                self.suites.ended(word == "failed", count(event.failed), count(event.ignored), binary);
            }
            _ => {}
        }
    }

    fn test(&mut self, event: CargoEvent) {
        let Some(name) = event.name else { return };
        let status = match event.event.as_deref() {
            Some("started") => {
                self.suites.saw(&name);
                return self.binaries.began(name);
            }
            Some("ok") => TestStatus::Passed,
            Some("ignored") => TestStatus::Skipped,
            Some("failed") => TestStatus::Failed,
            // `timeout` only means that a test takes long. Its result follows.
            _ => return,
        };
        let (name, runs) = self.binaries.runs_of(name);
        self.suites.result(&name, status);
        let within = format!("binary {}", self.binaries.ended(&name)).into();
        let text = match (event.message, event.reason) {
            (Some(Message::Text(text)), _) => text,
            (_, reason) => reason.unwrap_or_default(),
        };
        let run = test_run(name, status, event.exec_time, &text, event.stdout.as_deref().unwrap_or(""));
        let run = TestRun { within, ..run };
        for _ in 1..runs.min(RUNS_MAX) {
            let (status, messages) = (TestStatus::Failed, vec![EARLIER.to_owned()]);
            let (name, within) = (run.name.clone(), run.within.clone());
            self.tally.record(TestRun { name, within, status, messages, ..TestRun::default() });
        }
        self.tally.record(run);
    }

    fn finish(mut self, unread: &Unread) -> (Parsed, Vec<ReportIssue>) {
        let (ignored, unfinished) = self.suites.sort_out(self.binaries.still_open());
        for (name, binary) in ignored {
            let within = format!("binary {binary}").into();
            self.tally.record(TestRun { name, within, status: TestStatus::Skipped, ..TestRun::default() });
        }
        unfinished.iter().for_each(|name| self.tally.unfinished(name));
        let is_reported = self.issues.iter().any(|issue| issue.severity == Severity::Error);
        if self.built == Some(false) && !is_reported {
            let text = "cargo reports a failed build, and the stream has no compiler error";
            self.issues.push(problem(text));
        }
        let mut cut = self.suites.cut();
        if self.is_build && self.built.is_none() {
            cut = cut.or_else(|| Some("the stream ends before the build does".to_owned()));
        }
        cut = cut.or_else(|| unread.cut());
        let mut parsed = self.tally.finish("cargo_json");
        parsed.notes.extend(cut.clone());
        parsed.report.cut = cut;
        parsed.notes.extend(unread.note());
        (parsed, self.issues)
    }
}

fn test_run(
    name: String,
    status: TestStatus,
    exec_time: Option<f64>,
    message: &str,
    stdout: &str,
) -> TestRun {
    let text: Vec<&str> =
        [message.trim_end(), stdout.trim()].into_iter().filter(|text| !text.is_empty()).collect();
    let messages = match status {
        TestStatus::Passed => vec![],
        _ if text.is_empty() => vec![],
        _ => vec![text.join("\n")],
    };
    let location = (status == TestStatus::Failed)
        .then(|| messages.first().and_then(|message| text::place_in(message, None)))
        .flatten();
    TestRun { name, status, duration_secs: exec_time, messages, location, ..TestRun::default() }
}

fn problem(text: &str) -> ReportIssue {
    ReportIssue {
        path: String::new(),
        severity: Severity::Error,
        message: text.to_owned(),
        location: None,
        category: None,
        advice: None,
    }
}

fn compiler_issue(diagnostic: &Diagnostic) -> Option<ReportIssue> {
    let severity = match diagnostic.level.as_str() {
        "error" | "error: internal compiler error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    // Summary lines have no location and repeat the other messages.
    let span = diagnostic.spans.iter().find(|span| span.is_primary);
    if span.is_none() && diagnostic.message.contains("aborting due to") {
        return None;
    }
    Some(ReportIssue {
        path: String::new(),
        severity,
        message: text::message(diagnostic.rendered.as_deref().unwrap_or(&diagnostic.message)),
        location: span.map(|span| Location {
            file: text::name(&span.file_name),
            line: Some(span.line_start),
            column: Some(span.column_start),
        }),
        category: None,
        advice: None,
    })
}

#[cfg(test)]
mod tests;
