//! Renders unmodified output: of a command that passed, and of a short log of a failed command.

use super::Page;
use super::budget::Budget;
use crate::answer_text::{counted, thousands};
use crate::findings::RawFinding;
use crate::transcript::StreamEnds;
use buildpool_protocol::limits::TIER_1_FINDINGS_MAX;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{Finding, FindingSummary, Severity};
use buildpool_protocol::shown::escaped;
use buildpool_protocol::spec::{Purpose, Verbosity};

/// Maximum length of a pointer into a complete log, in characters.
const POINTER_CHARS_MAX: usize = 160;
/// Budget of the lines below a pointer. Only the JSON form has them.
const BELOW_POINTER_MAX: Budget = Budget { lines: 7, chars: 420 };
/// Minimum space for such lines, in characters. In less, nothing is readable.
const BELOW_POINTER_CHARS_MIN: usize = 60;
/// Characters of a pointer's other fields in the JSON form.
const POINTER_FIELDS_CHARS: usize = 240;
/// Budget of a finding that is in a report but not in the log.
const UNSEEN_MAX: Budget = Budget { lines: 14, chars: 600 };
/// Budget reserved for parts of an answer other than output and findings.
const FRAME: Budget = Budget { lines: 4, chars: 400 };
/// Maximum number of findings next to a complete log, and of a job that passed.
const POINTERS_MAX: usize = 20;

/// A part of a stream.
struct Excerpt {
    text: String,
    /// Lines and bytes missing between its beginning and its end.
    hidden: Option<(u64, u64)>,
}

impl Page<'_> {
    /// Renders the answer for a job that passed (SPEC section 4, "What an answer shows", rule 1).
    pub(super) fn passed(&mut self, ends: &[StreamEnds; 2]) {
        let is_command = self.digest.options.purpose == Purpose::Command;
        if !is_command {
            self.warnings();
        }
        // A build compares these findings with those of its failed jobs.
        let errors = self.digest.findings.iter().filter(|finding| finding.severity <= Severity::Error);
        let summary = |finding: &Finding| {
            let message =
                super::cut::cut_end(finding.message.lines().next().unwrap_or_default(), POINTER_CHARS_MAX);
            FindingSummary { message, ..FindingSummary::from(finding) }
        };
        self.into.other_findings = errors.take(POINTERS_MAX).map(summary).collect();
        if is_command || self.verbosity == Verbosity::Full {
            self.output(ends);
        } else {
            for stream in Stream::ALL {
                let (lines, bytes) = self.digest.counts[stream.index()];
                if lines > 0 {
                    let get = self.lines_call(stream, lines);
                    self.omit(stream.name(), lines, bytes, get);
                }
            }
        }
    }

    /// Adds both streams, unmodified. The smaller one gets the space that it needs, up to half of
    /// the budget. The other one gets the rest.
    fn output(&mut self, ends: &[StreamEnds; 2]) {
        let needs = Stream::ALL.map(|stream| need(&ends[stream.index()], self.budget));
        let [smaller, larger] = match needs[0].chars <= needs[1].chars {
            true => [Stream::ALL[0], Stream::ALL[1]],
            false => [Stream::ALL[1], Stream::ALL[0]],
        };
        let other = needs[larger.index()];
        let half = Budget { lines: self.budget.lines / 2, chars: self.budget.chars / 2 };
        let rest = self.budget.less(other);
        let share = Budget { lines: half.lines.max(rest.lines), chars: half.chars.max(rest.chars) };
        for (stream, share) in [(smaller, share), (larger, self.budget)] {
            let share = Budget {
                lines: share.lines.min(self.budget.lines),
                chars: share.chars.min(self.budget.chars),
            };
            let excerpt = excerpt(&ends[stream.index()], self.digest.counts[stream.index()].0, share);
            let used = Budget { lines: excerpt.text.lines().count(), chars: shown_chars(&excerpt.text) };
            self.budget = self.budget.less(used);
            if let Some((lines, bytes)) = excerpt.hidden {
                let get = self.lines_call(stream, self.digest.counts[stream.index()].0);
                self.omit(stream.name(), lines, bytes, get);
            }
            let text = Some(excerpt.text).filter(|text| !text.is_empty());
            match stream {
                Stream::Stdout => self.into.stdout = text,
                Stream::Stderr => self.into.stderr = text,
            }
        }
        self.into.complete_log = self.into.omitted.is_empty() && self.digest.gaps.is_empty();
    }

    /// Renders a short log of a job that did not pass, complete and in order, with findings that
    /// point into it. Returns false if it does not fit.
    pub(super) fn whole_log(&mut self, lines: &[String]) -> bool {
        let text = lines.join("\n");
        if !self.budget.take(&text) {
            return false;
        }
        let roots = self.digest.roots();
        let unseen =
            self.digest.findings.iter().take(POINTERS_MAX).filter(|finding| finding.stream.is_none()).count();
        let share = |left: usize, most: usize| (left / unseen.max(1)).min(most);
        let (left, most) = (self.budget.less(FRAME), UNSEEN_MAX);
        let unseen = (share(left.lines, most.lines), share(left.chars, most.chars));
        let count = self.digest.findings.len().clamp(1, POINTERS_MAX);
        let each = left.chars.saturating_sub(self.notes_chars()) / count;
        let below =
            each.saturating_sub(POINTER_CHARS_MAX + POINTER_FIELDS_CHARS).min(BELOW_POINTER_MAX.chars);
        let pointer = |(ranked, finding): (&crate::ranking::RankedFinding, &Finding)| {
            let mut pointer =
                Finding { pre_context: Vec::new(), post_context: Vec::new(), ..finding.clone() };
            if let Some(location) = &mut pointer.location {
                location.file = crate::compress::relative(&location.file, roots).into_owned();
            }
            if finding.stream.is_some() && finding.message.contains('\n') {
                pointer.message = ranked.headline();
            }
            pointer.message = crate::compress::relative(&pointer.message, roots).into_owned();
            let (lines, chars) = if finding.stream.is_some() {
                (1, POINTER_CHARS_MAX)
            } else {
                (unseen.0, unseen.1.saturating_sub(crate::answer_text::lead(finding).chars().count() + 2))
            };
            let lines_of: Vec<String> = pointer.message.lines().map(str::to_owned).collect();
            pointer.message = super::cut::cut_lines(&lines_of, 0, lines, chars);
            if self.is_json && finding.stream.is_some() {
                below_pointer(&mut pointer.message, &ranked.found, roots, below);
            }
            pointer
        };
        let pointers = self.digest.ranked.iter().zip(&self.digest.findings).take(POINTERS_MAX).map(pointer);
        let (first, others): (Vec<_>, Vec<_>) = pointers.partition(|finding| finding.tier == 1);
        self.into.other_findings =
            first.iter().skip(TIER_1_FINDINGS_MAX).chain(&others).map(FindingSummary::from).collect();
        self.into.tier_1_findings = first;
        self.into.tier_1_findings.truncate(TIER_1_FINDINGS_MAX);
        self.into.filtered_output = Some(text).filter(|text| !text.is_empty());
        self.into.complete_log = true;
        true
    }
}

