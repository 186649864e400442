//! `go test -json`: one event a line. Package-level failures without a failing test are build failures or panics.

use crate::formats::json_lines;
use crate::limits::{MESSAGE_BYTES_MAX, MESSAGES_MAX, TESTS_MAX};
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::Severity;
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: Option<String>,
    #[serde(default)]
    import_path: Option<String>,
    #[serde(default)]
    test: Option<String>,
    #[serde(default)]
    elapsed: Option<f64>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    failed_build: Option<String>,
}

#[derive(Default)]
struct Open {
    output: String,
    running: bool,
}

/// Parses a stream; anything that is not an event is passed over and counted.
pub(crate) fn parse(bytes: &[u8]) -> (Parsed, Vec<ReportIssue>) {
    let mut tally = Tally::default();
    let mut open: HashMap<(String, Option<String>), Open> = HashMap::new();
    let mut failed_in: HashMap<String, bool> = HashMap::new();
    let mut issues = Vec::new();
    let broken = json_lines(bytes, |event: Event| {
        let package = event.package.or(event.import_path).unwrap_or_default();
        let key = (package.clone(), event.test.clone());
        if open.len() >= TESTS_MAX && !open.contains_key(&key) {
            return;
        }
        match (event.action.as_str(), event.test) {
            ("run", Some(_)) => open.entry(key).or_default().running = true,
            ("output" | "build-output", _) => {
                keep(&mut open.entry(key).or_default().output, event.output.as_deref().unwrap_or(""));
            }
            ("pass" | "fail" | "skip", Some(test)) => {
                let seen = open.remove(&key).unwrap_or_default();
                if event.action == "fail" {
                    failed_in.insert(package.clone(), true);
                }
                tally.record(test_run(&package, &test, &event.action, event.elapsed, &seen.output));
            }
            ("fail" | "build-fail", None) if !failed_in.get(&package).copied().unwrap_or(false) => {
                let seen = open.remove(&key).unwrap_or_default();
                let why =
                    event.failed_build.map_or_else(String::new, |build| format!(" ({build} did not build)"));
                issues.push(package_issue(&package, &why, &seen.output));
                failed_in.insert(package, true);
            }
            _ => {}
        }
    });
    let mut left: Vec<_> = open.into_iter().filter(|(_, open)| open.running).map(|(key, _)| key).collect();
    left.sort();
    for (package, test) in left {
        tally.unfinished(&full_name(&package, test.as_deref().unwrap_or_default()));
    }
    let mut parsed = tally.finish("go_json");
    if broken > 0 {
        parsed
            .notes
            .push(format!("{broken} lines begin like events and are not; the stream may be cut short"));
    }
    (parsed, issues)
}

fn full_name(package: &str, test: &str) -> String {
    if package.is_empty() { test.to_owned() } else { format!("{package}.{test}") }
}

/// The end of the output is kept: Go prints the reason of a failure before the verdict line.
fn keep(kept: &mut String, more: &str) {
    let framing =
        ["=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- ", "PASS\n", "FAIL\n", "ok  \t", "FAIL\t"];
    if framing.iter().any(|prefix| more.trim_start_matches(' ').starts_with(prefix)) {
        return;
    }
    kept.push_str(more);
    if kept.len() > 2 * MESSAGE_BYTES_MAX {
        let mut from = kept.len() - MESSAGE_BYTES_MAX;
        while !kept.is_char_boundary(from) {
            from += 1;
        }
        kept.drain(..from);
    }
}

fn test_run(package: &str, test: &str, action: &str, elapsed: Option<f64>, output: &str) -> TestRun {
    let status = match action {
        "pass" => TestStatus::Passed,
        "skip" => TestStatus::Skipped,
        _ => TestStatus::Failed,
    };
    let trimmed = output.trim_end();
    let messages =
        if status == TestStatus::Passed || trimmed.is_empty() { vec![] } else { vec![trimmed.to_owned()] };
    let location = (status == TestStatus::Failed).then(|| text::place_in(trimmed, None)).flatten();
    TestRun {
        name: full_name(package, test),
        status,
        duration_secs: elapsed,
        messages: messages.into_iter().take(MESSAGES_MAX).collect(),
        location,
        ..TestRun::default()
    }
}

fn package_issue(package: &str, why: &str, output: &str) -> ReportIssue {
    let output = output.trim_end();
    let text = if output.is_empty() { "no output".to_owned() } else { output.to_owned() };
    ReportIssue {
        path: String::new(),
        severity: Severity::Error,
        message: text::message(&format!("package {package} failed{why}: {text}")),
        location: text::place_in(output, None),
        category: None,
        advice: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = r#"{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":0.5}
{"Action":"run","Package":"m/a","Test":"TestBad"}
{"Action":"run","Package":"m/a","Test":"TestBad/sub"}
{"Action":"output","Package":"m/a","Test":"TestBad/sub","Output":"    a_test.go:14: got 1, want 2\n"}
{"Action":"output","Package":"m/a","Test":"TestBad/sub","Output":"    --- FAIL: TestBad/sub (0.00s)\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad/sub","Elapsed":0}
{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":0}
{"Action":"run","Package":"m/a","Test":"TestSkip"}
{"Action":"output","Package":"m/a","Test":"TestSkip","Output":"    a_test.go:20: no network\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkip","Elapsed":0}
{"Action":"run","Package":"m/a","Test":"TestHang"}
{"Action":"fail","Package":"m/a","Elapsed":1}
{"ImportPath":"m/b","Action":"build-output","Output":"b/b.go:3:5: undefined: x\n"}
{"ImportPath":"m/b","Action":"build-fail"}
{"Action":"out
"#;

    #[test]
    fn a_stream_is_counted_with_places_and_what_never_ended() {
        let (parsed, issues) = parse(STREAM.as_bytes());
        let report = parsed.report;
        assert_eq!((report.passed, report.failed, report.skipped), (1, 2, 1));
        assert_eq!(report.unfinished, ["m/a.TestHang"]);
        assert_eq!(report.cases[0].name, "m/a.TestBad/sub");
        assert_eq!(report.cases[0].messages, ["    a_test.go:14: got 1, want 2"]);
        assert_eq!(report.cases[0].location.as_ref().and_then(|place| place.line), Some(14));
        assert_eq!(issues.len(), 1, "package a fails by its tests, b by its build: {issues:?}");
        assert!(issues[0].message.contains("undefined: x"));
        assert_eq!(parsed.notes.len(), 1);
    }
}
