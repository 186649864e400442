//! Ring of the last completed logs, in memory.

use super::logs::{LogError, each_chunk};
use buildpool_protocol::limits::{RING_BYTES_MAX, RING_JOBS};
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Stream};
use buildpool_protocol::{AttemptId, JobId};
use bytes::Bytes;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The log of an ended attempt: all of it, or its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompletedLog {
    attempt: AttemptId,
    start: u64,
    chunks: Bytes,
}

impl CompletedLog {
    /// Returns a log with these chunks, which begin at position `start`.
    pub fn new(attempt: AttemptId, start: u64, chunks: Bytes) -> Self {
        Self { attempt, start, chunks }
    }

    /// Returns the attempt of the log.
    pub const fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Returns the first stored position; 0 if the whole log is here.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Returns the end position of the log.
    pub fn end(&self) -> u64 {
        self.start + self.chunks.len() as u64
    }

    /// Returns the stored chunks.
    pub const fn chunks(&self) -> &Bytes {
        &self.chunks
    }

    /// Returns the stored bytes of one stream.
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

    /// Returns the last lines of one stream, from the stored part. A last line without a newline
    /// counts.
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

    /// Returns the chunks from this position on.
    pub(super) fn from(&self, position: u64) -> Result<Bytes, LogError> {
        let Some(at) = position.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()) else {
            return Err(LogError::Evicted { oldest: self.start });
        };
        Ok(if at < self.chunks.len() { self.chunks.slice(at..) } else { Bytes::new() })
    }

    /// Returns the position of the first chunk that has at most this many bytes up to the end.
    pub(super) fn start_within(&self, bytes_max: u64) -> u64 {
        first_within(&self.chunks, self.start, self.end(), bytes_max).unwrap_or(self.end())
    }
}

/// Returns the position of the first chunk that has at most `bytes_max` bytes from its beginning to
/// `end`.
pub(super) fn first_within(chunks: &[u8], start: u64, end: u64, bytes_max: u64) -> Option<u64> {
    let found = each_chunk(chunks, |at, _: &ChunkHeader, _| {
        let position = start + at as u64;
        if end - position <= bytes_max { ControlFlow::Break(position) } else { ControlFlow::Continue(()) }
    });
    found.break_value()
}

/// The last completed logs by job, with limits on number and bytes. A lookup takes constant time.
#[derive(Debug)]
pub struct Ring {
    entries: Mutex<RingEntries>,
    jobs_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct RingEntries {
    by_job: HashMap<JobId, Arc<CompletedLog>>,
    /// Oldest first.
    order: VecDeque<JobId>,
    bytes: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self::new(RING_JOBS, RING_BYTES_MAX)
    }
}

impl Ring {
    /// Returns an empty ring.
    pub fn new(jobs_max: usize, bytes_max: usize) -> Self {
        Self { entries: Mutex::default(), jobs_max, bytes_max }
    }

    /// Returns the log of this job if the ring contains it.
    pub fn get(&self, job: JobId) -> Option<Arc<CompletedLog>> {
        self.entries().by_job.get(&job).cloned()
    }

    /// Returns the number of logs and their total bytes.
    pub fn size(&self) -> (usize, usize) {
        let entries = self.entries();
        (entries.order.len(), entries.bytes)
    }

    /// Adds a log that has just ended. Removes the oldest logs beyond the limits.
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

    /// Adds a log that is older than all others, if there is room.
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

    fn entries(&self) -> MutexGuard<'_, RingEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RingEntries {
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

    /// Returns a log with these texts.
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
