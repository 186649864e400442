//! Reads a log from any position, while it grows and after its end.

use super::error::LogError;
use super::open_log::OpenLog;
use super::pack::{Block, PackFile};
use crate::store::limits::{BLOCK_BYTES, READ_BYTES_MAX};
use crate::store::ring::{CompletedLog, first_within};
use buildpool_protocol::AttemptId;
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Stream};
use bytes::Bytes;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Progress of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// End position of the log.
    pub position: u64,
    /// No more chunks will follow.
    pub ended: bool,
}

/// Reads one log. The log is not removed while its reader exists.
#[derive(Debug)]
pub struct LogReader {
    source: Source,
    /// The block that was read last, decompressed.
    block: Option<(u64, Bytes)>,
}

#[derive(Debug)]
enum Source {
    Live { shared: Arc<OpenLog>, progress: watch::Receiver<Progress> },
    Whole(Arc<CompletedLog>),
}

/// Location of a piece of a live log.
enum Piece {
    Nothing,
    Memory(Bytes),
    Raw { file: Arc<File>, path: PathBuf, offset: u64, available: u64 },
    Packed { pack: Arc<PackFile>, block: Block },
}

/// Start position of a piece of a log, with the length of each stream there.
#[derive(Clone, Copy)]
struct PieceStart {
    position: u64,
    lengths: [u64; 2],
}

impl PieceStart {
    fn of_block(block: &Block) -> Self {
        Self { position: block.start, lengths: block.stream_lengths() }
    }
}

/// Returns false if the piece has no bytes of the stream. The last piece has no successor to
/// compare with, so the result for it is true.
fn may_have(pieces: &[PieceStart], index: usize, stream: Stream) -> bool {
    let length = |at: usize| pieces.get(at).map(|piece| piece.lengths[stream.index()]);
    length(index + 1).is_none_or(|after| length(index) != Some(after))
}

impl LogReader {
    pub(super) fn live(shared: Arc<OpenLog>) -> Self {
        let progress = shared.progress();
        Self { source: Source::Live { shared, progress }, block: None }
    }

    pub(super) fn whole(log: Arc<CompletedLog>) -> Self {
        Self { source: Source::Whole(log), block: None }
    }

    /// Returns no bytes, unless the log should go on here.
    fn end_at(&self, position: u64) -> Result<Bytes, LogError> {
        match &self.source {
            Source::Live { shared, .. } if position < shared.declared() => {
                Err(LogError::Damaged { position, declared: shared.declared() })
            }
            Source::Live { .. } | Source::Whole(_) => Ok(Bytes::new()),
        }
    }

    /// Returns the attempt of the log.
    pub fn attempt(&self) -> AttemptId {
        match &self.source {
            Source::Live { shared, .. } => shared.attempt,
            Source::Whole(log) => log.attempt(),
        }
    }

    /// Returns the live log, or `None` if this is a completed log in memory.
    pub(super) fn shared(&self) -> Option<&Arc<OpenLog>> {
        match &self.source {
            Source::Live { shared, .. } => Some(shared),
            Source::Whole(_) => None,
        }
    }

    /// Returns the current progress of the log.
    pub fn progress(&self) -> Progress {
        match &self.source {
            Source::Live { progress, .. } => *progress.borrow(),
            Source::Whole(log) => Progress { position: log.end(), ended: true },
        }
    }

    /// Returns true if a read at this position needs no file. It does not block on the disk, so
    /// moving the thread's other tasks to another thread is not worth its cost.
    pub fn is_in_memory(&self, position: u64) -> bool {
        match &self.source {
            Source::Live { shared, .. } => {
                position >= self.length()
                    || shared.recent().from(position).is_some()
                    || !shared.layout().has_files()
            }
            Source::Whole(_) => true,
        }
    }

    /// Returns the current end position of the log.
    pub fn length(&self) -> u64 {
        self.progress().position
    }

    /// Waits until the log extends beyond `position`, or has ended.
    pub async fn grown(&mut self, position: u64) -> Progress {
        match &mut self.source {
            Source::Whole(log) => Progress { position: log.end(), ended: true },
            Source::Live { progress, .. } => {
                match progress.wait_for(|progress| progress.position > position || progress.ended).await {
                    Ok(progress) => *progress,
                    // Unreachable: this reader keeps the log alive, which owns the sender.
                    Err(_) => Progress { position, ended: true },
                }
            }
        }
    }

