//! Bytes into lines, at any chunking.
//!
//! A line ends at LF. A line longer than [`LINE_BYTES_MAX`], or [`JSON_LINE_BYTES_MAX`] if it begins in JSON, is cut:
//! its head and its last bytes are kept. Progress that a tool redraws with CR and never ends is cut at a CR, so that the latest state remains.

use super::clean::{first_control, has_control};
use crate::limits::{JSON_LINE_BYTES_MAX, LINE_BYTES_MAX, LINE_TAIL_BYTES};
use memchr::{memchr_iter, memrchr};

/// One line of a stream, without its LF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawLine<'a> {
    /// The bytes; of an overlong line its head.
    pub(crate) bytes: &'a [u8],
    /// The last bytes of an overlong line.
    pub(crate) tail: &'a [u8],
    /// Bytes between `bytes` and `tail` that are not looked at.
    pub(crate) skipped: u64,
    /// `bytes` has a control byte, apart from a CR at its end.
    pub(crate) has_control: bool,
    /// Offset of its first byte in the stream.
    pub(crate) from: u64,
    /// Offset one past its last byte, the LF included.
    pub(crate) to: u64,
}

/// Cuts one stream into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    carry: Vec<u8>,
    tail: Vec<u8>,
    skipped: u64,
    /// Offset of the first byte of the line under way.
    from: u64,
    /// Offset of the next byte.
    at: u64,
}

