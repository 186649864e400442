//! One warm checkout: moved from the tree that it has to the tree that is wanted by the smallest change. Files whose content
//! stays keep their time, so that builds stay incremental; ignored build products stay; what else lies about goes.

use super::error::WorkspaceError;
use super::names::{self, Disk};
use super::visible;
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::directory::write_if_different;
use buildpool_objects::git::split_nul;
use buildpool_objects::{GitError, Place};
use buildpool_protocol::transfer::{Manifest, ObjectId};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// One checkout of a project.
#[derive(Clone, Debug)]
pub(super) struct Checkout {
    /// Its own directory.
    pub(super) directory: PathBuf,
    /// The files: what the job sees.
    pub(super) root: PathBuf,
}

/// What is written down about a checkout.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// What is laid out; none while it is being changed.
    pub(super) tree: Option<ObjectId>,
    /// Seconds since 1970.
    pub(super) used_at: u64,
}

impl Checkout {
    /// A checkout in this directory, whose files are below `name`.
    pub(super) fn new(directory: PathBuf, name: &str) -> Self {
        Self { root: directory.join(name), directory }
    }

    /// Where Xcode builds.
    pub(super) fn derived_data(&self) -> PathBuf {
        self.directory.join("derived")
    }

    fn index(&self) -> PathBuf {
        self.directory.join("index")
    }

    pub(super) fn state(&self) -> State {
        let text = fs::read(self.directory.join("state.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Files and build products in bytes, when they were last measured. Apart from the state, because a job may take the
    /// checkout while it is being measured.
    pub(super) fn bytes(&self) -> u64 {
        let text = fs::read_to_string(self.directory.join("bytes")).unwrap_or_default();
        text.parse().unwrap_or_default()
    }

    pub(super) fn note_bytes(&self, bytes: u64) -> Result<(), WorkspaceError> {
        Ok(write_if_different(&self.directory.join("bytes"), bytes.to_string().as_bytes())?)
    }

    pub(super) fn note(&self, state: &State) -> Result<(), WorkspaceError> {
        let text = serde_json::to_vec(state).expect("a state has string keys only");
        Ok(write_if_different(&self.directory.join("state.json"), &text)?)
    }

    /// Lays out a snapshot that the cache has whole.
    pub(super) fn move_to(
        &self,
        cache: &ObjectCache,
        manifest: &Manifest,
        clean: bool,
        disk: Disk,
    ) -> Result<(), WorkspaceError> {
        let before = self.state();
        if before.tree.as_ref() != Some(&manifest.tree) {
            check_names(cache, &manifest.tree, disk)?;
        }
        self.note(&State { tree: None, ..before.clone() })?;
        let is_warm = before.tree.is_some() && self.is_a_directory() && self.index().exists();
        if clean || !is_warm {
            self.wipe()?;
        }
        match self.change(cache, manifest) {
            // Something lies in the way that no rule foresees: then the slow way, which nothing can be in the way of.
            Err(WorkspaceError::Git(GitError::Failed { .. })) if is_warm && !clean => {
                self.wipe()?;
                self.change(cache, manifest)?;
            }
            done => done?,
        }
        visible::write(
            &self.root,
            &self.index(),
            cache,
            manifest,
            before.tree.as_ref() != Some(&manifest.tree),
        )?;
        self.note(&State { tree: Some(manifest.tree.clone()), used_at: now() })
    }

    /// A link in its place would lead somewhere else.
    fn is_a_directory(&self) -> bool {
        fs::symlink_metadata(&self.root).is_ok_and(|metadata| metadata.is_dir())
    }

    fn wipe(&self) -> Result<(), WorkspaceError> {
        remove(&self.root)?;
        remove(&self.derived_data())?;
        remove(&self.index())?;
        fs::create_dir_all(&self.root).map_err(WorkspaceError::io("creating", &self.root))
    }

    fn change(&self, cache: &ObjectCache, manifest: &Manifest) -> Result<(), WorkspaceError> {
        let place = Place { work_tree: Some(self.root.clone()), index: Some(self.index()), ..cache.place() };
        // A git that was ended in the middle leaves it.
        remove(&self.directory.join("index.lock"))?;
        if self.index().exists() {
            // What a job wrote without changing it shall keep its time too.
            cache.git().run(&place).args(["update-index", "-q", "--refresh"]).output_or_none()?;
        }
        let tree = manifest.tree.as_str();
        cache
            .git()
            .run(&place)
            .args(["read-tree", "--reset", "-u", "--no-recurse-submodules", tree])
            .output()?;
        self.remove_droppings(cache, &place, manifest)
    }

    /// Removes what is neither in the tree nor ignored.
    fn remove_droppings(
        &self,
        cache: &ObjectCache,
        place: &Place,
        manifest: &Manifest,
    ) -> Result<(), WorkspaceError> {
        let excludes = self.directory.join("excludes");
        write_if_different(&excludes, manifest.excludes.as_bytes())?;
        let arguments = ["ls-files", "-o", "-z", "--exclude-standard", "-X"].map(OsStr::new);
        let arguments = arguments.iter().copied().chain([excludes.as_os_str()]);
        let listed = cache.git().run(place).args(arguments).output()?;
        for path in split_nul(&listed) {
            let path = self.root.join(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)));
            remove(&path)?;
            // Directories that only droppings were in go too; one that is not empty ends it.
            let mut parent = path.parent();
            while let Some(directory) = parent.filter(|directory| *directory != self.root) {
                if fs::remove_dir(directory).is_err() {
                    break;
                }
                parent = directory.parent();
            }
        }
        Ok(())
    }
}

fn check_names(cache: &ObjectCache, tree: &ObjectId, disk: Disk) -> Result<(), WorkspaceError> {
    let listed =
        cache.git().run(&cache.place()).args(["ls-tree", "-r", "-t", "-z", tree.as_str()]).output()?;
    let entries = split_nul(&listed).map(|line| {
        let cut = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
        let mode = line.get(..6).and_then(|mode| std::str::from_utf8(mode).ok());
        let mode = mode.and_then(|mode| u32::from_str_radix(mode, 8).ok()).unwrap_or(0);
        (mode, line.get(cut + 1..).unwrap_or_default())
    });
    names::check(entries, disk).map_err(WorkspaceError::Names)
}

/// Removes a file, a link or a directory with all that is in it; it may be gone already.
pub(super) fn remove(path: &Path) -> Result<(), WorkspaceError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let removed = if metadata.is_dir() { remove_directory(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(WorkspaceError::io("removing", path)(error))
        }
        _ => Ok(()),
    }
}

/// Also where directories in it do not allow it (a Go module cache is read-only).
fn remove_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    for entry in walkdir::WalkDir::new(path).follow_links(false).into_iter().flatten() {
        if entry.file_type().is_dir() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700)).ok();
        }
    }
    fs::remove_dir_all(path)
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
