//! Frames of the links. Control messages are JSON text with a `type`, bulk data is binary with a
//! 16-byte header. Sizes are checked before memory is allocated for the content.

use crate::error::{ErrorCode, LinkError};
use crate::limiter::{self, Limited};
use crate::limits::{BINARY_FRAME_BYTES_MAX, CONTROL_MESSAGE_BYTES_MAX};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Write};

/// Size of a binary frame's header in bytes.
pub const BINARY_HEADER_BYTES: usize = 16;

/// Content of a binary frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryKind {
    /// Whole output chunks of one attempt, worker to coordinator. `position` is the position of the
    /// first chunk.
    Output,
    /// Whole output chunks, coordinator to the reader on `channel`. `position` is the position of
    /// the first chunk.
    Follow,
    /// Bytes of the transfer on `channel` (a snapshot's pack, an artifact), at offset `position`.
    Transfer,
    /// Standard input of a job: client to coordinator on the channel of its request, coordinator to worker with the attempt's
    /// id in front. `position` is the offset of the first byte.
    Stdin,
}

/// The header of a binary frame, little-endian: kind (1), zero (3), channel (4), position (8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BinaryHeader {
    /// Kind of the content.
    pub kind: BinaryKind,
    /// Number of the reader or transfer on this connection; 0 for [`BinaryKind::Output`].
    pub channel: u32,
    /// Position of the content.
    pub position: u64,
}

impl BinaryHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; BINARY_HEADER_BYTES] {
        let mut bytes = [0; BINARY_HEADER_BYTES];
        bytes[0] = match self.kind {
            BinaryKind::Output => 1,
            BinaryKind::Follow => 2,
            BinaryKind::Transfer => 3,
            BinaryKind::Stdin => 4,
        };
        bytes[4..8].copy_from_slice(&self.channel.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes
    }

    /// Splits a binary frame into its header and its content.
    ///
    /// # Errors
    /// `malformed` for a short frame or an unknown kind, `too_large` beyond
    /// [`BINARY_FRAME_BYTES_MAX`].
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), LinkError> {
        if frame.len() > BINARY_FRAME_BYTES_MAX {
            return Err(too_large("binary frame", frame.len(), BINARY_FRAME_BYTES_MAX));
        }
        let Some((header, content)) = frame.split_first_chunk::<BINARY_HEADER_BYTES>() else {
            return Err(LinkError::new(
                ErrorCode::Malformed,
                format!(
                    "a binary frame of {} bytes is shorter than its header of {BINARY_HEADER_BYTES}",
                    frame.len()
                ),
            ));
        };
        let kind = match header[0] {
            1 => BinaryKind::Output,
            2 => BinaryKind::Follow,
            3 => BinaryKind::Transfer,
            4 => BinaryKind::Stdin,
            other => {
                return Err(LinkError::new(
                    ErrorCode::Malformed,
                    format!(
                        "binary frame of unknown kind {other}; known are 1 (output), 2 (follow), 3 (transfer), 4 (stdin)"
                    ),
                ));
            }
        };
        let mut channel = [0; 4];
        channel.copy_from_slice(&header[4..8]);
        let mut position = [0; 8];
        position.copy_from_slice(&header[8..16]);
        Ok((
            Self { kind, channel: u32::from_le_bytes(channel), position: u64::from_le_bytes(position) },
            content,
        ))
    }
}

/// Encodes a control message.
///
/// # Panics
/// Never: the messages of this crate have string keys and no failing serializers.
pub fn encode_control<M: Serialize>(message: &M) -> String {
    serde_json::to_string(message).expect("link messages serialize: string keys, no fallible serializers")
}

/// Returns the length of a value in a control message, in bytes, without allocating its text.
///
/// # Panics
/// Never, as [`encode_control`].
pub fn encoded_length<T: Serialize>(value: &T) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, value).expect("link messages serialize, and counting takes all");
    counted.0
}

/// Writer that only counts bytes.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Parses a control message and checks the limits of its fields.
///
/// # Errors
/// `too_large` beyond [`CONTROL_MESSAGE_BYTES_MAX`]; `malformed` with the reason and the position
/// if it does not parse; `invalid` with the first field over its limit.
pub fn decode_control<M: DeserializeOwned + Limited>(text: &str) -> Result<M, LinkError> {
    let mut message = parse_control(text)?;
    limiter::check(&mut message)?;
    Ok(message)
}

/// Parses a control message without a check of its field limits.
pub(crate) fn parse_control<M: DeserializeOwned>(text: &str) -> Result<M, LinkError> {
    if text.len() > CONTROL_MESSAGE_BYTES_MAX {
        return Err(too_large("control message", text.len(), CONTROL_MESSAGE_BYTES_MAX));
    }
    serde_json::from_str(text).map_err(|error| {
        LinkError::new(ErrorCode::Malformed, format!("control message does not parse: {error}"))
    })
}

fn too_large(part: &str, length: usize, limit: usize) -> LinkError {
    LinkError::new(ErrorCode::TooLarge, format!("{part} of {length} bytes is over the limit of {limit}"))
}
