//! The workspaces of a worker: below `projects`, one directory per project and trust class with its
//! objects and its checkouts. A checkout belongs to one attempt at a time.

use super::artifacts::{self, CollectedArtifacts};
use super::checkout::{Checkout, link_all, remove};
use super::derived_data::with_derived_data;
use super::error::WorkspaceError;
use super::names::Disk;
use crate::platform;
use buildpool_objects::cache::{ObjectCache, project_key_in};
use buildpool_objects::incoming::remove_stale;
use buildpool_objects::{CacheError, Git, Stop, record};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::limits::BASES_MAX;
use buildpool_protocol::spec::{Source, workspace_key};
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectFormat, ObjectId, SnapshotName};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

mod leases;
mod mend;
mod space;

use leases::checkouts;

/// Time after which unfinished transfers are removed.
const STALE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Name of the working directory of a job without files, in the directory of its attempt.
pub const EMPTY_DIRECTORY: &str = "empty";
/// The file with a project's name, in its directory.
const PROJECT_NOTE: &str = "project";
/// The file with the trust class of the project's directory. Older versions did not write it.
const CLASS_NOTE: &str = "class";

/// The workspaces of a worker.
#[derive(Clone, Debug)]
pub struct Workspaces {
    root: PathBuf,
    disk: Disk,
    links_objects: bool,
    /// Trust class of the attempt.
    class: String,
    /// Stops the git commands of one attempt.
    stop: Stop,
}

/// Prepared files of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// Working directory of the command.
    pub directory: PathBuf,
    /// Root of the files. Paths in the output are relative to it.
    pub root: PathBuf,
    /// Build directory for Xcode. `None` outside of a workspace.
    pub derived_data: Option<PathBuf>,
    /// Directory of the git objects. `None` outside of a workspace.
    pub objects: Option<PathBuf>,
    /// True if these are the submitter's own files.
    pub is_in_place: bool,
}

impl Prepared {
    /// Returns the arguments to execute: an `xcodebuild` builds in the workspace.
    pub fn argv(&self, argv: Vec<String>) -> Vec<String> {
        match &self.derived_data {
            Some(directory) => with_derived_data(argv, directory),
            None => argv,
        }
    }
}

/// A snapshot that must be fetched before its checkout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingSnapshot {
    /// Project of the objects.
    pub project: String,
    /// The snapshot.
    pub name: SnapshotName,
    /// Trees that the worker has, most recently used first.
    pub trees: Vec<ObjectId>,
    /// Snapshots that the worker has, as checksums of their manifests.
    pub known: Vec<Checksum>,
}

impl Workspaces {
    /// Opens or creates the workspaces in a worker's data directory.
    ///
    /// # Errors
    /// Fails if the disk fails. git is searched when a job needs it.
    pub fn open(data_directory: &Path) -> Result<Self, WorkspaceError> {
        let root = data_directory.join("projects");
        fs::create_dir_all(&root).map_err(WorkspaceError::io("creating", &root))?;
        // Builds store absolute paths. A path without symbolic links stays the same.
        let root = root.canonicalize().map_err(WorkspaceError::io("finding", &root))?;
        let disk = probe(&root)?;
        Ok(Self { root, disk, links_objects: false, class: String::new(), stop: Stop::default() })
    }

    /// Returns workspaces with hard links to the objects next to each checkout. Jobs that must not
    /// read the project's own objects, which belong to all jobs, read the links.
    #[must_use]
    pub fn linking_objects(self) -> Self {
        Self { links_objects: true, disk: Disk { owner: None, ..self.disk }, ..self }
    }

