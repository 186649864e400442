//! Truncates long text. The most important lines stay, in their order.

use crate::answer_text::counted;
use crate::text::clip_chars;
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Minimum number of characters that identify a finding.
pub(super) const KEY_CHARS_MIN: usize = 40;

/// Minimum length of a truncated message behind a key, in characters. A shorter one has no content.
const BRIEF_CHARS_MIN: usize = 20;

/// Rank of lines about system and third-party sources, and of candidates that a compiler rejected.
const FOREIGN_RANK: u8 = 6;

/// A message with a limit below this number of lines loses lines of [`FOREIGN_RANK`].
const FOREIGN_FROM_LINES: usize = 20;

/// Texts of lines that matter less than those about the project's own sources.
const FOREIGN: &[&str] = &[
    "/usr/",
    "/Applications/",
    "node_modules",
    "site-packages",
    "/rustc/",
    "/.cargo/",
    "dist-packages",
    "/lib/python3",
    "<frozen ",
    "java.base/",
    "node:internal",
    // Compilers list these by the dozen.
    "note: candidate",
];

static FOREIGN_FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(FOREIGN);
    finder.expect("the texts are few; a test uses them")
});

pub(super) fn clip_middle(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars.saturating_sub(2)) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// Truncates a text at its end, and marks the cut.
pub(super) fn cut_end(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => {
            let at = text.char_indices().nth(chars.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
            format!("{}…", text[..at].trim_end())
        }
    }
}

/// Truncates a line to `chars` characters and keeps `key`.
pub(super) fn brief(line: &str, key: &str, chars: usize) -> String {
    let chars = chars.max(KEY_CHARS_MIN);
    if line.chars().count() <= chars {
        return line.to_owned();
    }
    let clipped = cut_end(line, chars);
    if key.is_empty() || clipped.contains(key) {
        return clipped;
    }
    let key_chars = key.chars().count();
    if key_chars + 2 + BRIEF_CHARS_MIN > chars {
        return clip_chars(key, chars.max(key_chars.min(400))).into_owned();
    }
    let rest = line.strip_prefix(key).unwrap_or(line).trim_start_matches([':', ' ']);
    format!("{key}: {}", cut_end(rest, chars - key_chars - 2))
}

/// Joins lines within the limits. The most important lines stay, in their order. A count replaces
/// missing lines.
pub(super) fn cut_lines(lines: &[String], head: usize, lines_max: usize, chars_max: usize) -> String {
    let size = |line: &String| line.chars().count() + 1;
    if lines.len() <= lines_max && lines.iter().map(size).sum::<usize>() <= chars_max {
        return lines.join("\n");
    }
    let compared = compared(lines);
    let says_something = |index: &usize| *index == head || !is_rule(&lines[*index]);
    let mut order: Vec<usize> = (0..lines.len()).filter(says_something).collect();
    if lines_max < FOREIGN_FROM_LINES {
        let rejected = rejected_candidates(lines);
        order.retain(|index| {
            let is_foreign = rejected[*index] || rank_line(lines, *index, head) >= FOREIGN_RANK;
            *index == head || compared[*index] || !is_foreign
        });
    }
    let rank = |index: usize| {
        let rank = rank_line(lines, index, head);
        if compared[index] { rank.min(COMPARED_RANK) } else { rank }
    };
    order.sort_by_cached_key(|index| (rank(*index), *index));
    let mut kept = BTreeMap::new();
    let mut left = chars_max.max(60);
    for index in order {
        if kept.len() >= lines_max {
            break;
        }
        let line = &lines[index];
        if size(line) + 8 <= left {
            left -= size(line) + 8;
            kept.insert(index, line.clone());
        } else if kept.is_empty() {
            kept.insert(index, cut_end(line, left));
            break;
        } else if left > 60 && rank(index) <= 3 {
            kept.insert(index, cut_end(line, left - 10));
            break;
        }
    }
    let mut out: Vec<String> = Vec::new();
    let mut next = 0;
    let missing_of = |from: usize, to: usize| {
        let count = lines[from..to].iter().filter(|line| !is_rule(line)).count();
        let only = || lines[from..to].iter().find(|line| !is_rule(line)).cloned();
        match count {
            0 => None,
            // The single line replaces the line with the count.
            1 => only().map(|line| cut_end(&line, SINGLE_CHARS_MAX)),
            _ => Some(missing(count)),
        }
    };
    for (index, line) in kept {
        out.extend(missing_of(next, index));
        out.push(line);
        next = index + 1;
    }
    out.extend(missing_of(next, lines.len()));
    out.join("\n")
}

/// Returns true if a line is only a separator: blank, or a rule.
pub(crate) fn is_rule(line: &str) -> bool {
    line.chars().all(|c| matches!(c, ' ' | '\t' | '-' | '=' | '_' | '*' | '─' | '━' | '═'))
}

/// Maximum length, in characters, of a line that is shown instead of `… 1 more line`.
const SINGLE_CHARS_MAX: usize = 160;

/// Text for missing lines.
fn missing(lines: usize) -> String {
    format!("… {}", counted(lines as u64, "more line"))
}

