//! What git answers from in a workspace: a `.git` of the workspace's own, so that `git rev-parse HEAD`, `git status`, `git
//! diff` and `git describe` say there what they say in the user's tree. Objects are read from the project's cache, or from links to it. Our
//! own index is elsewhere: whatever a job does to this one, the files are laid out by ours.

use super::checkout::{remove, unlock};
use super::difference::Difference;
use super::error::WorkspaceError;
use super::names::Disk;
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::directory::{write_alternates, write_if_different};
use buildpool_objects::incoming::checksum_of;
use buildpool_objects::{GitError, Place};
use buildpool_protocol::transfer::{Checksum, Head, Manifest};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What may stay from an earlier job: which files, and which directories, of which of them. All of it is brought up to date.
/// Everything else goes: hooks, attributes, grafts, refs, states of a merge, objects and what git notes of these.
const KEPT: &[(&str, &[&str], &[&str])] = &[
    ("", &["HEAD", "config", "index", "packed-refs", "shallow"], &["info", "objects", "refs"]),
    ("info", &["exclude"], &[]),
    ("objects", &[], &["info", "pack"]),
    ("objects/info", &["alternates"], &[]),
    ("objects/pack", &[], &[]),
    ("refs", &[], &["heads", "tags"]),
    ("refs/heads", &[], &[]),
    ("refs/tags", &[], &[]),
];

/// What is laid out, and how it is known to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Laid<'a> {
    /// Our own index of the files.
    pub(super) index: &'a Path,
    /// Whether other files are laid out, or stay behind, than for the job before.
    pub(super) is_moved: bool,
    /// Of the index in `.git` as it was written for the job before.
    pub(super) visible_index: Option<&'a Checksum>,
    /// Where it lies.
    pub(super) disk: Disk,
}

/// Writes it, or brings it up to date; files whose content stays are not written again, because builds look at their times. Gives
/// the checksum of the index in it.
pub(super) fn write(
    root: &Path,
    laid: Laid<'_>,
    cache: &ObjectCache,
    objects: &Path,
    manifest: &Manifest,
) -> Result<Option<Checksum>, WorkspaceError> {
    let own = root.join(".git");
    clear(&own, laid.disk)?;
    for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        fs::create_dir_all(own.join(part)).map_err(WorkspaceError::io("creating", own.join(part)))?;
    }
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogAllRefUpdates = true\n[gc]\n\tauto = 0\n[extensions]\n\tobjectFormat = {}\n",
        manifest.tree.format().name()
    );
    write_if_different(&own.join("config"), config.as_bytes())?;
    write_if_different(&own.join("info/exclude"), manifest.excludes.as_bytes())?;
    write_alternates(&own, &[objects])?;
    let before = fs::read(own.join("HEAD")).unwrap_or_default();
    let commit_before = fs::read(own.join("packed-refs")).unwrap_or_default();
    match &manifest.head {
        Some(head) => write_head(&own, head)?,
        None => {
            write_if_different(&own.join("HEAD"), b"ref: refs/heads/main\n")?;
            for name in ["packed-refs", "shallow"] {
                remove(&own.join(name))?;
            }
        }
    }
    let is_same_head = before == fs::read(own.join("HEAD")).unwrap_or_default()
        && commit_before == fs::read(own.join("packed-refs")).unwrap_or_default();
    let index = own.join("index");
    let checksum = || checksum_of(&index).ok().map(|(checksum, _)| checksum);
    let found = checksum();
    let may_stay = !laid.is_moved && is_same_head && found.is_some();
    if may_stay && found.as_ref() == laid.visible_index {
        return Ok(found);
    }
    write_index(&own, laid.index, cache, manifest, may_stay)?;
    Ok(checksum())
}

