//! What git answers from in a workspace: a `.git` of the workspace's own, so that `git rev-parse HEAD`, `git status`, `git
//! diff` and `git describe` say there what they say in the user's tree. Objects are read from the project's cache, or from links to it. Our
//! own index is elsewhere: whatever a job does to this one, the files are laid out by ours.

use super::checkout::remove;
use super::difference::Difference;
use super::error::WorkspaceError;
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::directory::{write_alternates, write_if_different};
use buildpool_objects::{GitError, Place};
use buildpool_protocol::transfer::{Head, Manifest};
use std::fs;
use std::path::Path;

/// What may stay in it from an earlier job. Everything else goes: hooks, configuration, refs, states of a merge.
const KEPT: &[&str] = &["HEAD", "config", "index", "info", "objects", "packed-refs", "refs", "shallow"];

/// Writes it, or brings it up to date; files whose content stays are not written again, because builds look at their times.
pub(super) fn write(
    root: &Path,
    our_index: &Path,
    cache: &ObjectCache,
    objects: &Path,
    manifest: &Manifest,
    is_moved: bool,
) -> Result<(), WorkspaceError> {
    let own = root.join(".git");
    clear(&own)?;
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
    if is_moved || !is_same_head || !own.join("index").exists() {
        write_index(&own, our_index, cache, manifest)?;
    }
    Ok(())
}

/// Removes what a job may have left, and all of it if something in it is not what it seems.
fn clear(own: &Path) -> Result<(), WorkspaceError> {
    let Ok(metadata) = fs::symlink_metadata(own) else { return Ok(()) };
    let is_odd = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let inner = ["info", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"];
    if !metadata.is_dir() || inner.iter().any(|part| is_odd(&own.join(part))) {
        return remove(own);
    }
    let entries = fs::read_dir(own).map_err(WorkspaceError::io("listing", own))?;
    for entry in entries.flatten() {
        let is_kept = entry.file_name().to_str().is_some_and(|name| KEPT.contains(&name));
        if !is_kept || is_odd(&entry.path()) {
            remove(&entry.path())?;
        }
    }
    let has_refs = walkdir::WalkDir::new(own.join("refs"))
        .into_iter()
        .flatten()
        .any(|entry| !entry.file_type().is_dir());
    if has_refs { remove(&own.join("refs")) } else { Ok(()) }
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
/// commit's entries in place of those that differ; the others keep what git knows of their files.
fn write_index(
    own: &Path,
    our_index: &Path,
    cache: &ObjectCache,
    manifest: &Manifest,
) -> Result<(), WorkspaceError> {
    let target = own.join("index");
    let Some(head) = &manifest.head else { return remove(&target) };
    let beside = our_index.with_extension("visible");
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
    fs::rename(&beside, &target).map_err(WorkspaceError::io("writing", &target))
}
