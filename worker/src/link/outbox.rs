//! The logs to send: their written length, the send position, and a window beyond the coordinator's
//! position. Parts are read directly from the spool when they are sent.

use crate::limits::{FRAME_LOG_BYTES, REPEAT_AFTER};
use crate::records;
use buildpool_protocol::frame::{BINARY_HEADER_BYTES, BinaryHeader, BinaryKind};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::limits::OUTPUT_WINDOW_BYTES;
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader};
use buildpool_protocol::worker_link::FromWorker;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// The logs of a worker that the coordinator has not stored completely.
#[derive(Default)]
pub struct Outbox {
    logs: Mutex<Logs>,
    changed: Notify,
}

#[derive(Default)]
struct Logs {
    by_attempt: BTreeMap<AttemptId, Log>,
    /// The attempt that was served last.
    last: Option<AttemptId>,
}

struct Log {
    path: PathBuf,
    file: Option<Arc<File>>,
    /// Complete chunks in the file, in bytes.
    written: u64,
    /// Position sent on this connection. `None` until the coordinator has sent the start position.
    sent: Option<u64>,
    /// Position stored by the coordinator.
    stored: u64,
    /// Message to send after the whole log.
    complete: Option<FromWorker>,
    /// Time when it was sent on this connection.
    complete_sent_at: Option<Instant>,
    /// True after a read error: the log waits for a retry and does not block others.
    is_unreadable: bool,
}

/// The next item to send.
pub enum OutboxItem {
    /// A part of a log.
    Part(Part),
    /// The whole log was sent.
    Complete(AttemptId, FromWorker),
}

/// A part of a log to read and send.
pub struct Part {
    /// Id of the attempt.
    pub attempt: AttemptId,
    path: PathBuf,
    file: Option<Arc<File>>,
    position: u64,
    bytes_max: usize,
}

impl Outbox {
    /// Adds a log with its written length. It waits for [`Self::start_sending`].
    pub fn add(&self, attempt: AttemptId, path: PathBuf, written: u64) {
        let log = Log {
            path,
            file: None,
            written,
            sent: None,
            stored: 0,
            complete: None,
            complete_sent_at: None,
            is_unreadable: false,
        };
        self.logs().by_attempt.entry(attempt).or_insert(log);
    }

    /// Removes a log.
    pub fn remove(&self, attempt: AttemptId) {
        self.logs().by_attempt.remove(&attempt);
    }

    /// Records the new length of a log.
    pub fn written(&self, attempt: AttemptId, length: u64) {
        self.change(attempt, |log| log.written = log.written.max(length));
    }

    /// Sets the message to send after the whole log of an ended attempt.
    pub fn complete(&self, attempt: AttemptId, length: u64, message: FromWorker) {
        self.change(attempt, |log| {
            log.written = length;
            log.sent = log.sent.map(|sent| sent.min(length));
            log.complete = Some(message);
        });
    }

    /// Returns true if its final message is waiting or sent.
    pub fn is_complete(&self, attempt: AttemptId) -> bool {
        self.logs().by_attempt.get(&attempt).is_some_and(|log| log.complete.is_some())
    }

    /// Sets the position from which the coordinator requests the log on this connection. Bytes sent
    /// beyond it are sent again.
    pub fn start_sending(&self, attempt: AttemptId, position: u64) {
        self.change(attempt, |log| {
            log.sent = Some(position.min(log.written));
            log.stored = position;
            log.complete_sent_at = None;
            log.is_unreadable = false;
        });
    }

    /// Marks a log as unreadable for now.
    pub fn unreadable(&self, attempt: AttemptId) {
        self.change(attempt, |log| log.is_unreadable = true);
    }

    /// Retries logs that could not be read.
    pub fn retry_unreadable(&self) {
        for log in self.logs().by_attempt.values_mut() {
            log.is_unreadable = false;
        }
        self.changed.notify_one();
    }

    /// Records the position stored by the coordinator. Returns the previous one.
    pub fn note_stored(&self, attempt: AttemptId, position: u64) -> Option<u64> {
        let before = self.logs().by_attempt.get(&attempt).map(|log| log.stored);
        self.change(attempt, |log| log.stored = log.stored.max(position));
        before
    }

    /// Sends the final message again if the coordinator still lists the attempt and the message was
    /// sent some time ago.
    pub fn resend_complete(&self, attempt: AttemptId, now: Instant) {
        self.change(attempt, |log| {
            log.complete_sent_at = log.complete_sent_at.filter(|at| now.duration_since(*at) < REPEAT_AFTER);
        });
    }

