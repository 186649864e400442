//! Output chunks: the one form that log bytes have in a keeper's spool, on both links and in the coordinator's store.
//!
//! The *log* of an attempt is a sequence of chunks, headers included. A **position** is a byte offset into that
//! sequence and always lies between two chunks; it is what acknowledgements, rewinds and readers' cursors count.
//! Each chunk also carries its sequence number over both streams and its offset in its own stream, so that a hole or
//! a repeat cannot go unnoticed.

use crate::ids::{AttemptId, JobId};
use crate::limits::{CHUNK_BYTES_MAX, LOG_LENGTH_MAX};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which of the process's outputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both, in the order in which they are listed anywhere.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// `stdout` or `stderr`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// 0 for stdout, 1 for stderr: an index into arrays of two.
    pub const fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Size of a chunk's header in bytes.
pub const CHUNK_HEADER_BYTES: usize = 48;

/// What a chunk carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// Bytes as the process wrote them (secrets masked).
    Data,
    /// A hole: the payload is a [`Gap`] as JSON, and the next chunk of the stream begins after the missing bytes.
    Gap,
}

/// The fixed header of a chunk, little-endian:
///
/// | bytes | field |
/// |---|---|
/// | 0 | format, 1 |
/// | 1 | stream: 1 stdout, 2 stderr |
/// | 2 | kind: 0 data, 1 gap |
/// | 3 | 0 |
/// | 4..8 | payload length |
/// | 8..24 | job id |
/// | 24..28 | attempt number |
/// | 28..32 | milliseconds since the attempt started, saturating |
/// | 32..40 | sequence over both streams, from 0 |
/// | 40..48 | offset of the first byte in its stream |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// Whose output.
    pub attempt: AttemptId,
    /// From which pipe.
    pub stream: Stream,
    /// Bytes or a hole.
    pub kind: ChunkKind,
    /// Payload bytes that follow the header.
    pub length: u32,
    /// Milliseconds from the start of the attempt to the read, saturating.
    pub elapsed_ms: u32,
    /// Place in the one order over both streams.
    pub sequence: u64,
    /// Place in its own stream.
    pub offset: u64,
}

/// Why bytes are missing, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gap {
    /// Bytes that the process wrote and nobody has.
    pub missing_bytes: u64,
    /// Why, for a person.
    pub reason: String,
}

/// Why bytes are not a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkError {
    /// Fewer bytes than a header or than its length says; more may come.
    Incomplete,
    /// A format, stream or kind that this version does not know.
    Unknown,
    /// A payload over [`CHUNK_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incomplete => "the chunk ends early",
            Self::Unknown => "the chunk has an unknown format, stream or kind",
            Self::TooLong => "the chunk is longer than allowed",
        })
    }
}

impl std::error::Error for ChunkError {}

impl ChunkHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[0] = 1;
        bytes[1] = match self.stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        };
        bytes[2] = match self.kind {
            ChunkKind::Data => 0,
            ChunkKind::Gap => 1,
        };
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..24].copy_from_slice(self.attempt.job.as_uuid().as_bytes());
        bytes[24..28].copy_from_slice(&self.attempt.number.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.elapsed_ms.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Header plus payload, in bytes: how far the chunk moves a position.
    pub const fn size(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + self.length as u64
    }

    /// Reads one chunk from the front: its header and its payload.
    ///
    /// # Errors
    /// [`ChunkError::Incomplete`] when more bytes may make it whole, the others when none can.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ChunkError> {
        let header = bytes.first_chunk::<CHUNK_HEADER_BYTES>().ok_or(ChunkError::Incomplete)?;
        let header = Self::decode_header(header)?;
        let payload = bytes
            .get(CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + header.length as usize)
            .ok_or(ChunkError::Incomplete)?;
        Ok((header, payload))
    }

    /// Reads a header alone.
    ///
    /// # Errors
    /// [`ChunkError::Unknown`] and [`ChunkError::TooLong`].
    pub fn decode_header(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Result<Self, ChunkError> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let stream = match bytes[1] {
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            _ => return Err(ChunkError::Unknown),
        };
        let kind = match bytes[2] {
            0 => ChunkKind::Data,
            1 => ChunkKind::Gap,
            _ => return Err(ChunkError::Unknown),
        };
        if bytes[0] != 1 {
            return Err(ChunkError::Unknown);
        }
        let length = u32_at(4);
        if length as usize > CHUNK_BYTES_MAX {
            return Err(ChunkError::TooLong);
        }
        let mut job = [0; 16];
        job.copy_from_slice(&bytes[8..24]);
        Ok(Self {
            attempt: AttemptId { job: JobId::from_uuid(uuid::Uuid::from_bytes(job)), number: u32_at(24) },
            stream,
            kind,
            length,
            elapsed_ms: u32_at(28),
            sequence: u64_at(32),
            offset: u64_at(40),
        })
    }
}

/// The state of a log that chunks are appended to: what the next chunk must say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogState {
    /// Bytes of the log, headers included.
    pub position: u64,
    /// Sequence of the next chunk.
    pub next_sequence: u64,
    /// Length of each stream so far, holes included: stdout, stderr.
    pub stream_lengths: [u64; 2],
}

/// Why a chunk cannot be the next of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendError {
    /// It was there already.
    Repeat,
    /// Something before it is missing.
    Hole,
    /// Its sequence fits and its offset or its gap does not.
    Inconsistent,
}

impl LogState {
    /// Takes the next chunk.
    ///
    /// # Errors
    /// When the chunk is not exactly the next one; the state is then unchanged.
    pub fn append(&mut self, header: &ChunkHeader, payload: &[u8]) -> Result<(), AppendError> {
        match header.sequence.cmp(&self.next_sequence) {
            std::cmp::Ordering::Less => return Err(AppendError::Repeat),
            std::cmp::Ordering::Greater => return Err(AppendError::Hole),
            std::cmp::Ordering::Equal => {}
        }
        let length = &mut self.stream_lengths[header.stream.index()];
        if header.offset != *length {
            return Err(AppendError::Inconsistent);
        }
        let grown_by = match header.kind {
            ChunkKind::Data => u64::from(header.length),
            ChunkKind::Gap => {
                serde_json::from_slice::<Gap>(payload).map_err(|_| AppendError::Inconsistent)?.missing_bytes
            }
        };
        let grown = length.checked_add(grown_by).filter(|length| *length <= LOG_LENGTH_MAX);
        *length = grown.ok_or(AppendError::Inconsistent)?;
        self.position += header.size();
        self.next_sequence += 1;
        Ok(())
    }
}
