//! Checks and copies logs from outside their coordinator, while it runs.

use super::error::LogError;
use super::layout::LogFiles;
use super::open_log::OpenLog;
use super::pack::Growth;
use super::read::{LogReader, each_chunk};
use super::recent::RecentTotal;
use crate::store::disk::Disk;
use crate::store::limits::READ_BYTES_MAX;
use crate::store::ring::CompletedLog;
use buildpool_protocol::AttemptId;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::output::{ChunkKind, Stream};
use bytes::Bytes;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Result of a check of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) enum LogCheck {
    /// The log is intact.
    Whole,
    /// The log has this length instead of the recorded one.
    Length(u64),
    /// The length or checksum of a stream differs from its seal.
    Damaged(Stream),
}

/// Attempts to open a log. A segment that is compressed during the lookup makes the log appear too
/// short.
const LOOKS: u32 = 3;

/// Checks the length of a stored log and, if seals are given, the checksums of its streams.
pub(in crate::store) fn examine(
    root: &Path,
    attempt: AttemptId,
    inline: Option<Bytes>,
    length: u64,
    seals: Option<&[Seal; 2]>,
) -> Result<LogCheck, LogError> {
    let mut reader = match inline {
        Some(bytes) => LogReader::whole(Arc::new(CompletedLog::new(attempt, 0, bytes))),
        None => look(root, attempt, length)?,
    };
    if reader.length() != length {
        return Ok(LogCheck::Length(reader.length()));
    }
    let Some(seals) = seals else { return Ok(LogCheck::Whole) };
    let mut hashers: [blake3::Hasher; 2] = Default::default();
    each_part(&mut reader, |part| {
        let _: ControlFlow<()> = each_chunk(part, |_, header, payload| {
            if header.kind == ChunkKind::Data {
                hashers[header.stream.index()].update(payload);
            }
            ControlFlow::Continue(())
        });
        Ok(())
    })?;
    let differs = |stream: &Stream| {
        !blake3::Hash::from_hex(&seals[stream.index()].blake3)
            .is_ok_and(|hash| hash == hashers[stream.index()].finalize())
    };
    Ok(Stream::ALL.into_iter().find(differs).map_or(LogCheck::Whole, LogCheck::Damaged))
}

/// Copies a log in compressed form. `length` is the expected length. Returns the length that could
/// be read.
pub(in crate::store) fn copy(
    from: &Path,
    to: &Path,
    attempt: AttemptId,
    length: u64,
) -> Result<u64, LogError> {
    let mut reader = look(from, attempt, length)?;
    let length = reader.length();
    if length == 0 {
        return Ok(0);
    }
    let disk = Disk::default();
    let place = LogFiles::new(to, attempt);
    disk.create_directory(&place.directory).map_err(LogError::file("make", &place.directory))?;
    let mut growth = Growth::create(&place.pack(), &disk)?;
    each_part(&mut reader, |part| growth.append(part, &disk))?;
    growth.sync(&disk)?;
    disk.sync_directory(&place.directory).map_err(LogError::file("sync", &place.directory))?;
    Ok(length)
}

/// Returns all attempts that have log files.
pub(in crate::store) fn stored_attempts(root: &Path) -> HashSet<AttemptId> {
    let directories = std::fs::read_dir(root).into_iter().flatten().flatten();
    let files =
        directories.flat_map(|directory| std::fs::read_dir(directory.path()).into_iter().flatten().flatten());
    files.filter_map(|file| LogFiles::attempt_of(file.file_name().to_str()?)).collect()
}

fn look(root: &Path, attempt: AttemptId, length: u64) -> Result<LogReader, LogError> {
    let mut longest: Option<LogReader> = None;
    for _ in 0..LOOKS {
        let shared =
            OpenLog::new(attempt, LogFiles::new(root, attempt), Disk::default(), RecentTotal::default());
        shared.open(false)?;
        let reader = LogReader::live(Arc::new(shared));
        if longest.as_ref().is_none_or(|longest| longest.length() < reader.length()) {
            longest = Some(reader);
        }
        if longest.as_ref().is_some_and(|longest| longest.length() >= length) {
            break;
        }
    }
    Ok(longest.expect("the loop runs at least once"))
}

fn each_part(
    reader: &mut LogReader,
    mut call: impl FnMut(&[u8]) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let mut position = 0;
    loop {
        let part = reader.read(position, READ_BYTES_MAX)?;
        if part.is_empty() {
            return Ok(());
        }
        call(&part)?;
        position += part.len() as u64;
    }
}
