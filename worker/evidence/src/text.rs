//! Cleans text from untrusted files: truncates it, escapes control characters for terminals, and
//! finds source locations in it.

use crate::limits::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX};
use buildpool_protocol::java;
use buildpool_protocol::report::Location;
use std::path::Path;

/// Returns a message for display: control characters escaped, truncated at the limit with a mark.
pub(crate) fn message(text: &str) -> String {
    clean(text.trim_end(), MESSAGE_BYTES_MAX, true)
}

/// Returns a name for display, on one line.
pub(crate) fn name(text: &str) -> String {
    clean(text, NAME_BYTES_MAX, false)
}

/// Returns a number with its noun.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

const TRACEBACK: &str = "Traceback (most recent call last):";

/// Moves the message of a Python exception before its traceback, because the first line identifies
/// a message.
pub(crate) fn cause_first(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.trim_start().starts_with(TRACEBACK) {
        return text.into();
    }
    let is_word = |line: &&str| !line.starts_with([' ', '\t']) && !line.trim().is_empty();
    let last = text.rfind(TRACEBACK).unwrap_or(0);
    let after = text.get(last + TRACEBACK.len()..).unwrap_or_default();
    match after.lines().find(is_word) {
        Some(said) => format!("{}\n{text}", said.trim_end()).into(),
        None => text.into(),
    }
}

/// Returns the first line that pytest marks as the error in its source excerpt.
pub(crate) fn pytest_cause(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("E   ")).map(str::trim)
}

fn clean(text: &str, limit: usize, lines: bool) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for character in text.chars() {
        if out.len() >= limit {
            out.push('…');
            break;
        }
        match character {
            '\n' | '\t' if lines => out.push(character),
            '\r' if lines => {}
            // Bidirectional overrides can make displayed text differ from its content.
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => out.extend(character.escape_unicode()),
            control if control.is_control() => out.extend(control.escape_default()),
            other => out.push(other),
        }
    }
    out
}

/// Returns a path relative to `root` if it is inside `root`, otherwise unchanged.
pub(crate) fn relative(path: &str, root: Option<&Path>) -> String {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let inside = root.and_then(|root| Path::new(path).strip_prefix(root).ok()).and_then(Path::to_str);
    name(inside.filter(|inside| !inside.is_empty()).unwrap_or(path))
}

const FOREIGN: &[&str] = &[
    "node_modules/",
    "site-packages/",
    "dist-packages/",
    "/lib/python",
    "/rustc/",
    "<frozen",
    "node:internal",
    "/usr/lib/",
    "/usr/include/",
];

/// Returns true for a stack frame in a library: `at org.junit.Assert.fail(Assert.java:89)`.
fn is_foreign_frame(line: &str) -> bool {
    let Some((method, _)) = line.trim_start().strip_prefix("at ").and_then(|frame| frame.split_once('('))
    else {
        return false;
    };
    java::is_foreign(method)
}

/// Returns the first source location in a text, in the format of compilers, assertions and stack
/// traces. Formats: `path.ext:line[:column]`, also in parentheses, and Python's `File "path", line
/// N`. Locations in libraries are skipped.
pub(crate) fn place_in(text: &str, root: Option<&Path>) -> Option<Location> {
    text.lines().take(400).filter(|line| !is_foreign_frame(line)).find_map(|line| {
        let found = python_place(line)
            .or_else(|| line.split([' ', '(', ')', '\t', '[', ']', '"', '\'', ',']).find_map(colon_place))?;
        let (file, line, column) = found;
        let foreign = FOREIGN.iter().any(|part| file.contains(part));
        (!foreign).then(|| Location { file: relative(file, root), line: Some(line), column })
    })
}

