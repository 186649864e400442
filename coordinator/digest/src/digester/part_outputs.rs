//! Output of parts that run at the same time, such as packages of Go: one part after the other.

use super::records::RecordPlace;
use super::{Digester, LineMatcher};
use crate::records::{Event, PartOutput, events};
use crate::text::{Cleaner, TailLines};
use crate::tool::ToolId;
use crate::tools::PART_RECORD;
use crate::transcript::StreamEnds;
use buildpool_protocol::output::Stream;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit on the output that waits for the end of its test, in bytes. Beyond it, the output of all
/// parts is processed at once.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Memory of a waiting line beside its text, in bytes.
const LINE_OVERHEAD_BYTES: usize = 80;
/// Maximum length of the name of a part or a test, in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// A line of a part.
#[derive(Debug)]
struct PartLine {
    tool: ToolId,
    stream: Stream,
    test: Arc<str>,
    text: Vec<u8>,
    /// Offsets of the record in the stream.
    from: u64,
    to: u64,
}

/// Lines that wait for the end of their test, by part.
#[derive(Debug, Default)]
pub(super) struct PartOutputs {
    waiting: BTreeMap<String, Vec<PartLine>>,
    bytes: usize,
}

impl PartLine {
    const fn bytes(&self) -> usize {
        self.text.len() + LINE_OVERHEAD_BYTES
    }
}

impl PartOutputs {
    fn add(&mut self, part: &str, line: PartLine) {
        self.bytes += line.bytes();
        match self.waiting.get_mut(part) {
            Some(lines) => lines.push(line),
            None => {
                self.waiting.insert(part.to_owned(), vec![line]);
            }
        }
    }

    fn take(&mut self, part: &str) -> Vec<PartLine> {
        let lines = self.waiting.remove(part).unwrap_or_default();
        self.bytes -= lines.iter().map(PartLine::bytes).sum::<usize>();
        lines
    }
}

/// Returns the output of a part in a record.
fn part_output_of(line: &[u8]) -> Option<PartOutput> {
    memchr::memmem::find(line, PART_RECORD)?;
    match events(line, None)?.1.pop()? {
        Event::Output(output) => Some(output),
        _ => None,
    }
}

/// Replaces each record of a part's output by its text: one part after the other, without the lines that begin a test or
/// report a passed one.
pub(super) fn readable<L>(
    lines: Vec<L>,
    text_of: impl Fn(&L) -> &[u8],
    with: impl Fn(&L, &str) -> L,
) -> Vec<L> {
    let mut shown = Vec::new();
    let mut waiting: BTreeMap<String, Vec<L>> = BTreeMap::new();
    for line in lines {
        let Some(output) = part_output_of(text_of(&line)) else {
            shown.push(line);
            continue;
        };
        let PartOutput { part, test, text, is_hidden, is_end, .. } = output;
        let of_part = waiting.entry(part).or_default();
        if !is_hidden {
            of_part.extend(text.lines().map(|part| with(&line, part)));
        }
        if is_end && test.is_empty() {
            shown.append(of_part);
        }
    }
    shown.extend(waiting.into_values().flatten());
    shown
}

/// Replaces records in lines of a stream's end.
pub(super) fn readable_tail(lines: TailLines) -> TailLines {
    if !lines.contains(PART_RECORD) {
        return lines;
    }
    let readable = readable(lines.last(usize::MAX), |line| line.as_bytes(), |_, part| part.to_owned());
    TailLines::shown(&readable)
}

/// Replaces records in the ends of a stream.
pub(super) fn readable_ends(ends: StreamEnds) -> StreamEnds {
    let text = |bytes: &[u8]| -> Vec<u8> {
        let lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        readable(lines, |line| line.trim_ascii_end(), |_, part| format!("{part}\n").into_bytes()).concat()
    };
    if ends.between == 0 {
        return StreamEnds { head: text(&[ends.head, ends.tail].concat()), ..StreamEnds::default() };
    }
    StreamEnds { head: text(&ends.head), tail: text(&ends.tail), between: ends.between }
}

impl Digester {
    /// Handles the output of a part in a record.
    pub(super) fn part_output(
        &mut self,
        matcher: &mut LineMatcher<'_>,
        RecordPlace { stream, front, from, to }: RecordPlace<'_>,
        output: PartOutput,
    ) {
        let PartOutput { tool, part, test, text, at_once, is_end, .. } = output;
        let part = &part[..part.floor_char_boundary(NAME_BYTES_MAX)];
        let test: Arc<str> = test[..test.floor_char_boundary(NAME_BYTES_MAX)].into();
        for line in text.lines() {
            let text = [front, line.as_bytes()].concat();
            let line = PartLine { tool, stream, test: Arc::clone(&test), text, from, to };
            if at_once {
                self.part_line(matcher, part, &line);
            } else {
                self.parts.add(part, line);
            }
            if self.parts.bytes > WAITING_BYTES_MAX {
                self.all_parts(matcher);
            }
        }
        if is_end {
            self.part(matcher, part);
        }
    }

    /// Processes the waiting lines of all parts.
    pub(super) fn all_parts(&mut self, matcher: &mut LineMatcher<'_>) {
        while let Some(part) = self.parts.waiting.keys().next().cloned() {
            self.part(matcher, &part);
        }
    }

    fn part(&mut self, matcher: &mut LineMatcher<'_>, part: &str) {
        for line in self.parts.take(part) {
            self.part_line(matcher, part, &line);
        }
    }

    fn part_line(&mut self, matcher: &mut LineMatcher<'_>, part: &str, line: &PartLine) {
        self.tally.part(line.tool, part);
        self.test_output.set_test(&line.test);
        let mut cleaner = Cleaner::default();
        self.match_line(matcher, line.stream, cleaner.clean(&line.text), line.from, line.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(package: &str, action: &str, output: &str) -> String {
        let output = output.replace('\n', "\\n");
        format!(r#"{{"Action":"{action}","Package":"{package}","Test":"TestA","Output":"{output}"}}"#)
    }

    #[test]
    fn mixed_records_are_read_one_package_after_the_other() {
        let lines = vec![
            record("b", "output", "=== RUN   TestA\n"),
            record("a", "output", "    a_test.go:3: got 1\n"),
            "plain".to_owned(),
            record("b", "output", "printed\n"),
            record("b", "output", "--- PASS: TestA (0.00s)\n"),
            record("b", "pass", ""),
            record("a", "output", "--- FAIL: TestA (0.00s)\n"),
            r#"{"Action":"fail","Package":"a"}"#.to_owned(),
        ];
        let shown = readable(lines, |line| line.as_bytes(), |_, part| part.to_owned());
        assert_eq!(shown, ["plain", "    a_test.go:3: got 1", "--- FAIL: TestA (0.00s)", "printed"]);
    }

    #[test]
    fn ends_without_a_gap_are_read_as_one_text() {
        let text = format!("{}\n{}\n", record("a", "output", "one\n"), record("a", "output", "two\n"));
        let (head, tail) = text.as_bytes().split_at(20);
        let ends = StreamEnds { head: head.to_vec(), tail: tail.to_vec(), between: 0 };
        let read = readable_ends(ends);
        assert_eq!((&read.head[..], &read.tail[..]), (&b"one\ntwo\n"[..], &b""[..]));
    }
}
