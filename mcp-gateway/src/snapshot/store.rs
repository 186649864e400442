//! Our side of a working tree: a git directory with our own objects, our own index (so that unchanged files are not read
//! again), a second git directory through which the user's objects can be read as well, and what we remember from the last
//! call. One for each working tree, in the user's cache directory.

use super::error::SnapshotError;
use super::head::Told;
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

/// How long to wait for another call that takes a snapshot of the same tree.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Own objects beyond this many bytes are thrown away, and the next snapshot begins anew.
const OWN_BYTES_MAX: u64 = 4 << 30;
/// Times of files may be this much behind the clock: two ticks of a slow kernel, rounded up.
const FILE_TIME_LAG: Duration = Duration::from_millis(50);
/// A working tree's store that was not used for this long is removed.
const IDLE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Our side of one working tree, to ourselves.
#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
    top: PathBuf,
    _alone: Flock<File>,
}

/// What is remembered between calls. Losing it costs time only.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    /// All that the last tree depended on beside the files.
    pub(super) basis: Option<Basis>,
    /// The tree that came of it.
    pub(super) tree: Option<ObjectId>,
    /// Files in it.
    pub(super) files: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// What of the commit stayed behind, as a manifest has it.
    pub(super) left_behind: Vec<String>,
    /// Files that git takes no such path of.
    pub(super) refused: Vec<String>,
    /// Bytes that were written into our own objects.
    pub(super) own_bytes: u64,
    /// What `git describe` needs, for the commit that it was last asked for.
    pub(super) told: Option<Told>,
    /// Over the tags as they were then.
    pub(super) refs: Option<Checksum>,
}

/// What a tree depends on beside the content of the files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Basis {
    /// Length, modification time (ns) and inode of the user's index.
    pub(super) users_index: Option<(u64, i64, u64)>,
    /// Over the names of untracked files.
    pub(super) others: Checksum,
    /// Over the ignore patterns of our own.
    pub(super) ignores: Checksum,
    /// What is committed, which secrets depend on.
    pub(super) head: Option<ObjectId>,
    /// Whether secrets go along.
    pub(super) allow_secrets: bool,
    /// Where it lies in an outer repository, which names of secrets depend on.
    #[serde(default)]
    pub(super) prefix: String,
}

