//! The `.git` directory of a workspace. `git rev-parse HEAD`, `git status`, `git diff` and `git
//! describe` give the same answers there as in the user's tree. Objects are read from the project's
//! cache, or from links to it. The worker's own index is elsewhere and determines the files, so
//! changes that a job makes to `.git` have no effect.

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

/// Entries that may stay from an earlier job: directory, files in it, directories in it. All of
/// them are updated. All other entries are removed: hooks, attributes, grafts, refs, merge states,
/// objects and their caches.
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

/// State of the checkout, for writing `.git`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckoutFacts<'a> {
    /// The worker's own index of the files.
    pub(super) index: &'a Path,
    /// True if the files, or the left-behind paths, differ from the previous job.
    pub(super) has_changed: bool,
    /// Checksum of the index in `.git` as written for the previous job.
    pub(super) visible_index: Option<&'a Checksum>,
    /// Properties of its disk.
    pub(super) disk: Disk,
}

/// Creates or updates the `.git` directory. Files with unchanged content are not written again,
/// because builds check their times. Returns the checksum of its index.
pub(super) fn write(
    root: &Path,
    facts: CheckoutFacts<'_>,
    cache: &ObjectCache,
    objects: &Path,
    manifest: &Manifest,
) -> Result<Option<Checksum>, WorkspaceError> {
    let own = root.join(".git");
    clear(&own, facts.disk)?;
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
    let may_stay = !facts.has_changed && is_same_head && found.is_some();
    if may_stay && found.as_ref() == facts.visible_index {
        return Ok(found);
    }
    write_index(&own, facts.index, cache, manifest, may_stay)?;
    Ok(checksum())
}

/// Removes entries that a job may have left. Removes the whole directory if an entry has an
/// unexpected type or is unreadable.
fn clear(own: &Path, disk: Disk) -> Result<(), WorkspaceError> {
    let is_odd = |metadata: &fs::Metadata| {
        !metadata.is_dir() || metadata.permissions().mode() & 0o700 != 0o700 || disk.is_anothers(metadata)
    };
    for (directory, files, directories) in KEPT {
        // A name with a trailing `/` would follow a link.
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
    // git requires them sorted by name.
    let mut lines: Vec<&str> = refs.lines().collect();
    lines.sort_by_key(|line| line.split_once(' ').map(|(_, name)| name));
    let refs: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    write_if_different(&own.join("packed-refs"), refs.as_bytes())?;
    let shallow: String = head.shallow.iter().map(|commit| format!("{commit}\n")).collect();
    write_if_different(&own.join("shallow"), shallow.as_bytes())?;
    write_if_different(&own.join("HEAD"), name.as_bytes())?;
    Ok(())
}

/// Writes the index. All differences from the commit appear as unstaged, because staged changes are
/// not transferred. The index is the worker's own, with the commit's entries for files that differ.
/// Other entries keep git's cached metadata. An existing index stays if it has the same entries and
/// may stay. Then a job only made git refresh it.
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

/// Returns the entries of an index with their flags, or `None` for an unreadable index.
fn says(cache: &ObjectCache, index: &Path) -> Result<Option<Vec<u8>>, WorkspaceError> {
    let place = Place { index: Some(index.to_owned()), ..cache.place() };
    match cache.git().run(&place).args(["ls-files", "-s", "-v", "-z"]).output() {
        Err(GitError::Failed { .. }) => Ok(None),
        listed => Ok(Some(listed?)),
    }
}
