//! Reads the output pipes, masks secrets, and appends chunks to the spool.

use super::mask::Masker;
use super::spool::Spool;
use buildpool_protocol::limits::CHUNK_BYTES_MAX;
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, Stream};
use std::io::{self, PipeReader, Read};

/// Limit on the reads of one pipe before other work gets its turn.
const READS_MAX: usize = 4;
/// Limit on the bytes read in one turn with masking. Masking takes time, and deadlines and orders
/// wait for it.
const MASKED_READ_BYTES: usize = 16 << 10;

/// One output stream of the process.
pub(super) struct Capture {
    stream: Stream,
    /// `None` after its end, or after it was given up.
    pipe: Option<PipeReader>,
    masker: Option<Masker>,
}

impl Capture {
    pub(super) fn new(stream: Stream, pipe: PipeReader, masker: Option<Masker>) -> Self {
        Self { stream, pipe: Some(pipe), masker }
    }

    pub(super) fn pipe(&self) -> Option<&PipeReader> {
        self.pipe.as_ref()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Reads until the pipe is empty, the turn is over, or the spool is full. Returns true if bytes
    /// were read.
    pub(super) fn read(&mut self, spool: &mut Spool, elapsed_ms: u32, buffer: &mut Vec<u8>) -> bool {
        let mut has_read = false;
        let (reads_max, bytes_max) =
            if self.masker.is_some() { (1, MASKED_READ_BYTES) } else { (READS_MAX, CHUNK_BYTES_MAX) };
        for _ in 0..reads_max {
            if !spool.wants_more() {
                break;
            }
            buffer.resize(CHUNK_HEADER_BYTES + bytes_max, 0);
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read(&mut buffer[CHUNK_HEADER_BYTES..]) {
                Ok(0) => {
                    self.close(spool, elapsed_ms);
                    break;
                }
                Ok(length) => {
                    has_read = true;
                    self.store(spool, elapsed_ms, &mut buffer[..CHUNK_HEADER_BYTES + length]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.close(spool, elapsed_ms);
                    break;
                }
            }
        }
        has_read
    }

    /// Closes the stream at its end, or when it is given up.
    pub(super) fn close(&mut self, spool: &mut Spool, elapsed_ms: u32) {
        if self.pipe.take().is_none() {
            return;
        }
        if let Some(masker) = &mut self.masker {
            let mut out = Vec::new();
            masker.finish(&mut out);
            append_masked(spool, self.stream, elapsed_ms, &out);
        }
    }

    fn store(&mut self, spool: &mut Spool, elapsed_ms: u32, buffer: &mut [u8]) {
        match &mut self.masker {
            None => spool.append(self.stream, elapsed_ms, buffer),
            Some(masker) => {
                let mut out = Vec::with_capacity(buffer.len());
                masker.push(&buffer[CHUNK_HEADER_BYTES..], &mut out);
                append_masked(spool, self.stream, elapsed_ms, &out);
            }
        }
    }
}

fn append_masked(spool: &mut Spool, stream: Stream, elapsed_ms: u32, bytes: &[u8]) {
    for part in bytes.chunks(CHUNK_BYTES_MAX) {
        let mut buffer = vec![0; CHUNK_HEADER_BYTES];
        buffer.extend_from_slice(part);
        spool.append(stream, elapsed_ms, &mut buffer);
    }
}
