//! Receives a file. Its bytes are stored under its checksum, so an interrupted transfer resumes at
//! any byte, also after a restart. The file counts as complete only after verification.

use buildpool_protocol::limits::TRANSFER_BYTES_MAX;
use buildpool_protocol::transfer::Checksum;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Limit on attempts to open a file while other processes remove it or its directory.
const OPENINGS_MAX: u32 = 16;

/// Error of receiving a file.
#[derive(Debug, thiserror::Error)]
pub enum IncomingError {
    /// The file exceeds the limit.
    #[error("{length} bytes are more than the {limit} that may be transferred at once")]
    TooLarge {
        /// Length in bytes.
        length: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// Another connection is receiving the same file.
    #[error("the same bytes are just being received on another connection")]
    Busy,
    /// The sender sent more bytes than it announced.
    #[error("bytes up to {end} of a transfer that was announced with {length}")]
    BeyondEnd {
        /// End offset of the bytes received.
        end: u64,
        /// The announced length.
        length: u64,
    },
    /// The checksum is wrong. The bytes have been removed.
    #[error("the bytes have the checksum {found}; {expected} was announced")]
    Mismatch {
        /// The announced checksum.
        expected: Checksum,
        /// The checksum of the received bytes.
        found: Checksum,
    },
    /// The disk failed.
    #[error("{operation} {}", .path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
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
    /// Opens or creates the file in `directory`. [`Incoming::offset`] returns the number of bytes
    /// from an earlier transfer.
    ///
    /// # Errors
    /// [`IncomingError::TooLarge`] before anything is written, [`IncomingError::Busy`],
    /// [`IncomingError::Io`].
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
        let path = Self::path_in(directory, checksum);
        let io = |operation| {
            let path = path.clone();
            move |source| IncomingError::Io { operation, path, source }
        };
        let mut tries = 0;
        let file = loop {
            let opened = fs::create_dir_all(directory).and_then(|()| lock_by_name(&path));
            tries += 1;
            match opened {
                Ok(Some(file)) => break file,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(IncomingError::Busy),
                // Another process may have removed the directory after its own transfer.
                Err(error)
                    if tries < OPENINGS_MAX
                        && matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                }
                Err(error) => return Err(io("opening")(error)),
                Ok(None) if tries < OPENINGS_MAX => {}
                Ok(None) => return Err(IncomingError::Busy),
            }
        };
        let mut offset = file.metadata().map_err(io("measuring"))?.len();
        if offset > length {
            file.set_len(0).map_err(io("emptying"))?;
            offset = 0;
        }
        (&*file).seek(SeekFrom::Start(offset)).map_err(io("seeking in"))?;
        Ok(Self { file, path, checksum: checksum.clone(), length, offset })
    }

    /// Returns the path of a partially received file.
    pub(crate) fn path_in(directory: &Path, checksum: &Checksum) -> PathBuf {
        directory.join(format!("{checksum}.part"))
    }

    /// Removes the file. It is not needed any more, because its content arrived in another way.
    pub fn discard(self) {
        // An error is ignored: a file that cannot be removed becomes stale later.
        fs::remove_file(&self.path).ok();
    }

    /// Number of bytes received. The next bytes belong at this offset.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns true if all bytes are received.
    pub const fn is_full(&self) -> bool {
        self.offset == self.length
    }

    /// Writes bytes that belong at `position`. Returns false if bytes before `position` are
    /// missing. The sender must then continue from [`Incoming::offset`]. Bytes that are already
    /// present are skipped.
    ///
    /// # Errors
    /// [`IncomingError::BeyondEnd`] and [`IncomingError::Io`]. If the disk is full, the partial
    /// file is removed.
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
                // The partial file takes space that the rest of the disk needs. A process that
                // opened it waits for its lock and starts at 0.
                self.file.set_len(0).and_then(|()| fs::remove_file(&self.path)).ok();
            }
            return Err(IncomingError::Io { operation: "writing", path: self.path.clone(), source });
        }
        self.offset += fresh.len() as u64;
        Ok(true)
    }

    /// Verifies the file on disk. It stays locked until the returned value is dropped.
    ///
    /// # Errors
    /// [`IncomingError::Mismatch`], after which a new attempt starts at 0; [`IncomingError::Io`].
    pub fn finish(self) -> Result<Received, IncomingError> {
        let io = |operation| {
            let path = self.path.clone();
            move |source| IncomingError::Io { operation, path, source }
        };
        self.file.sync_all().map_err(io("writing out"))?;
        (&*self.file).rewind().map_err(io("seeking in"))?;
        let (found, length) = checksum_of_open(&self.file).map_err(io("reading"))?;
        if found != self.checksum || length != self.length {
            fs::remove_file(&self.path).map_err(io("removing"))?;
            return Err(IncomingError::Mismatch { expected: self.checksum, found });
        }
        Ok(Received { path: self.path, _lock: self.file })
    }
}

