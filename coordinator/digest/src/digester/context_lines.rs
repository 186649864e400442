//! Buffer of the last lines of a stream, which may become context of the next finding.

use std::collections::VecDeque;

/// Limit on lines. The last of them become a finding's context.
pub(super) const LINES_MAX: usize = 24;

/// The last lines of a stream since the last finding. The line buffers are reused.
#[derive(Debug, Default)]
pub(super) struct ContextLines {
    lines: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl ContextLines {
    pub(super) fn push(&mut self, line: &[u8]) {
        let full = self.lines.len() == LINES_MAX;
        let buffer = if full { self.lines.pop_front() } else { self.spare.pop() };
        let mut buffer = buffer.unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(line);
        self.lines.push_back(buffer);
    }

    /// Drops all lines except the last `kept`.
    pub(super) fn keep_last(&mut self, kept: usize) {
        let excess = self.lines.len().saturating_sub(kept);
        self.spare.extend(self.lines.drain(..excess));
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.lines.back().map(Vec::as_slice)
    }

    /// Drops the last line.
    pub(super) fn drop_last(&mut self) {
        self.spare.extend(self.lines.pop_back());
    }

    /// Returns the last lines in order, at most `most`.
    pub(super) fn tail(&self, most: usize) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().skip(self.lines.len().saturating_sub(most)).map(Vec::as_slice)
    }
}

/// Copies of a few lines in one reused buffer. They become text only for a finding that is new.
#[derive(Debug, Default)]
pub(super) struct LinesBefore {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl LinesBefore {
    /// Replaces the lines.
    pub(super) fn copy<'l>(&mut self, lines: impl Iterator<Item = &'l [u8]>) {
        self.bytes.clear();
        self.ends.clear();
        for line in lines {
            self.bytes.extend_from_slice(line);
            self.ends.push(self.bytes.len());
        }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_stay_in_order() {
        let mut recent = ContextLines::default();
        for number in 0..100 {
            recent.push(format!("line {number}").as_bytes());
        }
        assert_eq!(recent.tail(usize::MAX).count(), LINES_MAX);
        recent.drop_last();
        assert_eq!(recent.tail(2).collect::<Vec<_>>(), [b"line 97", b"line 98"]);
        recent.keep_last(1);
        assert_eq!(recent.tail(2).collect::<Vec<_>>(), [b"line 98"]);
        recent.keep_last(0);
        assert_eq!(recent.last(), None);
        recent.push(b"x");
        assert_eq!(recent.tail(9).collect::<Vec<_>>(), [b"x"]);
        assert_eq!(recent.lines.len() + recent.spare.len(), LINES_MAX);
    }

    #[test]
    fn copied_lines_replace_the_ones_before() {
        let mut before = LinesBefore::default();
        before.copy([&b"one"[..], b"", b"three"].into_iter());
        assert_eq!(before.lines().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        before.copy([&b"x"[..]].into_iter());
        assert_eq!(before.lines().collect::<Vec<_>>(), [b"x"]);
        before.copy(std::iter::empty());
        assert_eq!(before.lines().count(), 0);
    }
}