    /// Returns the stored position of each log with unacknowledged bytes.
    pub fn in_flight(&self) -> Vec<(AttemptId, u64)> {
        let logs = self.logs();
        let open = logs.by_attempt.iter().filter(|(_, log)| log.sent.is_some_and(|sent| sent > log.stored));
        open.map(|(attempt, log)| (*attempt, log.stored)).collect()
    }

    /// Handles a lost connection: each log waits for a start position on the next one.
    pub fn disconnected(&self) {
        for log in self.logs().by_attempt.values_mut() {
            log.sent = None;
            log.complete_sent_at = None;
        }
    }

    /// Waits for a change since the last [`Self::next`] that returned `None`.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the next item to send. The logs take turns.
    pub fn next(&self) -> Option<OutboxItem> {
        let mut logs = self.logs();
        let in_flight: u64 = logs
            .by_attempt
            .values()
            .filter_map(|log| log.sent.map(|sent| sent.saturating_sub(log.stored)))
            .sum();
        let window = OUTPUT_WINDOW_BYTES.saturating_sub(in_flight);
        let after = logs.last;
        let is_later = |attempt: &AttemptId| after.is_none_or(|after| *attempt > after);
        let attempt = logs
            .by_attempt
            .iter()
            .filter(|(_, log)| log.has_next(window))
            .map(|(attempt, _)| *attempt)
            .min_by_key(|attempt| (!is_later(attempt), *attempt))?;
        logs.last = Some(attempt);
        let log = logs.by_attempt.get_mut(&attempt)?;
        let sent = log.sent?;
        if sent >= log.written {
            log.complete_sent_at = Some(Instant::now());
            return log.complete.clone().map(|message| OutboxItem::Complete(attempt, message));
        }
        let bytes_max = usize::try_from(log.written - sent).unwrap_or(usize::MAX).min(FRAME_LOG_BYTES);
        Some(OutboxItem::Part(Part {
            attempt,
            path: log.path.clone(),
            file: log.file.clone(),
            position: sent,
            bytes_max,
        }))
    }

    /// Records that a part was read and is being sent.
    fn sent(&self, part: &Part, file: &Arc<File>, length: u64) {
        if let Some(log) = self.logs().by_attempt.get_mut(&part.attempt) {
            log.file = Some(Arc::clone(file));
            // Keep a rewind that happened in the meantime.
            if log.sent == Some(part.position) {
                log.sent = Some(part.position + length);
            }
        }
    }

    fn change(&self, attempt: AttemptId, change: impl FnOnce(&mut Log)) {
        if let Some(log) = self.logs().by_attempt.get_mut(&attempt) {
            change(log);
        }
        self.changed.notify_one();
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        // Every change is a plain assignment, so a panicked thread left no partial change.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn has_next(&self, window: u64) -> bool {
        match self.sent {
            None => false,
            _ if self.is_unreadable => false,
            Some(sent) if sent < self.written => window > 0,
            Some(_) => self.complete.is_some() && self.complete_sent_at.is_none(),
        }
    }
}

impl Part {
    /// Reads the part as a binary frame of whole chunks, and records that it is sent. The frame gets this memory; its
    /// content is not kept.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has no whole chunk at this position.
    pub fn read(self, outbox: &Outbox, mut frame: BytesMut) -> io::Result<Bytes> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(records::open(&self.path)?),
        };
        let header = BinaryHeader { kind: BinaryKind::Output, channel: 0, position: self.position };
        // Bytes of an earlier frame stay until they are overwritten: filling them costs as much as reading.
        frame.resize(BINARY_HEADER_BYTES + self.bytes_max, 0);
        frame[..BINARY_HEADER_BYTES].copy_from_slice(&header.encode());
        file.read_exact_at(&mut frame[BINARY_HEADER_BYTES..], self.position)?;
        let length = whole_chunks(&frame[BINARY_HEADER_BYTES..]);
        if length == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: no chunk at position {}", self.path.display(), self.position),
            ));
        }
        frame.truncate(BINARY_HEADER_BYTES + length);
        outbox.sent(&self, &file, length as u64);
        Ok(frame.freeze())
    }
}

