//! Takes a snapshot.

use super::error::SnapshotError;
use super::excludes::Excludes;
use super::nested::SnapshotBuilder;
use super::repository::Repository;
use super::worktree::Rules;
use super::{head, not_sent, store};
use crate::directories;
use crate::project::{Configuration, configured_setup, suggested_setup};
use buildpool_objects::git::{GitError, split_nul};
use buildpool_objects::pack;
use buildpool_objects::{Git, Place, record};
use buildpool_protocol::report::SnapshotInfo;
use buildpool_protocol::spec::{Setup, Source};
use buildpool_protocol::transfer::{Head, Manifest, ObjectId};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Default limit on new and changed files, in bytes.
pub const GUARD_BYTES: u64 = 1_000_000_000;

/// Limit on notes in a result.
const NOTES_TOLD_MAX: usize = 20;
/// Limit on paths of one kind in a result, because every result contains them.
const PATHS_TOLD_MAX: usize = 100;
/// Limit on files that a warning lists.
const NAMED_MAX: usize = 10;

/// Options for a snapshot.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the command. The snapshot contains its whole project.
    pub directory: PathBuf,
    /// Take this commit of the repository instead of the files on disk.
    pub commit: Option<String>,
    /// Whether files that look like secrets are included.
    pub allow_secrets: bool,
    /// Limit on new and changed files, in bytes.
    pub guard_bytes: u64,
    /// Directory for stores; by default in the user's cache directory.
    pub cache: Option<PathBuf>,
}

impl Options {
    /// Returns the default options for a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            commit: None,
            allow_secrets: false,
            guard_bytes: GUARD_BYTES,
            cache: None,
        }
    }
}

/// A working tree at a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Contents of the snapshot.
    pub manifest: Manifest,
    /// The command's directory inside the snapshot, with `/`; empty for the top.
    pub directory: String,
    /// Top of the project on this machine.
    pub top: PathBuf,
    /// Files that look like secrets: omitted, or sent in their committed form.
    pub kept_back: Vec<String>,
    /// Files that kept changing while they were read.
    pub changed_meanwhile: Vec<String>,
    /// Files that exist on this machine but not in the snapshot: ignored directories at the top and
    /// in the command's directory, LFS pointers, links that lead out of the tree.
    pub left_behind: Vec<String>,
    /// The project's `setup`, if its configuration has one.
    pub setup: Option<Setup>,
    /// Command that creates the parts of `left_behind` that the job may need, if the project's
    /// files indicate it.
    pub setup_suggestion: Option<String>,
    /// Notes for the submitter.
    pub notes: Vec<String>,
    pub(super) git: Git,
    /// Place for reading its objects.
    pub(super) place: Place,
    pub(super) root: PathBuf,
    pub(super) options: Options,
}

impl Snapshot {
    /// Returns the git id of the tree.
    pub const fn id(&self) -> &ObjectId {
        &self.manifest.tree
    }

    /// Returns the source for a job spec.
    pub fn source(&self) -> Source {
        Source::Snapshot {
            id: self.manifest.tree.to_string(),
            project: self.manifest.project.clone(),
            directory: self.directory.clone(),
            head: self.manifest.head.as_ref().map(|head| head.commit.to_string()),
            manifest: Some(record::key(&self.manifest).to_string()),
        }
    }

    /// Returns the description for a result, with a limited number of paths and notes.
    pub fn info(&self) -> SnapshotInfo {
        let first = |paths: &[String]| paths.iter().take(PATHS_TOLD_MAX).cloned().collect();
        let lists = [
            (&self.kept_back, "kept back"),
            (&self.left_behind, "left behind"),
            (&self.changed_meanwhile, "changed meanwhile"),
        ];
        let more = lists.into_iter().filter(|(paths, _)| paths.len() > PATHS_TOLD_MAX).map(|(paths, how)| {
            format!("{how}: {} files; the first {PATHS_TOLD_MAX} are listed", paths.len())
        });
        SnapshotInfo {
            id: self.manifest.tree.to_string(),
            files: self.manifest.files,
            kept_back: first(&self.kept_back),
            left_behind: first(&self.left_behind),
            setup_suggestion: self.setup_suggestion.clone(),
            changed_meanwhile: first(&self.changed_meanwhile),
            notes: more.chain(self.notes.iter().cloned()).take(NOTES_TOLD_MAX).collect(),
        }
    }

