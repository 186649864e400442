//! Raw output of a process: the beginning of each stream, and the complete text of a short log.

use crate::limits::{HEAD_BYTES, WHOLE_LOG_BYTES, WHOLE_LOG_CHARS};
use crate::text::Cleaner;
use buildpool_protocol::output::Stream;

/// The raw ends of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamEnds {
    /// The first bytes, at most [`HEAD_BYTES`].
    pub(crate) head: Vec<u8>,
    /// The last bytes that are not part of `head`, at most [`HEAD_BYTES`].
    pub(crate) tail: Vec<u8>,
    /// Bytes between `head` and `tail`.
    pub(crate) between: u64,
}

/// Lines of the head that an answer to a failure can show.
const HEAD_LINES: usize = 20;

impl StreamEnds {
    /// Returns the first whole lines, as an answer shows them.
    pub(crate) fn first_lines(&self) -> Vec<String> {
        let mut cleaner = Cleaner::default();
        let lines = self.head.split_inclusive(|byte| *byte == b'\n').take(HEAD_LINES);
        let whole = lines.filter_map(|line| line.strip_suffix(b"\n"));
        whole.map(|line| cleaner.shown(line)).collect()
    }
}

/// Collects the raw log while it is received.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    heads: [Vec<u8>; 2],
    /// Whether a gap ended the head of a stream.
    is_cut: [bool; 2],
    /// Consecutive bytes, each piece of one stream; empty once the log is not short.
    pieces: Vec<(Stream, Vec<u8>)>,
    bytes: usize,
}

impl Transcript {
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let head = &mut self.heads[stream.index()];
        if !self.is_cut[stream.index()] {
            let room = HEAD_BYTES.saturating_sub(head.len()).min(bytes.len());
            if head.len() + room > WHOLE_LOG_BYTES {
                // The head of a log that is not short gets all memory at once, because each growth would copy its bytes.
                head.reserve_exact(HEAD_BYTES - head.len());
            }
            head.extend_from_slice(&bytes[..room]);
        }
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > WHOLE_LOG_BYTES {
            self.pieces = Vec::new();
            return;
        }
        match self.pieces.last_mut() {
            Some((last, piece)) if *last == stream => piece.extend_from_slice(bytes),
            _ => self.pieces.push((stream, bytes.to_vec())),
        }
    }

    /// Skips missing bytes. The log is then incomplete, and the stream's head ends here.
    pub(crate) fn skip(&mut self, stream: Stream) {
        self.is_cut[stream.index()] = true;
        self.bytes = usize::MAX;
        self.pieces = Vec::new();
    }

    /// Returns the head and the tail of a stream with `length` bytes, whose last bytes are `last`.
    pub(crate) fn ends(&mut self, stream: Stream, length: u64, last: &[u8]) -> StreamEnds {
        let head = std::mem::take(&mut self.heads[stream.index()]);
        let beyond = length.saturating_sub(head.len() as u64);
        let most = usize::try_from(beyond).unwrap_or(usize::MAX).min(HEAD_BYTES);
        let tail = last[last.len().saturating_sub(most)..].to_vec();
        let between = beyond - tail.len() as u64;
        StreamEnds { head, tail, between }
    }

    /// Returns the complete log as a terminal shows it, with lines in the order of their ends. None
    /// if it is longer than [`WHOLE_LOG_CHARS`] or has a gap. `is_records`: records of test runners
    /// are replaced by their text.
    pub(crate) fn whole(&self, cleaner: &mut Cleaner, is_records: bool) -> Option<Vec<String>> {
        if self.bytes > WHOLE_LOG_BYTES {
            return None;
        }
        let mut carries: [Vec<u8>; 2] = Default::default();
        let mut lines = Vec::new();
        let mut take = |line: &[u8]| lines.push(cleaner.shown(line));
        for (stream, piece) in &self.pieces {
            let carry = &mut carries[stream.index()];
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                carry.extend_from_slice(part);
                if let Some(line) = carry.strip_suffix(b"\n") {
                    take(line);
                    carry.clear();
                }
            }
        }
        carries.iter().filter(|carry| !carry.is_empty()).for_each(|carry| take(carry));
        let lines = if is_records { crate::digester::readable(lines) } else { lines };
        let chars: usize = lines.iter().map(|line| line.chars().count() + 1).sum();
        (chars <= WHOLE_LOG_CHARS).then_some(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_log_is_whole_and_in_order_at_any_chunking() {
        let mut transcript = Transcript::default();
        for (stream, bytes) in [
            (Stream::Stdout, &b"out"[..]),
            (Stream::Stderr, b"error\n"),
            (Stream::Stdout, b" 1\nout 2\nrest"),
        ] {
            bytes.iter().for_each(|byte| transcript.push(stream, &[*byte]));
        }
        let lines = transcript.whole(&mut Cleaner::default(), false);
        assert_eq!(lines.expect("it is short"), ["error", "out 1", "out 2", "rest"]);
    }

    #[test]
    fn a_long_log_and_one_with_a_gap_are_not_whole() {
        let mut long = Transcript::default();
        long.push(Stream::Stdout, &[b'x'; WHOLE_LOG_CHARS + 1]);
        assert_eq!(long.whole(&mut Cleaner::default(), false), None);
        let mut cut = Transcript::default();
        cut.push(Stream::Stdout, b"a");
        cut.skip(Stream::Stdout);
        cut.push(Stream::Stdout, b"b");
        assert_eq!(cut.whole(&mut Cleaner::default(), false), None);
        let ends = cut.ends(Stream::Stdout, 10, b"b");
        assert_eq!((&ends.head[..], &ends.tail[..], ends.between), (&b"a"[..], &b"b"[..], 8));
    }

    #[test]
    fn the_ends_of_a_stream_do_not_overlap() {
        for length in [0, 1, HEAD_BYTES, HEAD_BYTES + 1, 2 * HEAD_BYTES, 3 * HEAD_BYTES] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut transcript = Transcript::default();
            bytes.chunks(777).for_each(|chunk| transcript.push(Stream::Stderr, chunk));
            let ends = transcript.ends(Stream::Stderr, length as u64, &bytes);
            let known = (ends.head.len() + ends.tail.len()) as u64;
            assert_eq!(known + ends.between, length as u64);
            assert!(bytes.starts_with(&ends.head) && bytes.ends_with(&ends.tail));
            assert_eq!(ends.between > 0, length > 2 * HEAD_BYTES);
        }
    }
}