/// Removes what a job may have left, and all of it if something in it is not what it seems or can't be looked into.
fn clear(own: &Path, disk: Disk) -> Result<(), WorkspaceError> {
    let is_odd = |metadata: &fs::Metadata| {
        !metadata.is_dir() || metadata.permissions().mode() & 0o700 != 0o700 || disk.is_anothers(metadata)
    };
    for (directory, files, directories) in KEPT {
        // A name with `/` at the end would lead through a link.
        let directory = if directory.is_empty() { own.to_owned() } else { own.join(directory) };
        match fs::symlink_metadata(&directory) {
            Ok(metadata) if is_odd(&metadata) => return remove(own),
            Ok(_) => {}
            Err(_) => continue,
        }
        let entries = fs::read_dir(&directory).map_err(WorkspaceError::io("listing", &directory))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let kind = entry.file_type().map_err(WorkspaceError::io("looking at", entry.path()))?;
            let is_among = |names: &[&str]| name.to_str().is_some_and(|name| names.contains(&name));
            if !(kind.is_file() && is_among(files) || kind.is_dir() && is_among(directories)) {
                remove(&entry.path())?;
            }
        }
    }
    Ok(())
}

fn write_head(own: &Path, head: &Head) -> Result<(), WorkspaceError> {
    let (name, mut refs) = match &head.branch {
        Some(branch) => {
            (format!("ref: refs/heads/{branch}\n"), format!("{} refs/heads/{branch}\n", head.commit))
        }
        None => (format!("{}\n", head.commit), String::new()),
    };
    for tag in &head.tags {
        refs.push_str(&format!("{} refs/tags/{}\n", tag.object, tag.name));
    }
    // git wants them by name.
    let mut lines: Vec<&str> = refs.lines().collect();
    lines.sort_by_key(|line| line.split_once(' ').map(|(_, name)| name));
    let refs: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    write_if_different(&own.join("packed-refs"), refs.as_bytes())?;
    let shallow: String = head.shallow.iter().map(|commit| format!("{commit}\n")).collect();
    write_if_different(&own.join("shallow"), shallow.as_bytes())?;
    write_if_different(&own.join("HEAD"), name.as_bytes())?;
    Ok(())
}

/// Everything that differs from the commit is shown as not staged: what was staged stays behind. The index is ours with the
/// commit's entries in place of those that differ; the others keep what git knows of their files. One that is there and may stay does
/// where it says the same: then a job has only looked at the files, which git notes in it.
fn write_index(
    own: &Path,
    our_index: &Path,
    cache: &ObjectCache,
    manifest: &Manifest,
    may_stay: bool,
) -> Result<(), WorkspaceError> {
    let target = own.join("index");
    let Some(head) = &manifest.head else { return remove(&target) };
    let beside = our_index.with_extension("visible");
    unlock(&beside)?;
    let io = || GitError::io("copying the workspace's index");
    let modified = fs::metadata(our_index).and_then(|metadata| metadata.modified()).map_err(io())?;
    fs::copy(our_index, &beside).map_err(io())?;
    let copy = fs::File::options().write(true).open(&beside).map_err(io())?;
    copy.set_modified(modified).map_err(io())?;
    if head.tree != manifest.tree {
        let work_tree = own.parent().map(Path::to_owned);
        let place = Place { work_tree, index: Some(beside.clone()), ..cache.place() };
        let difference = Difference::between(cache, &manifest.tree, &head.tree)?;
        let lines = difference.index_lines();
        cache.git().run(&place).args(["update-index", "-z", "--index-info"]).input(lines).output()?;
        let left = difference.added_among(&manifest.left_behind);
        if !left.is_empty() {
            let arguments = ["update-index", "-z", "--skip-worktree", "--stdin"];
            cache.git().run(&place).args(arguments).input(left).output()?;
        }
    }
    if may_stay && says(cache, &target)? == says(cache, &beside)? {
        return remove(&beside);
    }
    fs::rename(&beside, &target).map_err(WorkspaceError::io("writing", &target))
}

/// The entries of an index, with what git was told of each; none of one that can't be read.
fn says(cache: &ObjectCache, index: &Path) -> Result<Option<Vec<u8>>, WorkspaceError> {
    let place = Place { index: Some(index.to_owned()), ..cache.place() };
    match cache.git().run(&place).args(["ls-files", "-s", "-v", "-z"]).output() {
        Err(GitError::Failed { .. }) => Ok(None),
        listed => Ok(Some(listed?)),
    }
}
