//! Reads the end of a log, by stream.

use crate::records;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Stream};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Returns the last bytes of both streams, stdout first, within the last `bytes` of a finished log.
/// If that range starts inside a chunk, the first whole chunk is found by the attempt's id.
///
/// # Errors
/// Fails if the file cannot be read. A missing log is empty.
pub fn tail(path: &Path, attempt: AttemptId, bytes: u64) -> io::Result<[Vec<u8>; 2]> {
    let mut streams = [Vec::new(), Vec::new()];
    each_payload(path, attempt, bytes, |stream, payload| streams[stream.index()].extend_from_slice(payload))?;
    Ok(streams)
}

/// The end of both streams in the order of the log, at most `bytes` of output.
///
/// # Errors
/// If the disk does not give it. A missing log is empty.
pub fn tail_in_order(path: &Path, attempt: AttemptId, bytes: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    // Small chunks have more header than payload.
    let read = (bytes as u64).saturating_mul(CHUNK_HEADER_BYTES as u64);
    each_payload(path, attempt, read, |_, payload| all.extend_from_slice(payload))?;
    all.drain(..all.len().saturating_sub(bytes));
    Ok(all)
}

/// Calls `take` with each piece of output in the last `bytes` of a log.
fn each_payload(
    path: &Path,
    attempt: AttemptId,
    bytes: u64,
    mut take: impl FnMut(Stream, &[u8]),
) -> io::Result<()> {
    let mut file = match records::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let from = file.metadata()?.len().saturating_sub(bytes);
    file.seek(SeekFrom::Start(from))?;
    let mut log = Vec::new();
    file.take(bytes).read_to_end(&mut log)?;
    let mut rest = &log[..];
    while !rest.is_empty() {
        match ChunkHeader::decode(rest) {
            Ok((header, payload)) if header.attempt == attempt => {
                if header.kind == ChunkKind::Data {
                    take(header.stream, payload);
                }
                rest = &rest[CHUNK_HEADER_BYTES + payload.len()..];
            }
            _ => rest = &rest[1..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::tail;
    use buildpool_protocol::ids::{AttemptId, JobId};
    use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Stream};
    use std::fs;

    #[test]
    fn streams_are_told_apart_and_a_cut_chunk_is_passed_over() {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number: 2 };
        let mut log = Vec::new();
        for (stream, kind, payload) in [
            (Stream::Stdout, ChunkKind::Data, &b"first "[..]),
            (Stream::Stderr, ChunkKind::Data, b"Fatal "),
            (Stream::Stdout, ChunkKind::Data, b"second"),
            (Stream::Stdout, ChunkKind::Gap, b"{}"),
            (Stream::Stderr, ChunkKind::Data, b"error: x"),
        ] {
            let length = u32::try_from(payload.len()).expect("short");
            let header = ChunkHeader { attempt, stream, kind, length, elapsed_ms: 0, sequence: 0, offset: 0 };
            log.extend_from_slice(&header.encode());
            log.extend_from_slice(payload);
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        fs::write(&path, &log).expect("written");
        let streams = |bytes: usize| tail(&path, attempt, bytes as u64).expect("readable");
        assert_eq!(streams(log.len()), [b"first second".to_vec(), b"Fatal error: x".to_vec()]);
        // One byte of the first chunk is missing.
        assert_eq!(streams(log.len() - 1), [b"second".to_vec(), b"Fatal error: x".to_vec()]);
        assert_eq!(streams(CHUNK_HEADER_BYTES + 8), [b"".to_vec(), b"error: x".to_vec()]);
        assert_eq!(streams(3), [b"", b""]);
        fs::remove_file(&path).expect("it is there");
        assert_eq!(streams(9), [b"", b""]);
    }
}
