//! Buffer of a stream's last bytes, to show a short stream whole and the end of a long one.

use super::clean::Cleaner;
use crate::limits::TAIL_BYTES;
use std::collections::VecDeque;

/// The last bytes of one stream.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    tail: VecDeque<u8>,
    length: u64,
}

/// A displayed line of the tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TailLine {
    /// Text as a terminal would display it.
    pub(crate) text: String,
    /// Offset of its first byte in the stream.
    pub(crate) from: u64,
    /// Offset one past its last byte.
    pub(crate) to: u64,
}

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.tail.len() + kept.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.tail.extend(kept);
    }

    /// Skips missing bytes, and drops the bytes before them.
    pub(crate) fn skip(&mut self, missing_bytes: u64) {
        self.length = self.length.saturating_add(missing_bytes);
        self.tail.clear();
    }

    /// Number of bytes in the stream, missing ones included.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// Returns the kept bytes.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        self.tail.make_contiguous()
    }

    /// Returns the kept lines in order: whole lines only, unless the tail is part of one long line.
    pub(crate) fn last_lines(&self, cleaner: &mut Cleaner) -> Vec<TailLine> {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let mut from = self.length - bytes.len() as u64;
        let mut rest: &[u8] = &bytes;
        if from > 0
            && let Some(end) = memchr::memchr(b'\n', rest)
            && end + 1 < rest.len()
        {
            from += end as u64 + 1;
            rest = &rest[end + 1..];
        }
        let mut lines = Vec::new();
        for part in rest.split_inclusive(|byte| *byte == b'\n') {
            let to = from + part.len() as u64;
            let body = part.strip_suffix(b"\n").unwrap_or(part);
            let text = String::from_utf8_lossy(cleaner.shown(body)).into_owned();
            lines.push(TailLine { text, from, to });
            from = to;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_whole() {
        let mut tail = Tail::default();
        let mut log = String::new();
        for number in 0..200_000 {
            log.push_str(&format!("line {number}\n"));
        }
        for chunk in log.as_bytes().chunks(4_099) {
            tail.push(chunk);
        }
        let lines = tail.last_lines(&mut Cleaner::default());
        assert!(lines[0].text.starts_with("line "));
        assert_eq!(lines.last().expect("the log has lines").text, "line 199999");
        assert_eq!(lines.last().expect("the log has lines").to, log.len() as u64);
    }
}
