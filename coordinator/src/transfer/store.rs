//! Storage of snapshots and artifacts below `transfer` in the data directory: one object cache for
//! each project and trust class, and artifacts by job. With several coordinators, [`shared`] copies them to the shared
//! objects, and back when they are needed.

mod owner_locks;
mod shared;
mod tidy;

use crate::priority::Niceness;
use crate::store::Objects;
use buildpool_objects::cache::{ObjectCache, class_key, project_key_in};
use buildpool_objects::incoming::{Received, checksum, checksum_of_open, remove_stale};
use buildpool_objects::pack::PackFile;
use buildpool_objects::{CacheError, Git, GitError, Stop, record, removal};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::limits::BASES_MAX;
use buildpool_protocol::spec::{JobSpec, Source};
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectFormat, ObjectId, SnapshotName};
use nix::fcntl::{Flock, FlockArg};
use owner_locks::OwnerLocks;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tidy::{remove_project, tidy_project, used_at};

/// Age after which unfinished transfers, and packs that were not fetched completely, are removed.
const STALE_AFTER: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Time without use after which a project's snapshots are removed. Clients send them again if
/// needed.
const IDLE_AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Directory mode: access for this user only.
const PRIVATE: u32 = 0o700;

/// Creates a directory and its missing parents.
fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(path)
}

/// The storage directory.
#[derive(Clone, Debug)]
pub(crate) struct TransferStore {
    root: PathBuf,
    /// Trust class of the snapshots that this value gives access to.
    class: String,
    /// Stops the git commands of one transfer.
    stop: Stop,
    /// The objects that several coordinators share. The directory is then a copy of a part of them.
    objects: Option<Objects>,
    /// Locks of the owners of shared chains.
    owner_locks: OwnerLocks,
}

/// Limit on attempts to create a pack. An attempt fails if the pack is removed at once, because
/// another worker has received the same pack.
const PACK_TRIES_MAX: u32 = 10;

/// A pack that is being sent to a worker. A shared lock protects it from removal.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) pack: PackFile,
    file: Flock<File>,
}

impl Outgoing {
    /// Opens the pack at this path, if it exists.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        // An exclusive lock means that another task is about to remove the pack.
        let Ok(file) = Flock::lock(file, FlockArg::LockSharedNonblock) else { return Ok(None) };
        let (blake3, length) = checksum_of_open(&file)?;
        Ok(Some(Self { pack: PackFile { path: path.to_owned(), blake3, length }, file }))
    }

    /// Returns a file handle for reading.
    ///
    /// # Errors
    /// The system's error, if no descriptor is available.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Removes the pack after the worker has received it, unless it is being sent to another
    /// worker.
    pub(crate) fn delivered(self) {
        if self.file.relock(FlockArg::LockExclusiveNonblock).is_ok() {
            log_failure(&self.pack.path, fs::remove_file(&self.pack.path));
        }
    }
}

/// A worker's request for a snapshot.
pub(crate) struct Fetch {
    pub(crate) project: String,
    pub(crate) name: SnapshotName,
    pub(crate) trees: Vec<ObjectId>,
    pub(crate) known: Vec<Checksum>,
}

impl TransferStore {
    pub(crate) fn new(data_directory: &Path, objects: Option<Objects>) -> Self {
        let root = data_directory.join("transfer");
        let store = Self {
            root,
            class: String::new(),
            stop: Stop::default(),
            objects,
            owner_locks: OwnerLocks::default(),
        };
        // Create these here, so that directories created below them are not accessible to others.
        // An earlier version left them readable.
        let projects = store.root.join("projects");
        for directory in [store.root.clone(), store.incoming(), store.outgoing(), projects, store.programs()]
        {
            let closed = create_private(&directory)
                .and_then(|()| fs::set_permissions(&directory, Permissions::from_mode(PRIVATE)));
            if let Err(error) = closed {
                tracing::warn!(directory = %directory.display(), %error, "could not be made for this user only");
            }
        }
        store
    }

