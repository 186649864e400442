//! Stored state for one working tree, in the user's cache directory.
//!
//! It consists of a git directory with our own objects and an index, so that unchanged files are
//! not read again. A second git directory also gives access to the user's objects. The state file
//! keeps the results of the last call.

use super::error::SnapshotError;
use super::head::DescribedHead;
use super::repository::Repository;
use buildpool_objects::cache::project_key;
use buildpool_objects::directory;
use buildpool_objects::git::GitError;
use buildpool_objects::{Git, Place};
use buildpool_protocol::transfer::{Checksum, ObjectId};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Maximum wait for another call that takes a snapshot of the same tree.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Name of the state file. Two versions of this program use one store, so it stays.
const STATE_FILE: &str = "memory.json";
/// Size of our own objects, in bytes, above which they are removed and the next snapshot starts
/// from scratch.
const OWN_BYTES_MAX: u64 = 4 << 30;
/// Maximum lag of file times behind the clock: two ticks of a slow kernel, rounded up.
const FILE_TIME_LAG: Duration = Duration::from_millis(50);
/// Time without use after which a working tree's store is removed.
const IDLE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The store of one working tree, locked by this call.
#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
    top: PathBuf,
    _alone: Flock<File>,
}

/// Results that are kept between calls. Losing them costs only time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoreState {
    /// Everything except file contents that the last tree depended on.
    pub(super) basis: Option<Basis>,
    /// The last tree.
    pub(super) tree: Option<ObjectId>,
    /// Number of its files.
    pub(super) files: u64,
    /// Their total size in bytes.
    pub(super) bytes: u64,
    /// Files of the commit that are not in the snapshot, in the manifest's form.
    pub(super) left_behind: Vec<String>,
    /// Files with paths that git refuses.
    pub(super) refused: Vec<String>,
    /// Bytes written into our own objects.
    pub(super) own_bytes: u64,
    /// The head of the last call, with the history that `git describe` needs.
    pub(super) described_head: Option<DescribedHead>,
    /// Checksum of the tags at that time.
    pub(super) refs: Option<Checksum>,
}

/// Everything that a tree depends on, except file contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Basis {
    /// Length, modification time (ns) and inode of the user's index.
    pub(super) users_index: Option<(u64, i64, u64)>,
    /// Checksum over the names of untracked files.
    pub(super) others: Checksum,
    /// Checksum over the patterns of our ignore files.
    pub(super) ignores: Checksum,
    /// The committed tree, which decides which secrets may be sent.
    pub(super) head: Option<ObjectId>,
    /// Whether secrets are included.
    pub(super) allow_secrets: bool,
    /// Path in the outer repository, which affects the detection of secrets.
    #[serde(default)]
    pub(super) prefix: String,
}

impl Store {
    /// Opens or creates the store, and waits for other calls on the same tree.
    pub(super) fn open(caches: &Path, repository: &Repository) -> Result<Self, SnapshotError> {
        let root = caches.join(project_key(&repository.top.to_string_lossy()));
        fs::create_dir_all(&root).map_err(GitError::io(format!("creating {}", root.display())))?;
        let alone = lock(&root.join("lock"))?;
        let store = Self { root, top: repository.top.clone(), _alone: alone };
        store.unlock_indexes()?;
        if store.state().own_bytes > OWN_BYTES_MAX {
            store.reset()?;
        }
        store.configure(repository)?;
        Ok(store)
    }

    fn configure(&self, repository: &Repository) -> Result<(), SnapshotError> {
        let (exclude, objects) = match &repository.user {
            None => (Vec::new(), None),
            Some(user) => (
                fs::read(user.common_dir.join("info/exclude")).unwrap_or_default(),
                Some(user.objects.as_path()),
            ),
        };
        let mut settings = repository.settings.clone();
        // Our objects are read only once, for packing. This setting is not for repositories that
        // receive packs: it would also apply to the objects that git adds there.
        settings.push(("core.looseCompression".into(), "0".into()));
        let own = self.git_dir();
        let format = own.join(repository.format().name());
        if own.exists() && !format.exists() {
            self.reset()?;
        }
        directory::write(&own, repository.format(), false, &settings)?;
        directory::write_if_different(&format, b"")?;
        directory::write_if_different(&own.join("info/exclude"), &exclude)?;
        let all = self.all_dir();
        directory::write(&all, repository.format(), true, &[])?;
        // Alternates of nested repositories may exist already, and another call may be reading
        // them.
        let present = fs::read_to_string(all.join("objects/info/alternates")).unwrap_or_default();
        let known = |path: &Path| present.lines().any(|line| Path::new(line) == path);
        if present.is_empty() || objects.is_some_and(|path| !known(path)) {
            self.read_also(repository, &[])?;
        }
        Ok(())
    }

