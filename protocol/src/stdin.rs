//! Standard input of a job: bytes at offsets, the same way as output, in the other direction.
//!
//! There is one stream, so a *position* is an offset into it. Each receiver states how far the sender may send (`until`);
//! a receiver that lost bytes requests them again from a position. Frames are [`crate::frame::BinaryKind::Stdin`].

use crate::error::{ErrorCode, LinkError};
use crate::frame::{BINARY_HEADER_BYTES, BinaryHeader, BinaryKind};
use crate::ids::{AttemptId, JobId};
use crate::outcome::Seal;
use serde::{Deserialize, Serialize};

/// The standard input that comes with a job. Without it standard input is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stdin {
    /// Length and checksum, if the submitter has all bytes at the time of the submit. Only such jobs can be equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
}

/// The end of a standard input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StdinEnd {
    /// Length in bytes, and BLAKE3 over them.
    #[serde(flatten)]
    pub seal: Seal,
    /// Why it ends before the submitter's input does. Absent for a complete input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Job id and attempt number in front of the bytes of a frame to a worker.
const ATTEMPT_BYTES: usize = 20;

/// A frame to the coordinator: bytes of the request on `channel`, from `position` on.
pub fn frame_to_coordinator(channel: u32, position: u64, bytes: &[u8]) -> Vec<u8> {
    let header = BinaryHeader { kind: BinaryKind::Stdin, channel, position };
    [header.encode().as_slice(), bytes].concat()
}

/// A frame to a worker: bytes for an attempt, from `position` on.
pub fn frame_to_worker(attempt: AttemptId, position: u64, bytes: &[u8]) -> Vec<u8> {
    let header = BinaryHeader { kind: BinaryKind::Stdin, channel: 0, position };
    let mut frame = Vec::with_capacity(BINARY_HEADER_BYTES + ATTEMPT_BYTES + bytes.len());
    frame.extend_from_slice(&header.encode());
    frame.extend_from_slice(attempt.job.as_uuid().as_bytes());
    frame.extend_from_slice(&attempt.number.to_le_bytes());
    frame.extend_from_slice(bytes);
    frame
}

/// Splits the content of a frame to a worker into the attempt and its bytes.
///
/// # Errors
/// `malformed` for a content that is shorter than the attempt's id.
pub fn split_content(content: &[u8]) -> Result<(AttemptId, &[u8]), LinkError> {
    let short =
        || LinkError::new(ErrorCode::Malformed, "a stdin frame is shorter than the id of its attempt");
    let (job, rest) = content.split_first_chunk::<16>().ok_or_else(short)?;
    let (number, bytes) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let job = JobId::from_uuid(uuid::Uuid::from_bytes(*job));
    Ok((AttemptId { job, number: u32::from_le_bytes(*number) }, bytes))
}

/// The part of `bytes`, which begin at `position`, that follows on `end`. `None` if no part does: all of it is known,
/// or bytes before it are missing.
pub fn new_part(bytes: &[u8], position: u64, end: u64) -> Option<&[u8]> {
    let known = usize::try_from(end.checked_sub(position)?).ok()?;
    bytes.get(known..).filter(|new| !new.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{frame_to_worker, new_part, split_content};
    use crate::frame::{BinaryHeader, BinaryKind};
    use crate::ids::{AttemptId, JobId};

    #[test]
    fn a_frame_to_a_worker_names_its_attempt() {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::from_u128(7)), number: 3 };
        let frame = frame_to_worker(attempt, 9, b"text");
        let (header, content) = BinaryHeader::decode(&frame).expect("a frame");
        assert_eq!(header, BinaryHeader { kind: BinaryKind::Stdin, channel: 0, position: 9 });
        assert_eq!(split_content(content).expect("a content"), (attempt, b"text".as_slice()));
        assert!(split_content(&content[..19]).is_err());
    }

    #[test]
    fn only_bytes_that_follow_on_the_known_ones_are_new() {
        assert_eq!(new_part(b"abcd", 10, 10), Some(b"abcd".as_slice()));
        assert_eq!(new_part(b"abcd", 10, 12), Some(b"cd".as_slice()));
        for (position, end) in [(10, 14), (10, 20), (10, 9)] {
            assert_eq!(new_part(b"abcd", position, end), None, "{position} after {end}");
        }
    }
}