    /// Returns workspaces for one attempt. `stop` ends their git commands.
    #[must_use]
    pub fn stopped_by(&self, stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    /// The same ones for an attempt of this trust class. No path of one class leads to the workspaces of another.
    #[must_use]
    pub fn of_class(&self, class: &str) -> Self {
        Self { class: class.to_owned(), ..self.clone() }
    }

    fn project(&self, project: &str) -> PathBuf {
        self.root.join(project_key_in(&self.class, project))
    }

    pub(super) fn cache(&self, project: &str, tree: &ObjectId) -> Result<ObjectCache, WorkspaceError> {
        let directory = self.project(project);
        let name = match tree.format() {
            ObjectFormat::Sha1 => "objects",
            ObjectFormat::Sha256 => "objects-sha256",
        };
        let cache = ObjectCache::open_for_disk(
            Git::find_for_service(&self.stop)?,
            &directory.join(name),
            tree.format(),
            self.disk.ignores_case,
        )?;
        // The class first: a project counts as warm from its note on.
        for (name, text) in [(CLASS_NOTE, self.class.as_str()), (PROJECT_NOTE, project)] {
            let note = directory.join(name);
            if !note.exists() {
                fs::write(&note, text).map_err(WorkspaceError::io("writing", &note))?;
            }
        }
        Ok(cache)
    }

    /// Locks all projects against removal, for the lifetime of the value.
    fn share(&self) -> Result<Flock<File>, WorkspaceError> {
        let path = self.root.join("lock");
        // A job without isolation may have removed the directory.
        fs::create_dir_all(&self.root).map_err(WorkspaceError::io("creating", &self.root))?;
        let file = lock_file(&path)?;
        Flock::lock(file, FlockArg::LockShared)
            .map_err(|(_, error)| WorkspaceError::io("locking", path)(error.into()))
    }

    /// Returns the snapshot to fetch for this source, or `None` if it is complete.
    ///
    /// # Errors
    /// Fails if the source is malformed or the disk fails.
    pub fn missing(&self, source: &Source) -> Result<Option<MissingSnapshot>, WorkspaceError> {
        let (Source::Snapshot { project, .. }, Some(name)) = (source, name_of(source)?) else {
            return Ok(None);
        };
        let _here = self.share()?;
        let cache = self.cache(project, &name.tree)?;
        if !cache.looks_whole() {
            self.mend(project, &name.tree);
        }
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
        Ok(Some(MissingSnapshot { project: project.clone(), name, trees, known }))
    }

    /// Returns true if the missing snapshot is available now. A disk error counts as no.
    pub fn holds(&self, missing: &MissingSnapshot) -> bool {
        let cache = self.share().and_then(|_here| self.cache(&missing.project, &missing.name.tree));
        cache.is_ok_and(|cache| cache.manifest(&missing.name).is_some())
    }

    /// Returns the directory for received packs of this project.
    pub fn incoming(&self, project: &str) -> PathBuf {
        let directory = self.project(project).join("incoming");
        remove_stale(&directory, STALE_AFTER, SystemTime::now());
        directory
    }

    /// Imports a fetched pack and removes the file.
    ///
    /// # Errors
    /// Fails if it does not complete the snapshot.
    pub fn accept(
        &self,
        pack: &Path,
        manifest: &Manifest,
        base: Option<&ObjectId>,
    ) -> Result<(), WorkspaceError> {
        let _here = self.share()?;
        let accepted = self.cache(&manifest.project, &manifest.tree)?.accept(pack, manifest, base);
        remove(pack)?;
        if accepted.as_ref().is_err_and(CacheError::may_be_damage) {
            self.mend(&manifest.project, &manifest.tree);
        }
        Ok(accepted?)
    }

    /// Prepares the files of an attempt. Its private files are created below `attempt_directory`.
    /// Blocks until all files are written. The attempt keeps its checkout until
    /// [`Workspaces::release`].
    ///
    /// # Errors
    /// Fails if the snapshot is incomplete, the disk cannot store it, or the command's directory is
    /// not in it. If objects are damaged, [`Workspaces::missing`] then returns the snapshot to
    /// fetch again.
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
                    return Err(WorkspaceError::Invalid {
                        field: "directory",
                        reason: format!(
                            "`{}` is relative, and a job in place needs an absolute path",
                            directory.display().to_string().escape_debug()
                        ),
                    });
                }
                let root = directory.clone();
                Ok(Prepared { root, directory, derived_data: None, objects: None, is_in_place: true })
            }
            Source::Empty => {
                let directory = attempt_directory.join(EMPTY_DIRECTORY);
                if !self.is_as_created(&directory) {
                    remove(&directory)?;
                    fs::create_dir_all(&directory).map_err(WorkspaceError::io("creating", &directory))?;
                }
                let root = directory.clone();
                Ok(Prepared { root, directory, derived_data: None, objects: None, is_in_place: false })
            }
            Source::Snapshot { project, directory, .. } => {
                let name = name_of(source)?.ok_or(WorkspaceError::Invalid {
                    field: "snapshot",
                    reason: "its source has no object id of a tree".to_owned(),
                })?;
                let _here = self.share()?;
                let prepared = self.prepare_snapshot(attempt, project, &name, directory, clean);
                if prepared.as_ref().is_err_and(WorkspaceError::may_be_damage) {
                    self.mend(project, &name.tree);
                }
                prepared
            }
        }
    }

    /// Returns true for an empty directory as the worker creates it.
    fn is_as_created(&self, directory: &Path) -> bool {
        let is_plain = directory.symlink_metadata().is_ok_and(|found| {
            found.is_dir()
                && found.permissions().mode() & 0o7777 == self.disk.directory_mode
                && !self.disk.is_anothers(&found)
        });
        is_plain && fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn prepare_snapshot(
        &self,
        attempt: AttemptId,
        project: &str,
        name: &SnapshotName,
        directory: &str,
        clean: bool,
    ) -> Result<Prepared, WorkspaceError> {
        let cache = self.cache(project, &name.tree)?;
        // Hold the cache: a tidy must not run before the checkout has recorded its tree.
        let _objects = cache.hold()?;
        let manifest = cache.manifest(name).ok_or_else(|| WorkspaceError::Missing(name.tree.clone()))?;
        let checkout = self.take_checkout(project, &name.tree, attempt)?;
        match self.lay_out(&checkout, &cache, &manifest, directory, clean) {
            // Files of an earlier job cannot be removed. A new checkout can be used instead.
            Err(error) if error.is_of_files() && space::put_aside(&checkout).is_ok() => {
                tracing::warn!(directory = %checkout.directory.display(), error = &error as &dyn std::error::Error, "a workspace can't be used any more");
                let new = self.new_checkout(project, attempt)?;
                self.lay_out(&new, &cache, &manifest, directory, clean).or_else(|error| new.release(error))
            }
            laid_out => laid_out.or_else(|error| checkout.release(error)),
        }
    }

    fn lay_out(
        &self,
        checkout: &Checkout,
        cache: &ObjectCache,
        manifest: &Manifest,
        directory: &str,
        clean: bool,
    ) -> Result<Prepared, WorkspaceError> {
        let own = cache.directory().join("objects");
        let objects = if self.links_objects { checkout.objects() } else { own.clone() };
        if self.links_objects {
            link_all(&own, &objects)?;
        }
        checkout.move_to(cache, manifest, &objects, clean, self.disk)?;
        Ok(Prepared {
            directory: inside(&checkout.root, directory)?,
            derived_data: Some(checkout.derived_data()),
            root: checkout.root.clone(),
            objects: Some(objects),
            is_in_place: false,
        })
    }

    /// Copies the artifacts of an attempt before its checkout is released. The content is in
    /// `target`, named by checksum. With an `owner`, only that user's files are collected.
    ///
    /// # Errors
    /// Fails if `target` cannot be written.
    pub fn collect_artifacts(
        &self,
        prepared: &Prepared,
        patterns: &[String],
        target: &Path,
        owner: Option<u32>,
        bytes_max: u64,
    ) -> Result<CollectedArtifacts, WorkspaceError> {
        let place = artifacts::Collection {
            directory: &prepared.directory,
            root: &prepared.root,
            follows_root: prepared.is_in_place,
            target,
            owner,
            bytes_max,
        };
        artifacts::collect(place, patterns)
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
                let name = readable_name(&fs::read_to_string(project.join(PROJECT_NOTE)).unwrap_or_default());
                checkouts(&project.join("checkouts"), &name).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Returns the projects with a warm checkout, as [`workspace_key`] names them, most recently
    /// used first, for job placement.
    pub fn warm_projects(&self) -> Vec<String> {
        let mut warm: Vec<(u64, String)> = self
            .projects()
            .filter_map(|project| {
                let name = fs::read_to_string(project.join(PROJECT_NOTE)).ok()?;
                let class = fs::read_to_string(project.join(CLASS_NOTE)).unwrap_or_default();
                let states = checkouts(&project.join("checkouts"), &readable_name(&name))
                    .map(|checkout| checkout.state());
                let used_at = states.filter(|state| state.tree.is_some()).map(|state| state.used_at).max()?;
                Some((used_at, workspace_key(&class, &name)))
            })
            .collect();
        warm.sort_by(|a, b| b.cmp(a));
        warm.into_iter().map(|(_, name)| name).take(BASES_MAX).collect()
    }
}

fn lock_file(path: &Path) -> Result<File, WorkspaceError> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    options.open(path).map_err(WorkspaceError::io("opening", path))
}

