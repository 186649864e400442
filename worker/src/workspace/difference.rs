//! The difference between the current tree of a checkout and the requested one. The work depends on
//! this difference, and not on the number of files.

use super::error::WorkspaceError;
use super::names::{self, Disk};
use buildpool_objects::GitError;
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::git::split_nul;
use buildpool_protocol::transfer::ObjectId;
use std::collections::HashSet;

/// The difference of two trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    /// The current tree.
    pub(super) before: ObjectId,
    /// The requested tree.
    pub(super) after: ObjectId,
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    /// Old mode, or 0 for a new entry.
    mode_before: u32,
    /// New mode, or 0 for a removed entry.
    mode: u32,
    /// New object id.
    id: String,
    path: Vec<u8>,
}

impl Entry {
    const fn is_added(&self) -> bool {
        self.mode_before == 0
    }

    /// Returns true for a directory that stays a directory.
    const fn is_a_directory(&self) -> bool {
        self.mode_before == DIRECTORY && self.mode == DIRECTORY
    }

    /// Returns true for a regular file that stays one, with another content or mode.
    const fn is_a_changed_file(&self) -> bool {
        self.mode_before & 0o170_000 == 0o100_000 && self.mode & 0o170_000 == 0o100_000
    }
}

/// Limit on the files passed to git by name, because git compares each name with all its own.
const NAMED_FILES_MAX: usize = 200;
/// Mode of a directory.
const DIRECTORY: u32 = 0o040_000;

impl Difference {
    /// Computes the difference. The cache must contain both trees.
    pub(super) fn between(
        cache: &ObjectCache,
        before: &ObjectId,
        after: &ObjectId,
    ) -> Result<Self, GitError> {
        let (before, after) = (before.clone(), after.clone());
        if before == after {
            return Ok(Self { before, after, entries: Vec::new() });
        }
        let trees = [before.as_str(), after.as_str()];
        let arguments = ["diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev"];
        let output = cache.git().run(&cache.place()).args(arguments.iter().chain(&trees)).output()?;
        let entries = parse(&output).ok_or_else(|| GitError::Unexpected {
            command: "diff-tree".into(),
            problem: "a line that is not a difference".into(),
        })?;
        Ok(Self { before, after, entries })
    }

    /// Returns true if the trees are equal.
    pub(super) fn is_empty(&self) -> bool {
        self.before == self.after
    }

    /// Returns the names of the changed files, each followed by NUL. Returns `None` unless only
    /// content or mode of a few files differ.
    pub(super) fn changed_files(&self) -> Option<Vec<u8>> {
        let files: Vec<&Entry> = self.entries.iter().filter(|entry| !entry.is_a_directory()).collect();
        let is_simple = files.len() <= NAMED_FILES_MAX
            && files.iter().all(|entry| entry.is_a_changed_file())
            && self.entries.iter().all(|entry| !entry.is_added());
        is_simple.then(|| files.iter().flat_map(|entry| [entry.path.as_slice(), b"\0"].concat()).collect())
    }

    /// Returns the new files, each followed by NUL, that these names match. A name with a trailing
    /// `/` matches a directory.
    pub(super) fn added_among(&self, names: &[String]) -> Vec<u8> {
        let names: HashSet<&[u8]> = names.iter().map(String::as_bytes).collect();
        let is_named = |path: &[u8]| {
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
            names.contains(path) || ends.into_iter().any(|end| names.contains(&path[..=end]))
        };
        let added = self.entries.iter().filter(|entry| entry.is_added() && entry.mode != DIRECTORY);
        added
            .filter(|entry| is_named(&entry.path))
            .flat_map(|entry| [entry.path.as_slice(), b"\0"].concat())
            .collect()
    }

    /// Returns the changes of an index from the old to the new tree, in the format of `git
    /// update-index -z --index-info`.
    pub(super) fn index_lines(&self) -> Vec<u8> {
        let files =
            self.entries.iter().filter(|entry| entry.mode != DIRECTORY && entry.mode_before != DIRECTORY);
        files
            .flat_map(|entry| {
                [format!("{:o} {}\t", entry.mode, entry.id).as_bytes(), &entry.path, b"\0"].concat()
            })
            .collect()
    }

    /// Returns true if the rules for ignored files may have changed.
    pub(super) fn changes_ignore_rules(&self) -> bool {
        self.entries.iter().any(|entry| {
            let name = entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            name.eq_ignore_ascii_case(b".gitignore")
        })
    }

