//! The workspaces of a worker: below `projects` one directory a project, with its objects and its checkouts. A checkout
//! belongs to one attempt at a time; that is written down in it, so that a worker that restarts knows.

use super::artifacts::{self, Collected};
use super::checkout::{Checkout, State, link_all, now, remove};
use super::collection::{Candidate, SpaceLimits, choose};
use super::derived_data::with_derived_data;
use super::error::WorkspaceError;
use super::names::Disk;
use buildpool_objects::cache::{ObjectCache, project_key};
use buildpool_objects::incoming::remove_stale;
use buildpool_objects::{Git, record};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::limits::BASES_MAX;
use buildpool_protocol::spec::Source;
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectFormat, ObjectId, SnapshotName};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Transfers that were not finished are thrown away after this long.
const STALE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Most checkouts of one project: jobs that run at once on one worker.
const CHECKOUTS_MAX: u32 = 1024;

/// The workspaces of a worker.
#[derive(Clone, Debug)]
pub struct Workspaces {
    root: PathBuf,
    disk: Disk,
    links_objects: bool,
}

/// Files that are laid out for an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// Where the command runs.
    pub directory: PathBuf,
    /// The top of the files: places in its output are relative to it.
    pub root: PathBuf,
    /// Where Xcode shall build; none for what is not in a workspace.
    pub derived_data: Option<PathBuf>,
    /// Where git reads the objects of the files' commit; none for what is not in a workspace.
    pub objects: Option<PathBuf>,
    /// Whether these are the submitter's own files.
    pub is_in_place: bool,
}

impl Prepared {
    /// The arguments to execute: an `xcodebuild` builds in the workspace.
    pub fn argv(&self, argv: Vec<String>) -> Vec<String> {
        match &self.derived_data {
            Some(directory) => with_derived_data(argv, directory),
            None => argv,
        }
    }
}

/// What has to be fetched before a snapshot can be laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking {
    /// Whose objects.
    pub project: String,
    /// The snapshot.
    pub name: SnapshotName,
    /// Trees that are here, the most recently used first.
    pub trees: Vec<ObjectId>,
    /// Snapshots that are here, by the checksums of their manifests.
    pub known: Vec<Checksum>,
}

impl Workspaces {
    /// Opens or makes them in a worker's data directory.
    ///
    /// # Errors
    /// When the disk fails. git is looked for when a job needs it.
    pub fn open(data_directory: &Path) -> Result<Self, WorkspaceError> {
        let root = data_directory.join("projects");
        fs::create_dir_all(&root).map_err(WorkspaceError::io("creating", &root))?;
        // Builds write absolute paths down; one without links stays the same.
        let root = root.canonicalize().map_err(WorkspaceError::io("finding", &root))?;
        let disk = probe(&root)?;
        Ok(Self { root, disk, links_objects: false })
    }

    /// The same ones, whose checkouts have links to the objects beside them: for jobs that can't read the project's own, which
    /// have those of everybody's jobs.
    #[must_use]
    pub fn linking_objects(self) -> Self {
        Self { links_objects: true, ..self }
    }

    fn project(&self, project: &str) -> PathBuf {
        self.root.join(project_key(project))
    }

    fn cache(&self, project: &str, tree: &ObjectId) -> Result<ObjectCache, WorkspaceError> {
        let directory = self.project(project);
        let name = match tree.format() {
            ObjectFormat::Sha1 => "objects",
            ObjectFormat::Sha256 => "objects-sha256",
        };
        let cache = ObjectCache::open_for_disk(
            Git::find()?,
            &directory.join(name),
            tree.format(),
            self.disk.ignores_case,
        )?;
        let note = directory.join("project");
        if !note.exists() {
            fs::write(&note, project).map_err(WorkspaceError::io("writing", &note))?;
        }
        Ok(cache)
    }

    /// Keeps every project from being removed as long as it lives.
    fn share(&self) -> Result<Flock<File>, WorkspaceError> {
        let path = self.root.join("lock");
        let file = lock_file(&path)?;
        Flock::lock(file, FlockArg::LockShared)
            .map_err(|(_, error)| WorkspaceError::io("locking", path)(error.into()))
    }

