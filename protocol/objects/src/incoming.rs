//! A file on its way in: its bytes lie under its checksum, so that a transfer that was cut goes on at any byte, also after
//! a restart, and nobody takes it for whole before it is.

use buildpool_protocol::limits::TRANSFER_BYTES_MAX;
use buildpool_protocol::transfer::Checksum;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Why a file does not come in.
#[derive(Debug)]
pub enum IncomingError {
    /// Larger than allowed.
    TooLarge {
        /// In bytes.
        length: u64,
        /// In bytes.
        limit: u64,
    },
    /// Another connection is receiving the same file.
    Busy,
    /// More bytes than were announced.
    BeyondEnd {
        /// Where they would have ended.
        end: u64,
        /// The announced length.
        length: u64,
    },
    /// Its bytes are not those that were announced; they have been removed.
    Mismatch {
        /// As announced.
        expected: Checksum,
        /// As it came.
        found: Checksum,
    },
    /// The disk.
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl fmt::Display for IncomingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { length, limit } => {
                write!(f, "{length} bytes are more than the {limit} that may be transferred at once")
            }
            Self::Busy => f.write_str("the same bytes are just being received on another connection"),
            Self::BeyondEnd { end, length } => {
                write!(f, "bytes up to {end} of a transfer that was announced with {length}")
            }
            Self::Mismatch { expected, found } => {
                write!(f, "the bytes have the checksum {found}; {expected} was announced")
            }
            Self::Io { what, path, .. } => write!(f, "{what} {}", path.display()),
        }
    }
}

impl std::error::Error for IncomingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::TooLarge { .. } | Self::Busy | Self::BeyondEnd { .. } | Self::Mismatch { .. } => None,
        }
    }
}

/// A file that is being received.
#[derive(Debug)]
pub struct Incoming {
    file: nix::fcntl::Flock<File>,
    path: PathBuf,
    checksum: Checksum,
    length: u64,
    offset: u64,
}

impl Incoming {
    /// Opens or begins it in `directory`; [`Incoming::offset`] says how much is there from an earlier time.
    ///
    /// # Errors
    /// [`IncomingError::TooLarge`] before anything is written, [`IncomingError::Busy`], [`IncomingError::Io`].
    pub fn open(
        directory: &Path,
        checksum: &Checksum,
        length: u64,
        limit: u64,
    ) -> Result<Self, IncomingError> {
        let limit = limit.min(TRANSFER_BYTES_MAX);
        if length > limit {
            return Err(IncomingError::TooLarge { length, limit });
        }
        let path = directory.join(format!("{checksum}.part"));
        let io = |what| {
            let path = path.clone();
            move |source| IncomingError::Io { what, path, source }
        };
        fs::create_dir_all(directory).map_err(io("creating the directory of"))?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io("opening"))?;
        let file = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock)
            .map_err(|(_, _)| IncomingError::Busy)?;
        let mut offset = file.metadata().map_err(io("measuring"))?.len();
        if offset > length {
            file.set_len(0).map_err(io("emptying"))?;
            offset = 0;
        }
        (&*file).seek(SeekFrom::Start(offset)).map_err(io("seeking in"))?;
        Ok(Self { file, path, checksum: checksum.clone(), length, offset })
    }

    /// Bytes that are there; the next ones belong here.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether all bytes are there.
    pub const fn is_full(&self) -> bool {
        self.offset == self.length
    }

    /// Takes bytes that belong at `position`. False when they belong further on: some are missing in between, and
    /// [`Incoming::offset`] says from where to send again. Bytes that are there already are passed over.
    ///
    /// # Errors
    /// [`IncomingError::BeyondEnd`] and [`IncomingError::Io`]; a disk without room keeps nothing of the file.
    pub fn write(&mut self, position: u64, bytes: &[u8]) -> Result<bool, IncomingError> {
        let end = position.saturating_add(bytes.len() as u64);
        if end > self.length {
            return Err(IncomingError::BeyondEnd { end, length: self.length });
        }
        if position > self.offset {
            return Ok(false);
        }
        let known = usize::try_from(self.offset - position).unwrap_or(usize::MAX);
        let Some(fresh) = bytes.get(known..) else { return Ok(true) };
        if let Err(source) = (&*self.file).write_all(fresh) {
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                // What came so far takes the room that everything else on this disk needs. Whoever opened the file is behind
                // its lock and begins at 0.
                self.file.set_len(0).and_then(|()| fs::remove_file(&self.path)).ok();
            }
            return Err(IncomingError::Io { what: "writing", path: self.path.clone(), source });
        }
        self.offset += fresh.len() as u64;
        Ok(true)
    }

    /// Verifies what lies on the disk and gives its path. It is the caller's to move or remove.
    ///
    /// # Errors
    /// [`IncomingError::Mismatch`], after which a new attempt begins at 0; [`IncomingError::Io`].
    pub fn finish(self) -> Result<PathBuf, IncomingError> {
        let io = |what| {
            let path = self.path.clone();
            move |source| IncomingError::Io { what, path, source }
        };
        self.file.sync_all().map_err(io("writing out"))?;
        let (found, length) = checksum_of(&self.path).map_err(io("reading"))?;
        if found != self.checksum || length != self.length {
            fs::remove_file(&self.path).map_err(io("removing"))?;
            return Err(IncomingError::Mismatch { expected: self.checksum, found });
        }
        Ok(self.path)
    }
}

