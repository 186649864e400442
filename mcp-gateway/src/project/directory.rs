//! The files of one directory, as far as tool detection reads them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Largest file that detection reads, in bytes. A larger file counts as present, and its text as unknown.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most entries of a directory that detection looks at.
const ENTRIES_MAX: usize = 10_000;

/// A directory and the names of its entries.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    path: &'a Path,
    names: BTreeSet<String>,
}

impl<'a> Directory<'a> {
    /// Reads the names of the entries. An unreadable directory has none.
    pub(super) fn read(path: &'a Path) -> Self {
        let names = fs::read_dir(path).into_iter().flatten().flatten();
        let names =
            names.filter_map(|entry| entry.file_name().into_string().ok()).take(ENTRIES_MAX).collect();
        Self { path, names }
    }

    /// Whether the directory has this entry, of any kind. Accepts a path of several components.
    pub(super) fn has(&self, name: &str) -> bool {
        if name.contains('/') { self.path.join(name).exists() } else { self.names.contains(name) }
    }

    /// The first of these names that is a regular file here.
    pub(super) fn first_file(&self, names: &[&str]) -> Option<String> {
        let is_file = |name: &&&str| self.has(name) && self.path.join(name).is_file();
        names.iter().find(is_file).map(|name| (*name).to_owned())
    }

    /// The names that end in one of these suffixes, sorted.
    pub(super) fn ending_in(&self, suffixes: &[&str]) -> Vec<&str> {
        let fits = |name: &&str| suffixes.iter().any(|suffix| name.ends_with(suffix));
        self.names.iter().map(String::as_str).filter(fits).collect()
    }

    /// The text of a regular file of at most [`FILE_BYTES_MAX`] bytes in UTF-8.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let path = self.path.join(name);
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
            return None;
        }
        fs::read_to_string(path).ok()
    }

    /// The names of the entries of a subdirectory, sorted; empty if it can't be read.
    pub(super) fn entries_of(&self, name: &str) -> Vec<String> {
        Directory::read(&self.path.join(name)).names.into_iter().collect()
    }

    /// The names of the entries.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