impl Store {
    /// Opens or makes it, and waits for other calls on the same tree.
    pub(super) fn open(caches: &Path, repository: &Repository) -> Result<Self, SnapshotError> {
        let root = caches.join(project_key(&repository.top.to_string_lossy()));
        fs::create_dir_all(&root).map_err(GitError::io(format!("creating {}", root.display())))?;
        let alone = lock(&root.join("lock"))?;
        let store = Self { root, top: repository.top.clone(), _alone: alone };
        store.unlock_indexes()?;
        if store.memory().own_bytes > OWN_BYTES_MAX {
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
        // Our objects are read once, to be packed. Not where packs are taken in: this would rule what git adds to them, too.
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
        // Those of nested repositories may be there as well, and another call may be reading them.
        let present = fs::read_to_string(all.join("objects/info/alternates")).unwrap_or_default();
        let known = |path: &Path| present.lines().any(|line| Path::new(line) == path);
        if present.is_empty() || objects.is_some_and(|path| !known(path)) {
            self.read_also(repository, &[])?;
        }
        Ok(())
    }

    /// Makes the objects of nested repositories readable: ours for writing trees, and theirs for packing.
    pub(super) fn read_also(&self, repository: &Repository, nested: &[&Self]) -> Result<(), SnapshotError> {
        let ours: Vec<PathBuf> = nested.iter().map(|store| store.git_dir().join("objects")).collect();
        directory::write_alternates(&self.git_dir(), &ours.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        let mut all = vec![self.git_dir().join("objects")];
        all.extend(repository.user.iter().map(|user| user.objects.clone()));
        all.extend(nested.iter().map(|store| store.all_dir().join("objects")));
        directory::write_alternates(&self.all_dir(), &all.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Removes the locks of indexes that a git left which was killed; nobody else is here now.
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

    /// Forgets everything: objects, index, memory.
    pub(super) fn reset(&self) -> Result<(), SnapshotError> {
        for name in ["git", "all", "attributes", "describing", "patterns", "nothing"] {
            let path = self.root.join(name);
            if path.exists() {
                fs::remove_dir_all(&path).map_err(GitError::io(format!("removing {}", path.display())))?;
            }
        }
        for name in ["index", "users-index", "users-index.stamp", "memory.json", "sent.json"] {
            fs::remove_file(self.root.join(name)).ok();
        }
        Ok(())
    }

    /// Forgets everything and prepares for a first call.
    pub(super) fn begin_anew(&self, repository: &Repository) -> Result<(), SnapshotError> {
        self.reset()?;
        self.unlock_indexes()?;
        self.configure(repository)
    }

    /// Where we write. The user's objects are not seen from here: git would renew the time of those that it need not write
    /// again.
    pub(super) fn git_dir(&self) -> PathBuf {
        self.root.join("git")
    }

    /// Where all objects can be read, the user's too. Nothing is written through it.
    pub(super) fn all_dir(&self) -> PathBuf {
        self.root.join("all")
    }

    /// For reading objects.
    pub(super) fn reading_place(&self) -> Place {
        Place { git_dir: Some(self.all_dir()), ..Place::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Our own index: what the snapshot is made of.
    pub(super) fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Our copy of the user's index: what is tracked.
    pub(super) fn users_index(&self) -> PathBuf {
        self.root.join("users-index")
    }

    /// What a sparse index says of files that are not on disk, which our copy of it does not: paths, each with a NUL behind it.
    pub(super) fn users_sparse(&self) -> PathBuf {
        self.root.join("users-index.sparse")
    }

    /// For git commands on the user's files with one of our indexes.
    pub(super) fn place(&self, index: PathBuf) -> Place {
        Place { git_dir: Some(self.git_dir()), work_tree: Some(self.top.clone()), index: Some(index) }
    }

    /// Lets git write one of our indexes. The file gets the time at which that began: git trusts an entry whose file is older than the
    /// index, and an index that takes long is written seconds after the files were read. What changed meanwhile would be missed for good.
    pub(super) fn write_index<T>(
        &self,
        index: &Path,
        write: impl FnOnce(&Place) -> Result<T, SnapshotError>,
    ) -> Result<T, SnapshotError> {
        let begin = SystemTime::now() - FILE_TIME_LAG;
        let written = write(&self.place(index.to_owned()));
        let io = || GitError::io(format!("setting the time of {}", index.display()));
        // Where git did not come to write it, it is an older one, whose time is right.
        if fs::metadata(index).and_then(|metadata| metadata.modified()).is_ok_and(|time| time > begin) {
            let file = File::options().write(true).open(index).map_err(io())?;
            file.set_modified(begin).map_err(io())?;
        }
        written
    }

    /// A git directory that knows the user's attributes, for asking about them.
    pub(super) fn attributes_place(&self, repository: &Repository) -> Result<Place, SnapshotError> {
        let own = self.root.join("attributes");
        if let Some(user) = &repository.user {
            directory::write(&own, user.format, false, &repository.settings)?;
            let attributes = fs::read(user.common_dir.join("info/attributes")).unwrap_or_default();
            directory::write_if_different(&own.join("info/attributes"), &attributes)?;
        }
        Ok(Place { git_dir: Some(own), work_tree: Some(self.top.clone()), index: Some(self.users_index()) })
    }

    /// A git directory and a directory with nothing but these directories below `between`, for asking about patterns alone.
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

    pub(super) fn memory(&self) -> Memory {
        let text = fs::read(self.root.join("memory.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn remember(&self, memory: &Memory) -> Result<(), SnapshotError> {
        let text = serde_json::to_vec(memory).expect("memory has string keys only");
        Ok(directory::write_if_different(&self.root.join("memory.json"), &text)?)
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
        // Its time is that of the last use.
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

/// The trees that were sent from here, the latest first.
pub(super) fn sent(root: &Path) -> Vec<ObjectId> {
    serde_json::from_slice(&fs::read(root.join("sent.json")).unwrap_or_default()).unwrap_or_default()
}

/// Adds a tree that was sent.
pub(super) fn remember_sent(root: &Path, tree: &ObjectId) -> Result<(), SnapshotError> {
    let mut trees = sent(root);
    trees.retain(|known| known != tree);
    trees.insert(0, tree.clone());
    trees.truncate(8);
    write_sent(root, &trees)
}

/// Takes a tree out that can't be read any more.
pub(super) fn forget_sent(root: &Path, tree: &ObjectId) -> Result<(), SnapshotError> {
    let mut trees = sent(root);
    trees.retain(|known| known != tree);
    write_sent(root, &trees)
}

fn write_sent(root: &Path, trees: &[ObjectId]) -> Result<(), SnapshotError> {
    let text = serde_json::to_vec(trees).expect("a list of texts");
    Ok(directory::write_if_different(&root.join("sent.json"), &text)?)
}

/// Removes stores of working trees that were not used for a month.
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

/// Writes the tree of an index. Blobs may lie in the user's objects only, so whether they are there shows when they are
/// packed.
pub(super) fn write_tree(git: &Git, place: &Place) -> Result<ObjectId, SnapshotError> {
    let text = git.run(place).args(["write-tree", "--missing-ok"]).text()?;
    text.parse().map_err(|_| super::repository::odd("write-tree", &text))
}
