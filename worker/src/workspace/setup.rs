//! The setup of a workspace: when it has to run, and which directories belong to it.
//!
//! Each checkout keeps a record of its last successful setup: a key over the command and its inputs, and the dependency
//! directories that were there afterwards. Dependency directories exist in a checkout only together with a record that fits the
//! job. So the choice of a checkout never decides whether a job finds its dependencies.

use super::checkout::remove;
use super::error::WorkspaceError;
use super::pool::{Prepared, Workspaces, name_of};
use crate::records::{self, Durability};
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::git::split_nul;
use buildpool_protocol::spec::{Setup, Source};
use buildpool_protocol::transfer::ObjectId;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Directories that package managers fill. They are removed from a checkout unless its setup made them.
const DEPENDENCIES: [&str; 6] = ["node_modules", "bower_components", ".venv", "venv", "Pods", "Carthage"];
/// How deep below the top dependency directories are looked for: `packages/app/node_modules`.
const DEPTH_MAX: usize = 3;
/// Names at the top that are compared before and after a setup.
const NAMES_MAX: usize = 10_000;
/// The file in a checkout's directory.
pub(super) const RECORD: &str = "setup.json";

/// A setup that has to run before the job's command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetupPlan {
    /// The configured command.
    pub command: String,
    /// The directory in which it runs.
    pub directory: PathBuf,
    /// The top of the files.
    pub root: PathBuf,
    /// The directory that gets the record of its success.
    pub checkout: PathBuf,
    /// Identifies the command and the content of its inputs.
    pub key: String,
    /// The names at the top before it runs.
    pub before: BTreeSet<PathBuf>,
}

#[derive(Default, Serialize, Deserialize)]
struct Record {
    key: String,
    /// Dependency directories and new names at the top that were there afterwards, relative to the top.
    made: BTreeSet<PathBuf>,
}

impl SetupPlan {
    /// Records that the setup passed.
    ///
    /// # Errors
    /// If the disk refuses; then the setup runs again before the next job.
    pub fn note_passed(&self) -> io::Result<()> {
        let mut made: BTreeSet<PathBuf> = dependencies(&self.root).into_iter().collect();
        made.extend(names(&self.root).difference(&self.before).cloned());
        let record = Record { key: self.key.clone(), made };
        records::write(&self.checkout, RECORD, &record, Durability::Process)
    }
}

impl Workspaces {
    /// Decides whether the setup of a job has to run in its workspace. If so, and for a job without a setup, removes the
    /// dependency directories that are there.
    ///
    /// # Errors
    /// If an input glob is wrong, git can't read the tree, or a directory can't be removed.
    pub fn plan_setup(
        &self,
        source: &Source,
        setup: Option<&Setup>,
        prepared: &Prepared,
    ) -> Result<Option<SetupPlan>, WorkspaceError> {
        let (Source::Snapshot { project, .. }, Some(name)) = (source, name_of(source)?) else {
            return Ok(None);
        };
        let Some(checkout) = prepared.root.parent() else { return Ok(None) };
        let cache = self.cache(project, &name.tree)?;
        let key = setup.map(|setup| key(&cache, &name.tree, setup)).transpose()?;
        let before: Record = records::read_if_whole(checkout, RECORD).unwrap_or_default().unwrap_or_default();
        let is_whole = before.made.iter().all(|path| prepared.root.join(path).symlink_metadata().is_ok());
        if is_whole && key.as_ref() == Some(&before.key) {
            return Ok(None);
        }
        remove(&checkout.join(RECORD))?;
        for path in dependencies(&prepared.root) {
            if !is_tracked(&cache, &name.tree, &path)? {
                remove(&prepared.root.join(path))?;
            }
        }
        let (Some(setup), Some(key)) = (setup, key) else { return Ok(None) };
        Ok(Some(SetupPlan {
            command: setup.command.clone(),
            directory: prepared.root.join(&setup.directory),
            root: prepared.root.clone(),
            checkout: checkout.to_owned(),
            key,
            before: names(&prepared.root),
        }))
    }
}

/// The names in a directory, at most [`NAMES_MAX`].
fn names(root: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().take(NAMES_MAX);
    entries.filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name()))).collect()
}

/// The dependency directories below `root`, relative to it.
fn dependencies(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut walk = walkdir::WalkDir::new(root).min_depth(1).max_depth(DEPTH_MAX).into_iter();
    while let Some(entry) = walk.next() {
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_dir() {
            continue;
        }
        let is_dependency = DEPENDENCIES.iter().any(|name| entry.file_name() == *name);
        if is_dependency && let Ok(path) = entry.path().strip_prefix(root) {
            found.push(path.to_owned());
        }
        if is_dependency || entry.file_name() == ".git" {
            walk.skip_current_dir();
        }
    }
    found
}

fn is_tracked(cache: &ObjectCache, tree: &ObjectId, path: &Path) -> Result<bool, WorkspaceError> {
    let call = cache.git().run(&cache.place()).args(["--literal-pathspecs", "ls-tree", tree.as_str(), "--"]);
    Ok(!call.args([path]).output()?.is_empty())
}

/// A checksum over the command and over path, mode and content of its inputs.
fn key(cache: &ObjectCache, tree: &ObjectId, setup: &Setup) -> Result<String, WorkspaceError> {
    let inputs = globs(&setup.inputs)?;
    let mut hasher = blake3::Hasher::new();
    for part in [setup.command.as_bytes(), b"\0", setup.directory.as_bytes(), b"\0"] {
        hasher.update(part);
    }
    let listed = cache.git().run(&cache.place()).args(["ls-tree", "-r", "-z", tree.as_str()]).output()?;
    for line in split_nul(&listed) {
        let path = line.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
        let path = String::from_utf8_lossy(path);
        let below = Path::new(path.as_ref()).strip_prefix(&setup.directory);
        if below.is_ok_and(|below| inputs.is_match(below)) {
            hasher.update(line);
            hasher.update(b"\0");
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

fn globs(inputs: &[String]) -> Result<GlobSet, WorkspaceError> {
    let invalid = |error: globset::Error| WorkspaceError::Invalid {
        field: "`setup_inputs`",
        reason: format!("{error}; a glob is valid, such as `package-lock.json` or `src/**/*.toml`"),
    };
    let mut globs = GlobSetBuilder::new();
    for input in inputs {
        let input = input.strip_prefix("./").unwrap_or(input);
        globs.add(GlobBuilder::new(input).literal_separator(true).build().map_err(invalid)?);
    }
    globs.build().map_err(invalid)
}
