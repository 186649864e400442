//! The files of one directory, for tool detection.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Maximum size of a file that detection reads, in bytes. A larger file counts as present, but its
/// text as unknown.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Limit on the entries of a directory that detection reads.
const ENTRIES_MAX: usize = 10_000;

/// A directory and the names of its entries.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    path: &'a Path,
    names: BTreeSet<String>,
}

impl<'a> Directory<'a> {
    /// Reads the names of the entries. An unreadable directory counts as empty.
    pub(super) fn read(path: &'a Path) -> Self {
        let names = fs::read_dir(path).into_iter().flatten().flatten();
        let names =
            names.filter_map(|entry| entry.file_name().into_string().ok()).take(ENTRIES_MAX).collect();
        Self { path, names }
    }

    /// Returns true if the directory has this entry, of any kind. Accepts a path of several
    /// components.
    pub(super) fn has(&self, name: &str) -> bool {
        if name.contains('/') { self.path.join(name).exists() } else { self.names.contains(name) }
    }

    /// Returns the first of these names that is a regular file here.
    pub(super) fn first_file(&self, names: &[&str]) -> Option<String> {
        let is_file = |name: &&&str| self.has(name) && self.path.join(name).is_file();
        names.iter().find(is_file).map(|name| (*name).to_owned())
    }

    /// Returns the names that end in one of these suffixes, sorted.
    pub(super) fn ending_in(&self, suffixes: &[&str]) -> Vec<&str> {
        let fits = |name: &&str| suffixes.iter().any(|suffix| name.ends_with(suffix));
        self.names.iter().map(String::as_str).filter(fits).collect()
    }

    /// Returns the text of a regular file of at most [`FILE_BYTES_MAX`] bytes in UTF-8.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let path = self.path.join(name);
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return None;
        }
        fs::read_to_string(path).ok()
    }

    /// Returns the names of the entries of a subdirectory, sorted; empty if it can't be read.
    pub(super) fn entries_of(&self, name: &str) -> Vec<String> {
        Directory::read(&self.path.join(name)).names.into_iter().collect()
    }

    /// Returns the names of the entries.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
