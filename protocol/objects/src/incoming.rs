//! A file on its way in: its bytes lie under its checksum, so that a transfer that was cut goes on at any byte, also after
//! a restart, and nobody takes it for whole before it is.

use buildpool_protocol::limits::TRANSFER_BYTES_MAX;
use buildpool_protocol::transfer::Checksum;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often a file is opened that others take away meanwhile, or its directory.
const OPENINGS_MAX: u32 = 16;

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
        let path = Self::path_in(directory, checksum);
        let io = |what| {
            let path = path.clone();
            move |source| IncomingError::Io { what, path, source }
        };
        let mut tries = 0;
        let file = loop {
            let opened = fs::create_dir_all(directory).and_then(|()| lock_by_name(&path));
            tries += 1;
            match opened {
                Ok(Some(file)) => break file,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(IncomingError::Busy),
                // Whoever was done with the directory has removed it meanwhile.
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

    /// Where the bytes of a file lie that is being received.
    pub(crate) fn path_in(directory: &Path, checksum: &Checksum) -> PathBuf {
        directory.join(format!("{checksum}.part"))
    }

    /// Gives it up for good: what it would bring has come another way.
    pub fn discard(self) {
        // What can't be removed is stale some day.
        fs::remove_file(&self.path).ok();
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

    /// Verifies what lies on the disk. Nobody else can open the file until what is given is dropped.
    ///
    /// # Errors
    /// [`IncomingError::Mismatch`], after which a new attempt begins at 0; [`IncomingError::Io`].
    pub fn finish(self) -> Result<Received, IncomingError> {
        let io = |what| {
            let path = self.path.clone();
            move |source| IncomingError::Io { what, path, source }
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

/// A file that has come, whole and verified. It is locked against whoever receives the same bytes until it is moved, removed or
/// dropped; a dropped one lies there for the next who is sent it.
#[derive(Debug)]
pub struct Received {
    path: PathBuf,
    _lock: nix::fcntl::Flock<File>,
}

impl Received {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to another name on the same disk, over what has that name.
    ///
    /// # Errors
    /// The disk's; it stays where it was then.
    pub fn move_to(self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)
    }

    /// Removes it.
    ///
    /// # Errors
    /// The disk's.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Opens a file, makes it when there is none, and locks it. None when the file that it locked has lost its name meanwhile: a
/// file is moved and removed under its lock only, so whoever waited for the lock with an open file may have an old one.
fn lock_by_name(path: &Path) -> io::Result<Option<nix::fcntl::Flock<File>>> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    let file = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| io::Error::from(errno))?;
    let (locked, named) = (file.metadata()?, fs::metadata(path));
    let is_same = named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()));
    Ok(is_same.then_some(file))
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

/// Removes files in `directory` that nobody has written to for `age` and nobody is receiving: transfers that were never finished.
pub fn remove_stale(directory: &Path, age: Duration, now: SystemTime) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let stale = modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|idle| idle > age));
        if !stale {
            continue;
        }
        let path = entry.path();
        // Under its lock: who receives the rest of it just now would lose it.
        if let Ok(Some(_locked)) = lock_by_name(&path) {
            // A file that is gone already is as good as removed.
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
                // As who is done does; it fails when another one is at it.
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
