//! What differs between the tree that a checkout has and the one that is wanted: as much work as that, and no more, is to be
//! done, however many files there are.

use super::error::WorkspaceError;
use super::names::{self, Disk};
use buildpool_objects::GitError;
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::git::split_nul;
use buildpool_protocol::transfer::ObjectId;

/// The difference of two trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    /// What is laid out.
    pub(super) before: ObjectId,
    /// What is wanted.
    pub(super) after: ObjectId,
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    /// 0 where it is not any more.
    mode: u32,
    is_added: bool,
    path: Vec<u8>,
}

impl Difference {
    /// Asks for it; the cache has both.
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
            what: "a line that is no difference".into(),
        })?;
        Ok(Self { before, after, entries })
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.before == self.after
    }

    /// Whether what is ignored may be something else than before.
    pub(super) fn changes_ignore_rules(&self) -> bool {
        self.entries.iter().any(|entry| {
            let name = entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            name.eq_ignore_ascii_case(b".gitignore")
        })
    }

    /// Checks the names that are new on this disk; those that were there were checked then.
    pub(super) fn check_names(&self, cache: &ObjectCache, disk: Disk) -> Result<(), WorkspaceError> {
        if disk.ignores_case && self.entries.iter().any(|entry| entry.is_added) {
            // A new name may be an old one in other letters.
            return check_all_names(cache, &self.after, disk);
        }
        let present = self.entries.iter().filter(|entry| entry.mode != 0);
        names::check(present.map(|entry| (entry.mode, entry.path.as_slice())), disk)
            .map_err(WorkspaceError::Names)
    }
}

/// Lines of `:100644 100755 ID ID M`, each followed by a path.
fn parse(output: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut fields = split_nul(output);
    while let Some(facts) = fields.next() {
        let path = fields.next()?.to_vec();
        let facts: Vec<&str> = std::str::from_utf8(facts).ok()?.split(' ').collect();
        let [_, mode, _, _, status] = facts.as_slice() else { return None };
        let mode = u32::from_str_radix(mode, 8).ok()?;
        entries.push(Entry { mode, is_added: *status == "A", path });
    }
    Some(entries)
}

/// Checks a whole tree.
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
    use super::{Difference, Entry, parse};

    fn difference(paths: &[&str]) -> Difference {
        let entry = |path: &&str| Entry { mode: 0o100_644, is_added: true, path: path.as_bytes().to_vec() };
        let tree = |digit: &str| digit.repeat(40).parse().unwrap();
        Difference { before: tree("1"), after: tree("2"), entries: paths.iter().map(entry).collect() }
    }

    #[test]
    fn lines_are_read_with_what_is_gone_and_what_is_new() {
        let id = "0".repeat(40);
        let text = format!(":100644 000000 {id} {id} D\0a b\0:000000 040000 {id} {id} A\0\u{e4}\nc\0");
        let entries = parse(text.as_bytes()).unwrap();
        assert_eq!(entries[0], Entry { mode: 0, is_added: false, path: b"a b".to_vec() });
        assert_eq!(entries[1], Entry { mode: 0o040_000, is_added: true, path: "\u{e4}\nc".into() });
        assert_eq!(parse(b":100644 000000\0a\0"), None);
        assert_eq!(parse(format!(":100644 000000 {id} {id} D\0").as_bytes()), None);
    }

    #[test]
    fn files_of_ignore_rules_are_known_in_every_directory() {
        assert!(!difference(&["a", "gitignore", ".gitignore.bak", ".gitignores/x"]).changes_ignore_rules());
        assert!(difference(&["a", ".gitignore"]).changes_ignore_rules());
        assert!(difference(&["a/b/.gitIgnore"]).changes_ignore_rules());
    }
}