/// BLAKE3 and length of a file.
///
/// # Errors
/// When it can't be read.
pub fn checksum_of(path: &Path) -> io::Result<(Checksum, u64)> {
    checksum_of_open(&File::open(path)?)
}

/// BLAKE3 and length of a file that is open.
///
/// # Errors
/// When it can't be read.
pub fn checksum_of_open(mut file: &File) -> io::Result<(Checksum, u64)> {
    let mut hasher = blake3::Hasher::new();
    let length = io::copy(&mut file, &mut hasher)?;
    Ok((checksum(&hasher.finalize()), length))
}

/// A BLAKE3 hash as it travels.
pub fn checksum(hash: &blake3::Hash) -> Checksum {
    hash.to_hex().as_str().parse().expect("blake3 writes 64 lower-case hexadecimal digits")
}

/// Removes files in `directory` that nobody has written to for `age`: transfers that were never finished.
pub fn remove_stale(directory: &Path, age: Duration, now: SystemTime) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let stale = modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|idle| idle > age));
        if stale {
            // A file that is gone already is as good as removed.
            fs::remove_file(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, IncomingError, checksum};
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn a_transfer_that_is_cut_at_any_byte_goes_on_there() {
        let content: Vec<u8> = (0..997_u32).map(|n| (n % 251) as u8).collect();
        let sum = checksum(&blake3::hash(&content));
        for cut in 0..content.len() {
            let directory = tempfile::tempdir().unwrap();
            let mut first = Incoming::open(directory.path(), &sum, 997, 1 << 20).unwrap();
            assert!(first.write(0, &content[..cut]).unwrap());
            drop(first);
            let mut second = Incoming::open(directory.path(), &sum, 997, 1 << 20).unwrap();
            assert_eq!(second.offset(), cut as u64);
            assert!(second.write(cut as u64, &content[cut..]).unwrap() && second.is_full());
            assert_eq!(fs::read(second.finish().unwrap()).unwrap(), content);
        }
    }

    #[test]
    fn wrong_bytes_too_many_bytes_and_a_second_receiver_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let sum = checksum(&blake3::hash(b"right"));
        assert!(matches!(Incoming::open(directory.path(), &sum, 5, 4), Err(IncomingError::TooLarge { .. })));
        let mut incoming = Incoming::open(directory.path(), &sum, 5, 100).unwrap();
        assert!(matches!(Incoming::open(directory.path(), &sum, 5, 100), Err(IncomingError::Busy)));
        assert!(matches!(incoming.write(0, b"wrong!"), Err(IncomingError::BeyondEnd { end: 6, length: 5 })));
        assert!(!incoming.write(2, b"x").unwrap());
        incoming.write(0, b"wrong").unwrap();
        assert!(matches!(incoming.finish(), Err(IncomingError::Mismatch { .. })));
        assert_eq!(Incoming::open(directory.path(), &sum, 5, 100).unwrap().offset(), 0);
    }

    proptest! {
        #[test]
        fn repeats_and_overlaps_change_nothing(
            content in prop::collection::vec(any::<u8>(), 1..400),
            pieces in prop::collection::vec((0_usize..400, 1_usize..100), 0..30),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let sum = checksum(&blake3::hash(&content));
            let length = content.len() as u64;
            let mut incoming = Incoming::open(directory.path(), &sum, length, length).unwrap();
            for (start, size) in pieces {
                let start = start.min(content.len());
                let end = (start + size).min(content.len());
                let before = incoming.offset();
                let accepted = incoming.write(start as u64, &content[start..end]).unwrap();
                prop_assert_eq!(accepted, start as u64 <= before);
            }
            let from = incoming.offset() as usize;
            incoming.write(from as u64, &content[from..]).unwrap();
            prop_assert_eq!(fs::read(incoming.finish().unwrap()).unwrap(), content);
        }
    }
}
