//! Output of Apple's notarytool and stapler.

use crate::records::{Event, RecordFormat};
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Level, Rule, WARNING, problem};
use crate::tool::{Tool, ToolId};
use serde_json::Value;

pub(super) const TOOL: Tool = Tool {
    rules: RULES,
    records: &[RecordFormat { name: "notarytool.record", beginnings: &[b"{\"", b"{"], read: record }],
    judges_by_itself: true,
    ..Tool::named("notarytool")
};

/// The answer of a submission, or the log of one with its issues. notarytool exits with 0 if Apple rejects the submission.
fn record(line: &[u8]) -> Option<Vec<Event>> {
    memchr::memmem::find(line, b"\"status\"")?;
    let value: Value = serde_json::from_slice(line).ok()?;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let summary = text("statusSummary").or_else(|| text("message"))?;
    let is_answer = text("id").is_some() && summary == "Processing complete";
    if !is_answer && text("jobId").is_none() {
        return None;
    }
    let issues = value.get("issues").and_then(Value::as_array);
    let mut events: Vec<Event> = issues.into_iter().flatten().filter_map(issue).collect();
    let status = text("status")?;
    if is_rejection(status) {
        events.push(Event::Failed(ToolId::Notarytool, format!("status: {status}: {summary}")));
    }
    Some(events)
}

fn is_rejection(status: &str) -> bool {
    matches!(status, "Invalid" | "Rejected")
}

/// An issue of a log: the file in the archive and the reason.
fn issue(issue: &Value) -> Option<Event> {
    let text = |key: &str| issue.get(key).and_then(Value::as_str);
    let (path, message) = (text("path")?, text("message")?);
    let severity = text("severity").unwrap_or("error");
    let level: Level = if severity == "warning" { WARNING } else { ERROR };
    let diagnostic = Diagnostic {
        lines: vec![format!("{path}: {severity}: {message}")],
        file: Some(path.to_owned()),
        ..Diagnostic::default()
    };
    Some(Event::Problem(problem(level, Kind::Build, 92), Box::new(diagnostic)))
}

const RULES: &[Rule] = &[
    Rule {
        name: "notarytool.rejected",
        pattern: r"^(?:.*\.)?Current status: (?:Invalid|Rejected)\b",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "notarytool.status",
        pattern: r"^ *status: (?:Invalid|Rejected)$",
        effects: &[
            Effect::IfKnown(ToolId::Notarytool),
            Effect::Problem(problem(ERROR, Kind::Consequence, 60)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "notarytool.accepted",
        pattern: r"^(?:(?:.*\.)?Current status: Accepted\b|The (?:staple and )?validate action worked!$)",
        effects: &[Effect::Success, Effect::Summary],
    },
    Rule {
        name: "notarytool.error",
        pattern: r"^Error: (?:HTTP status code: \d{3}\. |No Keychain password item found for profile: )(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 88)), Effect::Failure],
    },
    Rule {
        name: "stapler.ticket",
        pattern: r#"^CloudKit query for .* failed due to "(?P<m>.*)"\."#,
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88))],
    },
    Rule {
        name: "stapler.failed",
        pattern: r"^The (?:staple and )?validate action failed! Error \d+\.",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Failure, Effect::Summary],
    },
];
