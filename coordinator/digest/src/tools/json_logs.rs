//! Errors in a log whose lines are JSON objects, as the loggers of dbt, Terraform, zap and pino print them.

use crate::records::{Event, RecordFormat};
use crate::rules::{Diagnostic, ERROR, Fails, Kind, Role, problem};
use crate::tool::Tool;
use serde_json::{Map, Value};

pub(super) const TOOL: Tool = Tool {
    records: &[RecordFormat { name: "json_logs.error", beginnings: &[b"{\""], read: errors }],
    ..Tool::named("a log in JSON")
};

/// Keys of the time of an entry. Other objects may have a level too.
const TIMES: &[&str] = &["time", "timestamp", "ts", "@timestamp", "datetime", "asctime"];
const LEVELS: &[&str] = &["level", "@level", "severity", "levelname", "lvl", "log.level"];
const MESSAGES: &[&str] = &["msg", "message", "@message", "event"];
/// Words of a level at which a program reports an error. pino and bunyan have the numbers.
const WORDS: &[&str] = &["error", "fatal", "critical", "panic"];
const NUMBERS: &[u64] = &[50, 60];
/// Most lines of a message.
const LINES_MAX: usize = 20;

/// The error that an entry reports, if it does.
fn errors(line: &[u8]) -> Option<Vec<Event>> {
    let has = |text: &str| memchr::memmem::find(line, text.as_bytes()).is_some();
    let may_be = LEVELS.iter().any(|key| has(key)) && MESSAGES.iter().any(|key| has(key));
    if !may_be {
        return None;
    }
    let entry: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let message = error(&entry).or_else(|| entry.values().find_map(|value| error(value.as_object()?)))?;
    let lines: Vec<String> =
        message.lines().map(plain).filter(|line| !line.trim().is_empty()).take(LINES_MAX).collect();
    // dbt ends with such an entry.
    let ends = message.starts_with("Encountered an error:") && entry.contains_key("info");
    let fails = if ends { Fails::Always } else { Fails::BySeverity };
    let found = problem(ERROR, Kind::Runtime, 60).role(Role::Vague).fails(fails);
    Some(vec![Event::Problem(found, Box::new(Diagnostic { lines, ..Diagnostic::default() }))])
}

/// The message of an entry with the level of an error and a time.
fn error(entry: &Map<String, Value>) -> Option<&str> {
    let level = LEVELS.iter().find_map(|key| entry.get(*key))?;
    let is_error = match level {
        Value::String(word) => WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)),
        Value::Number(number) => number.as_u64().is_some_and(|number| NUMBERS.contains(&number)),
        _ => false,
    };
    let has_time = TIMES.iter().any(|key| entry.contains_key(*key));
    let mut messages = MESSAGES.iter().filter_map(|key| entry.get(*key)?.as_str());
    messages.find(|message| !message.trim().is_empty()).filter(|_| is_error && has_time)
}

/// A line without colours and other control characters.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        text.push_str(before);
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text.retain(|c| !c.is_control() || c == '\t');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(entry: &str) -> Option<Vec<String>> {
        match errors(entry.as_bytes())?.pop()? {
            Event::Problem(_, diagnostic) => Some(diagnostic.lines),
            _ => None,
        }
    }

    #[test]
    fn an_entry_with_the_level_of_an_error_is_read() {
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(lines(r#"{"level":"error","ts":1.5,"msg":"no such table"}"#), one("no such table"));
        assert_eq!(lines(r#"{"level":50,"time":15,"pid":1,"msg":"no such table"}"#), one("no such table"));
        assert_eq!(
            lines(r#"{"@level":"error","@message":"Error: no provider","@timestamp":"2026-01-01"}"#),
            one("Error: no provider")
        );
        assert_eq!(
            lines(r#"{"data":{},"info":{"level":"error","msg":"a:\n\n  b \u001b[31mc\u001b[0m","ts":"1"}}"#),
            Some(vec!["a:".to_owned(), "  b c".to_owned()])
        );
    }

    #[test]
    fn other_objects_are_not_read() {
        for entry in [
            r#"{"level":"info","ts":1,"msg":"no error"}"#,
            r#"{"level":"error","msg":"without a time"}"#,
            r#"{"level":30,"time":15,"msg":"ready"}"#,
            r#"{"level":"error","ts":1,"msg":" "}"#,
            r#"{"level":"error","ts":1,"msg":"cut"#,
        ] {
            assert_eq!(lines(entry), None, "{entry}");
        }
    }
}
