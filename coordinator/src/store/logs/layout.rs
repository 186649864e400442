//! Locations of a log's bytes (memory, raw segments, pack), and their recovery after a crash.

use super::error::LogError;
use super::pack::Pack;
use crate::store::disk::{Disk, open_existing};
use crate::store::limits::{BLOCK_BYTES, SEGMENT_BYTES};
use buildpool_protocol::AttemptId;
use buildpool_protocol::limits::BINARY_FRAME_BYTES_MAX;
use buildpool_protocol::output::{ChunkError, ChunkHeader, LogState};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File names of one log.
#[derive(Clone, Debug)]
pub(super) struct LogFiles {
    /// The directory of the files.
    pub(super) directory: PathBuf,
    stem: String,
}

impl LogFiles {
    /// Returns the place of an attempt's log. Logs are spread over 256 directories by the last byte
    /// of the job's id, which is random.
    pub(super) fn new(root: &Path, attempt: AttemptId) -> Self {
        let last = attempt.job.as_uuid().as_bytes()[15];
        Self {
            directory: root.join(format!("{last:02x}")),
            stem: format!("{}-{}", attempt.job, attempt.number),
        }
    }

    pub(super) fn pack(&self) -> PathBuf {
        self.directory.join(format!("{}.pack", self.stem))
    }

    pub(super) fn raw(&self, start: u64) -> PathBuf {
        self.directory.join(format!("{}-{start:x}.raw", self.stem))
    }

    /// Removes all files of the log.
    pub(super) fn remove_all(&self, disk: &Disk) -> Result<(), LogError> {
        let listing = match std::fs::read_dir(&self.directory) {
            Ok(listing) => listing,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(source) => {
                return Err(LogError::File { doing: "list", path: self.directory.clone(), source });
            }
        };
        for entry in listing {
            let entry = entry.map_err(LogError::file("list", &self.directory))?;
            let ours = entry.file_name().to_str().and_then(|name| name.strip_prefix(&self.stem)).is_some_and(
                // One of these follows the attempt number, so that attempt 1 does not match the
                // files of attempt 10.
                |rest| rest.starts_with('-') || rest.starts_with('.'),
            );
            if ours {
                let path = entry.path();
                disk.remove(&path).map_err(LogError::file("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Returns the attempt of a file name, or `None` if it is not the name of a log file.
    pub(super) fn attempt_of(name: &str) -> Option<AttemptId> {
        let (job, rest) = name.split_at_checked(36)?;
        let number = match rest.strip_prefix('-')?.strip_suffix(".pack") {
            Some(number) => number,
            None => rest.strip_prefix('-')?.strip_suffix(".raw")?.split_once('-')?.0,
        };
        Some(AttemptId { job: job.parse().ok()?, number: number.parse().ok()? })
    }
}

/// A raw segment.
#[derive(Clone, Debug)]
pub(super) struct RawSegment {
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    /// State of the log at the start of the segment.
    pub(super) start: LogState,
    /// End position of the segment.
    pub(super) end: u64,
    /// The segment is complete and accepts no more bytes.
    pub(super) full: bool,
    /// The segment is durable up to this position.
    pub(super) synced: u64,
}

/// Locations of a log's bytes, in order: pack, then raw segments; or `head`, if the whole log is in
/// memory.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) head: Vec<u8>,
    pub(super) pack: Option<Pack>,
    pub(super) raws: VecDeque<RawSegment>,
}

impl Layout {
    /// Finds the files of a log and reads their state. Consecutive whole chunks count. The rest is
    /// ignored, and truncated if `write` is set.
    pub(super) fn recover(
        place: &LogFiles,
        attempt: AttemptId,
        disk: &Disk,
        write: bool,
    ) -> Result<(Self, LogState), LogError> {
        let mut layout = Self::default();
        let mut state = LogState::default();
        let path = place.pack();
        if let Some(file) = open_existing(&path, write).map_err(LogError::file("open", &path))? {
            let mut pack = Pack::recover(&path, file)?;
            while let Some(start) = unfinished(&pack, place) {
                pack.forget_from(start);
            }
            state = pack.state();
            layout.pack = Some(pack);
        }
        loop {
            let path = place.raw(state.position);
            let Some(file) = open_existing(&path, write).map_err(LogError::file("open", &path))? else {
                return Ok((layout, state));
            };
            let start = state;
            let whole = scan(&file, &path, attempt, &mut state)?;
            let length = state.position - start.position;
            if !whole && write {
                disk.truncate(&file, &path, length).map_err(LogError::file("cut", &path))?;
            }
            if length == 0 {
                return Ok((layout, state));
            }
            if let Some(previous) = layout.raws.back_mut() {
                previous.full = true;
            }
            let end = state.position;
            let raw =
                RawSegment { path, file: Arc::new(file), start, end, full: false, synced: start.position };
            layout.raws.push_back(raw);
            if !whole {
                return Ok((layout, state));
            }
        }
    }

    /// Returns true if a file contains a part of the log.
    pub(super) fn has_files(&self) -> bool {
        !self.raws.is_empty() || self.pack.as_ref().is_some_and(|pack| pack.state().position > 0)
    }
}

/// Returns the start of a raw segment with an interrupted compression. While its file exists, its
/// blocks may not be durable, so the file is used instead.
fn unfinished(pack: &Pack, place: &LogFiles) -> Option<u64> {
    const BLOCKS_OF_A_SEGMENT_MAX: usize =
        (SEGMENT_BYTES as usize + BINARY_FRAME_BYTES_MAX).div_ceil(BLOCK_BYTES) + 1;
    let mut newest = pack.blocks().iter().rev().take(BLOCKS_OF_A_SEGMENT_MAX);
    newest.find(|block| place.raw(block.start).exists()).map(|block| block.start)
}

/// Reads the chunks of a raw segment and advances `state`. Returns true if the segment ends with a
/// whole chunk.
fn scan(file: &File, path: &Path, attempt: AttemptId, state: &mut LogState) -> Result<bool, LogError> {
    let size = file.metadata().map_err(LogError::file("read", path))?.len();
    let start = state.position;
    let mut buffer = Vec::new();
    loop {
        let offset = state.position - start;
        let wanted = (size - offset).min(1 << 20);
        buffer.resize(usize::try_from(wanted).expect("at most a MiB"), 0);
        file.read_exact_at(&mut buffer, offset).map_err(LogError::file("read", path))?;
        let mut rest = buffer.as_slice();
        loop {
            match ChunkHeader::decode(rest) {
                Ok((header, payload)) => {
                    if header.attempt != attempt || state.append(&header, payload).is_err() {
                        return Ok(false);
                    }
                    rest = &rest[buildpool_protocol::output::CHUNK_HEADER_BYTES + payload.len()..];
                }
                Err(ChunkError::Incomplete) => break,
                Err(ChunkError::Unknown | ChunkError::TooLong) => return Ok(false),
            }
        }
        if state.position - start == size {
            return Ok(true);
        }
        // A chunk is far shorter than the buffer, so a chunk that is incomplete at the end of the
        // file was cut by a crash.
        if offset + wanted == size {
            return Ok(false);
        }
    }
}