/// Returns the length of the whole chunks at the start of a part.
fn whole_chunks(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<CHUNK_HEADER_BYTES>()) {
        let Ok(header) = ChunkHeader::decode_header(header) else { break };
        let end = at + CHUNK_HEADER_BYTES + header.length as usize;
        if end > bytes.len() {
            break;
        }
        at = end;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{Outbox, OutboxItem};
    use buildpool_protocol::ids::{AttemptId, JobId, Lease};
    use buildpool_protocol::output::{ChunkHeader, ChunkKind, Stream};
    use buildpool_protocol::worker_link::FromWorker;
    use bytes::{Bytes, BytesMut};
    use std::path::Path;

    fn attempt(number: u32) -> AttemptId {
        AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number }
    }

    fn write_log(path: &Path, attempt: AttemptId, chunks: &[&[u8]]) -> u64 {
        let mut log = Vec::new();
        for (sequence, payload) in (0..).zip(chunks) {
            let header = ChunkHeader {
                attempt,
                stream: Stream::Stdout,
                kind: ChunkKind::Data,
                length: u32::try_from(payload.len()).expect("small"),
                elapsed_ms: 0,
                sequence,
                offset: 0,
            };
            log.extend(header.encode());
            log.extend(*payload);
        }
        std::fs::write(path, &log).expect("a file can be written");
        log.len() as u64
    }

    fn next_frame(outbox: &Outbox) -> Option<Bytes> {
        match outbox.next()? {
            OutboxItem::Part(part) => Some(part.read(outbox, BytesMut::new()).expect("readable")),
            OutboxItem::Complete(..) => None,
        }
    }

    #[test]
    fn nothing_is_sent_before_the_coordinator_states_the_position() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let length = write_log(&path, attempt(1), &[b"one", b"three"]);
        let outbox = Outbox::default();
        outbox.add(attempt(1), path, length);
        assert!(outbox.next().is_none());
        outbox.start_sending(attempt(1), 51);
        let frame = next_frame(&outbox).expect("the second chunk");
        assert_eq!(frame.len() as u64, 16 + length - 51);
        assert_eq!(frame[8], 51);
        assert!(outbox.next().is_none());
        outbox.start_sending(attempt(1), 0);
        assert_eq!(next_frame(&outbox).expect("all of it").len() as u64, 16 + length);
        outbox.disconnected();
        assert!(outbox.next().is_none());
    }

    #[test]
    fn a_log_that_a_job_replaced_by_a_pipe_delays_no_other_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let outbox = Outbox::default();
        outbox.add(attempt(1), path, 100);
        outbox.start_sending(attempt(1), 0);
        let Some(OutboxItem::Part(part)) = outbox.next() else { panic!("a part is due") };
        let error = part.read(&outbox, BytesMut::new()).expect_err("it is no file");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
    }

    #[test]
    fn the_end_is_sent_after_the_log_and_once_a_connection() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let length = write_log(&path, attempt(1), &[b"one"]);
        let lease = Lease { attempt: attempt(1), epoch: 1 };
        let message = FromWorker::Decline { lease, reason: String::new() };
        let outbox = Outbox::default();
        outbox.add(attempt(1), path, 0);
        outbox.start_sending(attempt(1), 0);
        outbox.complete(attempt(1), length, message);
        assert!(next_frame(&outbox).is_some());
        assert!(matches!(outbox.next(), Some(OutboxItem::Complete(..))));
        assert!(outbox.next().is_none());
        let now = std::time::Instant::now();
        outbox.resend_complete(attempt(1), now);
        assert!(outbox.next().is_none(), "it was sent a moment ago");
        outbox.resend_complete(attempt(1), now + crate::limits::REPEAT_AFTER);
        assert!(matches!(outbox.next(), Some(OutboxItem::Complete(..))));
        outbox.disconnected();
        outbox.start_sending(attempt(1), length);
        assert!(matches!(outbox.next(), Some(OutboxItem::Complete(..))));
    }

    #[test]
    fn logs_take_turns_and_a_partial_chunk_waits() {
        let directory = tempfile::tempdir().expect("a directory");
        let outbox = Outbox::default();
        let big = vec![7; 60_000];
        for number in [1, 2] {
            let path = directory.path().join(number.to_string());
            let length = write_log(&path, attempt(number), &[&big[..]; 8]);
            outbox.add(attempt(number), path, length);
            outbox.start_sending(attempt(number), 0);
        }
        let mut order = Vec::new();
        while let Some(OutboxItem::Part(part)) = outbox.next() {
            order.push(part.attempt.number);
            // The memory of a longer frame, whose bytes must not be sent again.
            let frame = part.read(&outbox, BytesMut::from(&[9; 400_000][..])).expect("readable");
            assert_eq!((frame.len() - 16) % 60_048, 0, "whole chunks only");
            assert!(!frame.contains(&9), "bytes of another frame");
        }
        assert_eq!(order, [1, 2, 1, 2]);
    }
}