    /// Returns whole chunks from `position` on: as many as fit into `bytes_max`, but at least one
    /// if there is one.
    ///
    /// The result is empty at the end of the log, and beyond it: a log that a crash has cut grows
    /// again. Reads files; a compressed log is read one block at a time.
    ///
    /// # Errors
    /// [`LogError::NotAPosition`] if no chunk begins there; [`LogError::Corrupt`],
    /// [`LogError::Damaged`], [`LogError::File`].
    pub fn read(&mut self, position: u64, bytes_max: usize) -> Result<Bytes, LogError> {
        let bytes_max = bytes_max.clamp(CHUNK_HEADER_BYTES, READ_BYTES_MAX);
        let attempt = self.attempt();
        let generation = self.shared().map_or(0, |shared| shared.recent().generation());
        let available = match self.piece(position)? {
            Piece::Nothing => return self.end_at(position),
            Piece::Memory(bytes) if bytes.is_empty() => return self.end_at(position),
            Piece::Memory(bytes) => bytes,
            Piece::Packed { pack, block } => self.unpacked(generation, (&pack, &block), position)?,
            Piece::Raw { file, path, offset, available } => {
                let read = |length: u64| self.read_raw(generation, position, (&file, &path), offset, length);
                let bytes = read(available.min(bytes_max as u64))?;
                match first_chunk(&bytes, attempt, position)? {
                    // This is only the beginning of a chunk that is longer than `bytes_max`.
                    size if size > bytes.len() => read(available.min(size as u64))?,
                    _ => bytes,
                }
            }
        };
        let size = first_chunk(&available, attempt, position)?;
        if size > available.len() {
            return Err(LogError::NotAPosition { position });
        }
        Ok(available.slice(..whole_chunks(&available, bytes_max.max(size))))
    }

    /// Returns a position from which about `lines` lines follow, of one stream or of both together.
    /// It returns at least as many lines, if the log has them.
    ///
    /// # Errors
    /// As [`LogReader::read`].
    pub fn tail(&mut self, lines: u64, stream: Option<Stream>) -> Result<u64, LogError> {
        let end = self.length();
        let mut counted = 0;
        let mut oldest = end;
        let pieces = self.pieces();
        for (index, &PieceStart { position: start, .. }) in pieces.iter().enumerate().rev() {
            if stream.is_some_and(|stream| !may_have(&pieces, index, stream)) {
                oldest = start;
                continue;
            }
            let mut chunks = Vec::new();
            let mut position = start;
            while position < oldest {
                let bytes = self.read(position, READ_BYTES_MAX)?;
                if bytes.is_empty() {
                    break;
                }
                let _: ControlFlow<()> = each_chunk(&bytes, |at, header, payload| {
                    let counts =
                        header.kind == ChunkKind::Data && stream.is_none_or(|wanted| wanted == header.stream);
                    let newlines =
                        if counts { payload.iter().filter(|byte| **byte == b'\n').count() } else { 0 };
                    chunks.push((position + at as u64, newlines as u64));
                    ControlFlow::Continue(())
                });
                position += bytes.len() as u64;
            }
            for (position, newlines) in chunks.into_iter().rev() {
                counted += newlines;
                oldest = position;
                // One more than requested: the newline before the first requested line.
                if counted > lines {
                    return Ok(oldest);
                }
            }
        }
        Ok(oldest)
    }

    /// Returns the position of the first chunk that has at most `bytes_max` bytes up to the end.
    /// Returns the end if there is no such chunk.
    pub(crate) fn start_within(&mut self, bytes_max: u64) -> Result<u64, LogError> {
        let end = self.length();
        if end <= bytes_max {
            return Ok(0);
        }
        if let Source::Whole(log) = &self.source {
            return Ok(log.start_within(bytes_max));
        }
        let position =
            self.pieces().iter().rev().map(|piece| piece.position).find(|start| end - start > bytes_max);
        let mut position = position.unwrap_or_default();
        loop {
            let chunks = self.read(position, READ_BYTES_MAX)?;
            if chunks.is_empty() {
                return Ok(end);
            }
            if let Some(found) = first_within(&chunks, position, end, bytes_max) {
                return Ok(found);
            }
            position += chunks.len() as u64;
        }
    }

    /// Returns the first position, at or after `position`, that may have bytes of the stream. The
    /// log between the two contains only the other stream. `position` must be the start of a chunk.
    /// Reads no file.
    pub fn next_of(&self, position: u64, stream: Stream) -> u64 {
        let pieces = self.pieces();
        let here = pieces.partition_point(|piece| piece.position <= position).saturating_sub(1);
        let next = (here..pieces.len()).find(|index| may_have(&pieces, *index, stream));
        next.and_then(|index| pieces.get(index)).map_or(position, |piece| piece.position.max(position))
    }

    /// Returns the starts of the log's pieces.
    fn pieces(&self) -> Vec<PieceStart> {
        match &self.source {
            Source::Whole(log) => vec![PieceStart { position: log.start(), lengths: [0, 0] }],
            Source::Live { shared, .. } => {
                let layout = shared.layout();
                let packed =
                    layout.pack.iter().flat_map(|pack| pack.blocks().iter().map(PieceStart::of_block));
                let raw = layout.raws.iter().map(|raw| PieceStart {
                    position: raw.start.position,
                    lengths: raw.start.stream_lengths,
                });
                let mut starts: Vec<PieceStart> = packed.chain(raw).collect();
                if !layout.has_files() {
                    starts.push(PieceStart { position: 0, lengths: [0, 0] });
                }
                starts
            }
        }
    }

