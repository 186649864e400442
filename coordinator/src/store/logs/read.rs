//! Reading a log from any position, while it grows and after.

use super::append::Shared;
use super::error::LogError;
use super::pack::{Block, PackFile};
use crate::store::limits::{BLOCK_BYTES, READ_BYTES_MAX};
use crate::store::ring::{CompletedLog, first_within};
use buildpool_protocol::AttemptId;
use buildpool_protocol::output::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, Stream};
use bytes::Bytes;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// How far a log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Where it ends.
    pub position: u64,
    /// Nothing will follow.
    pub ended: bool,
}

/// Reads one log. While it exists the log is not evicted.
#[derive(Debug)]
pub struct LogReader {
    source: Source,
    /// The block that was read last, unpacked.
    block: Option<(u64, Bytes)>,
}

#[derive(Debug)]
enum Source {
    Live { shared: Arc<Shared>, progress: watch::Receiver<Progress> },
    Whole(Arc<CompletedLog>),
}

/// Where a piece of a live log is.
enum Piece {
    Nothing,
    Memory(Bytes),
    Raw { file: Arc<File>, path: PathBuf, offset: u64, available: u64 },
    Packed { pack: Arc<PackFile>, block: Block },
}

/// Where a piece of a log begins, and how long each stream was there.
#[derive(Clone, Copy)]
struct Start {
    position: u64,
    lengths: [u64; 2],
}

impl Start {
    fn of_block(block: &Block) -> Self {
        Self { position: block.start, lengths: block.stream_lengths() }
    }
}

/// Whether a piece may have something of a stream. The last one is not told by what follows it.
fn may_have(pieces: &[Start], index: usize, stream: Stream) -> bool {
    let length = |at: usize| pieces.get(at).map(|piece| piece.lengths[stream.index()]);
    length(index + 1).is_none_or(|after| length(index) != Some(after))
}

impl LogReader {
    pub(super) fn live(shared: Arc<Shared>) -> Self {
        let progress = shared.progress();
        Self { source: Source::Live { shared, progress }, block: None }
    }

    pub(super) fn whole(log: Arc<CompletedLog>) -> Self {
        Self { source: Source::Whole(log), block: None }
    }

    /// Whose log this is.
    pub fn attempt(&self) -> AttemptId {
        match &self.source {
            Source::Live { shared, .. } => shared.attempt,
            Source::Whole(log) => log.attempt(),
        }
    }

    /// The log itself, unless it is in memory as a whole.
    pub(super) fn shared(&self) -> Option<&Arc<Shared>> {
        match &self.source {
            Source::Live { shared, .. } => Some(shared),
            Source::Whole(_) => None,
        }
    }

    /// How far the log is at this moment.
    pub fn progress(&self) -> Progress {
        match &self.source {
            Source::Live { progress, .. } => *progress.borrow(),
            Source::Whole(log) => Progress { position: log.end(), ended: true },
        }
    }

    /// Whether all of it is in memory, so that reading waits for no disk and costs less than to hand a thread's other tasks
    /// over to another.
    pub fn is_in_memory(&self) -> bool {
        match &self.source {
            Source::Live { shared, .. } => !shared.layout().has_files(),
            Source::Whole(_) => true,
        }
    }

    /// Where the log ends at this moment.
    pub fn length(&self) -> u64 {
        self.progress().position
    }

    /// Waits until the log goes beyond `position`, or nothing will follow.
    pub async fn grown(&mut self, position: u64) -> Progress {
        match &mut self.source {
            Source::Whole(log) => Progress { position: log.end(), ended: true },
            Source::Live { progress, .. } => {
                match progress.wait_for(|progress| progress.position > position || progress.ended).await {
                    Ok(progress) => *progress,
                    // The sender lives in the log that this reader holds.
                    Err(_) => Progress { position, ended: true },
                }
            }
        }
    }

