//! The last completed logs, in memory.

use super::logs::{LogError, each_chunk};
use buildpool_protocol::limits::{RING_BYTES_MAX, RING_JOBS};
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Stream};
use buildpool_protocol::{AttemptId, JobId};
use bytes::Bytes;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The log of an attempt that is over: all of it, or its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompletedLog {
    attempt: AttemptId,
    start: u64,
    chunks: Bytes,
}

impl CompletedLog {
    /// A log whose chunks from position `start` on are these.
    pub fn new(attempt: AttemptId, start: u64, chunks: Bytes) -> Self {
        Self { attempt, start, chunks }
    }

    /// Whose.
    pub const fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// The first position that is kept here; 0 when the log is here as a whole.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Where the log ends.
    pub fn end(&self) -> u64 {
        self.start + self.chunks.len() as u64
    }

    /// What is kept, as chunks.
    pub const fn chunks(&self) -> &Bytes {
        &self.chunks
    }

    /// The bytes of one stream, as far as they are kept.
    pub fn stream(&self, stream: Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _: ControlFlow<()> = each_chunk(&self.chunks, |_, header, payload| {
            if header.stream == stream && header.kind == ChunkKind::Data {
                bytes.extend_from_slice(payload);
            }
            ControlFlow::Continue(())
        });
        bytes
    }

    /// The last lines of one stream, as far as they are kept; a last line without newline counts.
    pub fn tail_lines(&self, stream: Stream, lines: usize) -> Vec<u8> {
        let mut bytes = self.stream(stream);
        let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let newlines = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        let start = match lines.checked_sub(1) {
            None => bytes.len(),
            Some(skipped) => newlines.map(|(at, _)| at + 1).nth(skipped).unwrap_or(0),
        };
        bytes.split_off(start)
    }

    /// The chunks from this position on.
    pub(super) fn from(&self, position: u64) -> Result<Bytes, LogError> {
        let Some(at) = position.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()) else {
            return Err(LogError::Evicted { oldest: self.start });
        };
        Ok(if at < self.chunks.len() { self.chunks.slice(at..) } else { Bytes::new() })
    }

    /// The first chunk from which on at most this many bytes follow.
    pub(super) fn start_within(&self, bytes_max: u64) -> u64 {
        first_within(&self.chunks, self.start, self.end(), bytes_max).unwrap_or(self.end())
    }
}

/// The position of the first chunk from which on at most `bytes_max` bytes follow up to `end`.
pub(super) fn first_within(chunks: &[u8], start: u64, end: u64, bytes_max: u64) -> Option<u64> {
    let found = each_chunk(chunks, |at, _: &ChunkHeader, _| {
        let position = start + at as u64;
        if end - position <= bytes_max { ControlFlow::Break(position) } else { ControlFlow::Continue(()) }
    });
    found.break_value()
}

/// The last completed logs by job, bounded in number and in bytes. Looking one up takes constant time.
#[derive(Debug)]
pub struct Ring {
    entries: Mutex<Entries>,
    jobs_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Entries {
    by_job: HashMap<JobId, Arc<CompletedLog>>,
    /// The oldest first.
    order: VecDeque<JobId>,
    bytes: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self::new(RING_JOBS, RING_BYTES_MAX)
    }
}

impl Ring {
    /// An empty ring.
    pub fn new(jobs_max: usize, bytes_max: usize) -> Self {
        Self { entries: Mutex::default(), jobs_max, bytes_max }
    }

    /// The log of this job, if it is among the last.
    pub fn get(&self, job: JobId) -> Option<Arc<CompletedLog>> {
        self.entries().by_job.get(&job).cloned()
    }

