//! Converts JSON records, one a line, to the text that the tool prints without JSON.

use super::json_document::told;
use crate::tools::json_problems::problems;
use serde::Deserialize;

/// Bytes with which such records begin.
const BEGINNINGS: [&[u8]; 6] = [
    br#"{"Time":"#,
    br#"{"Action":"#,
    br#"{"ImportPath":"#,
    br#"{"reason":"#,
    br#"{"type":"#,
    br#"{ "type":"#,
];
/// Values of `Action` in `go test -json`.
const ACTIONS: [&str; 11] = [
    "start",
    "run",
    "pause",
    "cont",
    "pass",
    "bench",
    "fail",
    "skip",
    "output",
    "build-output",
    "build-fail",
];

/// A record of `go test -json`, of cargo's `--message-format json`, or of libtest's `--format json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    #[serde(rename = "Action")]
    action: Option<String>,
    #[serde(rename = "Package", alias = "ImportPath")]
    package: Option<String>,
    #[serde(rename = "Test")]
    go_test: String,
    #[serde(rename = "Output")]
    output: String,
    reason: Option<String>,
    message: Option<Message>,
    #[serde(rename = "type")]
    sort: Option<String>,
    event: String,
    name: String,
    stdout: String,
    test_count: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// A compiler's message with its rendered text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    rendered: Option<String>,
}

/// The text of a record or a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The text. It is empty if other records repeat it.
    pub(crate) text: String,
    /// The Go package that printed the text.
    pub(crate) package: Option<PackageOutput>,
}

/// Origin of a record of `go test -json`. Records of several packages are mixed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PackageOutput {
    /// Import path of the package.
    pub(crate) package: String,
    /// The test or subtest; empty for lines of the package.
    pub(crate) test: String,
    /// The record ends the package or one of its tests, and no subtest.
    pub(crate) is_end: bool,
}

/// Returns the text of a record or a document. Returns `None` for any other line.
pub(crate) fn carried(line: &[u8]) -> Option<Carried> {
    if !line.ends_with(b"}") || !BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) {
        return document(line).map(|text| Carried { text, package: None });
    }
    let record: Record = serde_json::from_slice(line).ok()?;
    let is_go = record.action.as_ref().is_some_and(|action| ACTIONS.contains(&action.as_str()));
    if is_go && let Some(package) = record.package {
        let has_ended = matches!(record.action.as_deref(), Some("pass" | "fail" | "skip"));
        let is_end = has_ended && !record.go_test.contains('/');
        let package = PackageOutput { package, test: record.go_test, is_end };
        return Some(Carried { text: record.output, package: Some(package) });
    }
    other(record).map(|text| Carried { text, package: None })
}

/// Returns the text of a document of one line.
pub(crate) fn document(line: &[u8]) -> Option<String> {
    told(line).or_else(|| of_any_tool(line))
}

/// Returns the problems in a document of a tool without a reader of its own.
fn of_any_tool(line: &[u8]) -> Option<String> {
    let begins = line.starts_with(b"{\"") || line.starts_with(b"[{") || line.starts_with(b",{");
    let ends = line.ends_with(b"}") || line.ends_with(b"]") || line.ends_with(b"},");
    if begins && ends { problems(line) } else { None }
}

/// Returns the text of a record of cargo or libtest.
fn other(record: Record) -> Option<String> {
    match (&record.reason, record.sort.as_deref()) {
        (Some(reason), _) => match reason.as_str() {
            "compiler-message" => Some(record.message?.rendered.unwrap_or_default()),
            "compiler-artifact" | "build-script-executed" => Some(String::new()),
            _ => None,
        },
        (_, Some("suite")) => suite(&record),
        (_, Some("test")) => test(&record),
        _ => None,
    }
}

fn suite(record: &Record) -> Option<String> {
    let word = match record.event.as_str() {
        "started" => return Some(format!("\nrunning {} tests", record.test_count)),
        "ok" => "ok",
        "failed" => "FAILED",
        _ => return None,
    };
    let Record { passed, failed, ignored, .. } = record;
    Some(format!("test result: {word}. {passed} passed; {failed} failed; {ignored} ignored"))
}

fn test(record: &Record) -> Option<String> {
    let name = Some(record.name.as_str()).filter(|name| !name.is_empty())?;
    let word = match record.event.as_str() {
        // The result is printed later on the same line.
        "started" => "",
        "ok" => "ok",
        "ignored" => "ignored",
        "failed" if record.stdout.is_empty() => "FAILED",
        // The heading of the list ends the output of the test.
        "failed" => {
            let printed = record.stdout.trim_end();
            return Some(format!("test {name} ... FAILED\n---- {name} stdout ----\n{printed}\n\nfailures:"));
        }
        _ => return None,
    };
    Some(format!("test {name} ... {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stand_for_text_and_other_lines_for_themselves() {
        let go = r#"{"Time":"2026-11-21T04:12:13Z","Action":"output","Package":"a","Test":"T","Output":"got \"4\"\n"}"#;
        let package = |test: &str, is_end| PackageOutput { package: "a".into(), test: test.into(), is_end };
        let of_package = |text: &str, package| Carried { text: text.into(), package: Some(package) };
        assert_eq!(carried(go.as_bytes()), Some(of_package("got \"4\"\n", package("T", false))));
        for (line, from) in [
            (r#"{"Action":"pass","Package":"a"}"#, package("", true)),
            (r#"{"Action":"fail","Package":"a","Test":"T"}"#, package("T", true)),
            (r#"{"Action":"fail","Package":"a","Test":"T/sub"}"#, package("T/sub", false)),
        ] {
            assert_eq!(carried(line.as_bytes()), Some(of_package("", from)), "{line}");
        }
        let text = |line: &str| carried(line.as_bytes()).map(|carried| carried.text);
        let message = r#"{"reason":"compiler-message","message":{"rendered":"error: no\n --> a.rs:1:1\n"}}"#;
        assert_eq!(text(message).as_deref(), Some("error: no\n --> a.rs:1:1\n"));
        let failed = r#"{ "type": "test", "event": "failed", "name": "a", "stdout": "no\n" }"#;
        let failed = text(failed).expect("it is libtest's");
        assert_eq!(failed, "test a ... FAILED\n---- a stdout ----\nno\n\nfailures:");
        for line in [
            r#"{"Action":"output","Output":"of no package"}"#,
            r#"{"Action":"sell","Package":"a","Output":"x"}"#,
            r#"{"reason":"build-finished","success":false}"#,
            r#"{"type":"test","event":"seen","name":"a"}"#,
            r#"{"Time":"2026-11-21T04:12:13Z","level":"error","msg":"no"}"#,
            r#"{"Time":"#,
            r#"{"type":3}"#,
            "}",
        ] {
            assert_eq!(carried(line.as_bytes()), None, "{line}");
        }
    }
}
