//! Directories of ended attempts, which later attempts use again.
//!
//! For a short job, making and removing its directories and records costs the worker more than all of its other work: the
//! file system looks for free inodes, and changes many blocks that the journal writes at each sync. A directory that is
//! renamed keeps its inodes and the blocks of its records.

use super::undeletable;
use crate::limits::{SPARE_DIRECTORIES_MAX, SPARE_DIRECTORY_BYTES_MAX, SPARE_RECORD_BYTES_MAX};
use crate::records;
use crate::workspace::EMPTY_DIRECTORY;
use buildpool_objects::removal;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// Name of the directory, in the data directory, with the spare directories.
const SPARE: &str = "spare";
/// Permissions of an attempt's directory, and of its records.
const DIRECTORY_MODE: Mode = Mode::S_IRWXU;
const RECORD_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// The spare directories of a daemon.
#[derive(Debug)]
pub(super) struct SpareDirectories {
    data_directory: PathBuf,
    spares: Mutex<Spares>,
}

#[derive(Debug, Default)]
struct Spares {
    /// The last one is used first: the system has its blocks in memory.
    free: Vec<PathBuf>,
    /// Number of directories that are on their way here.
    coming: usize,
    /// Number of the newest name.
    named: u64,
}

impl SpareDirectories {
    /// Keeps directories in this data directory. Those of an earlier daemon are of no use; [`SpareDirectories::clear`]
    /// removes them.
    pub(super) fn new(data_directory: &Path) -> Self {
        Self { data_directory: data_directory.to_owned(), spares: Mutex::default() }
    }