fn python_place(line: &str) -> Option<(&str, u32, Option<u32>)> {
    let (_, rest) = line.split_once("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((file, digits.parse().ok()?, None))
}

fn colon_place(word: &str) -> Option<(&str, u32, Option<u32>)> {
    let word = word.trim_end_matches([':', '.', ';']);
    let (head, last) = word.rsplit_once(':')?;
    let last = last.parse::<u32>().ok()?;
    if let Some((file, middle)) = head.rsplit_once(':')
        && let Ok(line) = middle.parse::<u32>()
    {
        return is_file(file).then_some((file, line, Some(last)));
    }
    is_file(head).then_some((head, last, None))
}

fn is_file(text: &str) -> bool {
    let base = text.rsplit('/').next().unwrap_or(text);
    let Some((stem, extension)) = base.rsplit_once('.') else { return false };
    let address = text.contains("://") || stem.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let host = ["com", "dev", "io", "local", "net", "org"].contains(&extension);
    !stem.is_empty()
        && !address
        && !host
        && (1..=10).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
        && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Decodes bytes as text and replaces invalid UTF-8.
///
/// A byte order mark selects UTF-16: some Windows tools write it, and so does `>` of older
/// PowerShell versions.
pub(crate) fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    let read: Option<fn([u8; 2]) -> u16> = match bytes {
        [0xFF, 0xFE, ..] => Some(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => Some(u16::from_be_bytes),
        _ => None,
    };
    if let Some(read) = read {
        let units: Vec<u16> = bytes[2..].as_chunks().0.iter().map(|pair| read(*pair)).collect();
        return String::from_utf16_lossy(&units).into();
    }
    String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Option<String> {
        let found = place_in(text, Some(Path::new("/w")))?;
        Some(format!("{}:{}:{}", found.file, found.line.unwrap_or(0), found.column.unwrap_or(0)))
    }

    #[test]
    fn places_are_found_as_tools_write_them() {
        assert_eq!(place("/w/a b.swift:12: error").as_deref(), Some("b.swift:12:0"));
        assert_eq!(place("at x (/w/src/a.test.ts:4:9)").as_deref(), Some("src/a.test.ts:4:9"));
        let frames = "x: no\n\tat org.junit.Assert.fail(Assert.java:89)\n\tat java.base@17/java.util.List.of(List.java:1)\n\tat app//app.OneTest.wrongSum(OneTest.java:8)";
        assert_eq!(place(frames).as_deref(), Some("OneTest.java:8:0"));
        assert_eq!(place("\tat org.testng.Assert.fail(Assert.java:94)"), None);
        assert_eq!(place("  File \"/w/t.py\", line 7, in f").as_deref(), Some("t.py:7:0"));
        assert_eq!(place("panicked at src/lib.rs:10:5:\nx").as_deref(), Some("src/lib.rs:10:5"));
        let stdlib =
            "/usr/local/lib/python3.11/importlib/__init__.py:126: in import_module\nt/a.py:1: in <module>";
        assert_eq!(place(stdlib).as_deref(), Some("t/a.py:1:0"));
        assert_eq!(place("node_modules/x/y.js:1:2\nsrc/y.js:3:4").as_deref(), Some("src/y.js:3:4"));
        assert_eq!(place("dial 127.0.0.1:80 or http://a.b/c.d:90 at 12:30, api.x.com:443"), None);
    }

    #[test]
    fn a_message_begins_with_the_exception() {
        let first = |text: &str| cause_first(text).lines().next().unwrap_or_default().to_owned();
        let plain = "Traceback (most recent call last):\n  File \"t.py\", line 5, in f\n    g()\nValueError: no\nmore";
        assert_eq!(first(plain), "ValueError: no");
        assert!(cause_first(plain).ends_with(plain));
        let chained = format!(
            "{plain}\n\nDuring handling of it:\n\nTraceback (most recent call last):\n  File\nKeyError: 'a'\n"
        );
        assert_eq!(first(&chained), "KeyError: 'a'");
        assert_eq!(first("assert 1 == 2\nTraceback (most recent call last):\nE: x"), "assert 1 == 2");
        assert_eq!(first("Traceback (most recent call last):\n  File"), "Traceback (most recent call last):");
    }

    #[test]
    fn shown_text_cannot_steer_a_terminal() {
        assert_eq!(message("a\x1b[2Jb\r\nc\u{202e}d\0"), "a\\u{1b}[2Jb\nc\\u{202e}d\\u{0}");
        let long = message(&"ä".repeat(MESSAGE_BYTES_MAX));
        assert!(long.ends_with('…') && long.len() <= MESSAGE_BYTES_MAX + '…'.len_utf8());
        assert_eq!(name("one\ntwo"), "one\\ntwo");
    }
}
