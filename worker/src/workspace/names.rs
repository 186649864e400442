//! Checks if this disk can store a tree without collisions or unsafe paths. Pure.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use unicode_normalization::UnicodeNormalization as _;

/// Properties of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Disk {
    /// `A` and `a` are the same file.
    pub(super) ignores_case: bool,
    /// `é` as one code point and as two code points is the same file.
    pub(super) ignores_form: bool,
    /// Names must be UTF-8.
    pub(super) utf8_only: bool,
    /// Limit on a path below the workspace, in bytes.
    pub(super) path_bytes_max: usize,
    /// Permissions of a new file.
    pub(super) file_mode: u32,
    /// Permissions of a new directory.
    pub(super) directory_mode: u32,
    /// Owner of files and directories. `None` if jobs run as separate users, because the owner
    /// changes.
    pub(super) owner: Option<u32>,
}

/// Limit on a name in a directory, in bytes, on Linux and APFS.
const NAME_BYTES_MAX: usize = 255;

/// A tree that cannot be stored on this disk.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{}` {fault}", .path.escape_debug())]
pub struct NameError {
    /// The path in git.
    pub path: String,
    /// The reason.
    pub fault: NameFault,
}

/// Reason why a path cannot be stored, as the predicate of a sentence about the path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameFault {
    /// It leads out of the workspace or into git's own files.
    #[error("leads out of the workspace or into git's own files; remove it from the tree")]
    Escapes,
    /// It is not UTF-8, which the disk requires.
    #[error("is not UTF-8, and this worker's disk stores only UTF-8 names; rename it")]
    NotText,
    /// It exceeds the disk's limit.
    #[error(
        "is too long for this worker's disk: a name may have {NAME_BYTES_MAX} bytes, and a path {path_bytes_max}; shorten it"
    )]
    TooLong {
        /// Limit on the whole path, in bytes.
        path_bytes_max: usize,
    },
    /// On this disk it is the same as another path.
    #[error(
        "and `{}` are one file on this worker's disk, which ignores case or Unicode normalization; label the job for a worker with a disk that distinguishes them",
        .0.escape_debug()
    )]
    SameAs(String),
    /// The tree contains it twice, which git never does.
    #[error("is in the tree twice; take the snapshot again")]
    Twice,
    /// An entry kind that no snapshot contains.
    #[error("has the mode {0:o}; valid are 100644, 100755, 120000, 40000 and 160000")]
    Mode(u32),
}

impl Disk {
    /// Returns true for a file of another user, for example of a container. The job cannot write
    /// it.
    pub(super) fn is_anothers(self, metadata: &Metadata) -> bool {
        self.owner.is_some_and(|owner| metadata.uid() != owner)
    }

    /// Returns the permissions that git gives a file.
    pub(super) const fn mode(self, is_executable: bool) -> u32 {
        if is_executable { self.directory_mode & 0o777 } else { self.file_mode }
    }

    /// Returns the key of a name: the disk treats names with equal keys as one file. Letters are
    /// compared as in APFS: with full case folding (`ß` is `SS`), after canonical decomposition
    /// (Apple File System Reference, `j_drec_hashed_key_t`).
    fn key(self, path: &str) -> String {
        let apart: String = if self.ignores_form { path.nfd().collect() } else { path.to_owned() };
        if !self.ignores_case {
            return apart;
        }
        let folded = apart.to_uppercase().to_lowercase();
        if self.ignores_form { folded.nfd().collect() } else { folded }
    }
}

/// Checks a tree's entries: all paths, directories and files, in git's order.
///
/// # Errors
/// The first entry that cannot be stored.
pub(super) fn check<'a>(entries: impl Iterator<Item = (u32, &'a [u8])>, disk: Disk) -> Result<(), NameError> {
    let mut folded: HashMap<String, &'a [u8]> = HashMap::new();
    let mut seen: HashSet<&'a [u8]> = HashSet::new();
    for (mode, path) in entries {
        let error = |fault| NameError { path: String::from_utf8_lossy(path).into_owned(), fault };
        if !matches!(mode, 0o100_644 | 0o100_755 | 0o120_000 | 0o040_000 | 0o160_000) {
            return Err(error(NameFault::Mode(mode)));
        }
        if path.is_empty() || path.contains(&0) || path.split(|byte| *byte == b'/').any(is_forbidden) {
            return Err(error(NameFault::Escapes));
        }
        let longest = path.split(|byte| *byte == b'/').map(<[u8]>::len).max().unwrap_or(0);
        if path.len() > disk.path_bytes_max || longest > NAME_BYTES_MAX {
            return Err(error(NameFault::TooLong { path_bytes_max: disk.path_bytes_max }));
        }
        let text = std::str::from_utf8(path);
        if disk.utf8_only && text.is_err() {
            return Err(error(NameFault::NotText));
        }
        if !seen.insert(path) {
            return Err(error(NameFault::Twice));
        }
        if disk.ignores_case || disk.ignores_form {
            let key = disk.key(&String::from_utf8_lossy(path));
            if let Some(other) = folded.insert(key, path) {
                return Err(error(NameFault::SameAs(String::from_utf8_lossy(other).into_owned())));
            }
        }
    }
    Ok(())
}