    /// Returns the same store for one transfer. `stop` ends its git commands.
    pub(crate) fn stopped_by(&self, stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    /// Returns the store of one trust class. The paths of different classes are separate, so a
    /// submitter can't run or extend a snapshot of another class.
    pub(crate) fn of_class(&self, class: &str) -> Self {
        Self { class: class.to_owned(), ..self.clone() }
    }

    /// Directory of programs that workers fetch.
    pub(super) fn programs(&self) -> PathBuf {
        self.root.join("programs")
    }

    /// Directory of packs that workers fetch.
    fn outgoing(&self) -> PathBuf {
        self.root.join("outgoing")
    }

    /// Directory of bytes that are being received. Each class has its own, so a submitter can't
    /// continue a transfer of another class.
    pub(crate) fn incoming(&self) -> PathBuf {
        let all = self.root.join("incoming");
        if self.class.is_empty() { all } else { all.join(class_key(&self.class)) }
    }

    /// Opens the object cache of a project. It looks up git only here, so a coordinator without
    /// snapshots does not need git.
    pub(crate) fn cache(&self, project: &str, format: ObjectFormat) -> Result<ObjectCache, CacheError> {
        let directory = self.project(project, format);
        create_private(&directory).map_err(GitError::io(format!("creating {}", directory.display())))?;
        ObjectCache::open(git(&self.stop)?, &directory, format)
    }

    /// Opens the object cache after a quick check, and repairs it if the check fails. For the start
    /// of a transfer, when missing objects can still be sent again.
    pub(crate) fn open_checked(
        &self,
        project: &str,
        format: ObjectFormat,
    ) -> Result<ObjectCache, CacheError> {
        let cache = self.cache(project, format)?;
        if !cache.looks_whole() {
            mend(&cache);
        }
        Ok(cache)
    }

    /// Repairs the project's objects if `result` is an error that damage may have caused.
    /// Unreadable objects are removed, so that they are sent again.
    pub(crate) fn after<T>(
        &self,
        result: Result<T, CacheError>,
        (project, format): (&str, ObjectFormat),
    ) -> Result<T, CacheError> {
        if result.as_ref().is_err_and(CacheError::may_be_damage)
            && let Ok(cache) = self.cache(project, format)
        {
            mend(&cache);
        }
        result
    }

    fn project(&self, project: &str, format: ObjectFormat) -> PathBuf {
        self.root.join("projects").join(format!("{}.{}", project_key_in(&self.class, project), format.name()))
    }

    /// Returns true if the store has the whole snapshot. This counts as a use of the snapshot.
    pub(crate) fn has(&self, project: &str, name: &SnapshotName) -> bool {
        match self.fetch_snapshot(project, name) {
            Ok(()) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(project, error, "a shared snapshot can't be copied to this machine");
            }
        }
        ObjectCache::holds(&self.project(project, name.tree.format()), name)
    }

    /// Returns the newest snapshot of this class with this tree. Blocks.
    pub(crate) fn find(&self, tree: &ObjectId) -> Option<Manifest> {
        let git = git(&self.stop).ok()?;
        self.fetch_tree(tree);
        let caches = directories(&self.root.join("projects"))
            .filter(|directory| directory.extension().is_some_and(|name| name == tree.format().name()));
        let manifests = caches.flat_map(|directory| {
            let cache = ObjectCache::open(git.clone(), &directory, tree.format());
            cache.map(|cache| cache.manifests()).unwrap_or_default()
        });
        let is_own = |manifest: &Manifest| {
            manifest.tree == *tree && self.has(&manifest.project, &record::name(manifest))
        };
        manifests.filter(is_own).last()
    }

    /// Returns the branch of a job's snapshot, if the store still has it. Blocks.
    pub(crate) fn branch(&self, spec: &JobSpec) -> Option<String> {
        let Source::Snapshot { project, .. } = &spec.source else { return None };
        let name = SnapshotName::from_source(&spec.source).ok()??;
        let cache = self.of_class(&spec.access.class).cache(project, name.tree.format()).ok()?;
        cache.manifest(&name)?.head?.branch
    }