    /// Moves a spare directory to the path of a new attempt. Returns false if the path is in use, or no spare directory exists.
    ///
    /// It has no record and no log, but files of earlier records at the places that new ones are written to first, and perhaps
    /// an empty working directory.
    pub(super) fn take(&self, path: &Path) -> bool {
        let Some(spare) = self.lock().free.pop() else { return false };
        match fs::rename(&spare, path) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
                self.lock().free.push(spare);
                false
            }
            Err(_) => {
                // A job without isolation may have removed it.
                let _ = removal::remove(&spare);
                false
            }
        }
    }

    /// Keeps the directory of an attempt, if it has only its records, its log and an empty working directory. No process of
    /// the attempt may run. Returns false if it is not kept; some of its files may then be gone.
    pub(super) fn keep(&self, path: &Path) -> bool {
        let Some(spare) = self.next_name() else { return false };
        let is_kept = without_records(path).unwrap_or(false) && self.move_to(path, &spare).is_ok();
        let mut spares = self.lock();
        spares.coming -= 1;
        if is_kept {
            spares.free.push(spare);
        }
        is_kept
    }

    fn move_to(&self, path: &Path, spare: &Path) -> io::Result<()> {
        fs::rename(path, spare).or_else(|_| {
            // The first one, or a job without isolation has removed the place.
            fs::create_dir_all(self.place()).and_then(|()| fs::rename(path, spare))
        })
    }

    /// Removes all spare directories, also those of earlier daemons. Blocks.
    pub(super) fn clear(&self) {
        self.lock().free.clear();
        if let Err(error) = undeletable::discard(&self.data_directory, &self.place()) {
            warn!("{} can't be removed: {error}", self.place().display());
        }
    }

    /// Returns a new path for a spare directory, which counts from now on, or `None` if there are enough.
    fn next_name(&self) -> Option<PathBuf> {
        let mut spares = self.lock();
        if spares.free.len() + spares.coming >= SPARE_DIRECTORIES_MAX {
            return None;
        }
        spares.coming += 1;
        spares.named += 1;
        Some(self.place().join(spares.named.to_string()))
    }

    fn place(&self) -> PathBuf {
        self.data_directory.join(SPARE)
    }

    fn lock(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the records and the log out of the directory of an attempt. Returns false if anything is left that the next attempt
/// must not find.
fn without_records(path: &Path) -> nix::Result<bool> {
    let directory = undeletable::open_directory(path)?;
    if !is_own(&fstat(&directory)?, SFlag::S_IFDIR, DIRECTORY_MODE) {
        return Ok(false);
    }
    // Without its first record, a part of it holds no attempt for the next daemon.
    for name in [records::ATTEMPT, records::OUTCOME] {
        match renameat(&directory, name, &directory, records::beside(name).as_str()) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    for name in [records::STATE, records::LOG] {
        // The list below shows if it is left.
        let _ = unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir);
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(false) };
    Ok(entries.into_iter().all(|entry| entry.is_ok_and(|entry| is_usable(&directory, &entry))))
}

/// Returns true for a file that a new record can be written to, and for an empty working directory.
fn is_usable(directory: &OwnedFd, entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    if name == EMPTY_DIRECTORY {
        // The metadata of a link is not that of its directory. A directory that had many files stays large.
        return entry
            .metadata()
            .is_ok_and(|found| found.is_dir() && found.len() <= SPARE_DIRECTORY_BYTES_MAX)
            && fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
    }
    [records::ATTEMPT, records::OUTCOME].iter().any(|record| name == *records::beside(record))
        && fstatat(directory, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|found| {
            is_own(&found, SFlag::S_IFREG, RECORD_MODE)
                && found.st_nlink == 1
                && found.st_size <= SPARE_RECORD_BYTES_MAX
        })
}

/// Returns true for an entry of this kind that belongs to this process's user and has these permissions.
fn is_own(found: &FileStat, kind: SFlag, mode: Mode) -> bool {
    found.st_mode == kind.bits() | mode.bits() && found.st_uid == Uid::effective().as_raw()
}

#[cfg(test)]
mod tests {
    use super::{SPARE, SpareDirectories};
    use crate::limits::{SPARE_DIRECTORIES_MAX, SPARE_RECORD_BYTES_MAX};
    use crate::records::{self, Durability};
    use nix::sys::stat::Mode;
    use std::fs::{self, DirBuilder, Permissions};
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    struct Place {
        home: tempfile::TempDir,
        spares: SpareDirectories,
    }

    impl Place {
        fn new() -> Self {
            let home = tempfile::tempdir().expect("a directory");
            let spares = SpareDirectories::new(home.path());
            Self { home, spares }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.home.path().join(name)
        }

        /// Makes the directory of an ended attempt.
        fn attempt(&self, name: &str) -> PathBuf {
            let path = self.path(name);
            DirBuilder::new().mode(0o700).create(&path).expect("a disk");
            fs::create_dir(path.join("empty")).expect("a disk");
            for record in [records::ATTEMPT, records::STATE, records::OUTCOME] {
                records::write(&path, record, &name, Durability::Process).expect("a disk");
            }
            fs::write(path.join(records::LOG), "output").expect("a disk");
            path
        }
    }

    #[test]
    fn the_next_attempt_gets_the_directory_without_a_record_or_a_log() {
        let place = Place::new();
        assert!(!place.spares.take(&place.path("1")), "no attempt has ended yet");
        let first = place.attempt("1");
        let inode = first.metadata().expect("made").ino();
        assert!(place.spares.keep(&first) && !first.exists());
        let second = place.path("2");
        assert!(place.spares.take(&second) && !place.spares.take(&place.path("3")));
        assert_eq!(second.metadata().expect("moved").ino(), inode);
        for name in [records::ATTEMPT, records::STATE, records::LOG, records::OUTCOME] {
            assert!(!second.join(name).exists(), "{name}");
        }
        records::write(&second, records::ATTEMPT, &"2", Durability::Process).expect("a disk");
        assert_eq!(records::read(&second, records::ATTEMPT).expect("whole"), Some("2".to_owned()));
    }

    #[test]
    fn a_directory_with_anything_else_is_not_kept() {
        let place = Place::new();
        let fifo = |path: &Path| nix::unistd::mkfifo(path, Mode::S_IRWXU).expect("a pipe");
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("own");
        let changes: [&dyn Fn(&Path); 10] = [
            &|attempt| fs::write(attempt.join("more"), "").expect("a disk"),
            &|attempt| fs::create_dir(attempt.join("setup")).expect("a disk"),
            &|attempt| fs::write(attempt.join("empty/left"), "").expect("a disk"),
            &|attempt| {
                fs::remove_dir(attempt.join("empty")).expect("made");
                symlink("/", attempt.join("empty")).expect("a disk");
            },
            &|attempt| {
                fs::remove_file(attempt.join(records::OUTCOME)).expect("made");
                symlink("/etc/passwd", attempt.join("outcome.json.new")).expect("a disk");
            },
            &|attempt| {
                fs::remove_file(attempt.join(records::OUTCOME)).expect("made");
                fifo(&attempt.join(records::OUTCOME));
            },
            &|attempt| fs::hard_link(attempt.join(records::ATTEMPT), place.path("link")).expect("a disk"),
            &|attempt| mode(&attempt.join(records::ATTEMPT), 0o644),
            &|attempt| mode(attempt, 0o755),
            &|attempt| {
                let bytes = vec![b' '; usize::try_from(SPARE_RECORD_BYTES_MAX).expect("small") + 1];
                fs::write(attempt.join(records::OUTCOME), bytes).expect("a disk");
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let attempt = place.attempt(&number.to_string());
            change(&attempt);
            assert!(!place.spares.keep(&attempt), "change {number}");
            assert!(!place.spares.take(&place.path("next")), "change {number}");
        }
        let outside = place.attempt("outside");
        symlink(&outside, place.path("linked")).expect("a disk");
        assert!(!place.spares.keep(&place.path("linked")) && outside.join(records::ATTEMPT).exists());
    }

    #[test]
    fn an_attempt_that_is_there_keeps_its_directory() {
        let place = Place::new();
        assert!(place.spares.keep(&place.attempt("1")));
        let second = place.attempt("2");
        assert!(!place.spares.take(&second) && second.join(records::ATTEMPT).exists());
        assert!(place.spares.take(&place.path("3")), "the spare one is still there");
    }

    #[test]
    fn their_number_is_limited_and_all_of_them_can_be_removed() {
        let place = Place::new();
        for number in 0..SPARE_DIRECTORIES_MAX {
            assert!(place.spares.keep(&place.attempt(&number.to_string())));
        }
        assert!(!place.spares.keep(&place.attempt("more")));
        place.spares.clear();
        assert!(!place.path(SPARE).exists() && !place.spares.take(&place.path("next")));
        assert!(place.spares.keep(&place.attempt("later")));
    }
}
