//! Computes the unpacked size of a pack before git reads it. The scan inflates each entry and
//! discards the content, so its memory use does not depend on the pack.

use crate::extent::Excess;
use crate::git::{GitError, Stop};
use crate::limits::{DELTA_BYTES_MAX, PACK_OBJECTS_MAX, STRUCTURE_BYTES_MAX};
use buildpool_protocol::limits::SNAPSHOT_BYTES_MAX;
use buildpool_protocol::transfer::ObjectFormat;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use std::io::BufRead;

/// Size of the inflate buffer, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Number of bytes kept from the start of a delta: two numbers of at most ten bytes each.
const DELTA_HEAD_BYTES: usize = 20;

/// Unpacked size of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unpacked {
    /// All objects together, in bytes.
    pub bytes: u64,
    /// The largest object stored as a delta, in bytes. git keeps it and its base in memory.
    pub largest_delta: u64,
}

/// Scans a pack (gitformat-pack(5)).
///
/// # Errors
/// [`GitError::Excess`] with the exceeded limit; [`GitError::Unexpected`] if the input is not a
/// pack.
pub fn scan(pack: impl BufRead, format: ObjectFormat, stop: &Stop) -> Result<Unpacked, GitError> {
    Scanner { pack, stop, piece: vec![0; PIECE_BYTES], state: InflateState::new_boxed(DataFormat::Zlib) }.run(
        match format {
            ObjectFormat::Sha1 => 20,
            ObjectFormat::Sha256 => 32,
        },
    )
}

struct Scanner<'a, R> {
    pack: R,
    stop: &'a Stop,
    piece: Vec<u8>,
    state: Box<InflateState>,
}

/// Numbers of the entry kinds.
const BLOB: u8 = 3;
const OFFSET_DELTA: u8 = 6;
const NAMED_DELTA: u8 = 7;

impl<R: BufRead> Scanner<'_, R> {
    fn run(mut self, id_bytes: usize) -> Result<Unpacked, GitError> {
        let mut head = [0; 12];
        self.exactly(&mut head)?;
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if !head.starts_with(b"PACK") || !matches!(number(4), 2 | 3) {
            return Err(not_a_pack("it does not begin as one"));
        }
        let objects = u64::from(number(8));
        excess("objects", objects, PACK_OBJECTS_MAX)?;
        let mut unpacked = Unpacked::default();
        for _ in 0..objects {
            let (kind, length) = self.entry_head()?;
            let is_delta = matches!(kind, OFFSET_DELTA | NAMED_DELTA);
            match kind {
                OFFSET_DELTA => while self.byte()? & 0x80 != 0 {},
                NAMED_DELTA => self.exactly(&mut vec![0; id_bytes])?,
                1..=4 => {}
                _ => return Err(not_a_pack("an entry has an unknown kind")),
            }
            let limit = match kind {
                BLOB => SNAPSHOT_BYTES_MAX,
                OFFSET_DELTA | NAMED_DELTA => DELTA_BYTES_MAX,
                _ => STRUCTURE_BYTES_MAX,
            };
            excess("bytes in one object of its pack", length, limit)?;
            let room = SNAPSHOT_BYTES_MAX.saturating_sub(unpacked.bytes);
            if !is_delta {
                excess(
                    "bytes in its pack when unpacked",
                    unpacked.bytes.saturating_add(length),
                    SNAPSHOT_BYTES_MAX,
                )?;
            }
            let begin = self.content(length)?;
            let size = if is_delta { result_size(&begin)? } else { length };
            if is_delta {
                excess("bytes in one object of its pack", size, DELTA_BYTES_MAX)?;
                unpacked.largest_delta = unpacked.largest_delta.max(size);
            }
            if size > room {
                excess(
                    "bytes in its pack when unpacked",
                    unpacked.bytes.saturating_add(size),
                    SNAPSHOT_BYTES_MAX,
                )?;
            }
            unpacked.bytes = unpacked.bytes.saturating_add(size);
        }
        Ok(unpacked)
    }

    /// Returns kind and inflated length of the next entry.
    fn entry_head(&mut self) -> Result<(u8, u64), GitError> {
        let mut byte = self.byte()?;
        let (kind, mut length, mut shift) = ((byte >> 4) & 7, u64::from(byte & 0x0f), 4);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            length |= shifted(byte, shift)?;
            shift += 7;
        }
        Ok((kind, length))
    }

    /// Inflates an entry of this length, and returns its first bytes.
    fn content(&mut self, length: u64) -> Result<Vec<u8>, GitError> {
        self.state.reset(DataFormat::Zlib);
        let (mut begin, mut written) = (Vec::new(), 0_u64);
        loop {
            if self.stop.is_stopped() {
                return Err(GitError::Stopped { command: "index-pack".into() });
            }
            let input = self.pack.fill_buf().map_err(GitError::io("reading a pack"))?;
            let is_over = input.is_empty();
            let step = inflate(&mut self.state, input, &mut self.piece, MZFlush::None);
            self.pack.consume(step.bytes_consumed);
            let fresh = &self.piece[..step.bytes_written];
            begin.extend(fresh.iter().take(DELTA_HEAD_BYTES.saturating_sub(begin.len())));
            written += fresh.len() as u64;
            if written > length {
                return Err(not_a_pack("an entry is longer than it is announced"));
            }
            match step.status {
                Ok(MZStatus::StreamEnd) if written == length => return Ok(begin),
                Ok(MZStatus::Ok) | Err(miniz_oxide::MZError::Buf)
                    if !is_over && step.bytes_consumed + step.bytes_written > 0 => {}
                _ => return Err(not_a_pack("an entry can't be inflated")),
            }
        }
    }

    fn byte(&mut self) -> Result<u8, GitError> {
        let mut byte = [0];
        self.exactly(&mut byte)?;
        Ok(byte[0])
    }

    fn exactly(&mut self, into: &mut [u8]) -> Result<(), GitError> {
        self.pack.read_exact(into).map_err(|_| not_a_pack("it ends too early"))
    }
}

/// Returns the size of the object that a delta produces: the second number of the delta.
fn result_size(delta: &[u8]) -> Result<u64, GitError> {
    let mut bytes = delta.iter();
    let mut number = || {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = *bytes.next().ok_or_else(|| not_a_pack("a delta is cut off"))?;
            number |= shifted(byte, shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
    };
    number()?;
    number()
}

/// Returns the low seven bits of `byte`, shifted left.
fn shifted(byte: u8, shift: u32) -> Result<u64, GitError> {
    let bits = u64::from(byte & 0x7f);
    let value = bits.checked_shl(shift).filter(|value| value >> shift == bits);
    value.ok_or_else(|| not_a_pack("a number in it is too large"))
}

fn excess(unit: &'static str, found: u64, limit: u64) -> Result<(), GitError> {
    Excess::check(unit, found, limit).map_err(GitError::Excess)
}

fn not_a_pack(problem: &str) -> GitError {
    GitError::Unexpected {
        command: "index-pack".into(),
        problem: format!("the file is not a pack: {problem}"),
    }
}
