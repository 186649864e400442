//! One finding, and the hashes that identify it.

use crate::answer_text::counted;
use crate::hashing::{FastHasher, Fnv};
use crate::rules::{Fails, Join, Kind, Role, after_text};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{Location, Severity};

/// Length from which on a word of hexadecimal digits is a number.
const HEXADECIMAL_BYTES_MIN: usize = 8;

/// One finding in the log or in a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawFinding {
    /// Rule that matched.
    pub(crate) rule: &'static str,
    pub(crate) kind: Kind,
    pub(crate) severity: Severity,
    /// Certainty of the rule, in percent.
    pub(crate) sure: u8,
    pub(crate) role: Role,
    /// An error that ended its program.
    pub(crate) ended: bool,
    /// Whether it shows that its program failed.
    pub(crate) fails: Fails,
    /// Remark of a linter without a severity word.
    pub(crate) remark: bool,
    /// The finding is a crash message, which a test may print as well.
    pub(crate) word: bool,
    /// The finding comes from a probe of a configuration step.
    pub(crate) probe: bool,
    /// The finding is between the start and the end of a test that passed.
    pub(crate) in_test: bool,
    /// Reports only that a test failed. A finding that gives the reason replaces it.
    pub(crate) bare: bool,
    /// Lines of the message, as printed by the tool.
    pub(crate) lines: Vec<String>,
    /// Index of the line that summarizes the message.
    pub(crate) head: usize,
    pub(crate) join: Option<Join>,
    /// Number of lines of the message beyond the limit.
    pub(crate) lines_cut: u64,
    pub(crate) test: Option<String>,
    pub(crate) location: Option<Location>,
    /// Stream of the log. None for a finding from a report.
    pub(crate) stream: Option<Stream>,
    /// Path of the report that contains the finding.
    pub(crate) report: Option<String>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Position in the order of lines over both streams.
    pub(crate) order: u64,
    /// Position of its last line in that order.
    pub(crate) last: u64,
    pub(crate) recurrence: u64,
    pub(crate) pre: Vec<String>,
    pub(crate) post: Vec<String>,
    /// Extra lines: advice, or details about the test from a report. They are not part of the
    /// message.
    pub(crate) beside: Vec<String>,
    /// Deduplication key, computed by [`super::Findings::add`].
    pub(crate) key: u64,
}

impl RawFinding {
    /// Returns a finding with only the given fields set and a recurrence of 1.
    pub(crate) const fn new(rule: &'static str, kind: Kind, severity: Severity, sure: u8) -> Self {
        Self {
            rule,
            kind,
            severity,
            sure,
            role: Role::Usual,
            ended: false,
            fails: Fails::BySeverity,
            remark: false,
            word: false,
            probe: false,
            in_test: false,
            bare: false,
            lines: Vec::new(),
            head: 0,
            join: None,
            lines_cut: 0,
            test: None,
            location: None,
            stream: None,
            report: None,
            from: 0,
            to: 0,
            order: 0,
            last: 0,
            recurrence: 1,
            pre: Vec::new(),
            post: Vec::new(),
            beside: Vec::new(),
            key: 0,
        }
    }

    /// Returns the message as one text.
    pub(crate) fn message(&self) -> String {
        let mut text = self.lines.join("\n");
        if self.lines_cut > 0 {
            let lines = counted(self.lines_cut, "more line");
            text.push_str(&format!("\n… {lines} of this message in the log"));
        }
        for line in &self.beside {
            text.push('\n');
            text.push_str(line);
        }
        text
    }

    /// Returns the headline without its location. Equal remarks about different lines have the same
    /// text.
    pub(crate) fn without_place(&self) -> &str {
        let line = self.lines.get(self.head).map_or("", String::as_str);
        let Some(location) = &self.location else { return line };
        let rest = after_text(line, &location.file).unwrap_or(line);
        rest.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, ':' | '(' | ')' | ',' | ' ' | ']' | '[')
        })
    }

    /// Hash of the headline without location and numbers.
    pub(crate) fn sort(&self) -> u64 {
        let mut hasher = FastHasher::default();
        hasher.text(&normalised(self.without_place()));
        hasher.0
    }

    /// Hash that is equal for the same finding in another run. It covers rule, test, file name and
    /// message, without numbers, hexadecimal and directories.
    pub(crate) fn signature(&self) -> u64 {
        let mut hasher = Fnv::default();
        hasher.text(self.rule);
        hasher.text(self.test.as_deref().unwrap_or_default());
        if let Some(location) = &self.location {
            hasher.text(location.file.rsplit(['/', '\\']).next().unwrap_or_default());
        }
        for line in self.lines.iter().skip(self.head).take(3) {
            hasher.text(&normalised(line));
        }
        hasher.0
    }

    pub(super) fn reckoned_key(&self) -> u64 {
        let mut key = FastHasher::default();
        key.text(self.rule);
        key.text(self.test.as_deref().unwrap_or_default());
        if let Some(Location { file, line, column }) = &self.location {
            key.text(file);
            key.number(line.map_or(u64::MAX, u64::from));
            key.number(column.map_or(u64::MAX, u64::from));
        }
        for line in &self.lines {
            let line = line.as_bytes();
            key.bytes(line[crate::text::front_length(line)..].trim_ascii());
        }
        key.0
    }
}