    /// Checks the new names on this disk. Unchanged names were checked earlier.
    pub(super) fn check_names(&self, cache: &ObjectCache, disk: Disk) -> Result<(), WorkspaceError> {
        if (disk.ignores_case || disk.ignores_form) && self.entries.iter().any(Entry::is_added) {
            // A new name may equal an old one in different case or Unicode normalization.
            return check_all_names(cache, &self.after, disk);
        }
        let present = self.entries.iter().filter(|entry| entry.mode != 0);
        names::check(present.map(|entry| (entry.mode, entry.path.as_slice())), disk)
            .map_err(WorkspaceError::Names)
    }
}

/// Parses lines of `:100644 100755 ID ID M`, each followed by a path.
fn parse(output: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut fields = split_nul(output);
    while let Some(facts) = fields.next() {
        let path = fields.next()?.to_vec();
        let facts: Vec<&str> = std::str::from_utf8(facts).ok()?.split(' ').collect();
        let [mode_before, mode, _, id, _] = facts.as_slice() else { return None };
        let octal = |mode: &str| u32::from_str_radix(mode, 8).ok();
        let mode_before = octal(mode_before.strip_prefix(':')?)?;
        entries.push(Entry { mode_before, mode: octal(mode)?, id: (*id).to_owned(), path });
    }
    Some(entries)
}

/// Checks the names of a whole tree.
pub(super) fn check_all_names(
    cache: &ObjectCache,
    tree: &ObjectId,
    disk: Disk,
) -> Result<(), WorkspaceError> {
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

#[cfg(test)]
mod tests {
    use super::{DIRECTORY, Difference, Entry, NAMED_FILES_MAX, parse};

    fn difference(paths: &[&str]) -> Difference {
        let entry = |path: &&str| Entry {
            mode_before: 0o100_644,
            mode: 0o100_755,
            id: "3".repeat(40),
            path: path.as_bytes().to_vec(),
        };
        let tree = |digit: &str| digit.repeat(40).parse().unwrap();
        Difference { before: tree("1"), after: tree("2"), entries: paths.iter().map(entry).collect() }
    }

    #[test]
    fn lines_are_read_with_what_is_gone_and_what_is_new() {
        let id = "0".repeat(40);
        let text = format!(":100644 000000 {id} {id} D\0a b\0:000000 040000 {id} {id} A\0\u{e4}\nc\0");
        let entries = parse(text.as_bytes()).unwrap();
        let entry =
            |mode_before, mode, path: &str| Entry { mode_before, mode, id: id.clone(), path: path.into() };
        assert_eq!(entries[0], entry(0o100_644, 0, "a b"));
        assert_eq!(entries[1], entry(0, 0o040_000, "\u{e4}\nc"));
        assert_eq!(parse(b":100644 000000\0a\0"), None);
        assert_eq!(parse(format!(":100644 000000 {id} {id} D\0").as_bytes()), None);
    }

    #[test]
    fn a_few_changed_files_are_named_and_everything_else_is_for_whole_trees() {
        assert_eq!(difference(&["a", "b c"]).changed_files().as_deref(), Some(b"a\0b c\0".as_slice()));
        let mut other = difference(&["a", "d"]);
        other.entries[1].mode = DIRECTORY;
        other.entries[1].mode_before = DIRECTORY;
        assert_eq!(other.changed_files().as_deref(), Some(b"a\0".as_slice()));
        let line = format!("100755 {}\ta\0", "3".repeat(40));
        assert_eq!(other.index_lines(), line.as_bytes());
        for (before, after) in
            [(0, 0o100_644), (0o100_644, 0), (0o120_000, 0o100_644), (0o100_644, DIRECTORY), (0, DIRECTORY)]
        {
            let mut other = difference(&["a", "b"]);
            (other.entries[1].mode_before, other.entries[1].mode) = (before, after);
            assert_eq!(other.changed_files(), None, "{before:o} {after:o}");
        }
        assert_eq!(difference(&["a"; NAMED_FILES_MAX + 1]).changed_files(), None);
    }

    #[test]
    fn files_that_stayed_behind_are_known_by_name_or_directory() {
        let mut added = difference(&["big/a", "bigger", "out/deep/b", "sub/c", "sub/d"]);
        added.entries.iter_mut().for_each(|entry| entry.mode_before = 0);
        let names = ["big/", "out/", "sub/d"].map(str::to_owned);
        assert_eq!(added.added_among(&names), b"big/a\0out/deep/b\0sub/d\0");
        added.entries[0].mode_before = 0o100_644;
        assert_eq!(added.added_among(&names), b"out/deep/b\0sub/d\0");
        assert_eq!(added.added_among(&[]), b"");
    }

    #[test]
    fn files_of_ignore_rules_are_known_in_every_directory() {
        assert!(!difference(&["a", "gitignore", ".gitignore.bak", ".gitignores/x"]).changes_ignore_rules());
        assert!(difference(&["a", ".gitignore"]).changes_ignore_rules());
        assert!(difference(&["a/b/.gitIgnore"]).changes_ignore_rules());
    }
}
