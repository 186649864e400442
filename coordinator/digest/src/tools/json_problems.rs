//! Problems in a JSON document of any linter or compiler: each object with a file, a line and a message.

use super::c::{self, is_code};
use super::generic::remark;
use crate::limits::FILE_BYTES_MAX;
use crate::records::{Event, RecordFormat};
use crate::rules::{Diagnostic, Fails, Kind, Level, known_severity, problem};
use crate::tool::ToolId;
use buildpool_protocol::report::Severity;
use serde_json::{Map, Value};

/// The format of tools without a reader of their own.
pub(super) const FORMAT: RecordFormat =
    RecordFormat { name: "lint.record", beginnings: &[b"{\"", b"[{", b",{"], read: problems };

/// Maximum number of problems of one document. A linter of a large project prints thousands, and findings have limits too.
const PROBLEMS_MAX: usize = 500;
/// Maximum number of objects in each other that are searched. Documents of linters have at most eight.
const DEPTH_MAX: usize = 16;

const LINES: &[&str] = &[
    "line",
    "startLine",
    "start_line",
    "line_number",
    "lineNumber",
    "lineno",
    "row",
    "startRow",
    "Line",
    "StartLine",
    "beginLine",
    "begin_line",
];
const COLUMNS: &[&str] = &[
    "column",
    "startColumn",
    "start_column",
    "col",
    "col_offset",
    "columnNumber",
    "character",
    "Column",
    "StartColumn",
    "offset_column",
];
const FILES: &[&str] = &[
    "file",
    "path",
    "filename",
    "filePath",
    "fileName",
    "file_path",
    "File",
    "Filename",
    "FilePath",
    "relative_path",
    "uri",
    "sourceFile",
];
const MESSAGES: &[&str] = &[
    "message",
    "Message",
    "Text",
    "hint",
    "description",
    "reason",
    "issue_text",
    "msg",
    "text",
    "Description",
];
const SEVERITIES: &[&str] = &["severity", "Severity", "level", "Level", "issue_severity", "severityLevel"];
/// Keys that some tools use for the severity, and others for the sort of object.
const SORTS: &[&str] = &["type", "kind"];
const CODES: &[&str] = &[
    "code",
    "rule",
    "ruleId",
    "rule_id",
    "cop_name",
    "symbol",
    "check_name",
    "test_id",
    "RuleID",
    "FromLinter",
    "check_id",
    "checkId",
    "rule_code",
    "option",
];
/// Key of a place in a diagnostic of a compiler.
const CARET: &str = "caret";
/// Objects that hold the place of a problem.
const PLACES: &[&str] = &[
    CARET,
    "location",
    "range",
    "start",
    "loc",
    "Pos",
    "pos",
    "position",
    "region",
    "positions",
    "lines",
    "begin",
    "span",
    "physicalLocation",
    "artifactLocation",
    "locations",
    "from",
];
/// Keys of a log's record. A program logs also harmless events with the place in its sources.
const TIMES: &[&str] = &["time", "timestamp", "ts", "@timestamp", "datetime", "asctime", "created"];

/// The problems of a document. `None` if it is not a document of a linter or a compiler.
fn problems(document: &[u8]) -> Option<Vec<Event>> {
    let has_any =
        |keys: &[&str]| keys.iter().any(|key| memchr::memmem::find(document, key.as_bytes()).is_some());
    if !has_any(&[
        "ine\"",
        "row\"",
        "lineno\"",
        "ine_number\"",
        "ineNumber\"",
        "Row\"",
        "fatal\"",
        "\"locations\": []",
    ]) || !has_any(&["essage\"", "Text\"", "text\"", "hint\"", "escription\"", "reason\"", "msg\""])
    {
        return None;
    }
    // A document may be printed with one object a line.
    let document = document.trim_ascii();
    let document = document.strip_prefix(b",").unwrap_or(document);
    let value: Value =
        serde_json::from_slice(document).or_else(|_| serde_json::from_slice(inside(document))).ok()?;
    let mut found = Vec::new();
    search(&value, None, 0, &mut found);
    let error = found.iter().find_map(error_of);
    found.extend(error.map(|error| Event::Failed(ToolId::Linter, error)));
    (!found.is_empty()).then_some(found)
}

/// The first line of an error that a linter reports.
fn error_of(event: &Event) -> Option<String> {
    match event {
        Event::Problem(problem, diagnostic)
            if matches!(problem.level, Level::Is(Severity::Error)) && problem.kind == Kind::Lint =>
        {
            Some(diagnostic.first().to_owned())
        }
        _ => None,
    }
}