pub(super) fn name_of(source: &Source) -> Result<Option<SnapshotName>, WorkspaceError> {
    SnapshotName::from_source(source)
        .map_err(|error| WorkspaceError::Invalid { field: "snapshot id", reason: error.to_string() })
}

/// Returns the name of the directory with the files: some tools name their products after it.
fn readable_name(project: &str) -> String {
    let last = project.rsplit(['/', ':']).next().unwrap_or_default();
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' })
        .collect();
    let name = name.trim_start_matches('.');
    // Names of files in a checkout's directory, or names that git derives from them (`index.lock`),
    // also on a disk that ignores case.
    let first = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_taken = ["", "lease", "index", "state", "excludes", "derived", "bytes", "objects", "setup"];
    if is_taken.contains(&first.as_str()) || name.len() > 100 { "tree".into() } else { name.to_owned() }
}

/// Returns a directory of the snapshot, after a check that it is inside.
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

/// Detects the properties of the disk by test files.
fn probe(root: &Path) -> Result<Disk, WorkspaceError> {
    let (upper, lower, directory) = (root.join(".CASE"), root.join(".case"), root.join(".directory"));
    remove(&upper)?;
    fs::write(&upper, "").map_err(WorkspaceError::io("writing", &upper))?;
    let ignores_case = lower.exists();
    let (composed, decomposed) = (root.join(".\u{e9}"), root.join(".e\u{301}"));
    remove(&composed)?;
    fs::write(&composed, "").map_err(WorkspaceError::io("writing", &composed))?;
    let ignores_form = decomposed.exists();
    remove(&composed)?;
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
    // Reserve some length below a checkout for files of build tools.
    let longest = platform::PATH_BYTES_MAX;
    Ok(Disk {
        ignores_case,
        ignores_form,
        utf8_only: platform::NAMES_ARE_UTF8,
        path_bytes_max: longest - 120 - root.as_os_str().len().min(longest / 2),
        file_mode,
        directory_mode,
        owner: Some(nix::unistd::Uid::effective().as_raw()),
    })
}

#[cfg(test)]
mod tests;