/// Adds the most important lines of a finding below its pointer: a program that reads only the findings of the JSON form
/// needs the reason and the values too. The text form shows the first line of a pointer only.
fn below_pointer(message: &mut String, found: &RawFinding, roots: &[String], chars: usize) {
    if chars < BELOW_POINTER_CHARS_MIN {
        return;
    }
    let lines: Vec<String> =
        found.lines.iter().map(|line| crate::compress::relative(line, roots).into_owned()).collect();
    let kept = super::cut::cut_lines(&lines, found.head, BELOW_POINTER_MAX.lines, chars);
    let head = message.clone();
    let start = head.strip_suffix('…').unwrap_or(&head);
    for line in kept.lines().filter(|line| !super::cut::is_rule(line) && !head.contains(line.trim())) {
        // The line of the pointer itself was too long for it.
        let rest = line.trim_start().strip_prefix(start).map(|rest| format!("…{rest}"));
        message.push('\n');
        message.push_str(rest.as_deref().unwrap_or(line));
    }
}

/// Length of a text, in characters, with a mark on each line.
fn shown_chars(text: &str) -> usize {
    text.chars().count() + text.lines().count()
}

/// Budget for a complete stream. For a stream longer than the budget, returns slightly more than
/// the budget.
fn need(ends: &StreamEnds, budget: Budget) -> Budget {
    if ends.between > 0 {
        return Budget { lines: budget.lines + 1, chars: budget.chars + 1 };
    }
    let text = escaped(&joined(ends));
    Budget { lines: text.lines().count(), chars: shown_chars(&text) }
}

fn joined(ends: &StreamEnds) -> Vec<u8> {
    [&ends.head[..], &ends.tail[..]].concat()
}

fn excerpt(ends: &StreamEnds, lines_total: u64, budget: Budget) -> Excerpt {
    let joined = joined(ends);
    if ends.between == 0 {
        let text = escaped(&joined);
        if text.lines().count() <= budget.lines && shown_chars(&text) <= budget.chars {
            return Excerpt { text, hidden: None };
        }
    }
    // Reserves a line for the count of hidden lines.
    let left = budget.less(Budget { lines: 1, chars: 60 });
    let half = Budget { lines: left.lines / 2, chars: left.chars / 2 };
    let (head, tail) =
        if ends.between == 0 { (&joined[..], &joined[..]) } else { (&ends.head[..], &ends.tail[..]) };
    let first = first_lines(head, half);
    let last = last_lines(tail, half);
    let (head, tail) = (&head[..first], &tail[last..]);
    let (head, tail) = (escaped(head), escaped(tail));
    let shown = (head.lines().count() + tail.lines().count()) as u64;
    let length = joined.len() as u64 + ends.between;
    let hidden_bytes = length - first as u64 - (tail_length(ends, &joined) - last) as u64;
    let hidden_lines = lines_total.saturating_sub(shown);
    let of = if hidden_lines > 0 { format!("{}, ", counted(hidden_lines, "line")) } else { String::new() };
    let gap = format!("[… {of}{} bytes not shown …]", thousands(hidden_bytes));
    let end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    Excerpt { text: format!("{head}{end}{gap}\n{tail}"), hidden: Some((hidden_lines, hidden_bytes)) }
}