    /// Makes the objects of nested repositories readable: our own for writing trees, and the users'
    /// for packing.
    pub(super) fn read_also(&self, repository: &Repository, nested: &[&Self]) -> Result<(), SnapshotError> {
        let ours: Vec<PathBuf> = nested.iter().map(|store| store.git_dir().join("objects")).collect();
        directory::write_alternates(&self.git_dir(), &ours.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        let mut all = vec![self.git_dir().join("objects")];
        all.extend(repository.user.iter().map(|user| user.objects.clone()));
        all.extend(nested.iter().map(|store| store.all_dir().join("objects")));
        directory::write_alternates(&self.all_dir(), &all.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Removes index locks of killed git processes. This call holds the store's lock, so no live
    /// process can own them.
    fn unlock_indexes(&self) -> Result<(), SnapshotError> {
        let io = || GitError::io(format!("listing {}", self.root.display()));
        for entry in fs::read_dir(&self.root).map_err(io())? {
            let path = entry.map_err(io())?.path();
            if path.extension().is_some_and(|extension| extension == "lock") {
                fs::remove_file(&path).map_err(GitError::io(format!("removing {}", path.display())))?;
            }
        }
        Ok(())
    }

    /// Removes objects, indexes and the state.
    pub(super) fn reset(&self) -> Result<(), SnapshotError> {
        for name in ["git", "all", "attributes", "describing", "patterns", "nothing"] {
            let path = self.root.join(name);
            if path.exists() {
                fs::remove_dir_all(&path).map_err(GitError::io(format!("removing {}", path.display())))?;
            }
        }
        for name in ["index", "users-index", "users-index.stamp", STATE_FILE, "sent.json"] {
            fs::remove_file(self.root.join(name)).ok();
        }
        Ok(())
    }

    /// Removes everything and prepares for a first call.
    pub(super) fn begin_anew(&self, repository: &Repository) -> Result<(), SnapshotError> {
        self.reset()?;
        self.unlock_indexes()?;
        self.configure(repository)
    }

    /// Returns the git directory for writing. The user's objects are not visible in it: git would
    /// update the time of existing ones instead of writing them.
    pub(super) fn git_dir(&self) -> PathBuf {
        self.root.join("git")
    }

    /// Returns the git directory for reading all objects, including the user's. Nothing is written
    /// through it.
    pub(super) fn all_dir(&self) -> PathBuf {
        self.root.join("all")
    }

    /// Returns the place for reading objects.
    pub(super) fn reading_place(&self) -> Place {
        Place { git_dir: Some(self.all_dir()), ..Place::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of our own index, from which the snapshot is built.
    pub(super) fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Returns the path of our copy of the user's index, which lists the tracked files.
    pub(super) fn users_index(&self) -> PathBuf {
        self.root.join("users-index")
    }

    /// Returns the path of the list of files that a sparse index has but the disk has not. Our copy
    /// of the index lacks them. Paths are NUL-terminated.
    pub(super) fn users_sparse(&self) -> PathBuf {
        self.root.join("users-index.sparse")
    }

    /// Returns the place for git commands on the user's files with one of our indexes.
    pub(super) fn place(&self, index: PathBuf) -> Place {
        Place { git_dir: Some(self.git_dir()), work_tree: Some(self.top.clone()), index: Some(index) }
    }

    /// Lets git write one of our indexes, and sets the file's time to the start of the write. git
    /// trusts an entry if its file is older than the index. A large index is written seconds after
    /// the files were read, so later changes would never be detected.
    pub(super) fn write_index<T>(
        &self,
        index: &Path,
        write: impl FnOnce(&Place) -> Result<T, SnapshotError>,
    ) -> Result<T, SnapshotError> {
        let begin = SystemTime::now() - FILE_TIME_LAG;
        let written = write(&self.place(index.to_owned()));
        let io = || GitError::io(format!("setting the time of {}", index.display()));
        // If git did not write the index, the old file's time is correct.
        if fs::metadata(index).and_then(|metadata| metadata.modified()).is_ok_and(|time| time > begin) {
            let file = File::options().write(true).open(index).map_err(io())?;
            file.set_modified(begin).map_err(io())?;
        }
        written
    }

    /// Returns a git directory with the user's attributes, for querying them.
    pub(super) fn attributes_place(&self, repository: &Repository) -> Result<Place, SnapshotError> {
        let own = self.root.join("attributes");
        if let Some(user) = &repository.user {
            directory::write(&own, user.format, false, &repository.settings)?;
            let attributes = fs::read(user.common_dir.join("info/attributes")).unwrap_or_default();
            directory::write_if_different(&own.join("info/attributes"), &attributes)?;
        }
        Ok(Place { git_dir: Some(own), work_tree: Some(self.top.clone()), index: Some(self.users_index()) })
    }

    /// Returns a git directory, and a work tree that contains only these directories below
    /// `between`. For checking patterns alone.
    pub(super) fn patterns_place(
        &self,
        repository: &Repository,
        between: &[u8],
        directories: &[Vec<u8>],
    ) -> Result<Place, SnapshotError> {
        let (own, nothing) = (self.root.join("patterns"), self.root.join("nothing"));
        directory::write(&own, repository.format(), false, &repository.settings)?;
        if nothing.exists() {
            fs::remove_dir_all(&nothing).map_err(GitError::io(format!("removing {}", nothing.display())))?;
        }
        let outer = nothing.join(OsStr::from_bytes(between));
        let inner = directories.iter().map(|path| outer.join(OsStr::from_bytes(path)));
        for path in [nothing.clone()].into_iter().chain(inner) {
            fs::create_dir_all(&path).map_err(GitError::io(format!("creating {}", path.display())))?;
        }
        Ok(Place { git_dir: Some(own), work_tree: Some(nothing), index: None })
    }

    pub(super) fn state(&self) -> StoreState {
        let text = fs::read(self.root.join(STATE_FILE)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn write_state(&self, state: &StoreState) -> Result<(), SnapshotError> {
        let text = serde_json::to_vec(state).expect("the state has string keys only");
        Ok(directory::write_if_different(&self.root.join(STATE_FILE), &text)?)
    }
}

fn lock(path: &Path) -> Result<Flock<File>, SnapshotError> {
    let begin = Instant::now();
    loop {
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(GitError::io(format!("opening {}", path.display())))?;
        // The modification time is the time of the last use.
        file.set_modified(SystemTime::now()).ok();
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, nix::errno::Errno::EWOULDBLOCK)) => file,
            Err((_, error)) => {
                return Err(GitError::io(format!("locking {}", path.display()))(error.into()).into());
            }
        };
        drop(file);
        if begin.elapsed() > WAIT_MAX {
            return Err(SnapshotError::Busy { waited: WAIT_MAX });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the trees that were sent, latest first.
pub(super) fn sent(root: &Path) -> Vec<ObjectId> {
    serde_json::from_slice(&fs::read(root.join("sent.json")).unwrap_or_default()).unwrap_or_default()
}

/// Adds a sent tree.
pub(super) fn remember_sent(root: &Path, tree: &ObjectId) -> Result<(), SnapshotError> {
    let mut trees = sent(root);
    trees.retain(|known| known != tree);
    trees.insert(0, tree.clone());
    trees.truncate(8);
    write_sent(root, &trees)
}

/// Removes a tree that can't be read any more.
pub(super) fn forget_sent(root: &Path, tree: &ObjectId) -> Result<(), SnapshotError> {
    let mut trees = sent(root);
    trees.retain(|known| known != tree);
    write_sent(root, &trees)
}

fn write_sent(root: &Path, trees: &[ObjectId]) -> Result<(), SnapshotError> {
    let text = serde_json::to_vec(trees).expect("a list of texts");
    Ok(directory::write_if_different(&root.join("sent.json"), &text)?)
}

/// Removes stores of working trees that were not used for [`IDLE_MAX`].
pub(super) fn remove_idle(caches: &Path, now: SystemTime) {
    for entry in fs::read_dir(caches).into_iter().flatten().flatten() {
        let lock_path = entry.path().join("lock");
        let used = fs::metadata(&lock_path).and_then(|metadata| metadata.modified());
        let idle = used.is_ok_and(|used| now.duration_since(used).is_ok_and(|since| since > IDLE_MAX));
        let Some(file) = File::options().write(true).open(&lock_path).ok().filter(|_| idle) else { continue };
        if let Ok(_alone) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Writes the tree of an index. Blobs may be in the user's objects only, so missing ones are
/// detected when the tree is packed.
pub(super) fn write_tree(git: &Git, place: &Place) -> Result<ObjectId, SnapshotError> {
    let text = git.run(place).args(["write-tree", "--missing-ok"]).text()?;
    text.parse().map_err(|_| super::repository::unexpected("write-tree", &text))
}
