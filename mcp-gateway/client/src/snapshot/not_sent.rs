//! Finds files that exist on this machine but not in the snapshot: ignored directories, content of
//! LFS pointers, and targets of links outside the tree. The result of a job can list them if it
//! fails because of one.

use buildpool_objects::directory::write_if_different;
use buildpool_objects::git::split_nul;
use buildpool_objects::{Git, GitError, Place};
use buildpool_protocol::transfer::ObjectId;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path};

/// Limit on entries that are read from a directory.
const ENTRIES_MAX: usize = 10_000;
/// Limit on links that are read from a tree.
const LINKS_MAX: usize = 10_000;
/// Limit on files that are read because they are as short as an LFS pointer.
const POINTERS_MAX: usize = 5_000;
/// Limit on returned entries.
const FOUND_MAX: usize = 10_000;
/// An LFS pointer has fewer bytes than this (git-lfs, `docs/spec.md`).
const POINTER_BYTES_MAX: u64 = 1024;
/// Prefix of an LFS pointer (git-lfs, `docs/spec.md`).
const POINTER_BEGINS: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Name of the cache file.
const CACHE: &str = "not-sent.json";

/// Pointers and links of one tree. They depend only on the tree.
#[derive(Default, Serialize, Deserialize)]
struct Cached {
    tree: String,
    found: Vec<String>,
}

/// A tree and the means to read its objects.
pub(super) struct Tree<'a> {
    pub(super) git: &'a Git,
    pub(super) place: &'a Place,
    pub(super) id: &'a ObjectId,
    /// Directory of the cache file.
    pub(super) root: &'a Path,
}

impl Tree<'_> {
    /// Returns LFS pointers and outward links. Uses the cache if the tree is the same as in the
    /// last call.
    ///
    /// # Errors
    /// If git can't read the tree.
    pub(super) fn pointers_and_links(&self) -> Result<Vec<String>, GitError> {
        let file = self.root.join(CACHE);
        let cached: Cached =
            fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        if cached.tree == self.id.as_str() {
            return Ok(cached.found);
        }
        let found = self.look()?;
        let cached = Cached { tree: self.id.to_string(), found };
        let text = serde_json::to_vec(&cached).unwrap_or_default();
        // Without the file, the next call reads the tree again.
        let _ = write_if_different(&file, &text);
        Ok(cached.found)
    }

    /// Returns directories in `inside` (relative, empty for the top) that exist on disk below `top`
    /// but not in the tree. Empty directories are ignored.
    ///
    /// # Errors
    /// If git can't read the tree.
    pub(super) fn absent_directories(&self, top: &Path, inside: &str) -> Result<Vec<String>, GitError> {
        let listed = match inside {
            "" => self.run(&["ls-tree", "--name-only", "-z", self.id.as_str()])?,
            inside => {
                let directory = format!("{}/", inside.trim_end_matches('/'));
                self.run(&[
                    "--literal-pathspecs",
                    "ls-tree",
                    "--name-only",
                    "-z",
                    self.id.as_str(),
                    "--",
                    &directory,
                ])?
            }
        };
        let last = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let sent: HashSet<Vec<u8>> = split_nul(&listed).map(last).collect();
        let directory = top.join(inside);
        let mut absent: Vec<String> = fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .take(ENTRIES_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name != ".git" && !sent.contains(name.as_bytes()))
            .filter(|name| has_entries(&directory.join(name)))
            .map(|name| Path::new(inside).join(name).to_string_lossy().into_owned())
            .collect();
        absent.sort_unstable();
        Ok(absent)
    }

    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        self.git.run(self.place).args(arguments).output()
    }

    fn look(&self) -> Result<Vec<String>, GitError> {
        let listed = self.run(&["ls-tree", "-r", "-z", self.id.as_str()])?;
        let blobs: Vec<Blob<'_>> = split_nul(&listed).filter_map(Blob::read).collect();
        let mut found = self.pointers(&blobs)?;
        let links: Vec<&Blob<'_>> =
            blobs.iter().filter(|blob| blob.mode == "120000").take(LINKS_MAX).collect();
        let targets = self.contents(links.iter().map(|link| link.id))?;
        for (link, target) in links.iter().zip(targets) {
            let target = String::from_utf8_lossy(&target).into_owned();
            if leads_out(link.path, &target) {
                found.push(format!("{} -> {target}", link.path));
            }
        }
        found.truncate(FOUND_MAX);
        Ok(found)
    }

    /// Returns the LFS pointers. Only a project with the filter in its attributes has any.
    fn pointers(&self, blobs: &[Blob<'_>]) -> Result<Vec<String>, GitError> {
        let is_attributes =
            |blob: &&Blob<'_>| blob.path == ".gitattributes" || blob.path.ends_with("/.gitattributes");
        let attributes =
            self.contents(blobs.iter().filter(is_attributes).take(LINKS_MAX).map(|blob| blob.id))?;
        if !attributes.iter().any(|text| contains(text, b"filter=lfs")) {
            return Ok(Vec::new());
        }
        let ids = blobs.iter().flat_map(|blob| [blob.id, "\n"]).collect::<String>().into_bytes();
        let call = self.git.run(self.place).args(["cat-file", "--batch-check=%(objectsize)"]).input(ids);
        let sizes = call.output()?;
        let sizes = sizes.split(|byte| *byte == b'\n').map(|line| {
            std::str::from_utf8(line).ok().and_then(|size| size.parse::<u64>().ok()).unwrap_or(u64::MAX)
        });
        let short: Vec<&Blob<'_>> = blobs
            .iter()
            .zip(sizes)
            .filter(|(blob, size)| blob.mode != "120000" && *size < POINTER_BYTES_MAX)
            .map(|(blob, _)| blob)
            .take(POINTERS_MAX)
            .collect();
        let texts = self.contents(short.iter().map(|blob| blob.id))?;
        let pointers = short.iter().zip(texts).filter(|(_, text)| text.starts_with(POINTER_BEGINS));
        Ok(pointers.map(|(blob, _)| format!("{} (LFS pointer)", blob.path)).collect())
    }

    /// Returns the contents of these blobs, in order; empty for a missing one.
    fn contents<'b>(&self, ids: impl Iterator<Item = &'b str>) -> Result<Vec<Vec<u8>>, GitError> {
        let ids: Vec<&str> = ids.collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let input = ids.iter().flat_map(|id| [*id, "\n"]).collect::<String>().into_bytes();
        let output = self.git.run(self.place).args(["cat-file", "--batch"]).input(input).output()?;
        let mut rest = output.as_slice();
        Ok(ids.iter().map(|_| next_content(&mut rest).unwrap_or_default()).collect())
    }
}