    /// Creates the pack for a worker. Equal requests give the same file, so that an interrupted
    /// transfer can be resumed.
    pub(crate) fn pack(&self, fetch: &Fetch) -> Result<(Outgoing, Manifest, Option<ObjectId>), CacheError> {
        self.fetch_snapshot(&fetch.project, &fetch.name)?;
        let cache = self.cache(&fetch.project, fetch.name.tree.format())?;
        let (trees, known) = (bounded(&fetch.trees), bounded(&fetch.known));
        let manifest =
            cache.manifest(&fetch.name).ok_or_else(|| CacheError::Unknown(fetch.name.tree.clone()))?;
        let name = record::name(&manifest);
        let question = format!("{} {} {name:?} {trees:?} {known:?}", self.class, fetch.project);
        let outgoing = self.outgoing();
        create_private(&outgoing).map_err(GitError::io(format!("creating {}", outgoing.display())))?;
        let path = outgoing.join(format!("{}.pack", checksum(&blake3::hash(question.as_bytes()))));
        for _ in 0..PACK_TRIES_MAX {
            let open = Outgoing::open(&path).map_err(GitError::io(format!("reading {}", path.display())))?;
            if let Some(outgoing) = open {
                let base = trees.iter().find(|base| cache.has_tree(base)).cloned();
                return Ok((outgoing, manifest, base));
            }
            // Use the name that the worker sent: the name computed from an earlier version's record
            // differs.
            cache.pack(&fetch.name, trees, known, &path)?;
        }
        let others = io::Error::from(io::ErrorKind::ResourceBusy);
        Err(GitError::io(format!("reading {}", path.display()))(others).into())
    }

    /// Returns the path of an artifact.
    pub(crate) fn artifact(&self, job: JobId, blake3: &Checksum) -> PathBuf {
        self.artifacts().join(job.to_string()).join(blake3.as_str())
    }

    fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// Stores a received artifact.
    pub(crate) fn keep_artifact(&self, job: JobId, blake3: &Checksum, received: Received) -> io::Result<()> {
        let target = self.artifact(job, blake3);
        let directory = target.parent().unwrap_or(&self.root);
        create_private(directory)?;
        received.move_to(&target)?;
        fs::File::open(directory)?.sync_all()?;
        self.share_artifact(job, blake3, &target)
    }

    /// Removes the artifacts of the oldest jobs until all artifacts have at most `most` bytes. Blocks.
    pub(crate) fn limit_artifacts(&self, most: u64) {
        // Ids of jobs are UUIDv7, so names sort by age.
        let mut jobs: Vec<(PathBuf, u64)> = directories(&self.artifacts())
            .map(|directory| (directory.clone(), files_bytes(&directory)))
            .collect();
        jobs.sort();
        let mut total: u64 = jobs.iter().map(|(_, bytes)| bytes).sum();
        for (directory, bytes) in jobs {
            if total <= most {
                return;
            }
            log_failure(&directory, removal::remove(&directory));
            total -= bytes;
        }
    }

    /// Returns the bytes of the stored snapshots of this class. Blocks.
    pub(crate) fn class_bytes(&self) -> u64 {
        let class = class_of(&self.class);
        let of_class = self.caches().filter(|cache| cache.class == class);
        let here = of_class.map(|cache| tree_bytes(&cache.directory)).sum();
        self.shared_bytes().get(&class).copied().unwrap_or_default().max(here)
    }

    /// Returns the bytes of the stored snapshots of each of these classes. Blocks.
    pub(crate) fn bytes_by_class(&self, classes: BTreeSet<String>) -> BTreeMap<String, u64> {
        let mut stored: BTreeMap<String, u64> = BTreeMap::new();
        for Cache { class, directory } in self.caches() {
            *stored.entry(class).or_default() += tree_bytes(&directory);
        }
        for (class, bytes) in self.shared_bytes() {
            let stored = stored.entry(class).or_default();
            *stored = bytes.max(*stored);
        }
        let bytes = |class: &str| stored.get(&class_of(class)).copied().unwrap_or_default();
        classes.into_iter().map(|class| (class.clone(), bytes(&class))).collect()
    }

    fn caches(&self) -> impl Iterator<Item = Cache> + use<> {
        directories(&self.root.join("projects")).map(|directory| {
            let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            Cache { class: class_in(name).to_owned(), directory }
        })
    }

    /// Removes the snapshots of a class that were not used for the longest time, project by project, until the class has
    /// at most three quarters of `most` bytes. So the class has room until the next call. Blocks.
    fn limit_classes(&self, pinned: &[SnapshotName], most: u64) {
        let mut classes: BTreeMap<String, Vec<(Option<SystemTime>, PathBuf, u64)>> = BTreeMap::new();
        for Cache { class, directory } in self.caches() {
            let bytes = tree_bytes(&directory);
            classes.entry(class).or_default().push((used_at(&directory), directory, bytes));
        }
        for mut projects in classes.into_values() {
            let mut total: u64 = projects.iter().map(|(.., bytes)| bytes).sum();
            projects.sort();
            for (_, directory, bytes) in projects {
                if total <= most / 4 * 3 {
                    break;
                }
                match remove_project(&directory, pinned) {
                    Ok(true) => total -= bytes,
                    Ok(false) => {}
                    Err(error) => warn_untidy(&directory, &error),
                }
            }
        }
    }

