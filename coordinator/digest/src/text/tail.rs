//! Buffer of a stream's last bytes, to show a short stream whole and the end of a long one.

use super::clean::Cleaner;
use crate::limits::TAIL_BYTES;
use std::collections::VecDeque;

/// Maximum length of a stream whose buffer grows as the stream does, in bytes.
const SHORT_BYTES_MAX: usize = 32 << 10;

/// The last bytes of one stream.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    tail: VecDeque<u8>,
    length: u64,
}

/// Whole lines from the end of a stream. A line becomes text only when an answer needs it: most of them are never shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct TailLines {
    bytes: Vec<u8>,
    count: usize,
    /// The bytes are text as a terminal would display it.
    is_shown: bool,
}

impl TailLines {
    fn raw(bytes: &[u8]) -> Self {
        let ended = memchr::memchr_iter(b'\n', bytes).count();
        let has_rest = bytes.last().is_some_and(|byte| *byte != b'\n');
        Self { bytes: bytes.to_vec(), count: ended + usize::from(has_rest), is_shown: false }
    }

    /// Lines that are shown as they are. None contains a line feed.
    pub(crate) fn shown(lines: &[String]) -> Self {
        let bytes = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>().into_bytes();
        Self { bytes, count: lines.len(), is_shown: true }
    }

    /// Number of lines.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Returns true if the bytes contain `text`.
    pub(crate) fn contains(&self, text: &[u8]) -> bool {
        memchr::memmem::find(&self.bytes, text).is_some()
    }

    /// Lines from the last one back to the first, as a terminal would display them.
    pub(crate) fn backwards(&self) -> impl Iterator<Item = String> {
        let mut cleaner = Cleaner::default();
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let body = rest.strip_suffix(b"\n").unwrap_or(rest);
            let from = memchr::memrchr(b'\n', body).map_or(0, |at| at + 1);
            let line = &body[from..];
            let mut shown = |line: &[u8]| match self.is_shown {
                true => String::from_utf8_lossy(line).into_owned(),
                false => cleaner.shown(line),
            };
            let text = (!rest.is_empty()).then(|| shown(line));
            rest = &rest[..from];
            text
        })
    }

    /// The last lines in order, at most `most`.
    pub(crate) fn last(&self, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.backwards().take(most).collect();
        lines.reverse();
        lines
    }
}

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.tail.len() + kept.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        if self.tail.len() + kept.len() > SHORT_BYTES_MAX {
            // A stream that is not short gets all memory at once, because each growth would copy its bytes.
            self.tail.reserve_exact(TAIL_BYTES - self.tail.len());
        }
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

    /// Returns the kept lines: whole lines only, unless the tail is part of one long line.
    pub(crate) fn lines(&mut self) -> TailLines {
        let is_cut = self.length > self.tail.len() as u64;
        let bytes = self.bytes();
        match memchr::memchr(b'\n', bytes) {
            Some(end) if is_cut && end + 1 < bytes.len() => TailLines::raw(&bytes[end + 1..]),
            _ => TailLines::raw(bytes),
        }
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
        let lines = tail.lines();
        assert_eq!(lines.last(2), ["line 199998", "line 199999"]);
        let all = lines.last(usize::MAX);
        assert_eq!(all.len(), lines.len());
        assert!(all.iter().all(|line| line.starts_with("line ")), "{}", all[0]);
        assert_eq!(TailLines::shown(&all).last(usize::MAX), all);
    }

    #[test]
    fn blank_lines_and_a_last_line_without_an_end_count() {
        for (bytes, lines) in [
            ("", &[][..]),
            ("\n", &[""]),
            ("a\n\n", &["a", ""]),
            ("\na", &["", "a"]),
            ("a\r\nb\n", &["a", "b"]),
        ] {
            let mut tail = Tail::default();
            tail.push(bytes.as_bytes());
            assert_eq!(tail.lines().last(usize::MAX), lines, "{bytes:?}");
            assert_eq!(tail.lines().len(), lines.len(), "{bytes:?}");
        }
    }
}
