//! Converts JSON records, one a line, to the text that the tool prints without JSON.

use super::document::told;
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

/// Returns the text of a record or a document. The text is empty if other records repeat it.
/// Returns `None` for any other line.
pub(crate) fn carried(line: &[u8]) -> Option<String> {
    if !line.ends_with(b"}") || !BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) {
        return told(line);
    }
    let record: Record = serde_json::from_slice(line).ok()?;
    match (&record.action, &record.reason, record.sort.as_deref()) {
        (Some(action), ..) if ACTIONS.contains(&action.as_str()) && record.package.is_some() => {
            Some(record.output)
        }
        (_, Some(reason), _) => match reason.as_str() {
            "compiler-message" => Some(record.message?.rendered.unwrap_or_default()),
            "compiler-artifact" | "build-script-executed" => Some(String::new()),
            _ => None,
        },
        (.., Some("suite")) => suite(&record),
        (.., Some("test")) => test(&record),
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
        assert_eq!(carried(go.as_bytes()).as_deref(), Some("got \"4\"\n"));
        assert_eq!(carried(br#"{"Action":"pass","Package":"a"}"#).as_deref(), Some(""));
        let message = r#"{"reason":"compiler-message","message":{"rendered":"error: no\n --> a.rs:1:1\n"}}"#;
        assert_eq!(carried(message.as_bytes()).as_deref(), Some("error: no\n --> a.rs:1:1\n"));
        let failed = r#"{ "type": "test", "event": "failed", "name": "a", "stdout": "no\n" }"#;
        let text = carried(failed.as_bytes()).expect("it is libtest's");
        assert_eq!(text, "test a ... FAILED\n---- a stdout ----\nno\n\nfailures:");
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