/// Adds a problem. Beyond the limit, the first error takes the place of the last warning.
fn add(found: &mut Vec<Event>, event: Event) {
    if found.len() < PROBLEMS_MAX {
        found.push(event);
    } else if error_of(&event).is_some() && found.last().and_then(error_of).is_none() {
        found.pop();
        found.push(event);
    }
}

/// An object without the bracket or the comma of the array around it.
fn inside(document: &[u8]) -> &[u8] {
    let document = document.strip_prefix(b"[").unwrap_or(document);
    document.strip_suffix(b"]").or_else(|| document.strip_suffix(b",")).unwrap_or(document)
}

/// Adds the problems of a value. `file`: the file that an outer object names.
fn search(value: &Value, file: Option<&str>, depth: usize, found: &mut Vec<Event>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Array(values) => values.iter().for_each(|value| search(value, file, depth + 1, found)),
        Value::Object(object) => {
            if TIMES.iter().any(|key| object.contains_key(*key)) && text(object, MESSAGES).is_some() {
                return;
            }
            // As stylelint has it. In other documents, `source` is the code or the rule of a problem.
            let source = object.get("source").filter(|_| object.contains_key("warnings"));
            let own = text(object, FILES).or_else(|| source?.as_str()).filter(|own| is_path(own));
            let place = Place::of(object, 0, false);
            let file = own.or(place.file).or(file);
            // eslint reports a file that it can't parse without a line.
            let has_place = place.line.is_some() || object.get("fatal") == Some(&Value::Bool(true));
            if let (Some(file), true, Some(message)) = (file, has_place, message(object)) {
                add(found, reported(object, file, &place, message));
                return;
            }
            if let Some(error) = c::unplaced_error(object) {
                add(found, error);
                return;
            }
            for (key, value) in object {
                let file = if value.is_object() && is_path(key) { Some(key.as_str()) } else { file };
                search(value, file, depth + 1, found);
            }
        }
        _ => {}
    }
}

/// The problem of an object, with a line as compilers print it, and the lines of its notes.
fn reported(object: &Map<String, Value>, file: &str, place: &Place<'_>, message: &str) -> Event {
    // A file without a short extension may be of any program, so its problems are more than remarks.
    let fallback = if has_short_extension(file) { None } else { Some(Severity::Warning) };
    let severity = severity(object, place.is_of_editor).or(fallback);
    // bandit's `code` has lines of the source.
    let is_word = |code: &&String| !code.is_empty() && !code.contains(char::is_whitespace);
    let code = CODES.iter().find_map(|key| match object.get(*key)? {
        Value::String(code) => Some(code).filter(is_word).cloned(),
        Value::Number(code) => Some(code.to_string()),
        Value::Object(code) => Some(text(code, &["value", "code", "name"])?.to_owned()),
        _ => None,
    });
    let mut told = place.line.map_or_else(|| format!("{file}:"), |line| located(file, line, place.column));
    if let Some(severity) = severity {
        told.push_str(&format!(" {}:", word(severity)));
    }
    told.push_str(&format!(" {}", in_one_line(message)));
    if let Some(code) = &code {
        told.push_str(&format!(" [{code}]"));
    }
    // mypy prints `hint` and `message`.
    let is_of_compiler = place.is_of_compiler
        || place.is_of_editor
        || object.contains_key("hint") && object.contains_key("message");
    let kind = if is_of_compiler { Kind::Build } else { Kind::Lint };
    let found = match severity {
        Some(Severity::Fatal | Severity::Error) => problem(Level::Is(Severity::Error), kind, 92),
        Some(Severity::Warning) => {
            let always = place.column.is_some() && code.as_deref().is_some_and(is_code);
            let always = always || is_convention(object);
            let fails = if always { Fails::Always } else { Fails::BySeverity };
            problem(Level::Is(Severity::Warning), kind, 60).fails(fails)
        }
        Some(Severity::Info) => problem(Level::Is(Severity::Info), kind, 60),
        None => problem(Level::Remark, kind, 72).refine(remark),
    };
    let notes = object.get("children").and_then(Value::as_array).into_iter().flatten().filter_map(|note| {
        let note = note.as_object()?;
        let place = Place::of(note, 0, false);
        let start = located(place.file?, place.line?, place.column);
        Some(format!("{start} note: {}", in_one_line(self::message(note)?)))
    });
    let number = |value: u64| u32::try_from(value).ok();
    Event::Problem(
        found,
        Box::new(Diagnostic {
            lines: std::iter::once(told).chain(notes).collect(),
            file: Some(file.to_owned()),
            line: place.line.and_then(number),
            column: place.column.and_then(number),
            ..Diagnostic::default()
        }),
    )
}

