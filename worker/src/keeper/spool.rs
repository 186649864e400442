//! The log of an attempt on the worker's disk: chunks appended to one file and hashed.
//!
//! Output that cannot be written now (the coordinator is too far behind, the disk is full) waits in
//! memory. With [`OutputPolicy::Block`] the pipes are then not read, so the process blocks and the
//! buffer stays small. Reading continues in three cases: with [`OutputPolicy::KeepEnds`], beyond
//! the log limit, and after the command has exited. Then only the last bytes are kept, and dropped
//! bytes become a counted gap.

use crate::limits::{LOG_RESERVE_BYTES, SPOOL_WINDOW_BYTES, TAIL_KEEP_BYTES};
use crate::records;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::limits::{LOG_BYTES_MAX, LOG_BYTES_MIN};
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Gap, LogState, Stream};
use buildpool_protocol::report::GapEntry;
use buildpool_protocol::spec::OutputPolicy;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Number of bytes after which the system is requested to start writing them to disk.
const WRITE_BEHIND_BYTES: u64 = 8 << 20;

/// Limits of one log, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLimits {
    /// Limit on written bytes that the coordinator has not stored.
    pub window: u64,
    /// Limit on the whole log.
    pub log: u64,
    /// Limit on the bytes in memory while the middle is dropped, chunk headers included.
    pub tail: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { window: SPOOL_WINDOW_BYTES, log: LOG_BYTES_MAX, tail: TAIL_KEEP_BYTES }
    }
}

impl LogLimits {
    /// Returns these limits with a shorter log, if requested.
    #[must_use]
    pub fn with_log_limit(self, most: Option<u64>) -> Self {
        Self { log: most.map_or(self.log, |most| most.clamp(LOG_BYTES_MIN, self.log)), ..self }
    }
}

struct PendingOutput {
    stream: Stream,
    elapsed_ms: u32,
    bytes: Vec<u8>,
}

impl PendingOutput {
    /// Returns the size in the log, header included.
    fn size(&self) -> usize {
        CHUNK_HEADER_BYTES + self.bytes.len()
    }
}

/// A log that is being written.
pub struct Spool {
    file: File,
    attempt: AttemptId,
    policy: OutputPolicy,
    limits: LogLimits,
    state: LogState,
    hashers: [blake3::Hasher; 2],
    stored: u64,
    written_behind: u64,
    pending: VecDeque<PendingOutput>,
    pending_bytes: usize,
    dropped: [u64; 2],
    gaps: Vec<GapEntry>,
    closing: bool,
    write_error: Option<io::Error>,
}