/// Removes source lines and the carets below them. With many remarks, another remark is more
/// useful.
pub(super) fn drop_excerpts(lines: &mut Vec<String>, head: usize) {
    let is_carets = |line: &str| {
        line.contains('^')
            && line.chars().all(|c| matches!(c, ' ' | '\t' | '^' | '~' | '|' | '-' | '+' | '…'))
    };
    let mut at = head + 1;
    while at < lines.len() {
        if is_carets(&lines[at]) {
            let from = if at > head + 1 { at - 1 } else { at };
            lines.drain(from..=at);
            at = from;
        } else {
            at += 1;
        }
    }
}

/// Rank of a line in a long message. A smaller rank is more important.
fn rank_line(lines: &[String], index: usize, head: usize) -> u8 {
    let line = &lines[index];
    if is_row(line) {
        return u8::from(index != head) * 3;
    }
    let outer = !line.starts_with([' ', '\t']) && !line.trim().is_empty();
    let foreign = FOREIGN_FINDER.is_match(line);
    let place = line.as_bytes().windows(2).any(|pair| pair[0] == b':' && pair[1].is_ascii_digit());
    let after_head = index > head && index <= head + 2;
    if index == head {
        0
    } else if index + 1 == lines.len() && !foreign || place && !foreign && line.trim_start().starts_with("E ")
    {
        1
    } else if line.starts_with("E ") || line.contains("Error: ") || line.contains("xception: ") {
        2
    } else if place && !foreign || after_head {
        3
    } else if (outer || index + 4 > lines.len()) && !foreign {
        4
    } else if foreign {
        FOREIGN_RANK
    } else {
        5
    }
}

/// Rank of the lines between what a test expected and what it received.
const COMPARED_RANK: u8 = 1;
/// First words of a side of a comparison, in lower case.
const SIDES: [&str; 12] = [
    "expected",
    "received",
    "actual",
    "but was",
    "but got",
    "left:",
    "right:",
    "want",
    "got:",
    "got ",
    "to equal",
    "which is:",
];
/// Titles of a comparison whose lines have signs, in lower case.
const TITLES: [&str; 10] = [
    "first differing",
    "--- expected",
    "--- actual",
    "- expected",
    "+ expected",
    "+ actual",
    "-expected",
    "difference (",
    "diff (-",
    "differing items",
];
/// Maximum number of lines without a side or a sign inside a comparison.
const COMPARED_GAP_MAX: usize = 6;

/// Marks the lines from the first side of a comparison to its last one, which an excerpt keeps together.
fn compared(lines: &[String]) -> Vec<bool> {
    let mut marked = vec![false; lines.len()];
    let bare: Vec<String> = lines.iter().map(|line| bare(line)).collect();
    let begins = |line: &str, words: &[&str]| words.iter().any(|word| line.starts_with(word));
    let mut at = 0;
    while at < lines.len() {
        // pytest marks all lines of its comparison.
        let is_side = |at: usize| {
            lines[at].starts_with("E  ") || begins(&bare[at], &SIDES) || begins(&bare[at], &TITLES)
        };
        if !is_side(at) {
            at += 1;
            continue;
        }
        let mut last = at;
        for (next, line) in bare.iter().enumerate().skip(at + 1) {
            if next - last > COMPARED_GAP_MAX || line.starts_with("at ") {
                break;
            }
            if is_side(next) || line.starts_with(['+', '-']) {
                last = next;
            }
        }
        if last > at {
            marked[at..=last].fill(true);
        }
        at = last + 1;
    }
    marked
}

/// Returns a line in lower case without the marks that runners put before a message.
fn bare(line: &str) -> String {
    let line = line.trim();
    let line = line.strip_prefix("E ").unwrap_or(line);
    line.trim_start_matches(['|', '#', '\u{2502}', ' ', '\t']).to_ascii_lowercase()
}

/// Returns true for a linter's row below a file name: `  12:3  error …`.
fn is_row(line: &str) -> bool {
    let place = line.split_whitespace().next().unwrap_or_default();
    line.starts_with(' ')
        && place
            .split_once(':')
            .is_some_and(|(row, column)| row.parse::<u32>().is_ok() && column.parse::<u32>().is_ok())
}

/// Marks the lines of a note about a candidate that a compiler rejected.
fn rejected_candidates(lines: &[String]) -> Vec<bool> {
    let mut inside = false;
    lines
        .iter()
        .map(|line| {
            if line.contains("note: ") || line.contains("error: ") {
                inside = line.contains("note: candidate");
            }
            inside
        })
        .collect()
}

/// Joins equal adjacent lines and adds their count. Each result has the index of the first of its lines.
pub(super) fn folded(lines: &[String]) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, u64)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match out.last_mut() {
            Some((first, count)) if lines[*first] == *line => *count += 1,
            _ => out.push((index, 1)),
        }
    }
    let text = |first: usize, count: u64| match (lines[first].trim().is_empty(), count) {
        (_, 1) => lines[first].clone(),
        (true, _) => String::new(),
        (false, count) => format!("{} (×{count})", lines[first]),
    };
    out.into_iter().map(|(first, count)| (first, text(first, count))).collect()
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn a_message_that_would_lose_its_content_is_left_out() {
        let key = "/w/js/lint/x/cli/config.js:10:12";
        let line = "10:12 error 'require' is not defined no-undef (/w/js/lint/x/cli/config.js:10)";
        assert_eq!(brief(line, key, 50), key);
        assert_eq!(brief(line, key, 60), format!("{key}: 10:12 error 'require' is…"));
        assert_eq!(brief(line, key, 100), line);
    }
}