/// A complete and verified file. It is locked against other receivers of the same bytes until it is
/// moved, removed or dropped. A dropped file stays in place for the next transfer.
#[derive(Debug)]
pub struct Received {
    path: PathBuf,
    _lock: nix::fcntl::Flock<File>,
}

impl Received {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the file to another name on the same disk and replaces an existing file.
    ///
    /// # Errors
    /// Errors of the disk. The file stays in place then.
    pub fn move_to(self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Opens or creates a file and locks it. Returns `None` if the locked file has lost its name. A
/// file is moved and removed only under its lock. A process that waited for the lock may therefore
/// have an old file open.
fn lock_by_name(path: &Path) -> io::Result<Option<nix::fcntl::Flock<File>>> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    let file = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| io::Error::from(errno))?;
    let (locked, named) = (file.metadata()?, fs::metadata(path));
    let is_same = named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()));
    Ok(is_same.then_some(file))
}

/// Returns BLAKE3 checksum and length of a file.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn checksum_of(path: &Path) -> io::Result<(Checksum, u64)> {
    checksum_of_open(&File::open(path)?)
}

/// Returns BLAKE3 checksum and length of an open file.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn checksum_of_open(mut file: &File) -> io::Result<(Checksum, u64)> {
    let mut hasher = blake3::Hasher::new();
    let length = io::copy(&mut file, &mut hasher)?;
    Ok((checksum(&hasher.finalize()), length))
}

/// Converts a BLAKE3 hash to its protocol form.
pub fn checksum(hash: &blake3::Hash) -> Checksum {
    hash.to_hex().as_str().parse().expect("blake3 writes 64 lower-case hexadecimal digits")
}

/// Removes abandoned transfers from `directory`: files older than `age` that no connection is
/// receiving.
pub fn remove_stale(directory: &Path, age: Duration, now: SystemTime) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let stale = modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|idle| idle > age));
        if !stale {
            continue;
        }
        let path = entry.path();
        // Lock the file first, so that a transfer that just resumed does not lose it.
        if let Ok(Some(_locked)) = lock_by_name(&path) {
            // A file that is already gone is not an error.
            fs::remove_file(&path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, IncomingError, checksum, remove_stale};
    use proptest::prelude::*;
    use std::fs;
    use std::time::{Duration, SystemTime};

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
            assert_eq!(fs::read(second.finish().unwrap().path()).unwrap(), content);
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

    #[test]
    fn a_file_stays_locked_until_it_has_another_name_so_that_each_receiver_gets_it_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (content, sum) = (b"content".as_slice(), checksum(&blake3::hash(b"content")));
        let receive = |by: usize| {
            for round in 0..200 {
                let mut incoming = loop {
                    match Incoming::open(&directory.path().join("in"), &sum, 7, 100) {
                        Err(IncomingError::Busy) => std::thread::yield_now(),
                        opened => break opened.unwrap(),
                    }
                };
                let from = incoming.offset();
                incoming.write(from, &content[from as usize..]).unwrap();
                let received = incoming.finish().unwrap();
                let target = directory.path().join(format!("{by}-{round}"));
                if round % 2 == 0 {
                    received.move_to(&target).unwrap();
                    assert_eq!(fs::read(target).unwrap(), content);
                } else {
                    assert_eq!(fs::read(received.path()).unwrap(), content);
                    received.remove().unwrap();
                }
                // A finished receiver removes the directory. This fails while another receiver uses
                // it.
                fs::remove_dir(directory.path().join("in")).ok();
            }
        };
        std::thread::scope(|scope| {
            let receivers: Vec<_> = (0..3).map(|by| scope.spawn(move || receive(by))).collect();
            receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        });
    }

    #[test]
    fn what_is_received_just_now_is_not_stale_however_old_its_first_bytes_are() {
        let directory = tempfile::tempdir().unwrap();
        let sum = checksum(&blake3::hash(b"content"));
        let incoming = Incoming::open(directory.path(), &sum, 7, 100).unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        remove_stale(directory.path(), Duration::from_secs(1), later);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(incoming);
        remove_stale(directory.path(), Duration::from_secs(1), later);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
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
            prop_assert_eq!(fs::read(incoming.finish().unwrap().path()).unwrap(), content);
        }
    }
}