impl Spool {
    /// Creates the log.
    ///
    /// # Errors
    /// Fails if the file cannot be created or already exists.
    pub fn create(
        path: &Path,
        attempt: AttemptId,
        policy: OutputPolicy,
        limits: LogLimits,
    ) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).read(true).create_new(true).open(path)?;
        Ok(Self {
            file,
            attempt,
            policy,
            limits,
            state: LogState::default(),
            hashers: [blake3::Hasher::new(), blake3::Hasher::new()],
            stored: 0,
            written_behind: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            dropped: [0; 2],
            gaps: Vec::new(),
            closing: false,
            write_error: None,
        })
    }

    /// Appends output. `buffer` starts with [`CHUNK_HEADER_BYTES`] for the header, followed by the
    /// payload.
    pub fn append(&mut self, stream: Stream, elapsed_ms: u32, buffer: &mut [u8]) {
        if buffer.len() <= CHUNK_HEADER_BYTES {
            return;
        }
        if self.pending.is_empty() && self.dropped == [0; 2] && self.has_room(buffer.len() as u64) {
            match self.write(stream, ChunkKind::Data, elapsed_ms, buffer) {
                Ok(()) => return,
                Err(error) => self.write_error = Some(error),
            }
        }
        let pending = PendingOutput { stream, elapsed_ms, bytes: buffer[CHUNK_HEADER_BYTES..].to_vec() };
        self.pending_bytes += pending.size();
        self.pending.push_back(pending);
        self.flush();
        self.drop_beyond_tail();
    }

    /// Writes the waiting output, as far as there is room.
    pub fn flush(&mut self) {
        self.write_error = None;
        if let Err(error) = self.try_flush() {
            self.write_error = Some(error);
        }
    }

    /// Records the position that the coordinator has stored.
    pub fn note_stored(&mut self, position: u64) {
        self.stored = self.stored.max(position.min(self.state.position));
        self.flush();
    }

    /// Starts closing after the command has exited: the remaining output is read without blocking.
    pub fn begin_closing(&mut self) {
        self.closing = true;
        self.flush();
    }

    /// Returns true if pipes should be read.
    pub fn wants_more(&self) -> bool {
        self.pending.is_empty() || self.drops_middle()
    }

    /// Returns the error while the disk refuses writes.
    pub fn write_error(&self) -> Option<&io::Error> {
        self.write_error.as_ref()
    }

    /// Returns the length of the log, headers included. All of it is in the file.
    pub fn length(&self) -> u64 {
        self.state.position
    }

    /// Makes the written log durable. Output that still waits becomes a gap.
    ///
    /// # Errors
    /// Fails if the disk cannot sync.
    pub fn seal(&mut self, elapsed_ms: u32) -> io::Result<Sealed> {
        self.closing = true;
        self.flush();
        if self.write_error.is_some() || !self.pending.is_empty() {
            for pending in std::mem::take(&mut self.pending) {
                self.dropped[pending.stream.index()] += pending.bytes.len() as u64;
            }
            self.pending_bytes = 0;
            let reason = self.gap_reason();
            // A gap that does not fit on the disk is still recorded in the outcome.
            if self.write_gaps(elapsed_ms, &reason).is_err() {
                for stream in Stream::ALL {
                    self.note_gap(stream, &reason);
                }
            }
        }
        if self.state.position > 0 {
            self.file.sync_data()?;
        }
        let seal = |stream: Stream| Seal {
            length: self.state.stream_lengths[stream.index()],
            blake3: self.hashers[stream.index()].finalize().to_hex().to_string(),
        };
        Ok(Sealed {
            seals: [seal(Stream::Stdout), seal(Stream::Stderr)],
            log_length: self.state.position,
            gaps: self.gaps.clone(),
        })
    }

    fn drops_middle(&self) -> bool {
        self.closing || self.policy == OutputPolicy::KeepEnds || self.is_over_log_limit()
    }

    fn is_over_log_limit(&self) -> bool {
        self.state.position + LOG_RESERVE_BYTES.min(self.limits.log / 2) >= self.limits.log
    }

    fn has_room(&self, size: u64) -> bool {
        if self.closing {
            return self.state.position + size <= self.limits.log;
        }
        !self.is_over_log_limit() && self.state.position + size <= self.stored + self.limits.window
    }

    fn try_flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.pending.front() {
            if !self.has_room(first.size() as u64) {
                return Ok(());
            }
            let elapsed_ms = first.elapsed_ms;
            let reason = self.gap_reason();
            self.write_gaps(elapsed_ms, &reason)?;
            let Some(first) = self.pending.pop_front() else { return Ok(()) };
            let mut buffer = vec![0; CHUNK_HEADER_BYTES];
            buffer.extend_from_slice(&first.bytes);
            if let Err(error) = self.write(first.stream, ChunkKind::Data, elapsed_ms, &mut buffer) {
                self.pending.push_front(first);
                return Err(error);
            }
            self.pending_bytes -= first.size();
        }
        Ok(())
    }

    fn drop_beyond_tail(&mut self) {
        if !self.drops_middle() {
            return;
        }
        while self.pending_bytes > self.limits.tail {
            let Some(first) = self.pending.pop_front() else { return };
            self.pending_bytes -= first.size();
            self.dropped[first.stream.index()] += first.bytes.len() as u64;
        }
    }

    fn gap_reason(&self) -> String {
        match &self.write_error {
            Some(error) => format!("the worker's disk refused it: {error}"),
            None if self.is_over_log_limit() => {
                format!("the log is over its limit of {} bytes", self.limits.log)
            }
            None => {
                format!("the coordinator was more than {} bytes behind", self.limits.window)
            }
        }
    }

    fn write_gaps(&mut self, elapsed_ms: u32, reason: &str) -> io::Result<()> {
        for stream in Stream::ALL {
            let missing_bytes = self.dropped[stream.index()];
            if missing_bytes == 0 {
                continue;
            }
            let mut buffer = vec![0; CHUNK_HEADER_BYTES];
            serde_json::to_writer(&mut buffer, &Gap { missing_bytes, reason: reason.to_owned() })?;
            let offset = self.state.stream_lengths[stream.index()];
            self.write(stream, ChunkKind::Gap, elapsed_ms, &mut buffer)?;
            self.dropped[stream.index()] = 0;
            self.gaps.push(GapEntry { stream, offset, bytes: missing_bytes, reason: reason.to_owned() });
        }
        Ok(())
    }

    fn note_gap(&mut self, stream: Stream, reason: &str) {
        let bytes = std::mem::take(&mut self.dropped[stream.index()]);
        if bytes > 0 {
            let offset = self.state.stream_lengths[stream.index()];
            self.gaps.push(GapEntry { stream, offset, bytes, reason: reason.to_owned() });
        }
    }

    /// Writes one chunk. After an error nothing has changed, and the next write starts at the same
    /// position.
    fn write(
        &mut self,
        stream: Stream,
        kind: ChunkKind,
        elapsed_ms: u32,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let (room, payload) = buffer.split_at_mut(CHUNK_HEADER_BYTES);
        let header = ChunkHeader {
            attempt: self.attempt,
            stream,
            kind,
            length: u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            elapsed_ms,
            sequence: self.state.next_sequence,
            offset: self.state.stream_lengths[stream.index()],
        };
        room.copy_from_slice(&header.encode());
        self.file.write_all_at(buffer, self.state.position)?;
        let payload = &buffer[CHUNK_HEADER_BYTES..];
        if kind == ChunkKind::Data {
            self.hashers[stream.index()].update(payload);
        }
        self.state.append(&header, payload).map_err(|error| {
            io::Error::other(format!("the spool made a chunk that does not fit: {error:?}"))
        })?;
        if self.state.position - self.written_behind >= WRITE_BEHIND_BYTES {
            let length = self.state.position - self.written_behind;
            crate::platform::begin_writing(&self.file, self.written_behind, length);
            self.written_behind = self.state.position;
        }
        Ok(())
    }
}