    fn piece(&self, position: u64) -> Result<Piece, LogError> {
        let shared = match &self.source {
            Source::Live { shared, .. } => shared,
            Source::Whole(log) => return log.from(position).map(Piece::Memory),
        };
        if let Some(bytes) = shared.recent().from(position) {
            return Ok(Piece::Memory(bytes));
        }
        let layout = shared.layout();
        if let Some(pack) = &layout.pack
            && let Some(block) = pack.block_at(position)
        {
            return Ok(Piece::Packed { pack: pack.file(), block });
        }
        if let Some(raw) = layout.raws.iter().find(|raw| (raw.start.position..raw.end).contains(&position)) {
            return Ok(Piece::Raw {
                file: Arc::clone(&raw.file),
                path: raw.path.clone(),
                offset: position - raw.start.position,
                available: raw.end - position,
            });
        }
        let head = usize::try_from(position)
            .ok()
            .and_then(|at| layout.head.get(at..))
            .filter(|rest| !rest.is_empty());
        Ok(head.map_or(Piece::Nothing, |rest| Piece::Memory(Bytes::copy_from_slice(rest))))
    }

    /// Reads a raw segment, or shares what another reader of the log has read there.
    fn read_raw(
        &self,
        generation: u64,
        position: u64,
        (file, path): (&File, &Path),
        offset: u64,
        length: u64,
    ) -> Result<Bytes, LogError> {
        let length = usize::try_from(length).expect("a read is bounded by READ_BYTES_MAX or one chunk");
        let shared = self.shared();
        if let Some(bytes) =
            shared.and_then(|shared| shared.recent().read_before(generation, position, length))
        {
            return Ok(bytes);
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).map_err(LogError::file("read", path))?;
        Ok(match shared {
            Some(shared) => shared.recent().share(generation, position, bytes),
            None => bytes.into(),
        })
    }

    fn unpacked(
        &mut self,
        generation: u64,
        (pack, block): (&PackFile, &Block),
        position: u64,
    ) -> Result<Bytes, LogError> {
        let raw = match &self.block {
            Some((start, raw)) if *start == block.start && raw.len() == block.raw_length as usize => {
                raw.clone()
            }
            _ => {
                let length = block.raw_length as usize;
                let shared = self.shared();
                let raw = match shared
                    .and_then(|shared| shared.recent().read_before(generation, block.start, length))
                {
                    Some(raw) => raw,
                    None => {
                        let raw = pack.read(block)?;
                        match shared {
                            Some(shared) => shared.recent().share(generation, block.start, raw),
                            None => raw.into(),
                        }
                    }
                };
                self.block = Some((block.start, raw.clone()));
                raw
            }
        };
        let at = usize::try_from(position - block.start).map_err(|_| LogError::NotAPosition { position })?;
        Ok(raw.slice(at..))
    }
}

/// Returns the size of the first chunk, including its header. It may exceed the available bytes.
fn first_chunk(bytes: &[u8], attempt: AttemptId, position: u64) -> Result<usize, LogError> {
    let Some(header) = bytes.first_chunk::<CHUNK_HEADER_BYTES>() else {
        return Ok(CHUNK_HEADER_BYTES);
    };
    match ChunkHeader::decode_header(header) {
        Ok(header) if header.attempt == attempt => Ok(CHUNK_HEADER_BYTES + header.length as usize),
        _ => Err(LogError::NotAPosition { position }),
    }
}

/// Returns the total size of the leading whole chunks that fit into `bytes_max`.
fn whole_chunks(bytes: &[u8], bytes_max: usize) -> usize {
    let mut whole = 0;
    let _: ControlFlow<()> = each_chunk(bytes, |at, _, payload| {
        let end = at + CHUNK_HEADER_BYTES + payload.len();
        if end > bytes_max {
            return ControlFlow::Break(());
        }
        whole = end;
        ControlFlow::Continue(())
    });
    whole
}

/// Calls `call` with each leading whole chunk: its offset in `bytes`, its header and its payload.
pub(crate) fn each_chunk<B>(
    bytes: &[u8],
    mut call: impl FnMut(usize, &ChunkHeader, &[u8]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut at = 0;
    while let Ok((header, payload)) = ChunkHeader::decode(&bytes[at..]) {
        call(at, &header, payload)?;
        at += CHUNK_HEADER_BYTES + payload.len();
    }
    ControlFlow::Continue(())
}

const _: () = assert!(BLOCK_BYTES <= READ_BYTES_MAX);