    /// Removes a project that nobody has or is about to have; not now when somebody is laying out files.
    fn remove_idle(&self, project: &Path) -> Result<(), WorkspaceError> {
        let path = self.root.join("lock");
        match Flock::lock(lock_file(&path)?, FlockArg::LockExclusiveNonblock) {
            Ok(_alone) if checkouts(&project.join("checkouts"), "x").next().is_none() && is_idle(project) => {
                remove(project)
            }
            Ok(_) | Err((_, Errno::EWOULDBLOCK)) => Ok(()),
            Err((_, error)) => Err(WorkspaceError::io("locking", path)(error.into())),
        }
    }

    /// What has to be fetched for this source; nothing when all is here.
    ///
    /// # Errors
    /// When the source is malformed or the disk fails.
    pub fn lacking(&self, source: &Source) -> Result<Option<Lacking>, WorkspaceError> {
        let (Source::Snapshot { project, .. }, Some(name)) = (source, name_of(source)?) else {
            return Ok(None);
        };
        let _here = self.share()?;
        let cache = self.cache(project, &name.tree)?;
        if cache.manifest(&name).is_some() {
            return Ok(None);
        }
        let manifests = cache.manifests();
        let mut trees: Vec<ObjectId> = Vec::new();
        for manifest in &manifests {
            if !trees.contains(&manifest.tree) && trees.len() < BASES_MAX {
                trees.push(manifest.tree.clone());
            }
        }
        let known = manifests.iter().take(BASES_MAX).map(record::key).collect();
        Ok(Some(Lacking { project: project.clone(), name, trees, known }))
    }

    /// Whether what was lacking is here by now. A disk that doesn't say counts as no.
    pub fn holds(&self, lacking: &Lacking) -> bool {
        let cache = self.share().and_then(|_here| self.cache(&lacking.project, &lacking.name.tree));
        cache.is_ok_and(|cache| cache.manifest(&lacking.name).is_some())
    }

    /// Where the bytes of packs for this project are received.
    pub fn incoming(&self, project: &str) -> PathBuf {
        let directory = self.project(project).join("incoming");
        remove_stale(&directory, STALE_AFTER, SystemTime::now());
        directory
    }

    /// Takes in a pack that was fetched, and removes the file.
    ///
    /// # Errors
    /// When it does not bring the whole snapshot.
    pub fn accept(
        &self,
        pack: &Path,
        manifest: &Manifest,
        base: Option<&ObjectId>,
    ) -> Result<(), WorkspaceError> {
        let _here = self.share()?;
        let accepted = self.cache(&manifest.project, &manifest.tree)?.accept(pack, manifest, base);
        remove(pack)?;
        Ok(accepted?)
    }

    /// Lays out the files of an attempt. What belongs to it alone goes below `attempt_directory`. Blocks for as long as files
    /// are written. The attempt keeps its checkout until [`Workspaces::release`].
    ///
    /// # Errors
    /// When the snapshot is not here whole, the disk can't hold it, or the command's directory is not in it.
    pub fn prepare(
        &self,
        attempt: AttemptId,
        source: &Source,
        clean: bool,
        attempt_directory: &Path,
    ) -> Result<Prepared, WorkspaceError> {
        match source {
            Source::InPlace { directory } => {
                let directory = PathBuf::from(directory);
                if !directory.is_absolute() {
                    return Err(WorkspaceError::Malformed {
                        what: "directory, which must be absolute in place,",
                    });
                }
                let root = directory.clone();
                Ok(Prepared { root, directory, derived_data: None, objects: None, is_in_place: true })
            }
            Source::Empty => {
                let directory = attempt_directory.join("empty");
                remove(&directory)?;
                fs::create_dir_all(&directory).map_err(WorkspaceError::io("creating", &directory))?;
                let root = directory.clone();
                Ok(Prepared { root, directory, derived_data: None, objects: None, is_in_place: false })
            }
            Source::Snapshot { project, directory, .. } => {
                let name = name_of(source)?.ok_or(WorkspaceError::Malformed { what: "snapshot" })?;
                let tree = name.tree.clone();
                let _here = self.share()?;
                let cache = self.cache(project, &tree)?;
                // Tidied neither before the checkout says which tree it needs.
                let _objects = cache.hold()?;
                let manifest = cache.manifest(&name).ok_or_else(|| WorkspaceError::Missing(tree.clone()))?;
                let checkout = self.take_checkout(project, &tree, attempt)?;
                let own = cache.directory().join("objects");
                let objects = if self.links_objects { checkout.objects() } else { own.clone() };
                let linked = if self.links_objects { link_all(&own, &objects) } else { Ok(()) };
                let laid_out = linked
                    .and_then(|()| checkout.move_to(&cache, &manifest, &objects, clean, self.disk))
                    .and_then(|()| inside(&checkout.root, directory));
                match laid_out {
                    Ok(directory) => Ok(Prepared {
                        directory,
                        derived_data: Some(checkout.derived_data()),
                        root: checkout.root,
                        objects: Some(objects),
                        is_in_place: false,
                    }),
                    Err(error) => {
                        remove(&checkout.directory.join("lease"))?;
                        Err(error)
                    }
                }
            }
        }
    }