/// Replaces the parts of a line that differ from run to run: numbers, hexadecimal and directories.
pub(crate) fn normalised(line: &str) -> String {
    let is_other_blank = |c: char| !c.is_ascii() && c.is_whitespace();
    if line.is_ascii() || !line.contains(is_other_blank) {
        return normalised_bytes(line.as_bytes());
    }
    let mut out = String::with_capacity(line.len() + 1);
    line.split_whitespace().for_each(|word| normalise(word, &mut out));
    out
}

/// Kinds of bytes, as bits.
const DIGIT: u8 = 1;
const HEXADECIMAL: u8 = 2;
const BLANK: u8 = 4;
const SLASH: u8 = 8;

/// The kinds of each byte. A hyphen counts as hexadecimal.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        kinds[byte as usize] = match byte {
            b'0'..=b'9' => DIGIT | HEXADECIMAL,
            b'a'..=b'f' | b'A'..=b'F' | b'-' => HEXADECIMAL,
            b' ' | b'\t'..=b'\r' => BLANK,
            b'/' => SLASH,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// The words of a line as [`normalise`] writes them, in one pass: almost all lines have no other blanks than those of ASCII.
fn normalised_bytes(line: &[u8]) -> String {
    // No word becomes longer, and a blank follows each.
    let mut out = vec![0; line.len() + 1];
    let (mut at, mut end) = (0, 0);
    while let Some(byte) = line.get(at) {
        if KINDS[usize::from(*byte)] & BLANK != 0 {
            at += 1;
            continue;
        }
        let start = end;
        // Where the last part of the word begins, after any slash.
        let mut part = at;
        while let Some(byte) = line.get(at) {
            let kinds = KINDS[usize::from(*byte)];
            if kinds & (BLANK | SLASH | DIGIT) == 0 {
                out[end] = *byte;
                end += 1;
            } else if kinds & DIGIT != 0 {
                // Of a number, only the first digit is written.
                if at == part || !line[at - 1].is_ascii_digit() {
                    out[end] = b'#';
                    end += 1;
                }
            } else if kinds & BLANK != 0 {
                break;
            } else {
                (end, part) = (start, at + 1);
            }
            at += 1;
        }
        let is_hexadecimal = |byte: &u8| KINDS[usize::from(*byte)] & HEXADECIMAL != 0;
        if at - part >= HEXADECIMAL_BYTES_MIN && line[part..at].iter().all(is_hexadecimal) {
            out[start] = b'#';
            end = start + 1;
        }
        out[end] = b' ';
        end += 1;
    }
    out.truncate(end);
    String::from_utf8(out).unwrap_or_default()
}

/// Adds a word of a line.
fn normalise(word: &str, out: &mut String) {
    let word = &word[memchr::memrchr(b'/', word.as_bytes()).map_or(0, |at| at + 1)..];
    if word.len() >= HEXADECIMAL_BYTES_MIN
        && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    {
        out.push('#');
    } else {
        let mut rest = word;
        while let Some(number) = rest.bytes().position(|byte| byte.is_ascii_digit()) {
            out.push_str(&rest[..number]);
            out.push('#');
            let digits = rest[number..].bytes().take_while(u8::is_ascii_digit).count();
            rest = &rest[number + digits..];
        }
        out.push_str(rest);
    }
    out.push(' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_other_blanks_is_normalised_as_any_other() {
        let pieces = [
            "",
            " ",
            "/",
            "a/",
            "12",
            "x9",
            "deadbeef",
            "0a1b-2c3d",
            "a.c:3:4",
            "\t",
            "-",
            "‘b2’",
            "\u{a0}7",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let line = [first, second, " ", third, second].concat();
                    let mut expected = String::new();
                    line.split_whitespace().for_each(|word| normalise(word, &mut expected));
                    assert_eq!(normalised(&line), expected, "{line:?}");
                }
            }
        }
        assert_eq!(normalised("/src/a.c:12:3: error 7 in 0123abcd"), "a.c:#:#: error # in # ");
    }
}