/// A complete log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// Seals of stdout and stderr.
    pub seals: [Seal; 2],
    /// Length of the log, headers included.
    pub log_length: u64,
    /// Gaps in the log, or beyond its end if the disk was full.
    pub gaps: Vec<GapEntry>,
}

/// Reads the complete part of a log that is not being written any more.
///
/// # Errors
/// Fails if the file cannot be read. A missing log is empty.
pub fn recover(path: &Path, attempt: AttemptId) -> io::Result<Sealed> {
    let mut state = LogState::default();
    let mut hashers = [blake3::Hasher::new(), blake3::Hasher::new()];
    let mut gaps = Vec::new();
    let file = match records::open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut reader = file.map(|file| io::BufReader::with_capacity(256 << 10, file));
    while let Some((header, payload)) = reader.as_mut().map(next_chunk).transpose()?.flatten() {
        if header.attempt != attempt || state.append(&header, &payload).is_err() {
            break;
        }
        match header.kind {
            ChunkKind::Data => {
                hashers[header.stream.index()].update(&payload);
            }
            ChunkKind::Gap => {
                let gap: Gap = serde_json::from_slice(&payload)?;
                gaps.push(GapEntry {
                    stream: header.stream,
                    offset: header.offset,
                    bytes: gap.missing_bytes,
                    reason: gap.reason,
                });
            }
        }
    }
    Ok(sealed(&state, &hashers, gaps))
}

fn sealed(state: &LogState, hashers: &[blake3::Hasher; 2], gaps: Vec<GapEntry>) -> Sealed {
    let seal = |stream: Stream| Seal {
        length: state.stream_lengths[stream.index()],
        blake3: hashers[stream.index()].finalize().to_hex().to_string(),
    };
    Sealed { seals: [seal(Stream::Stdout), seal(Stream::Stderr)], log_length: state.position, gaps }
}

impl Sealed {
    /// Returns the log of a command that was never started.
    pub fn empty() -> Self {
        sealed(&LogState::default(), &[blake3::Hasher::new(), blake3::Hasher::new()], Vec::new())
    }
}

/// Returns the next complete chunk, or `None` at the end of the file or at invalid data.
fn next_chunk(reader: &mut impl io::Read) -> io::Result<Option<(ChunkHeader, Vec<u8>)>> {
    let mut header = [0; CHUNK_HEADER_BYTES];
    if !fill(reader, &mut header)? {
        return Ok(None);
    }
    let Ok(header) = ChunkHeader::decode_header(&header) else { return Ok(None) };
    let mut payload = vec![0; header.length as usize];
    Ok(fill(reader, &mut payload)?.then_some((header, payload)))
}

fn fill(reader: &mut impl io::Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