    /// Finds a free checkout, the best one first: with this very tree, else the one used last, else a new one.
    fn take_checkout(
        &self,
        project: &str,
        tree: &ObjectId,
        attempt: AttemptId,
    ) -> Result<Checkout, WorkspaceError> {
        let home = self.project(project).join("checkouts");
        fs::create_dir_all(&home).map_err(WorkspaceError::io("creating", &home))?;
        let name = readable_name(project);
        let mut known: Vec<(bool, u64, Checkout)> = checkouts(&home, &name)
            .map(|checkout| {
                let state = checkout.state();
                (state.tree.as_ref() == Some(tree), state.used_at, checkout)
            })
            .collect();
        known.sort_by_key(|(is_same, used_at, _)| std::cmp::Reverse((*is_same, *used_at)));
        for (_, _, checkout) in known {
            if take_lease(&checkout.directory, &attempt.to_string())? {
                return Ok(checkout);
            }
        }
        for number in 1..=CHECKOUTS_MAX {
            let checkout = Checkout::new(home.join(number.to_string()), &name);
            match fs::create_dir(&checkout.directory) {
                Ok(()) if take_lease(&checkout.directory, &attempt.to_string())? => return Ok(checkout),
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(WorkspaceError::io("creating", &checkout.directory)(error)),
            }
        }
        Err(WorkspaceError::Malformed { what: "project, which has too many checkouts," })
    }

    /// Copies aside what an attempt made, before its checkout is released; the content lies in `target` by checksum.
    ///
    /// # Errors
    /// When `target` can't be written.
    pub fn collect_artifacts(
        &self,
        prepared: &Prepared,
        patterns: &[String],
        target: &Path,
        bytes_max: u64,
    ) -> Result<Collected, WorkspaceError> {
        let place = artifacts::Place {
            directory: &prepared.directory,
            root: &prepared.root,
            follows_root: prepared.is_in_place,
            target,
            bytes_max,
        };
        artifacts::collect(place, patterns)
    }

