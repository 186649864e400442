//! A pack: a file of compressed blocks of a log. Each block can be read independently.
//!
//! A block begins with a header of 96 bytes, little-endian:
//!
//! - `bpk1` (4), raw length (4), stored length (4), zero (4)
//! - the state of the log before the block (32) and after it (32)
//! - a checksum (16)
//!
//! A state is: position, next sequence, stdout length, stderr length. The checksum is the first 16
//! bytes of the BLAKE3 over the 80 bytes before it and the stored bytes. The stored bytes are one
//! zstd frame.

use super::error::LogError;
use crate::store::disk::Disk;
use crate::store::limits::{BLOCK_BYTES, BLOCK_BYTES_MAX, COMPRESSION_LEVEL};
use buildpool_protocol::output::{ChunkHeader, LogState};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HEADER_BYTES: usize = 96;
const CHECKSUM_AT: usize = 80;
const MAGIC: &[u8; 4] = b"bpk1";
/// Maximum stored bytes of a block. zstd adds only little to data that it can't compress.
const STORED_BYTES_MAX: usize = BLOCK_BYTES_MAX + (BLOCK_BYTES_MAX >> 7) + 1024;

/// Location of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// Start position in the log.
    pub(super) start: u64,
    /// State of the log at the start of the block.
    before: LogState,
    /// Raw bytes in the block.
    pub(super) raw_length: u32,
    /// Offset of its header in the file.
    offset: u64,
    stored_length: u32,
}

impl Block {
    /// Returns the end position of the block.
    pub(super) const fn end(&self) -> u64 {
        self.start + self.raw_length as u64
    }

    /// Returns the length of each stream at the start of the block.
    pub(super) const fn stream_lengths(&self) -> [u64; 2] {
        self.before.stream_lengths
    }

    const fn file_end(&self) -> u64 {
        self.offset + HEADER_BYTES as u64 + self.stored_length as u64
    }
}

/// A pack file and the index of its blocks.
#[derive(Debug)]
pub(super) struct Pack {
    file: Arc<PackFile>,
    blocks: Vec<Block>,
    length: u64,
    state: LogState,
}

/// A pack file without the index, for reading single blocks.
#[derive(Debug)]
pub(super) struct PackFile {
    path: PathBuf,
    file: File,
}

impl Pack {
    /// Reads the index of a pack, as far as its blocks are consecutive. An incomplete block at the
    /// end is ignored.
    pub(super) fn recover(path: &Path, file: File) -> Result<Self, LogError> {
        let size = file.metadata().map_err(LogError::file("read", path))?.len();
        let mut pack = Self {
            file: Arc::new(PackFile { path: path.to_owned(), file }),
            blocks: Vec::new(),
            length: 0,
            state: LogState::default(),
        };
        while let Some((block, state)) = pack.file.header_at(pack.length, size, &pack.state)? {
            pack.length = block.file_end();
            pack.blocks.push(block);
            pack.state = state;
        }
        // Blocks are durable before the segments that they replace are removed. So only the last
        // block may be incomplete.
        while let Some(last) = pack.blocks.last().copied() {
            if pack.file.stored(&last)?.is_some() {
                break;
            }
            pack.forget_from(last.start);
        }
        Ok(pack)
    }

    /// Drops the block that begins at this position and all later ones. They will be overwritten.
    pub(super) fn forget_from(&mut self, start: u64) {
        let index = self.blocks.partition_point(|block| block.start < start);
        if let Some(block) = self.blocks.get(index) {
            self.length = block.offset;
            self.state = block.before;
            self.blocks.truncate(index);
        }
    }

    /// Returns the state of the log at the end of the pack.
    pub(super) const fn state(&self) -> LogState {
        self.state
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn file(&self) -> Arc<PackFile> {
        Arc::clone(&self.file)
    }

    /// Returns the block that contains this position.
    pub(super) fn block_at(&self, position: u64) -> Option<Block> {
        let index = self.blocks.partition_point(|block| block.end() <= position);
        self.blocks.get(index).filter(|block| block.start <= position).copied()
    }

    /// Returns an appender for the end of the pack. Readers can use the existing blocks meanwhile.
    pub(super) fn growth(&self) -> Growth {
        Growth { file: self.file(), blocks: Vec::new(), length: self.length, state: self.state }
    }

    /// Adds appended blocks to the index, after they are durable.
    pub(super) fn take(&mut self, growth: Growth) {
        self.blocks.extend(growth.blocks);
        self.length = growth.length;
        self.state = growth.state;
    }
}

/// Appender of blocks to a pack.
#[derive(Debug)]
pub(super) struct Growth {
    file: Arc<PackFile>,
    blocks: Vec<Block>,
    length: u64,
    state: LogState,
}

impl Growth {
    /// Creates an empty pack.
    pub(super) fn create(path: &Path, disk: &Disk) -> Result<Self, LogError> {
        let file = disk.create(path).map_err(LogError::file("make", path))?;
        let file = Arc::new(PackFile { path: path.to_owned(), file });
        Ok(Self { file, blocks: Vec::new(), length: 0, state: LogState::default() })
    }

    /// Appends whole chunks, which must be the next of the log. They are not durable yet.
    pub(super) fn append(&mut self, chunks: &[u8], disk: &Disk) -> Result<(), LogError> {
        let mut rest = chunks;
        while !rest.is_empty() {
            rest = &rest[self.append_first(rest, disk)?..];
        }
        Ok(())
    }