    /// Removes artifacts of unknown jobs, snapshots that have not been used for long, and
    /// unfinished transfers. Blocks.
    pub(crate) fn tidy(
        &self,
        pinned: &[SnapshotName],
        Limits { artifact_bytes, class_bytes }: Limits,
        is_known: impl Fn(JobId) -> bool,
    ) {
        let now = SystemTime::now();
        remove_stale(&self.incoming(), STALE_AFTER, now);
        for class in directories(&self.incoming()) {
            remove_stale(&class, STALE_AFTER, now);
        }
        remove_stale(&self.outgoing(), STALE_AFTER, now);
        for directory in directories(&self.artifacts()) {
            let job = directory.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            if job.is_some_and(|job| !is_known(job)) {
                log_failure(&directory, removal::remove(&directory));
            }
        }
        self.limit_artifacts(artifact_bytes);
        if let Some(objects) = &self.objects
            && let Err(error) =
                self.tidy_shared(objects, pinned, Limits { artifact_bytes, class_bytes }, &is_known)
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "shared snapshots and artifacts could not be tidied");
        }
        for directory in directories(&self.root.join("projects")) {
            if let Err(error) = tidy_project(&directory, pinned, now) {
                warn_untidy(&directory, &error);
            }
        }
        self.limit_classes(pinned, class_bytes);
    }
}

/// Limits on the stored files, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// All artifacts.
    pub(crate) artifact_bytes: u64,
    /// The snapshots of one trust class.
    pub(crate) class_bytes: u64,
}

/// The object cache of one project and class.
struct Cache {
    /// Part of the directory's name that stands for the class. Empty for the class of everybody.
    class: String,
    directory: PathBuf,
}

/// Returns the class in the name of a project's directory: `PROJECT.FORMAT` or `PROJECT.CLASS.FORMAT`.
fn class_in(name: &str) -> &str {
    let class = name.split('.').rev().nth(1).filter(|_| name.split('.').count() == 3);
    class.unwrap_or_default()
}

fn class_of(class: &str) -> String {
    if class.is_empty() { String::new() } else { class_key(class) }
}

/// Returns the size of the files in a directory and below, in bytes. Only a cache's own files are there, so the tree is
/// not deep.
fn tree_bytes(directory: &Path) -> u64 {
    files_bytes(directory) + directories(directory).map(|below| tree_bytes(&below)).sum::<u64>()
}

fn warn_untidy(directory: &Path, error: &CacheError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(directory = %directory.display(), error, "a project's objects could not be tidied");
}

/// Returns the size of the files in a directory, in bytes.
fn files_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Repairs the cache. Does nothing while a transfer writes to it or reads from it.
fn mend(cache: &ObjectCache) {
    let directory = cache.directory().display();
    match cache.mend(|| true) {
        Ok(true) => {
            tracing::warn!(%directory, "objects were damaged; the damaged ones are transferred again")
        }
        Ok(false) => {}
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(%directory, error, "objects that may be damaged can't be looked at");
        }
    }
}

fn bounded<T>(ids: &[T]) -> &[T] {
    &ids[..ids.len().min(BASES_MAX)]
}

/// Finds git. It gives way to requests: a client waits for its transfer, but less urgently than others wait for their jobs.
fn git(stop: &Stop) -> Result<Git, GitError> {
    Ok(Git::find_for_service(stop)?.with_niceness(Niceness::Answer as u8))
}

fn opened(directory: &Path) -> Result<ObjectCache, CacheError> {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ObjectCache::open(git(&Stop::default())?, directory, format_of(name))
}

/// Returns the format in the name of a project's directory.
fn format_of(name: &str) -> ObjectFormat {
    if name.ends_with(".sha256") { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 }
}

fn log_failure(directory: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        tracing::warn!(directory = %directory.display(), %error, "could not be removed");
    }
}

fn directories(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests;