    /// The attempt is over: its checkout may go to another one. Does nothing for an attempt without one.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn release(&self, attempt: AttemptId) -> Result<(), WorkspaceError> {
        let text = attempt.to_string();
        for checkout in self.all_checkouts() {
            if lease_of(&checkout.directory).is_some_and(|lease| lease == text) {
                checkout.note(&State { used_at: now(), ..checkout.state() })?;
                remove(&checkout.directory.join("lease"))?;
            }
        }
        Ok(())
    }

    /// Frees what belongs to attempts that are not held any more: for the start of a worker.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn keep_only(&self, held: &[AttemptId]) -> Result<(), WorkspaceError> {
        let held: BTreeSet<String> = held.iter().map(AttemptId::to_string).collect();
        for checkout in self.all_checkouts() {
            if lease_of(&checkout.directory).is_some_and(|lease| !held.contains(&lease)) {
                remove(&checkout.directory.join("lease"))?;
            }
        }
        Ok(())
    }

    fn projects(&self) -> impl Iterator<Item = PathBuf> + use<> {
        fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
    }

    fn all_checkouts(&self) -> Vec<Checkout> {
        self.projects()
            .flat_map(|project| {
                let name = readable_name(&fs::read_to_string(project.join("project")).unwrap_or_default());
                checkouts(&project.join("checkouts"), &name).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Projects with a warm checkout, by their full names, the most recently used first: for placing jobs.
    pub fn warm_projects(&self) -> Vec<String> {
        let mut warm: Vec<(u64, String)> = self
            .projects()
            .filter_map(|project| {
                let name = fs::read_to_string(project.join("project")).ok()?;
                let states = checkouts(&project.join("checkouts"), &readable_name(&name))
                    .map(|checkout| checkout.state());
                let used_at = states.filter(|state| state.tree.is_some()).map(|state| state.used_at).max()?;
                Some((used_at, name))
            })
            .collect();
        warm.sort_by(|a, b| b.cmp(a));
        warm.into_iter().map(|(_, name)| name).take(BASES_MAX).collect()
    }

    /// Measures checkouts, removes the least recently used ones while space is short, and tidies the objects of projects that
    /// no job uses. Never touches a checkout that an attempt has. Walks over all files of free checkouts: not for a path
    /// that a job waits on.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn collect_space(&self, limits: &SpaceLimits) -> Result<(), WorkspaceError> {
        let mut free_ones = Vec::new();
        let mut total = 0;
        for checkout in self.all_checkouts() {
            if lease_of(&checkout.directory).is_none() {
                checkout.note_bytes(bytes_below(&checkout.directory))?;
                let (used_at, bytes) = (checkout.state().used_at, checkout.bytes());
                free_ones.push(Candidate { used_at, bytes, which: checkout.clone() });
            }
            total += checkout.bytes();
        }
        for checkout in choose(free_ones, total, free_bytes(&self.root)?, now(), limits) {
            if take_lease(&checkout.directory, "removing")? {
                tracing::info!(directory = %checkout.directory.display(), "removing a workspace to make space");
                // Out of the way at once: one that is half removed could be taken.
                let project = checkout.directory.ancestors().nth(2).unwrap_or(&self.root);
                let aside = project.join("removed");
                remove(&aside)?;
                fs::rename(&checkout.directory, &aside)
                    .map_err(WorkspaceError::io("removing", &checkout.directory))?;
                remove(&aside)?;
            }
        }
        for project in self.projects() {
            self.tidy(&project)?;
        }
        Ok(())
    }

    fn tidy(&self, project: &Path) -> Result<(), WorkspaceError> {
        // Left by a worker that ended while it removed it.
        remove(&project.join("removed"))?;
        let own: Vec<Checkout> = checkouts(&project.join("checkouts"), "x").collect();
        if own.is_empty() && is_idle(project) {
            return self.remove_idle(project);
        }
        // Those that jobs have among them: their git reads these objects. One that is being laid out holds the cache.
        let pinned: Vec<ObjectId> = own.iter().filter_map(|checkout| checkout.state().tree).collect();
        for (name, format) in [("objects", ObjectFormat::Sha1), ("objects-sha256", ObjectFormat::Sha256)] {
            if project.join(name).is_dir() {
                let cache = ObjectCache::open_for_disk(
                    Git::find()?,
                    &project.join(name),
                    format,
                    self.disk.ignores_case,
                )?;
                cache.tidy(|manifest| pinned.contains(&manifest.tree), 8, false)?;
            }
        }
        Ok(())
    }
}

/// A project without checkouts whose objects were not used for a day.
fn is_idle(project: &Path) -> bool {
    let records = ["objects/snapshots", "objects-sha256/snapshots"].map(|name| project.join(name));
    // A use of a snapshot changes its record's time.
    let inside = records.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    let used = inside
        .map(|entry| entry.path())
        .chain(records.iter().cloned())
        .chain([project.join("project")])
        .filter_map(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
        .max();
    used.is_some_and(|used| SystemTime::now().duration_since(used).is_ok_and(|idle| idle.as_secs() > 86_400))
}

fn lock_file(path: &Path) -> Result<File, WorkspaceError> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    options.open(path).map_err(WorkspaceError::io("opening", path))
}

fn checkouts(home: &Path, name: &str) -> impl Iterator<Item = Checkout> + use<> {
    let name = name.to_owned();
    fs::read_dir(home)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .map(move |path| Checkout::new(path, &name))
}

/// False when somebody else has it.
fn take_lease(directory: &Path, holder: &str) -> Result<bool, WorkspaceError> {
    let path = directory.join("lease");
    match fs::File::options().write(true).create_new(true).open(&path) {
        Ok(mut file) => {
            file.write_all(holder.as_bytes()).map_err(WorkspaceError::io("writing", &path))?;
            Ok(true)
        }
        // Gone altogether: it was removed to make space.
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(WorkspaceError::io("writing", &path)(error)),
    }
}

fn lease_of(directory: &Path) -> Option<String> {
    fs::read_to_string(directory.join("lease")).ok()
}

fn name_of(source: &Source) -> Result<Option<SnapshotName>, WorkspaceError> {
    SnapshotName::of(source).map_err(|_| WorkspaceError::Malformed { what: "snapshot id" })
}

/// The directory that the files are in: some tools name what they build after it.
fn readable_name(project: &str) -> String {
    let last = project.rsplit(['/', ':']).next().unwrap_or_default();
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' })
        .collect();
    let name = name.trim_start_matches('.');
    // Names that a checkout's directory has already.
    let is_taken =
        ["", "lease", "index", "state.json", "excludes", "derived", "bytes", "objects"].contains(&name);
    if is_taken || name.len() > 100 { "tree".into() } else { name.to_owned() }
}

/// A directory of the snapshot, reached without leaving it.
fn inside(root: &Path, directory: &str) -> Result<PathBuf, WorkspaceError> {
    let wrong =
        |reason: &str| WorkspaceError::Directory { path: directory.to_owned(), reason: reason.to_owned() };
    if Path::new(directory).components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(wrong("must be relative, without `..`"));
    }
    let path = root.join(directory);
    let real = path.canonicalize().map_err(|_| {
        wrong("is not in the snapshot; an empty or ignored directory does not travel, so let the command make it")
    })?;
    let real_root = root.canonicalize().map_err(WorkspaceError::io("finding", root))?;
    if !real.starts_with(real_root) {
        return Err(wrong("leads out of the workspace"));
    }
    if !real.is_dir() {
        return Err(wrong("is not a directory"));
    }
    Ok(path)
}

