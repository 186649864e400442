//! libtest's JSON (`cargo test -- -Zunstable-options --format json`, nextest's `libtest-json`) and compiler messages
//! of `cargo --message-format json` in one stream.

use crate::formats::json_lines;
use crate::limits::{ISSUES_MAX, TESTS_MAX};
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::{Location, Severity};
use serde::Deserialize;
use std::collections::HashSet;

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    event: Option<String>,
    name: Option<String>,
    exec_time: Option<f64>,
    stdout: Option<String>,
    message: Option<Message>,
    reason: Option<String>,
}

/// A string for a test, an object for the compiler.
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

/// Parses a stream; other lines are passed over.
pub(crate) fn parse(bytes: &[u8]) -> (Parsed, Vec<ReportIssue>) {
    let mut tally = Tally::default();
    let mut open = HashSet::new();
    let mut issues = Vec::new();
    let broken = json_lines(bytes, |event: Event| {
        if event.reason.as_deref() == Some("compiler-message") {
            if let Some(Message::Diagnostic(diagnostic)) = event.message
                && issues.len() < ISSUES_MAX
                && let Some(issue) = compiler_issue(&diagnostic)
            {
                issues.push(issue);
            }
            return;
        }
        let (Some("test"), Some(name)) = (event.kind.as_deref(), event.name) else { return };
        let status = match event.event.as_deref() {
            Some("started") => {
                if open.len() < TESTS_MAX {
                    open.insert(name);
                }
                return;
            }
            Some("ok") => TestStatus::Passed,
            Some("ignored") => TestStatus::Skipped,
            Some("failed" | "timeout") => TestStatus::Failed,
            _ => return,
        };
        open.remove(&name);
        let text = match event.message {
            Some(Message::Text(text)) => text,
            Some(Message::Diagnostic(_) | Message::Other(_)) | None => String::new(),
        };
        tally.record(test_run(name, status, event.exec_time, &text, event.stdout.as_deref().unwrap_or("")));
    });
    let mut left: Vec<_> = open.into_iter().collect();
    left.sort();
    left.iter().for_each(|name| tally.unfinished(name));
    let mut parsed = tally.finish("cargo_json");
    if broken > 0 {
        parsed
            .notes
            .push(format!("{broken} lines begin like events and are not; the stream may be cut short"));
    }
    (parsed, issues)
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

fn compiler_issue(diagnostic: &Diagnostic) -> Option<ReportIssue> {
    let severity = match diagnostic.level.as_str() {
        "error" | "error: internal compiler error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    // The summing-up lines have no place and say nothing that the others do not.
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
mod tests {
    use super::*;

    const STREAM: &str = r#"{ "type": "suite", "event": "started", "test_count": 4 }
{ "type": "test", "event": "started", "name": "a::good" }
{ "type": "test", "name": "a::good", "event": "ok", "exec_time": 0.25 }
{ "type": "test", "event": "started", "name": "a::bad" }
{ "type": "test", "name": "a::bad", "event": "failed", "stdout": "thread 'a::bad' panicked at src/a.rs:7:9:\nleft 1\n" }
{ "type": "test", "name": "a::off", "event": "ignored", "message": "needs a network" }
{ "type": "test", "event": "started", "name": "a::dies" }
{"reason":"compiler-message","message":{"level":"error","message":"no x","rendered":"error: no x\n","spans":[{"file_name":"src/b.rs","line_start":2,"column_start":3,"is_primary":true}]}}
{"reason":"compiler-artifact","package_id":"x","target":{"name":"x"}}
"#;

    #[test]
    fn tests_and_compiler_messages_come_from_one_stream() {
        let (parsed, issues) = parse(STREAM.as_bytes());
        let report = parsed.report;
        assert_eq!((report.passed, report.failed, report.skipped), (1, 1, 1));
        assert_eq!(report.unfinished, ["a::dies"]);
        let place = report.cases[0].location.clone().unwrap_or_default();
        assert_eq!((place.file.as_str(), place.line, place.column), ("src/a.rs", Some(7), Some(9)));
        assert_eq!(report.cases[1].messages, ["needs a network"]);
        assert_eq!(issues[0].location.as_ref().and_then(|place| place.line), Some(2));
    }
}