    /// Appends the first chunks as one block, and returns their length. A chunk may be cut behind [`BLOCK_BYTES`].
    pub(super) fn append_first(&mut self, chunks: &[u8], disk: &Disk) -> Result<usize, LogError> {
        let mut after = self.state;
        let mut taken = 0;
        while taken < BLOCK_BYTES && taken < chunks.len() {
            let position = after.position;
            let malformed = |reason| LogError::Malformed { position, reason };
            let (header, payload) = ChunkHeader::decode(&chunks[taken..])
                .map_err(|_| malformed("a stored segment does not end with a whole chunk"))?;
            after
                .append(&header, payload)
                .map_err(|_| malformed("stored chunks do not follow each other"))?;
            taken += usize::try_from(header.size()).expect("a chunk that was decoded from memory fits there");
        }
        self.append_block(&chunks[..taken], after, disk)?;
        Ok(taken)
    }

    fn append_block(&mut self, raw: &[u8], after: LogState, disk: &Disk) -> Result<(), LogError> {
        let PackFile { path, file } = &*self.file;
        let mut bytes = vec![0; HEADER_BYTES];
        let stored =
            zstd::bulk::compress(raw, COMPRESSION_LEVEL).map_err(LogError::file("compress", path))?;
        let length = |length: usize| {
            u32::try_from(length).expect("a block is bounded by BLOCK_BYTES_MAX, far below 4 GiB")
        };
        let block = Block {
            start: self.state.position,
            before: self.state,
            raw_length: length(raw.len()),
            offset: self.length,
            stored_length: length(stored.len()),
        };
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..8].copy_from_slice(&block.raw_length.to_le_bytes());
        bytes[8..12].copy_from_slice(&block.stored_length.to_le_bytes());
        encode_state(&mut bytes[16..48], &block.before);
        encode_state(&mut bytes[48..80], &after);
        let checksum = checksum(&bytes[..CHECKSUM_AT], &stored);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum);
        bytes.extend_from_slice(&stored);
        disk.write_at(file, path, &bytes, block.offset).map_err(LogError::file("write", path))?;
        self.blocks.push(block);
        self.length = block.file_end();
        self.state = after;
        Ok(())
    }

    /// Makes all appended blocks durable.
    pub(super) fn sync(&self, disk: &Disk) -> Result<(), LogError> {
        let PackFile { path, file } = &*self.file;
        disk.sync(file, path).map_err(LogError::file("sync", path))
    }

    /// Converts the appended blocks into a pack, for a newly created file.
    pub(super) fn into_pack(self) -> Pack {
        Pack { file: self.file, blocks: self.blocks, length: self.length, state: self.state }
    }
}

impl PackFile {
    /// Returns the raw bytes of a block.
    pub(super) fn read(&self, block: &Block) -> Result<Vec<u8>, LogError> {
        let corrupt = || LogError::Corrupt { position: block.start, path: self.path.clone() };
        let stored = self.stored(block)?.ok_or_else(corrupt)?;
        let raw = zstd::bulk::decompress(&stored, block.raw_length as usize).map_err(|_| corrupt())?;
        if raw.len() == block.raw_length as usize { Ok(raw) } else { Err(corrupt()) }
    }

    fn header_at(
        &self,
        offset: u64,
        size: u64,
        state: &LogState,
    ) -> Result<Option<(Block, LogState)>, LogError> {
        let mut header = [0; HEADER_BYTES];
        if offset + HEADER_BYTES as u64 > size {
            return Ok(None);
        }
        self.file.read_exact_at(&mut header, offset).map_err(LogError::file("read", &self.path))?;
        let u32_at =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let before = decode_state(&header[16..48]);
        let after = decode_state(&header[48..80]);
        let block =
            Block { start: before.position, before, raw_length: u32_at(4), offset, stored_length: u32_at(8) };
        let fits = header[..4] == *MAGIC
            && before == *state
            && block.raw_length as usize <= BLOCK_BYTES_MAX
            && before.position.checked_add(u64::from(block.raw_length)) == Some(after.position)
            && block.stored_length as usize <= STORED_BYTES_MAX
            && block.file_end() <= size;
        Ok(fits.then_some((block, after)))
    }

    /// Returns the stored bytes of a block, or `None` if they do not match their checksum.
    fn stored(&self, block: &Block) -> Result<Option<Vec<u8>>, LogError> {
        let mut bytes = vec![0; HEADER_BYTES + block.stored_length as usize];
        match self.file.read_exact_at(&mut bytes, block.offset) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(source) => return Err(LogError::File { doing: "read", path: self.path.clone(), source }),
        }
        let stored = bytes.split_off(HEADER_BYTES);
        let agrees = checksum(&bytes[..CHECKSUM_AT], &stored) == bytes[CHECKSUM_AT..];
        Ok(agrees.then_some(stored))
    }
}

fn checksum(header: &[u8], stored: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(header).update(stored);
    let mut checksum = [0; 16];
    checksum.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    checksum
}

fn encode_state(bytes: &mut [u8], state: &LogState) {
    let fields = [state.position, state.next_sequence, state.stream_lengths[0], state.stream_lengths[1]];
    for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
}

fn decode_state(bytes: &[u8]) -> LogState {
    let mut fields = [0; 4];
    for (field, place) in fields.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut number = [0; 8];
        number.copy_from_slice(place);
        *field = u64::from_le_bytes(number);
    }
    let [position, next_sequence, stdout, stderr] = fields;
    LogState { position, next_sequence, stream_lengths: [stdout, stderr] }
}