    /// Whole chunks from `position` on: as many as fit into `bytes_max`, at least one where there is one. Empty at the
    /// end, and beyond it: a log that was cut by a crash grows again. Reads files; of a compressed log a block at a time.
    ///
    /// # Errors
    /// [`LogError::NotAPosition`] when no chunk begins there; [`LogError::Corrupt`], [`LogError::File`].
    pub fn read(&mut self, position: u64, bytes_max: usize) -> Result<Bytes, LogError> {
        let bytes_max = bytes_max.clamp(CHUNK_HEADER_BYTES, READ_BYTES_MAX);
        let attempt = self.attempt();
        let available = match self.piece(position)? {
            Piece::Nothing => return Ok(Bytes::new()),
            Piece::Memory(bytes) if bytes.is_empty() => return Ok(bytes),
            Piece::Memory(bytes) => bytes,
            Piece::Packed { pack, block } => self.unpacked(&pack, &block, position)?,
            Piece::Raw { file, path, offset, available } => {
                let bytes = read_raw(&file, &path, offset, available.min(bytes_max as u64))?;
                match first_chunk(&bytes, attempt, position)? {
                    // Only the beginning of a chunk that is longer than asked for.
                    size if size > bytes.len() => read_raw(&file, &path, offset, available.min(size as u64))?,
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

    /// A position from which on there are about `lines` lines, of one stream or of both together: reading from there gives
    /// at least as many, where the log has as many.
    ///
    /// # Errors
    /// As [`LogReader::read`].
    pub fn tail(&mut self, lines: u64, stream: Option<Stream>) -> Result<u64, LogError> {
        let end = self.length();
        let mut counted = 0;
        let mut oldest = end;
        let pieces = self.pieces();
        for (index, &Start { position: start, .. }) in pieces.iter().enumerate().rev() {
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
                // One more than asked for: the newline that ends the line before the first.
                if counted > lines {
                    return Ok(oldest);
                }
            }
        }
        Ok(oldest)
    }

    /// The first chunk from which on at most `bytes_max` bytes follow; the end when there is none.
    pub(super) fn start_within(&mut self, bytes_max: u64) -> Result<u64, LogError> {
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

    /// The first position from `position`, where a chunk begins, on at which something of a stream may be: all of the log
    /// between the two is of the other stream. Reads no file.
    pub fn next_of(&self, position: u64, stream: Stream) -> u64 {
        let pieces = self.pieces();
        let here = pieces.partition_point(|piece| piece.position <= position).saturating_sub(1);
        let next = (here..pieces.len()).find(|index| may_have(&pieces, *index, stream));
        next.and_then(|index| pieces.get(index)).map_or(position, |piece| piece.position.max(position))
    }

    /// Where the pieces of the log begin.
    fn pieces(&self) -> Vec<Start> {
        match &self.source {
            Source::Whole(log) => vec![Start { position: log.start(), lengths: [0, 0] }],
            Source::Live { shared, .. } => {
                let layout = shared.layout();
                let packed = layout.pack.iter().flat_map(|pack| pack.blocks().iter().map(Start::of_block));
                let raw = layout
                    .raws
                    .iter()
                    .map(|raw| Start { position: raw.start.position, lengths: raw.start.stream_lengths });
                let mut starts: Vec<Start> = packed.chain(raw).collect();
                if !layout.has_files() {
                    starts.push(Start { position: 0, lengths: [0, 0] });
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

    fn unpacked(&mut self, pack: &PackFile, block: &Block, position: u64) -> Result<Bytes, LogError> {
        let raw = match &self.block {
            Some((start, raw)) if *start == block.start && raw.len() == block.raw_length as usize => {
                raw.clone()
            }
            _ => {
                let raw = Bytes::from(pack.read(block)?);
                self.block = Some((block.start, raw.clone()));
                raw
            }
        };
        let at = usize::try_from(position - block.start).map_err(|_| LogError::NotAPosition { position })?;
        Ok(raw.slice(at..))
    }
}

fn read_raw(file: &File, path: &std::path::Path, offset: u64, length: u64) -> Result<Bytes, LogError> {
    let length = usize::try_from(length).expect("a read is bounded by READ_BYTES_MAX or one chunk");
    let mut bytes = vec![0; length.max(1)];
    bytes.truncate(length);
    file.read_exact_at(&mut bytes, offset).map_err(LogError::file("read", path))?;
    Ok(Bytes::from(bytes))
}

/// The size of the chunk that begins here, header included. It may be more than there are bytes.
fn first_chunk(bytes: &[u8], attempt: AttemptId, position: u64) -> Result<usize, LogError> {
    let Some(header) = bytes.first_chunk::<CHUNK_HEADER_BYTES>() else {
        return Ok(CHUNK_HEADER_BYTES);
    };
    match ChunkHeader::decode_header(header) {
        Ok(header) if header.attempt == attempt => Ok(CHUNK_HEADER_BYTES + header.length as usize),
        _ => Err(LogError::NotAPosition { position }),
    }
}

/// Bytes of the whole chunks at the front that fit into `bytes_max`.
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

/// Calls with each whole chunk at the front: its place in `bytes`, its header, its payload.
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