    /// Returns warnings for the submitter, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.kept_back.is_empty() {
            warnings.push(format!(
                "kept back because they look like secrets and are not committed like that: {} (--allow-secrets sends them)",
                some_of(&self.kept_back)
            ));
        }
        if !self.changed_meanwhile.is_empty() {
            warnings.push(format!(
                "changed again and again while the snapshot was taken, so it may not be of one moment: {}",
                some_of(&self.changed_meanwhile)
            ));
        }
        warnings.extend(self.notes.iter().cloned());
        warnings
    }

    /// Finds files that exist here but not in the snapshot.
    fn look_for_missing(&mut self) -> Result<(), GitError> {
        let id = &self.manifest.tree;
        let tree = not_sent::Tree { git: &self.git, place: &self.place, id, root: &self.root };
        let mut missing = tree.absent_directories(&self.top, "")?;
        if !self.directory.is_empty() {
            missing.extend(tree.absent_directories(&self.top, &self.directory)?);
        }
        // Directories of secrets are listed separately.
        let is_secret = |path: &String| self.kept_back.iter().any(|kept| Path::new(kept).starts_with(path));
        missing.retain(|path| !is_secret(path));
        if self.setup.is_none() {
            self.setup_suggestion = suggested_setup(&self.top, &self.directory, &missing);
        }
        missing.extend(tree.pointers_and_links()?);
        self.left_behind = missing;
        Ok(())
    }
}

/// Takes a snapshot. Blocks: it reads files and waits for git.
///
/// # Errors
/// [`SnapshotError`]. Files of the user are not changed in any case.
pub fn take(options: &Options) -> Result<Snapshot, SnapshotError> {
    let mut snapshot = take_from(options, false)?;
    let configuration = Configuration::load(&snapshot.top.join(&snapshot.directory));
    snapshot.setup = configured_setup(&configuration, &snapshot.top).map_err(SnapshotError::Configuration)?;
    if configuration.is_below(&snapshot.top) {
        snapshot.notes.extend(configuration.notes());
    }
    if let Err(error) = snapshot.look_for_missing() {
        snapshot.notes.push(format!("files that stayed behind could not be listed: {error}"));
    }
    Ok(snapshot)
}

/// Takes a snapshot. `begins_anew` ignores the stored state of earlier calls.
pub(super) fn take_from(options: &Options, begins_anew: bool) -> Result<Snapshot, SnapshotError> {
    let git = Git::find()?;
    let directory = fs::canonicalize(&options.directory)
        .and_then(|path| fs::read_dir(&path).map(|_| path))
        .map_err(|source| SnapshotError::Directory { path: options.directory.clone(), source })?;
    let caches = match &options.cache {
        Some(path) => path.clone(),
        None => directories::caches().ok_or(SnapshotError::NoCacheDirectory)?.join("snapshots"),
    };
    let repository = Repository::find(&git, &directory)?;
    store::remove_idle(&caches, SystemTime::now());
    let top = fs::canonicalize(&repository.top)
        .map_err(|source| SnapshotError::Directory { path: repository.top.clone(), source })?;
    let inside = directory.strip_prefix(&top).unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let call = SnapshotTask { git, repository, caches, inside, top, options: options.clone() };
    match &options.commit {
        Some(name) => call.commit(name),
        None => {
            let rules = Rules { allow_secrets: options.allow_secrets, guard_bytes: options.guard_bytes };
            call.files(&rules, begins_anew)
        }
    }
}

