//! A log by line numbers: ranges of lines, the line at an offset of a stream, and the lines that match a pattern.
//!
//! A line has bytes of one stream. It ends with its newline, at bytes of the other stream, or at a gap, which is a line of
//! its own. An index keeps the place of every n-th line, so a range is found without reading the lines before it. The index
//! grows with the log.

use super::{PatternFilter, STEP_BYTES};
use crate::store::{LogError, LogReader};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Gap, Stream};
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use utoipa::ToSchema;

/// Limit on the lines of an answer.
pub(crate) const LINES_MAX: u32 = 2_000;
/// Limit on the bytes of an answer's lines. An answer ends with the line that exceeds it.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Limit on the shown bytes of a line. The rest is counted.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Limit on the bytes of a line that are compared with a pattern.
const MATCHED_BYTES_MAX: usize = 64 << 10;
/// Limit on the line numbers of matches in an answer. Further matches are counted.
const MATCHES_LISTED_MAX: usize = 10_000;
/// Distance of the first marks of an index, in lines.
const STRIDE: u64 = 512;
/// Limit on the marks of an index. Above it, every second mark is removed.
const MARKS_MAX: usize = 4_096;
/// Limit on the indexes that are kept. The one that was not used for the longest time is removed.
const INDEXES_KEPT: usize = 32;

/// A line of a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct Line {
    /// `stdout`, `stderr`, or `gap` for missing bytes.
    stream: &'static str,
    /// Milliseconds from the start of the attempt to the output.
    at_ms: u32,
    /// The text without its newline, with terminal sequences as they were written. Invalid UTF-8 is replaced.
    text: String,
    /// Bytes of a long line that are left out at its end.
    #[serde(skip_serializing_if = "is_zero")]
    cut_bytes: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Lines that match a pattern.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Matches {
    /// Number of all matching lines.
    pub(crate) count: u64,
    /// Their numbers from 1, the first [`MATCHES_LISTED_MAX`].
    pub(crate) lines: Vec<u64>,
}

/// A place in a log.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Number of the line, from 0.
    line: u64,
    /// Position of the chunk.
    position: u64,
    /// Bytes of the chunk before the place.
    within: usize,
    /// Bytes of each stream before the place.
    offsets: [u64; 2],
}

/// A line, or the part of it that is in one chunk.
struct LinePiece<'a> {
    at: Mark,
    /// Whether the line begins here.
    begins: bool,
    /// Whether its newline follows.
    ends: bool,
    /// `None` for a gap.
    stream: Option<Stream>,
    elapsed_ms: u32,
    bytes: &'a [u8],
}