impl Lines {
    /// Offset of the next byte in the stream.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// Takes bytes and gives each line that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(RawLine<'_>)) {
        let mut start = 0;
        // The first control byte from the line on, because most lines have none.
        let mut control = 0;
        for end in memchr_iter(b'\n', bytes) {
            let part = &bytes[start..end];
            if self.carry.is_empty() && self.tail.is_empty() && part.len() <= LINE_BYTES_MAX {
                let to = self.at + part.len() as u64 + 1;
                if control <= start {
                    control = start + first_control(&bytes[start..]);
                }
                let has_control = control < end && !(control + 1 == end && bytes[control] == b'\r');
                line(RawLine { bytes: part, tail: &[], skipped: 0, has_control, from: self.from, to });
                control = if control < end { 0 } else { control };
                self.at = to;
            } else {
                self.extend(part, &mut line);
                self.at += 1;
                self.flush(&mut line);
            }
            self.from = self.at;
            start = end + 1;
        }
        if start < bytes.len() {
            self.extend(&bytes[start..], &mut line);
        }
    }

    /// Passes over a hole: the line before it ends there.
    pub(crate) fn skip(&mut self, missing_bytes: u64, mut line: impl FnMut(RawLine<'_>)) {
        self.finish(&mut line);
        self.at = self.at.saturating_add(missing_bytes);
        self.from = self.at;
    }

    /// Gives the last line if it has no LF.
    pub(crate) fn finish(&mut self, mut line: impl FnMut(RawLine<'_>)) {
        if self.at > self.from {
            self.flush(&mut line);
        }
        self.from = self.at;
    }

    fn flush(&mut self, line: &mut impl FnMut(RawLine<'_>)) {
        self.trim_tail();
        line(RawLine {
            bytes: &self.carry,
            tail: &self.tail,
            skipped: self.skipped,
            has_control: has_control(self.carry.strip_suffix(b"\r").unwrap_or(&self.carry)),
            from: self.from,
            to: self.at,
        });
        self.carry.clear();
        // A line of JSON may have been much longer than the others.
        self.carry.shrink_to(LINE_BYTES_MAX);
        self.tail.clear();
        self.skipped = 0;
    }

    /// Adds to the current line. The cut at the limit depends on byte counts alone, never on chunk borders.
    fn extend(&mut self, mut part: &[u8], line: &mut impl FnMut(RawLine<'_>)) {
        while !part.is_empty() {
            let room = self.limit().saturating_sub(self.carry.len());
            if room > 0 {
                let taken = room.min(part.len());
                self.carry.extend_from_slice(&part[..taken]);
                self.at += taken as u64;
                part = &part[taken..];
                continue;
            }
            if self.tail.is_empty() && self.cut_progress(line) {
                continue;
            }
            self.extend_tail(part);
            self.at += part.len() as u64;
            return;
        }
    }

    /// Maximum length of the current line. Its first bytes decide, so the borders of chunks do not.
    fn limit(&self) -> usize {
        if self.carry.len() >= LINE_BYTES_MAX && begins_json(&self.carry) {
            JSON_LINE_BYTES_MAX
        } else {
            LINE_BYTES_MAX
        }
    }

    /// Ends the line at its last CR, if there is one: the text before was overwritten.
    fn cut_progress(&mut self, line: &mut impl FnMut(RawLine<'_>)) -> bool {
        let Some(cut) = memrchr(b'\r', &self.carry) else { return false };
        let to = self.from + cut as u64 + 1;
        let bytes = &self.carry[..cut];
        line(RawLine { bytes, tail: &[], skipped: 0, has_control: has_control(bytes), from: self.from, to });
        self.carry.drain(..=cut);
        self.from = to;
        true
    }

    fn extend_tail(&mut self, part: &[u8]) {
        let kept = &part[part.len().saturating_sub(LINE_TAIL_BYTES)..];
        if kept.len() < part.len() {
            self.skipped += (self.tail.len() + part.len() - kept.len()) as u64;
            self.tail.clear();
        }
        self.tail.extend_from_slice(kept);
        if self.tail.len() > 2 * LINE_TAIL_BYTES {
            self.trim_tail();
        }
    }

    fn trim_tail(&mut self) {
        let dropped = self.tail.len().saturating_sub(LINE_TAIL_BYTES);
        self.tail.drain(..dropped);
        self.skipped += dropped as u64;
    }
}

/// Longest time stamp and name of a task before a record.
const FRONT_BYTES_MAX: usize = 200;

/// Whether a line has a record or a document in JSON, maybe after a prefix.
fn begins_json(line: &[u8]) -> bool {
    let front = &line[..line.len().min(FRONT_BYTES_MAX)];
    front.windows(2).any(|pair| matches!(pair, [b'{', b'"'] | [b'[', b'{' | b'"' | b'[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(Vec<u8>, u64, u64)> {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        let mut take = |line: RawLine<'_>| out.push((line.bytes.to_vec(), line.from, line.to));
        for chunk in chunks {
            lines.push(chunk, &mut take);
        }
        lines.finish(&mut take);
        out
    }

    #[test]
    fn lines_know_their_offsets() {
        let expected = vec![(b"ab".to_vec(), 0, 3), (Vec::new(), 3, 4), (b"c".to_vec(), 4, 5)];
        assert_eq!(cut(&[b"ab\n\nc"]), expected);
        assert_eq!(cut(&[b"a", b"b", b"\n", b"\nc"]), expected);
    }

    #[test]
    fn endless_line_keeps_head_and_end() {
        let mut lines = Lines::default();
        let long = vec![b'x'; LINE_BYTES_MAX * 5];
        lines.push(&long, |_| panic!("no line is complete"));
        let mut seen = 0;
        lines.push(b"the end\n", |line| {
            seen += 1;
            assert_eq!(line.bytes.len(), LINE_BYTES_MAX);
            assert!(line.tail.ends_with(b"the end"));
            let whole = line.bytes.len() as u64 + line.skipped + line.tail.len() as u64 + 1;
            assert_eq!(whole, line.to - line.from);
        });
        assert_eq!(seen, 1);
    }

    #[test]
    fn endless_progress_keeps_its_latest_state() {
        let mut log = Vec::new();
        for percent in 0..40_000 {
            log.extend_from_slice(format!("\r{percent} of 40000").as_bytes());
        }
        log.push(b'\n');
        let whole = cut(&[&log]);
        assert!(whole.last().expect("at least the last state").0.ends_with(b"39999 of 40000"));
        assert_eq!(whole.last().expect("checked above").2, log.len() as u64);
        let mut small = Vec::new();
        small.extend(log.chunks(777));
        assert_eq!(cut(&small), whole);
    }

    #[test]
    fn a_long_line_in_json_is_whole() {
        for front in ["", "2026-01-01T00:00:00Z ", "web | "] {
            let line = format!("{front}[{{\"a\":\"{}\"}}]\n", "x".repeat(LINE_BYTES_MAX * 3));
            for chunk in [line.len(), 10_000] {
                let lines = cut(&line.as_bytes().chunks(chunk).collect::<Vec<_>>());
                assert_eq!(lines.len(), 1);
                assert_eq!(lines[0].0.len(), line.len() - 1);
            }
        }
        let endless = format!("{{\"a\":\"{}", "x".repeat(2 * JSON_LINE_BYTES_MAX));
        assert_eq!(cut(&[endless.as_bytes()])[0].0.len(), JSON_LINE_BYTES_MAX);
        let mut lines = Lines::default();
        endless.as_bytes().chunks(10_000).for_each(|chunk| lines.push(chunk, |_| {}));
        lines.push(b"\nshort\n", |_| {});
        assert!(lines.carry.capacity() < 2 * LINE_BYTES_MAX, "{} bytes are kept", lines.carry.capacity());
    }
}