/// What the disk can do, found out by trying.
fn probe(root: &Path) -> Result<Disk, WorkspaceError> {
    let (upper, lower, directory) = (root.join(".CASE"), root.join(".case"), root.join(".directory"));
    remove(&upper)?;
    fs::write(&upper, "").map_err(WorkspaceError::io("writing", &upper))?;
    let ignores_case = lower.exists();
    let mode = |path: &Path| {
        let metadata = fs::symlink_metadata(path).map_err(WorkspaceError::io("looking at", path))?;
        Ok::<_, WorkspaceError>(metadata.permissions().mode() & 0o7777)
    };
    let file_mode = mode(&upper)?;
    remove(&upper)?;
    remove(&directory)?;
    fs::create_dir(&directory).map_err(WorkspaceError::io("creating", &directory))?;
    let directory_mode = mode(&directory)?;
    remove(&directory)?;
    // Below a checkout, with what build tools add.
    let longest = if cfg!(target_os = "macos") { 1024 } else { 4096 };
    Ok(Disk {
        ignores_case,
        utf8_only: cfg!(target_os = "macos"),
        path_bytes_max: longest - 120 - root.as_os_str().len().min(longest / 2),
        file_mode,
        directory_mode,
    })
}

fn bytes_below(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    walkdir::WalkDir::new(directory)
        .follow_links(false)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.blocks() * 512)
        .sum()
}

fn free_bytes(path: &Path) -> Result<u64, WorkspaceError> {
    let found = nix::sys::statvfs::statvfs(path)
        .map_err(|error| WorkspaceError::io("measuring", path)(error.into()))?;
    // The types differ between platforms.
    #[allow(clippy::unnecessary_cast, reason = "u32 on macOS")]
    let bytes = found.blocks_available() as u64 * found.fragment_size() as u64;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
