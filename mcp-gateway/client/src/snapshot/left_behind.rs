//! Tracked files that are not in a snapshot although they were not deleted. A workspace's git must
//! not report them as missing. Directories without any present file are listed as a whole, so that
//! a sparse checkout of a large repository needs few names. No I/O.

use buildpool_protocol::limits::{LEFT_BEHIND_BYTES_MAX, LEFT_BEHIND_MAX};
use std::collections::{BTreeSet, HashSet};

/// Returns names for these paths (a directory's may end in `/`), given all present paths. The
/// result is empty if it would be too long; then git shows the files as deleted.
pub(super) fn named<'a>(paths: &[Vec<u8>], present: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    if paths.is_empty() {
        return Vec::new();
    }
    let mut directories: HashSet<&[u8]> = HashSet::new();
    for path in present {
        // From the inside out: if a directory is known, its parents are known too.
        let ends = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        for (end, _) in ends {
            if !directories.insert(&path[..end]) {
                break;
            }
        }
    }
    let mut names: BTreeSet<&[u8]> = BTreeSet::new();
    for path in paths {
        let mut ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let whole = ends.find(|end| !directories.contains(&path[..*end]));
        names.insert(whole.map_or(path.as_slice(), |end| &path[..=end]));
    }
    let names: Vec<String> =
        names.into_iter().filter_map(|name| Some(std::str::from_utf8(name).ok()?.to_owned())).collect();
    let bytes: usize = names.iter().map(String::len).sum();
    if names.len() > LEFT_BEHIND_MAX || bytes > LEFT_BEHIND_BYTES_MAX { Vec::new() } else { names }
}

#[cfg(test)]
mod tests {
    use super::named;

    fn names(paths: &[&str], present: &[&str]) -> Vec<String> {
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        named(&paths, present.iter().map(|path| path.as_bytes()))
    }

    #[test]
    fn whole_directories_are_named_by_themselves() {
        let present = ["a/b/c", "top", "x/y"];
        assert_eq!(
            names(&["a/b/d", "a/e/f", "a/e/g/h", "x/z", "out/1", "out/"], &present),
            ["a/b/d", "a/e/", "out/", "x/z"]
        );
        assert_eq!(names(&["a"], &[]), ["a"]);
        assert_eq!(names(&[], &present), [""; 0]);
        let many: Vec<String> = (0..1001).map(|number| format!("x/{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(names(&many, &present), [""; 0]);
        assert_eq!(names(&many, &["top"]), ["x/"]);
    }
}