    /// How many logs there are, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let entries = self.entries();
        (entries.order.len(), entries.bytes)
    }

    /// Adds a log that has just ended; those beyond the bounds go, the oldest first.
    pub fn insert(&self, log: CompletedLog) {
        let mut entries = self.entries();
        entries.remove(log.attempt.job);
        entries.order.push_back(log.attempt.job);
        entries.add(log);
        while entries.order.len() > self.jobs_max || entries.bytes > self.bytes_max {
            let Some(oldest) = entries.order.front().copied() else { break };
            entries.remove(oldest);
        }
    }

    /// Adds a log that ended before all that are here, if there is room.
    pub(super) fn insert_oldest(&self, log: CompletedLog) {
        let mut entries = self.entries();
        let full = entries.order.len() >= self.jobs_max || entries.bytes + cost(&log) > self.bytes_max;
        if !full && !entries.by_job.contains_key(&log.attempt.job) {
            entries.order.push_front(log.attempt.job);
            entries.add(log);
        }
    }

    pub(super) fn remove_jobs(&self, jobs: &HashSet<JobId>) {
        let mut entries = self.entries();
        for job in jobs {
            entries.remove(*job);
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn add(&mut self, log: CompletedLog) {
        self.bytes += cost(&log);
        self.by_job.insert(log.attempt.job, Arc::new(log));
    }

    fn remove(&mut self, job: JobId) {
        if let Some(log) = self.by_job.remove(&job) {
            self.bytes -= cost(&log);
            self.order.retain(|other| *other != job);
        }
    }
}

fn cost(log: &CompletedLog) -> usize {
    log.chunks.len() + CHUNK_HEADER_BYTES
}

#[cfg(test)]
mod tests {
    use super::{CompletedLog, Ring};
    use buildpool_protocol::output::{ChunkHeader, ChunkKind, Stream};
    use buildpool_protocol::{AttemptId, JobId};
    use uuid::Uuid;

    fn attempt(number: u128) -> AttemptId {
        AttemptId { job: JobId::from_uuid(Uuid::from_u128(number)), number: 1 }
    }

    /// A log with these texts.
    fn log(number: u128, parts: &[(Stream, &str)]) -> CompletedLog {
        let attempt = attempt(number);
        let mut bytes = Vec::new();
        let mut lengths = [0; 2];
        for (sequence, (stream, text)) in (0..).zip(parts) {
            let length = u32::try_from(text.len()).unwrap();
            let offset = lengths[stream.index()];
            let kind = ChunkKind::Data;
            let header =
                ChunkHeader { attempt, stream: *stream, kind, length, elapsed_ms: 0, sequence, offset };
            bytes.extend_from_slice(&header.encode());
            bytes.extend_from_slice(text.as_bytes());
            lengths[stream.index()] += u64::from(length);
        }
        CompletedLog::new(attempt, 0, bytes.into())
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let ring = Ring::new(50, usize::MAX);
        for number in 0..60 {
            ring.insert(log(number, &[(Stream::Stdout, "done\n")]));
        }
        assert_eq!(ring.size().0, 50);
        for number in 0..60 {
            assert_eq!(ring.get(attempt(number).job).is_some(), number >= 10, "{number}");
        }
        ring.insert(log(10, &[(Stream::Stdout, "again\n")]));
        ring.insert(log(60, &[]));
        assert!(ring.get(attempt(10).job).is_some(), "it is the newest but one now");
        assert!(ring.get(attempt(11).job).is_none());
    }

    #[test]
    fn the_oldest_go_when_they_are_too_long_together() {
        let ring = Ring::new(50, 1000);
        let text = "x".repeat(300);
        for number in 0..3 {
            ring.insert(log(number, &[(Stream::Stdout, &text)]));
        }
        assert_eq!(ring.size().0, 2);
        ring.insert(log(9, &[(Stream::Stdout, &text.repeat(9))]));
        assert_eq!(ring.size(), (0, 0), "one that is too long alone is not kept either");
    }

    #[test]
    fn the_tail_is_the_last_lines_of_one_stream() {
        let lines = |from: usize, to: usize| (from..to).map(|n| format!("line {n}\n")).collect::<String>();
        let (a, b) = (lines(0, 40), lines(40, 120));
        let log = log(1, &[(Stream::Stdout, &a), (Stream::Stderr, "no\n"), (Stream::Stdout, &b)]);
        assert_eq!(log.tail_lines(Stream::Stdout, 50), lines(70, 120).into_bytes());
        assert_eq!(log.tail_lines(Stream::Stdout, 500), lines(0, 120).into_bytes());
        assert_eq!(log.tail_lines(Stream::Stderr, 50), b"no\n");
        assert_eq!(log.tail_lines(Stream::Stdout, 0), b"");
    }

    #[test]
    fn a_last_line_without_newline_counts() {
        let log = log(1, &[(Stream::Stdout, "a\n\nb\nc")]);
        for (lines, expected) in [(1, "c"), (2, "b\nc"), (3, "\nb\nc"), (4, "a\n\nb\nc"), (9, "a\n\nb\nc")] {
            assert_eq!(log.tail_lines(Stream::Stdout, lines), expected.as_bytes(), "{lines}");
        }
    }
}
