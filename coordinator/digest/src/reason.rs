//! The reason of a failure on one line.

use crate::findings::RawFinding;
use crate::render::is_rule;

/// Mark of pytest for the lines with the reason.
const MARK: &str = "E ";
/// Minimum number of letters of a reason.
const REASON_LETTERS_MIN: usize = 4;
/// Parts of the words with which runtimes and assertion libraries state a reason.
const REASON_WORDS: [&str; 6] = ["rror", "xception", "xpected", "panicked", "assert", "Assert"];

/// Returns the reason of a failure on one line, without test name and location. The text is empty
/// if no line contains the reason.
pub(crate) fn reason(found: &RawFinding) -> String {
    let test = found.test.as_deref().unwrap_or_default();
    let last = test.rsplit([':', '.', '/', ' ', '\u{203a}']).next().unwrap_or_default();
    let of_line = |line: &str| {
        let line = line.strip_prefix(MARK).unwrap_or(line);
        let mut text = if test.is_empty() { line.to_owned() } else { line.replace(test, " ") };
        if last.len() >= REASON_LETTERS_MIN {
            text = text.replace(last, " ");
        }
        if let Some((_, after)) = found.location.as_ref().and_then(|location| text.split_once(&location.file))
        {
            let is_position = |c: char| c.is_ascii_digit() || matches!(c, ':' | ')' | ',');
            text = after.trim_start_matches(is_position).to_owned();
        }
        let words =
            text.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '"' | '`' | ')' | ']'));
        let words = ["FAILED", "FAIL", "Failed", "failed", "not ok"].iter().fold(words, |words, word| {
            words.strip_prefix(word).unwrap_or(words).trim_start_matches(|c: char| !c.is_alphanumeric())
        });
        words.trim().to_owned()
    };
    let says_why = |text: &String| text.chars().filter(|c| c.is_alphabetic()).count() >= REASON_LETTERS_MIN;
    let has_word = |line: &str| REASON_WORDS.iter().any(|word| line.contains(word));
    let lines: Vec<&str> = found.lines.iter().map(String::as_str).filter(|line| !is_rule(line)).collect();
    let marked = || lines.iter().filter(|line| line.starts_with(MARK));
    // RSpec quotes the failed line of the source.
    let is_source = |line: &str| line.trim_start().starts_with("Failure/Error: ");
    let words = || (0..lines.len()).filter(|index| has_word(lines[*index]) && !is_source(lines[*index]));
    // A line that only introduces the next one (`panicked at src/a.rs:3:5:`) has no reason itself.
    let at = |index: usize| {
        let next = lines.get(index + 1).filter(|_| lines[index].trim_end().ends_with(':'));
        let own = Some(of_line(lines[index]))
            .filter(says_why)
            .map(|own| with_message(own, next.map(|next| of_line(next))))
            .map(|own| with_received(own, lines.get(index + 1)));
        let introduces = lines[index].trim_end().ends_with(':');
        own.or_else(|| lines.get(index + 1).filter(|_| introduces).map(|next| of_line(next)).filter(says_why))
    };
    marked()
        .filter(|line| has_word(line))
        .map(|line| of_line(line))
        .find(says_why)
        .or_else(|| marked().map(|line| of_line(line)).find(says_why))
        .or_else(|| words().filter(|index| !is_truncated(lines[*index])).find_map(at))
        .or_else(|| words().find_map(at))
        .or_else(|| {
            found
                .lines
                .iter()
                .skip(found.head)
                .filter(|line| !is_rule(line))
                .map(|line| of_line(line))
                .find(says_why)
        })
        .unwrap_or_default()
}

/// The name of an exception, with the message that the next line has: `NoMethodError:`.
fn with_message(own: String, next: Option<String>) -> String {
    match next.filter(|next| !next.is_empty() && !own.contains(' ')) {
        Some(next) => format!("{own}: {next}"),
        None => own,
    }
}

/// The expected value, with the received one that the next line has.
fn with_received(own: String, next: Option<&&str>) -> String {
    let is_expected = ["expected: ", "Expected: "].iter().any(|word| own.starts_with(word));
    let received = next
        .map(|line| line.trim())
        .filter(|line| line.starts_with("got: ") || line.starts_with("Received: "));
    match received.filter(|_| is_expected) {
        Some(received) => format!("{own}, {received}"),
        None => own,
    }
}

/// Returns true for a line that a runner truncated to the width of the terminal.
pub(crate) fn is_truncated(line: &str) -> bool {
    line.trim_end().ends_with(['.', '\u{2026}'])
}