/// Returns true for a severity of rubocop and pylint, which fail after each remark.
fn is_convention(object: &Map<String, Value>) -> bool {
    let severity = text(object, SEVERITIES).or_else(|| text(object, SORTS));
    severity.is_some_and(|word| matches!(word, "convention" | "refactor"))
}

fn located(file: &str, line: u64, column: Option<u64>) -> String {
    column.map_or(format!("{file}:{line}:"), |column| format!("{file}:{line}:{column}:"))
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fatal | Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The severity of a problem. `None` without a known one: it is a remark.
fn severity(object: &Map<String, Value>, is_of_editor: bool) -> Option<Severity> {
    let named = |keys: &[&str], length_min: usize| {
        let mut words = keys.iter().filter_map(|key| object.get(*key)?.as_str());
        words.find_map(|word| match word {
            // hlint fails after a suggestion, too.
            "Suggestion" => Some(Severity::Warning),
            word => known_severity(word).filter(|_| word.len() >= length_min),
        })
    };
    let number = || match (number(object, SEVERITIES)?, is_of_editor) {
        (1, true) | (2, false) => Some(Severity::Error),
        // As eslint counts.
        (1, false) | (2, true) => Some(Severity::Warning),
        (3 | 4, true) => Some(Severity::Info),
        _ => None,
    };
    // A single letter may be a sort: `f` of a file.
    named(SEVERITIES, 1).or_else(|| named(SORTS, 2)).or_else(number)
}

fn has_short_extension(file: &str) -> bool {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_word = extension.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (1..=8).contains(&extension.len()) && is_word && !file.contains(['(', ':'])
}

/// The message of a problem. SARIF has it in an object.
fn message(object: &Map<String, Value>) -> Option<&str> {
    text(object, MESSAGES).or_else(|| text(object.get("message")?.as_object()?, &["text"]))
}

/// The first of these keys with a text that is not empty.
fn text<'a>(object: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| object.get(*key)?.as_str().filter(|text| !text.is_empty()))
}

fn number(object: &Map<String, Value>, keys: &[&str]) -> Option<u64> {
    keys.iter().find_map(|key| object.get(*key)?.as_u64())
}

/// A name of a file: without blanks, with an extension or a directory.
fn is_path(name: &str) -> bool {
    let is_plain = !name.contains(|character: char| character == ' ' || character.is_control());
    is_plain && name.len() <= FILE_BYTES_MAX && !name.starts_with("http") && name.contains(['.', '/'])
}

/// The place that an object or its parts name.
#[derive(Debug, Default, Clone, Copy)]
struct Place<'a> {
    file: Option<&'a str>,
    line: Option<u64>,
    column: Option<u64>,
    /// It is in the form of the language server protocol, whose severities are numbers.
    is_of_editor: bool,
    /// It is in the form of gcc.
    is_of_compiler: bool,
}

impl<'a> Place<'a> {
    /// `is_range`: the object is the value of `range`.
    fn of(object: &'a Map<String, Value>, depth: usize, is_range: bool) -> Self {
        let mut place = Self {
            file: text(object, FILES).filter(|file| is_path(file)),
            line: number(object, LINES),
            column: number(object, COLUMNS),
            is_of_editor: false,
            is_of_compiler: object.contains_key(CARET),
        };
        if depth > 4 {
            return place;
        }
        for key in PLACES {
            let part = match object.get(*key) {
                Some(Value::Object(part)) => part,
                Some(Value::Array(parts)) => match parts.first() {
                    Some(Value::Object(part)) => part,
                    _ => continue,
                },
                Some(Value::Number(line)) if *key == "begin" => {
                    place.line = place.line.or_else(|| line.as_u64());
                    continue;
                }
                _ => continue,
            };
            let is_position = part.len() == 2 && part.contains_key("line") && part.contains_key("character");
            let mut part = Self::of(part, depth + 1, *key == "range");
            // The language server protocol counts from zero.
            if is_range && is_position {
                part.line = part.line.map(|line| line.saturating_add(1));
                part.column = part.column.map(|column| column.saturating_add(1));
                part.is_of_editor = true;
            }
            place.file = place.file.or(part.file);
            if place.line.is_none() {
                (place.line, place.column) = (part.line, place.column.or(part.column));
                place.is_of_editor = part.is_of_editor;
                place.is_of_compiler |= part.is_of_compiler;
            }
        }
        place
    }
}

#[cfg(test)]
mod tests;