/// Size of the part that contains the tail, in bytes.
fn tail_length(ends: &StreamEnds, joined: &[u8]) -> usize {
    if ends.between == 0 { joined.len() } else { ends.tail.len() }
}

/// Number of bytes from the beginning that fit: whole lines, or a part of the first one.
fn first_lines(bytes: &[u8], budget: Budget) -> usize {
    let mut left = budget;
    let mut taken = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let used = Budget { lines: 1, chars: shown_chars(&escaped(line)) };
        if used.lines > left.lines || used.chars > left.chars {
            if taken == 0 && left.lines > 0 {
                return fitting_prefix(line, left.chars);
            }
            break;
        }
        left = left.less(used);
        taken += line.len();
    }
    taken
}

/// Offset from which the end fits: whole lines, or a part of the last one.
fn last_lines(bytes: &[u8], budget: Budget) -> usize {
    let mut left = budget;
    let mut from = bytes.len();
    while from > 0 {
        let body = bytes[..from].strip_suffix(b"\n").unwrap_or(&bytes[..from]);
        let start = memchr::memrchr(b'\n', body).map_or(0, |at| at + 1);
        let line = &bytes[start..from];
        let used = Budget { lines: 1, chars: shown_chars(&escaped(line)) };
        if used.lines > left.lines || used.chars > left.chars {
            if from == bytes.len() && left.lines > 0 {
                return from - fitting_suffix(line, left.chars);
            }
            break;
        }
        left = left.less(used);
        from = start;
    }
    from
}

/// Length of the longest prefix with at most `chars` characters of text. It never ends inside a
/// character.
fn fitting_prefix(line: &[u8], chars: usize) -> usize {
    let mut length = line.len().min(chars);
    while length > 0 && (is_inside_character(line, length) || shown_chars(&escaped(&line[..length])) > chars)
    {
        length -= 1 + (length / 16) * usize::from(!is_inside_character(line, length));
    }
    length
}

fn fitting_suffix(line: &[u8], chars: usize) -> usize {
    let mut length = line.len().min(chars);
    while length > 0
        && (is_inside_character(line, line.len() - length)
            || shown_chars(&escaped(&line[line.len() - length..])) > chars)
    {
        length -= 1 + (length / 16) * usize::from(!is_inside_character(line, line.len() - length));
    }
    length
}

/// Returns true if this byte continues a UTF-8 character.
fn is_inside_character(line: &[u8], at: usize) -> bool {
    line.get(at).is_some_and(|byte| byte & 0xc0 == 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(bytes: &[u8]) -> StreamEnds {
        StreamEnds { head: bytes.to_vec(), ..StreamEnds::default() }
    }

    #[test]
    fn output_that_fits_is_unaltered() {
        let text = "a  b\t c  \n\n  0123456789abcdef01234567\r\n\u{fffd}";
        let excerpt = excerpt(&ends(text.as_bytes()), 4, Budget { lines: 10, chars: 100 });
        assert_eq!(excerpt.text, text.replace('\r', "\\r"));
        assert!(excerpt.hidden.is_none());
    }

    #[test]
    fn longer_output_has_a_counted_gap_between_head_and_tail() {
        let text: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
        let excerpt = excerpt(&ends(text.as_bytes()), 1_000, Budget { lines: 21, chars: 5_000 });
        assert!(excerpt.text.starts_with("line 0\n") && excerpt.text.ends_with("line 999\n"));
        assert_eq!(excerpt.text.lines().count(), 21);
        let (lines, bytes) = excerpt.hidden.expect("lines are hidden");
        assert_eq!(lines, 980);
        let shown: usize =
            excerpt.text.lines().filter(|line| line.starts_with("line")).map(|line| line.len() + 1).sum();
        assert_eq!(bytes as usize, text.len() - shown);
    }

    #[test]
    fn one_endless_line_is_cut_between_characters() {
        let text = "\u{e4}".repeat(5_000);
        for chars in 70..90 {
            let excerpt = excerpt(&ends(text.as_bytes()), 1, Budget { lines: 9, chars });
            assert!(!excerpt.text.contains("\\x"), "{}", excerpt.text);
            assert!(excerpt.text.chars().count() <= chars, "{}", excerpt.text);
        }
    }
}