/// Returns true for unsafe names: the directory itself, its parent, and git's own directory in
/// every spelling that some disk accepts for it. These spellings include other case, code points
/// that HFS+ ignores, short names, and trailing dots and spaces.
fn is_forbidden(name: &[u8]) -> bool {
    if name.is_empty() || name == b"." || name == b".." {
        return true;
    }
    let text: String = String::from_utf8_lossy(name).chars().filter(|c| !is_ignored_by_hfs(*c)).collect();
    let text = text.to_lowercase();
    let text = text.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    text == ".git" || text == "git~1"
}

/// Returns true for code points that HFS+ ignores in comparisons, as listed in git's `utf8.c`.
fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{Disk, NameFault, check};

    const LINUX: Disk = Disk {
        ignores_case: false,
        ignores_form: false,
        utf8_only: false,
        path_bytes_max: 4000,
        file_mode: 0o644,
        directory_mode: 0o755,
        owner: None,
    };
    const MAC: Disk =
        Disk { ignores_case: true, ignores_form: true, utf8_only: true, path_bytes_max: 1000, ..LINUX };

    fn fault_of(paths: &[&[u8]], disk: Disk) -> Option<NameFault> {
        check(paths.iter().map(|path| (0o100_644, *path)), disk).err().map(|error| error.fault)
    }

    #[test]
    fn nothing_leads_out_or_into_git() {
        for path in [
            "..",
            "a/../b",
            "/etc/passwd",
            "a//b",
            "./a",
            ".git",
            ".git/hooks/post-checkout",
            "sub/.GIT/config",
            "GIT~1",
            ".g\u{200c}it",
            ".git.",
            ".git ",
            ".git::$INDEX_ALLOCATION",
            "",
        ] {
            assert_eq!(fault_of(&[path.as_bytes()], LINUX), Some(NameFault::Escapes), "{path:?}");
        }
        for path in ["..a", "a..", ".gitignore", ".github/x", "git", "a b", "ü", "con", "a\\b"] {
            assert_eq!(fault_of(&[path.as_bytes()], LINUX), None, "{path:?}");
        }
        assert_eq!(fault_of(&[b"a\0b"], LINUX), Some(NameFault::Escapes));
    }

    #[test]
    fn what_one_disk_takes_another_does_not() {
        assert_eq!(fault_of(&[b"Readme", b"README"], LINUX), None);
        assert_eq!(fault_of(&[b"Readme", b"README"], MAC), Some(NameFault::SameAs("Readme".into())));
        assert_eq!(fault_of(&["Ä".as_bytes(), "ä".as_bytes()], MAC), Some(NameFault::SameAs("Ä".into())));
        for [one, other] in [["caf\u{e9}", "cafe\u{301}"], ["stra\u{df}e", "STRASSE"], ["\u{fb01}x", "FIX"]] {
            let paths = [one.as_bytes(), other.as_bytes()];
            assert_eq!(fault_of(&paths, LINUX), None);
            assert_eq!(fault_of(&paths, MAC), Some(NameFault::SameAs(one.into())), "{one} {other}");
        }
        let sensitive = Disk { ignores_case: false, ..MAC };
        assert_eq!(fault_of(&[b"Readme", b"README"], sensitive), None);
        let composed = ["\u{e9}/a".as_bytes(), "e\u{301}/a".as_bytes()];
        assert_eq!(fault_of(&composed, sensitive), Some(NameFault::SameAs("\u{e9}/a".into())));
        assert_eq!(fault_of(&[b"caf\xe9"], LINUX), None);
        assert_eq!(fault_of(&[b"caf\xe9"], MAC), Some(NameFault::NotText));
        let too_long = |disk: Disk| Some(NameFault::TooLong { path_bytes_max: disk.path_bytes_max });
        assert_eq!(fault_of(&[&[b'a'; 256]], LINUX), too_long(LINUX));
        assert_eq!(fault_of(&["d/".repeat(501).trim_end_matches('/').as_bytes()], MAC), too_long(MAC));
    }

    #[test]
    fn a_name_that_a_tree_has_twice_is_refused() {
        assert_eq!(fault_of(&[b"a", b"b", b"a"], LINUX), Some(NameFault::Twice));
    }

    #[test]
    fn a_link_and_a_directory_that_a_disk_takes_for_one_are_refused() {
        let entries: [(u32, &[u8]); 3] = [(0o120_000, b"Link"), (0o040_000, b"link"), (0o100_644, b"link/x")];
        assert!(check(entries.into_iter(), MAC).is_err());
        assert!(check(entries.into_iter(), LINUX).is_ok());
        assert!(matches!(
            check([(0o100_600, b"a".as_slice())].into_iter(), LINUX).unwrap_err().fault,
            NameFault::Mode(0o100_600)
        ));
    }
}