/// Removes the next entry from the output of `git cat-file --batch` (git-cat-file(1), "BATCH
/// OUTPUT").
fn next_content(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, after) = (&rest[..end], &rest[end + 1..]);
    let size = std::str::from_utf8(line).ok()?.rsplit(' ').next()?.parse::<usize>().ok();
    let Some(size) = size.filter(|size| *size < after.len()) else {
        *rest = after;
        return None;
    };
    *rest = &after[size + 1..];
    Some(after[..size].to_vec())
}

/// A line of `git ls-tree -r`.
struct Blob<'a> {
    mode: &'a str,
    id: &'a str,
    path: &'a str,
}

impl<'a> Blob<'a> {
    /// Parses a line. Returns `None` for a submodule, and for a path that is not UTF-8.
    fn read(line: &'a [u8]) -> Option<Self> {
        let (facts, path) = std::str::from_utf8(line).ok()?.split_once('\t')?;
        let mut facts = facts.split(' ');
        let (mode, kind, id) = (facts.next()?, facts.next()?, facts.next()?);
        (kind == "blob").then_some(Self { mode, id, path })
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Returns true if it is a directory, or a link to one, with at least one entry.
fn has_entries(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// Returns true if a link leads out of the tree. An absolute target is never in a workspace.
fn leads_out(link: &str, target: &str) -> bool {
    let mut depth = Path::new(link).components().count() as i64 - 1;
    for part in Path::new(target).components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{leads_out, next_content};

    #[test]
    fn links_out_of_the_tree_are_told_from_links_inside() {
        for (link, target, expected) in [
            ("a", "b", false),
            ("a", "../b", true),
            ("d/a", "../b", false),
            ("d/a", "../../b", true),
            ("d/a", "../../d/b", true),
            ("d/a", "x/../../b", false),
            ("a", "/usr/lib", true),
            ("a", "./b", false),
        ] {
            assert_eq!(leads_out(link, target), expected, "{link} -> {target}");
        }
    }

    #[test]
    fn contents_are_read_by_their_length() {
        let mut rest: &[u8] = b"aa blob 3\nx\ny\nbb missing\ncc blob 0\n\n";
        let all: Vec<_> = (0..4).map(|_| next_content(&mut rest)).collect();
        assert_eq!(all, [Some(b"x\ny".to_vec()), None, Some(Vec::new()), None]);
    }
}
