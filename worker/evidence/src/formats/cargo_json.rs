//! libtest's JSON (`cargo test -- -Zunstable-options --format json`, nextest's `libtest-json`) and compiler messages
//! of `cargo --message-format json` in one stream.

use crate::formats::json_lines;
use crate::limits::{ISSUES_MAX, TESTS_MAX};
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::{Location, Severity};
use serde::Deserialize;
use std::collections::HashMap;

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

/// Which binary each result is of. libtest never runs a test twice, so that a name that comes again is another binary's.
#[derive(Default)]
struct Binaries {
    /// Binaries that began.
    latest: u64,
    /// Tests that run, and in which binaries.
    open: HashMap<String, Vec<u64>>,
    /// The binary of each name's last result.
    ended: HashMap<String, u64>,
}

impl Binaries {
    fn began(&mut self, name: String) {
        if self.open.len() < TESTS_MAX {
            self.open.entry(name).or_default().push(self.latest);
        }
    }

    /// The binary in which this test ended.
    fn ended(&mut self, name: &str) -> u64 {
        let mut binary = self.latest;
        if let Some(running) = self.open.get_mut(name) {
            binary = running.pop().unwrap_or(binary);
            if running.is_empty() {
                self.open.remove(name);
            }
        }
        if self.ended.get(name) == Some(&binary) {
            self.latest += 1;
            binary = self.latest;
        }
        if self.ended.len() < TESTS_MAX {
            self.ended.insert(name.to_owned(), binary);
        }
        binary
    }

    fn still_open(self) -> Vec<String> {
        let names = self.open.into_iter().flat_map(|(name, running)| vec![name; running.len()]);
        let mut left: Vec<String> = names.collect();
        left.sort();
        left
    }
}

/// Parses a stream; other lines are passed over.
pub(crate) fn parse(bytes: &[u8]) -> (Parsed, Vec<ReportIssue>) {
    let mut tally = Tally::default();
    let mut binaries = Binaries::default();
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
        if event.kind.as_deref() == Some("suite") && event.event.as_deref() == Some("started") {
            binaries.latest += 1;
        }
        let (Some("test"), Some(name)) = (event.kind.as_deref(), event.name) else { return };
        let status = match event.event.as_deref() {
            Some("started") => return binaries.began(name),
            Some("ok") => TestStatus::Passed,
            Some("ignored") => TestStatus::Skipped,
            Some("failed" | "timeout") => TestStatus::Failed,
            _ => return,
        };
        let within = format!("binary {}", binaries.ended(&name)).into();
        let text = match event.message {
            Some(Message::Text(text)) => text,
            Some(Message::Diagnostic(_) | Message::Other(_)) | None => String::new(),
        };
        let run = test_run(name, status, event.exec_time, &text, event.stdout.as_deref().unwrap_or(""));
        tally.record(TestRun { within, ..run });
    });
    binaries.still_open().iter().for_each(|name| tally.unfinished(name));
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
    fn tests_of_two_binaries_that_share_a_name_are_two() {
        // `cargo test --no-fail-fast -- -Z unstable-options --format json` in a workspace of two crates.
        let binary = |result: &str| {
            format!(
                "{{ \"type\": \"suite\", \"event\": \"started\", \"test_count\": 1 }}\n{{ \"type\": \"test\", \"event\": \"started\", \"name\": \"tests::it_works\" }}\n{{ \"type\": \"test\", \"name\": \"tests::it_works\", {result} }}\n"
            )
        };
        let (bad, good) = (
            binary(
                r#""event": "failed", "stdout": "thread 'tests::it_works' panicked at a/src/lib.rs:6:9:\nno\n""#,
            ),
            binary(r#""event": "ok""#),
        );
        let (parsed, _) = parse(format!("{bad}{good}").as_bytes());
        assert_eq!((parsed.report.passed, parsed.report.failed, parsed.report.flaky), (1, 1, 0));
        assert_eq!(parsed.report.cases[0].name, "tests::it_works (binary 1)");
        assert!(parsed.report.cases[0].messages[0].ends_with("no"));
        // A stream in which nothing tells the binaries apart.
        let results = |text: &str| {
            text.lines()
                .filter(|line| line.contains("\"test\"") && !line.contains("started"))
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        let (parsed, _) = parse(format!("{}{}", results(&bad), results(&good)).as_bytes());
        assert_eq!((parsed.report.passed, parsed.report.failed), (1, 1));
        // A binary that died with a test open, before another one ran a test of that name.
        let died: String = bad.lines().take(2).map(|line| format!("{line}\n")).collect();
        let (parsed, _) = parse(format!("{died}{good}").as_bytes());
        assert_eq!(parsed.report.unfinished, ["tests::it_works"]);
    }

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