/// Lists the first of these paths, escaped.
fn some_of(paths: &[String]) -> String {
    let more = paths.len().saturating_sub(NAMED_MAX);
    let harmless = |path: &String| {
        let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        path.chars().map(escaped).collect::<String>()
    };
    let shown = paths[..paths.len() - more].iter().map(harmless).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

struct SnapshotTask {
    git: Git,
    repository: Repository,
    caches: PathBuf,
    inside: String,
    top: PathBuf,
    options: Options,
}

impl SnapshotTask {
    fn files(self, rules: &Rules, begins_anew: bool) -> Result<Snapshot, SnapshotError> {
        let mut builder = SnapshotBuilder::new(&self.git, &self.caches, rules, begins_anew);
        let mut result = builder.take(&self.repository, b"", 1);
        if result.is_err() && builder.is_damaged && !begins_anew {
            builder = SnapshotBuilder::new(&self.git, &self.caches, rules, true);
            result = builder.take(&self.repository, b"", 1);
        }
        let (taken, store) = result?;
        let mut notes = builder.notes;
        let excludes = builder.excludes.text(&mut notes);
        let mut state = store.state();
        let refs = self.repository.user.as_ref().and_then(|user| user.refs.clone());
        // New or removed tags can change the history that the same commit needs.
        let known = state.described_head.take().filter(|_| refs.is_some() && state.refs == refs);
        state.described_head = head::head(&self.git, &self.repository, &store, known)?;
        state.refs = refs;
        store.write_state(&state)?;
        notes.extend(state.described_head.iter().filter_map(|described_head| described_head.note.clone()));
        let head = state.described_head.map(|described_head| described_head.head);
        let head = match head {
            Some(head) if self.is_partial() => self.if_whole(head, &taken.tree, &store, &mut notes)?,
            head => head,
        };
        let manifest = Manifest {
            project: self.repository.project(),
            tree: taken.tree,
            head,
            excludes,
            left_behind: taken.left_behind,
            files: taken.files,
            bytes: taken.bytes,
        };
        let text = |paths: Vec<Vec<u8>>| -> Vec<String> {
            paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
        };
        if !taken.closed.is_empty() {
            notes.push(format!(
                "stayed behind because this user can't read these directories: {} (list them in .buildpoolignore to hide this note)",
                some_of(&text(taken.closed))
            ));
        }
        let refused = text(taken.refused);
        if !refused.is_empty() {
            notes.push(format!(
                "stayed behind because git accepts no file with such a name (`.git` on some platform, or a link in place of its files): {}",
                some_of(&refused)
            ));
        }
        Ok(Snapshot {
            kept_back: text(taken.kept_back),
            changed_meanwhile: text(taken.changed_meanwhile),
            ..self.into_snapshot(manifest, &store, notes)
        })
    }

    fn into_snapshot(self, manifest: Manifest, store: &store::Store, notes: Vec<String>) -> Snapshot {
        Snapshot {
            manifest,
            directory: self.inside,
            top: self.top,
            kept_back: Vec::new(),
            changed_meanwhile: Vec::new(),
            left_behind: Vec::new(),
            setup: None,
            setup_suggestion: None,
            notes,
            place: store.reading_place(),
            root: store.root().to_owned(),
            git: self.git,
            options: self.options,
        }
    }

    fn is_partial(&self) -> bool {
        self.repository.user.as_ref().is_some_and(|user| user.is_partial)
    }

    /// Returns the head if all of its files are available. A partial clone may lack some of them.
    fn if_whole(
        &self,
        head: Head,
        tree: &ObjectId,
        store: &store::Store,
        notes: &mut Vec<String>,
    ) -> Result<Option<Head>, SnapshotError> {
        let absent = pack::count_absent(&self.git, &store.reading_place(), Some(tree), &head.tree)?;
        if absent == 0 {
            return Ok(Some(head));
        }
        notes.push(format!(
            "this clone is partial (--filter), and {absent} files or directories of its commit are not in it: the files travel, the commit does not, so git in the workspace has no commit"
        ));
        Ok(None)
    }

    fn commit(self, name: &str) -> Result<Snapshot, SnapshotError> {
        let Some(user) = &self.repository.user else {
            return Err(SnapshotError::NoRepository { path: self.top });
        };
        let unknown = || SnapshotError::UnknownRef { name: name.to_owned() };
        let id = |kind: &str| {
            let name = format!("{name}^{{{kind}}}");
            let call = self.git.run_as_user(&user.place(&self.repository.top));
            let text = call.args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).text();
            text.ok().and_then(|text| text.parse::<ObjectId>().ok()).ok_or_else(unknown)
        };
        let (commit, tree) = (id("commit")?, id("tree")?);
        let store = store::Store::open(&self.caches, &self.repository)?;
        let place = store.reading_place();
        if self.is_partial() {
            let count = pack::count_absent(&self.git, &place, None, &tree)?;
            if count > 0 {
                return Err(SnapshotError::Partial { name: name.to_owned(), count });
            }
        }
        let listed = self.git.run(&place).args(["ls-tree", "-r", "-l", "-z", tree.as_str()]).output()?;
        let (mut files, mut bytes, mut notes) = (0, 0_u64, Vec::new());
        for line in split_nul(&listed) {
            let text = String::from_utf8_lossy(line);
            let (facts, path) = text.split_once('\t').unwrap_or_default();
            if facts.starts_with("160000") {
                notes
                    .push(format!("the submodule {path} is not part of a commit, so its directory is empty"));
            } else {
                files += 1;
                bytes += facts.rsplit(' ').next().and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        let described_head =
            head::of_commit(&self.git, &self.repository, &store, (commit, tree.clone()), None)?;
        notes.extend(described_head.note);
        let mut excludes = Excludes::default();
        excludes.add(&self.repository, b"");
        let manifest = Manifest {
            project: self.repository.project(),
            tree,
            head: Some(described_head.head),
            excludes: excludes.text(&mut notes),
            left_behind: Vec::new(),
            files,
            bytes,
        };
        Ok(self.into_snapshot(manifest, &store, notes))
    }
}
