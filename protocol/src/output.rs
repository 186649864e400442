//! Output chunks: the single format of log bytes in a keeper's spool, on both links and in the
//! coordinator's store.
//!
//! The *log* of an attempt is a sequence of chunks, headers included. A **position** is a byte
//! offset into that sequence, always between two chunks. Acknowledgements, rewinds and readers'
//! cursors are positions. Each chunk also contains its sequence number over both streams and its
//! offset in its own stream. A gap or a repeat is therefore always detected.

use crate::ids::{AttemptId, JobId};
use crate::limits::{CHUNK_BYTES_MAX, LOG_LENGTH_MAX};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An output stream of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both, in listing order.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Returns `stdout` or `stderr`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// Returns 0 for stdout and 1 for stderr: an index into arrays of two.
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

/// Content of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// Bytes as the process wrote them (secrets masked).
    Data,
    /// A gap: the payload is a [`Gap`] as JSON. The next chunk of the stream starts after the
    /// missing bytes.
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
    /// The attempt.
    pub attempt: AttemptId,
    /// The stream.
    pub stream: Stream,
    /// Data or gap.
    pub kind: ChunkKind,
    /// Payload bytes after the header.
    pub length: u32,
    /// Milliseconds from the start of the attempt to the read, saturating.
    pub elapsed_ms: u32,
    /// Sequence number over both streams.
    pub sequence: u64,
    /// Offset in its own stream.
    pub offset: u64,
}

/// A record of missing bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gap {
    /// Number of bytes that the process wrote and that were not stored.
    pub missing_bytes: u64,
    /// The reason, for users.
    pub reason: String,
}

/// Error of decoding a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChunkError {
    /// Fewer bytes than the header or its length requires. More may arrive.
    #[error("the chunk ends early")]
    Incomplete,
    /// A format, stream or kind that this version does not support.
    #[error("the chunk has an unknown format, stream or kind")]
    Unknown,
    /// A payload over [`CHUNK_BYTES_MAX`].
    #[error("the chunk is longer than allowed")]
    TooLong,
}

impl ChunkHeader {
    /// Encodes the header.
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

    /// Returns the size of header and payload, in bytes: the chunk advances a position by this
    /// number.
    pub const fn size(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + self.length as u64
    }

    /// Decodes the first chunk: its header and its payload.
    ///
    /// # Errors
    /// [`ChunkError::Incomplete`] if more bytes may complete it, other errors if not.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ChunkError> {
        let header = bytes.first_chunk::<CHUNK_HEADER_BYTES>().ok_or(ChunkError::Incomplete)?;
        let header = Self::decode_header(header)?;
        let payload = bytes
            .get(CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + header.length as usize)
            .ok_or(ChunkError::Incomplete)?;
        Ok((header, payload))
    }

    /// Decodes only a header.
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

/// State of a log during appends. It determines the expected next chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogState {
    /// Bytes of the log, headers included.
    pub position: u64,
    /// Sequence number of the next chunk.
    pub next_sequence: u64,
    /// Length of each stream so far, gaps included: stdout, stderr.
    pub stream_lengths: [u64; 2],
}

/// Reason why a chunk cannot be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendError {
    /// The chunk is already in the log.
    Repeat,
    /// A chunk before it is missing.
    Hole,
    /// Its sequence number matches, but its offset or its gap record does not.
    Inconsistent,
}

impl LogState {
    /// Appends the next chunk.
    ///
    /// # Errors
    /// Fails if the chunk is not exactly the next one. The state is then unchanged.
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