/// Reads the log from a place on, until its current end or until `visit` breaks. Returns the place, and the stream of
/// a line that has not ended there.
fn walk(
    reader: &mut LogReader,
    mut at: Mark,
    mut open: Option<Stream>,
    mut visit: impl FnMut(&LinePiece<'_>) -> ControlFlow<()>,
) -> Result<(Mark, Option<Stream>), LogError> {
    loop {
        let chunks = reader.read(at.position, STEP_BYTES)?;
        if chunks.is_empty() {
            return Ok((at, open));
        }
        let mut rest = &chunks[..];
        while let Ok((header, payload)) = ChunkHeader::decode(rest) {
            if open.is_some_and(|stream| header.kind == ChunkKind::Gap || stream != header.stream) {
                at.line += 1;
                open = None;
            }
            let index = header.stream.index();
            at.offsets[index] = header.offset + at.within as u64;
            let mut bytes = payload.get(at.within..).unwrap_or_default();
            if header.kind == ChunkKind::Gap {
                let piece = LinePiece {
                    at,
                    begins: true,
                    ends: false,
                    stream: None,
                    elapsed_ms: header.elapsed_ms,
                    bytes: payload,
                };
                if visit(&piece).is_break() {
                    return Ok((at, open));
                }
                at.line += 1;
                bytes = &[];
            }
            while !bytes.is_empty() {
                let newline = bytes.iter().position(|byte| *byte == b'\n');
                let piece = LinePiece {
                    at,
                    begins: open.is_none(),
                    ends: newline.is_some(),
                    stream: Some(header.stream),
                    elapsed_ms: header.elapsed_ms,
                    bytes: &bytes[..newline.unwrap_or(bytes.len())],
                };
                if visit(&piece).is_break() {
                    return Ok((at, open));
                }
                let taken = newline.map_or(bytes.len(), |newline| newline + 1);
                bytes = &bytes[taken..];
                at.within += taken;
                at.offsets[index] += taken as u64;
                at.line += u64::from(newline.is_some());
                open = newline.is_none().then_some(header.stream);
            }
            at.position += header.size();
            at.within = 0;
            rest = &rest[usize::try_from(header.size()).unwrap_or(rest.len()).min(rest.len())..];
        }
    }
}

/// Places of lines in a log.
#[derive(Debug)]
pub(crate) struct LineIndex {
    /// Starts of lines, in ascending order, each a multiple of `stride`.
    marks: Vec<Mark>,
    stride: u64,
    /// End of the part that was read.
    end: Mark,
    /// Stream of a line that has not ended there.
    open: Option<Stream>,
}

impl Default for LineIndex {
    fn default() -> Self {
        Self { marks: vec![Mark::default()], stride: STRIDE, end: Mark::default(), open: None }
    }
}

impl LineIndex {
    /// Reads the part of the log that is not in the index yet, and returns the number of all lines.
    pub(crate) fn extend(&mut self, reader: &mut LogReader) -> Result<u64, LogError> {
        if reader.length() < self.end.position {
            *self = Self::default();
        }
        match self.read_on(reader) {
            // The log was written again, with other chunks.
            Err(LogError::NotAPosition { .. }) if self.end.position > 0 => {
                *self = Self::default();
                self.read_on(reader)?;
            }
            read => read?,
        }
        Ok(self.end.line + u64::from(self.open.is_some()))
    }

    fn read_on(&mut self, reader: &mut LogReader) -> Result<(), LogError> {
        let Self { marks, stride, .. } = self;
        (self.end, self.open) = walk(reader, self.end, self.open, |piece| {
            if piece.begins && piece.at.line > 0 && piece.at.line.is_multiple_of(*stride) {
                marks.push(piece.at);
                if marks.len() > MARKS_MAX {
                    *stride *= 2;
                    marks.retain(|mark| mark.line.is_multiple_of(*stride));
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Returns the last mark that is not after a place.
    fn mark(&self, is_before: impl Fn(&Mark) -> bool) -> Mark {
        let after = self.marks.partition_point(is_before);
        self.marks[after.saturating_sub(1)]
    }

    /// Returns up to `count` lines from the line `from` on, which is counted from 0.
    pub(crate) fn lines(&self, reader: &mut LogReader, from: u64, count: u32) -> Result<Vec<Line>, LogError> {
        let mut lines: Vec<Line> = Vec::new();
        let mut size = 0;
        let mut bytes = Vec::new();
        let end = from + u64::from(count.min(LINES_MAX));
        walk(reader, self.mark(|mark| mark.line <= from), None, |piece| {
            if piece.at.line < from {
                return ControlFlow::Continue(());
            }
            if piece.begins {
                if piece.at.line >= end || size > ANSWER_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                close(lines.last_mut(), &mut bytes);
                let stream = piece.stream.map_or("gap", Stream::name);
                lines.push(Line { stream, at_ms: piece.elapsed_ms, text: String::new(), cut_bytes: 0 });
            }
            let shown = piece.bytes.len().min(LINE_BYTES_MAX - bytes.len().min(LINE_BYTES_MAX));
            match (piece.stream, lines.last_mut()) {
                (None, _) => bytes.extend_from_slice(gap_text(piece.bytes).as_bytes()),
                (Some(_), Some(line)) => {
                    bytes.extend_from_slice(&piece.bytes[..shown]);
                    line.cut_bytes += piece.bytes.len() - shown;
                }
                (Some(_), None) => {}
            }
            size += shown;
            ControlFlow::Continue(())
        })?;
        close(lines.last_mut(), &mut bytes);
        Ok(lines)
    }

    /// Returns the line, from 0, that has this offset of a stream. `None` if the log has no such byte.
    pub(crate) fn line_at(
        &self,
        reader: &mut LogReader,
        stream: Stream,
        offset: u64,
    ) -> Result<Option<u64>, LogError> {
        let index = stream.index();
        let mut found = None;
        walk(reader, self.mark(|mark| mark.offsets[index] <= offset), None, |piece| {
            // The newline belongs to its line.
            let end = piece.at.offsets[index] + piece.bytes.len() as u64 + u64::from(piece.ends);
            if piece.stream != Some(stream) || end <= offset {
                return ControlFlow::Continue(());
            }
            found = Some(piece.at.line).filter(|_| piece.at.offsets[index] <= offset);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}

/// Sets the text of a line that has ended.
fn close(line: Option<&mut Line>, bytes: &mut Vec<u8>) {
    if let Some(line) = line {
        line.text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned();
    }
    bytes.clear();
}

fn gap_text(payload: &[u8]) -> String {
    let gap = serde_json::from_slice::<Gap>(payload);
    let (bytes, reason) = gap.map_or((0, String::new()), |gap| (gap.missing_bytes, gap.reason));
    format!("{bytes} bytes of the log are missing here: {reason}")
}

/// Returns the lines that match a pattern.
pub(super) fn matches(reader: &mut LogReader, filter: &PatternFilter) -> Result<Matches, LogError> {
    let mut found = Matches::default();
    let mut current: Option<(u64, Vec<u8>)> = None;
    let mut judge = |line: Option<(u64, Vec<u8>)>| -> Vec<u8> {
        let Some((number, mut bytes)) = line else { return Vec::new() };
        if filter.matches(&bytes) {
            found.count += 1;
            if found.lines.len() < MATCHES_LISTED_MAX {
                found.lines.push(number + 1);
            }
        }
        bytes.clear();
        bytes
    };
    walk(reader, Mark::default(), None, |piece| {
        if piece.begins {
            let spare = judge(current.take());
            current = piece.stream.map(|_| (piece.at.line, spare));
        }
        if let Some((_, bytes)) = &mut current {
            let room = MATCHED_BYTES_MAX.saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
        }
        ControlFlow::Continue(())
    })?;
    judge(current);
    Ok(found)
}

/// The indexes of the logs that were read last.
#[derive(Default)]
pub(crate) struct LineIndexes {
    kept: Mutex<VecDeque<(AttemptId, Arc<Mutex<LineIndex>>)>>,
}

impl LineIndexes {
    /// Returns the index of a log, which is empty the first time.
    pub(super) fn of(&self, attempt: AttemptId) -> Arc<Mutex<LineIndex>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(of, _)| *of == attempt).and_then(|at| kept.remove(at));
        let entry = found.unwrap_or_else(|| (attempt, Arc::default()));
        let index = entry.1.clone();
        kept.push_back(entry);
        if kept.len() > INDEXES_KEPT {
            kept.pop_front();
        }
        index
    }
}

#[cfg(test)]
mod tests;
