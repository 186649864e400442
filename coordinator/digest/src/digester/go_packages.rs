//! Output of Go packages that run at the same time: one package after the other, as without
//! `-json`.

use super::{Digester, LineMatcher};
use crate::text::{Carried, TailLines, carried};
use crate::text::{Cleaner, PackageOutput};
use crate::tool::ToolId;
use crate::transcript::StreamEnds;
use buildpool_protocol::output::Stream;
use std::collections::BTreeMap;

/// Limit on the output that waits for the end of its test, in bytes. Beyond it, the output of all
/// packages is processed at once.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Part of each record of `go test -json`.
const RECORD: &[u8] = br#""Action":"#;

/// A line of a package.
#[derive(Debug)]
pub(super) struct PackageLine {
    stream: Stream,
    test: String,
    text: Vec<u8>,
    /// Offsets of the record in the stream.
    from: u64,
    to: u64,
}

/// Lines that wait for the end of their test, by package.
#[derive(Debug, Default)]
pub(super) struct GoPackages {
    waiting: BTreeMap<String, Vec<PackageLine>>,
    bytes: usize,
}

impl GoPackages {
    fn add(&mut self, package: &str, line: PackageLine) {
        self.bytes += line.text.len();
        match self.waiting.get_mut(package) {
            Some(lines) => lines.push(line),
            None => {
                self.waiting.insert(package.to_owned(), vec![line]);
            }
        }
    }

    fn take(&mut self, package: &str) -> Vec<PackageLine> {
        let lines = self.waiting.remove(package).unwrap_or_default();
        self.bytes -= lines.iter().map(|line| line.text.len()).sum::<usize>();
        lines
    }
}

/// Returns true if the line begins or continues a test. Such lines are needed at once, to name the
/// running test.
pub(super) fn is_frame(text: &str) -> bool {
    ["=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "].iter().any(|frame| text.starts_with(frame))
}

/// Replaces each record of `go test -json` by its text, as `go test` without options prints it: one
/// package after the other, without the lines that begin a test or report a passed one.
pub(super) fn readable<L>(
    lines: Vec<L>,
    text_of: impl Fn(&L) -> &[u8],
    with: impl Fn(&L, &str) -> L,
) -> Vec<L> {
    let mut shown = Vec::new();
    let mut waiting: BTreeMap<String, Vec<L>> = BTreeMap::new();
    for line in lines {
        let Some(Carried { text, package: Some(origin) }) = carried(text_of(&line)) else {
            shown.push(line);
            continue;
        };
        let is_shown = |part: &&str| !is_frame(part) && !part.trim_start().starts_with("--- PASS: ");
        let of_package = waiting.entry(origin.package.clone()).or_default();
        of_package.extend(text.lines().filter(is_shown).map(|part| with(&line, part)));
        if origin.is_end && origin.test.is_empty() {
            shown.append(of_package);
        }
    }
    shown.extend(waiting.into_values().flatten());
    shown
}

/// Replaces records in lines of a stream's end.
pub(super) fn readable_tail(lines: TailLines) -> TailLines {
    if !lines.contains(RECORD) {
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
    /// Handles the text of a record of `go test -json`.
    pub(super) fn package_output(
        &mut self,
        matcher: &mut LineMatcher<'_>,
        (stream, from, to): (Stream, u64, u64),
        front: &[u8],
        text: &str,
        origin: &PackageOutput,
    ) {
        let line = |part: &str| PackageLine {
            stream,
            test: origin.test.clone(),
            text: [front, part.as_bytes()].concat(),
            from,
            to,
        };
        for part in text.lines() {
            if is_frame(part) {
                self.package_line(matcher, &origin.package, &line(part));
            } else {
                self.packages.add(&origin.package, line(part));
            }
        }
        if self.packages.bytes > WAITING_BYTES_MAX {
            self.all_packages(matcher);
        } else if origin.is_end {
            self.package(matcher, &origin.package);
        }
    }

    /// Processes the waiting lines of all packages.
    pub(super) fn all_packages(&mut self, matcher: &mut LineMatcher<'_>) {
        while let Some(package) = self.packages.waiting.keys().next().cloned() {
            self.package(matcher, &package);
        }
    }

    fn package(&mut self, matcher: &mut LineMatcher<'_>, package: &str) {
        for line in self.packages.take(package) {
            self.package_line(matcher, package, &line);
        }
    }

    fn package_line(&mut self, matcher: &mut LineMatcher<'_>, package: &str, line: &PackageLine) {
        self.tally.part(ToolId::GoTest, package);
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
