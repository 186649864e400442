//! Expands a report pattern to files. Paths and globs are relative to the command's directory, and
//! links out of it are not followed.

use crate::error::EvidenceError;
use crate::limits::{PATTERN_DEPTH_MAX, PATTERN_ENTRIES_MAX, PATTERN_FILES_MAX};
use globset::GlobBuilder;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use walkdir::WalkDir;

/// Sorted files of one pattern, and the reasons against others.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) notes: Vec<String>,
    /// Reason why the pattern as a whole is not looked at.
    pub(crate) refused: Option<EvidenceError>,
    /// True if the pattern is the path of one file.
    pub(crate) is_named: bool,
}

impl Found {
    /// Drops files of other users. The job may have linked files that it had no permission to read.
    pub(crate) fn keep_only_of(&mut self, owner: u32) {
        let is_owners = |path: &PathBuf| {
            std::fs::symlink_metadata(path).is_ok_and(|found| MetadataExt::uid(&found) == owner)
        };
        let (kept, dropped) = std::mem::take(&mut self.files).into_iter().partition(is_owners);
        self.files = kept;
        let note = |path: PathBuf| {
            format!("{}: not read, because it belongs to another user than the job's", path.display())
        };
        self.notes.extend(dropped.into_iter().map(note));
    }
}

/// Expands a pattern.
pub(crate) fn expand(directory: &Path, pattern: &str) -> Found {
    let is_glob = pattern.contains(['*', '?', '[', '{']);
    let named = normal(&directory.join(pattern));
    // An existing file with this exact name has priority over the glob.
    if !is_glob || std::fs::symlink_metadata(&named).is_ok() {
        return one(directory, pattern, named);
    }
    let base = base_of(directory, pattern);
    if base.exists()
        && let Err(error) = inside(directory, pattern, &base)
    {
        return Found { refused: Some(error.shown_as(pattern)), ..Found::default() };
    }
    let glob = named.to_str().and_then(|text| GlobBuilder::new(text).literal_separator(true).build().ok());
    let Some(glob) = glob.map(|glob| glob.compile_matcher()) else {
        return Found {
            notes: vec![format!("report pattern {pattern:?} is not a valid glob")],
            ..Found::default()
        };
    };
    let mut found = Found::default();
    let mut entries = WalkDir::new(&base)
        .follow_links(false)
        .follow_root_links(Path::new(pattern).is_absolute())
        .max_depth(PATTERN_DEPTH_MAX)
        .sort_by_file_name()
        .into_iter();
    let mut looked_at = 0;
    while let Some(entry) = entries.next() {
        looked_at += 1;
        if looked_at > PATTERN_ENTRIES_MAX || found.files.len() >= PATTERN_FILES_MAX {
            found.notes.push(format!("report pattern {pattern:?}: more than {PATTERN_FILES_MAX} files or {PATTERN_ENTRIES_MAX} entries; the rest is not read"));
            break;
        }
        let Ok(entry) = entry else { continue };
        let kind = entry.file_type();
        let bundle = kind.is_dir() && is_bundle(entry.path());
        let matches = glob.is_match(entry.path());
        if matches && (kind.is_file() || bundle) {
            found.files.push(entry.path().to_owned());
        } else if matches && kind.is_symlink() {
            found.notes.push(
                EvidenceError::NotAReport { path: entry.path().to_owned(), kind: "a symbolic link" }
                    .to_string(),
            );
        }
        if bundle || (kind.is_dir() && entry.file_name() == ".git") {
            entries.skip_current_dir();
        }
    }
    if found.files.is_empty() && found.notes.is_empty() {
        found.notes.push(format!("report pattern {pattern:?} matches nothing"));
    }
    found
}

fn one(directory: &Path, pattern: &str, path: PathBuf) -> Found {
    match inside(directory, pattern, &path) {
        Ok(real) => Found { files: vec![real], is_named: true, ..Found::default() },
        Err(error) => Found { refused: Some(error.shown_as(pattern)), is_named: true, ..Found::default() },
    }
}

/// Returns the real path. The target of a relative pattern must stay below the directory that the
/// pattern names. An absolute pattern is not restricted.
fn inside(directory: &Path, pattern: &str, path: &Path) -> Result<PathBuf, EvidenceError> {
    let real = std::fs::canonicalize(path).map_err(|error| EvidenceError::io(path, error))?;
    if Path::new(pattern).is_absolute() {
        return Ok(real);
    }
    let goes_up = Path::new(pattern).components().any(|part| part == Component::ParentDir);
    let base = if goes_up { path.parent().unwrap_or(directory) } else { directory };
    let base = std::fs::canonicalize(base).map_err(|error| EvidenceError::io(base, error))?;
    if real.starts_with(&base) { Ok(real) } else { Err(EvidenceError::Escapes { path: path.to_owned() }) }
}

/// Returns the directory where the search starts: the part of the pattern before its first
/// wildcard.
fn base_of(directory: &Path, pattern: &str) -> PathBuf {
    let mut base = PathBuf::new();
    for part in Path::new(pattern).components() {
        let text = part.as_os_str().to_string_lossy();
        if text.contains(['*', '?', '[', '{']) {
            break;
        }
        base.push(part);
    }
    normal(&directory.join(base))
}

/// Removes `.` and `..` lexically, without file system access.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

fn is_bundle(path: &Path) -> bool {
    let named = path.extension().is_some_and(|extension| extension == "xcresult");
    named || std::fs::symlink_metadata(path.join("database.sqlite3")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn patterns_find_files_and_bundles_and_follow_no_link() {
        let outside = tempfile::TempDir::new().expect("a directory");
        fs::write(outside.path().join("secret.xml"), "<testsuite/>").expect("written");
        let directory = tempfile::TempDir::new().expect("a directory");
        let root = fs::canonicalize(directory.path()).expect("there");
        for folder in ["a/reports", "b/reports", "out.xcresult/Data", ".git/x/reports"] {
            fs::create_dir_all(root.join(folder)).expect("made");
        }
        for file in [
            "a/reports/1.xml",
            "b/reports/2.xml",
            "b/2.txt",
            "out.xcresult/Data/x.xml",
            ".git/x/reports/3.xml",
        ] {
            fs::write(root.join(file), "<testsuite/>").expect("written");
        }
        std::os::unix::fs::symlink(outside.path().join("secret.xml"), root.join("a/reports/link.xml"))
            .expect("linked");
        std::os::unix::fs::symlink(outside.path(), root.join("linked")).expect("linked");
        let names = |pattern: &str| {
            let found = expand(&root, pattern);
            let names: Vec<_> = found
                .files
                .iter()
                .map(|path| path.strip_prefix(&root).unwrap_or(path).display().to_string())
                .collect();
            (names, found.notes.len() + usize::from(found.refused.is_some()))
        };
        assert_eq!(names("**/reports/*.xml"), (vec!["a/reports/1.xml".into(), "b/reports/2.xml".into()], 1));
        assert_eq!(names("*.xcresult"), (vec!["out.xcresult".into()], 0));
        assert_eq!(names("./a/../b/reports/2.xml"), (vec!["b/reports/2.xml".into()], 0));
        assert_eq!(names("linked/secret.xml"), (vec![], 1));
        assert_eq!(names("a/reports/link.xml"), (vec![], 1));
        assert_eq!(names("linked/*.xml"), (vec![], 1));
        assert_eq!(names("none/*.xml"), (vec![], 1));
        assert_eq!(names("a{"), (vec![], 1));
        let mut mine = expand(&root, "a/reports/1.xml");
        let own = nix::unistd::Uid::effective().as_raw();
        mine.keep_only_of(own);
        assert_eq!((mine.files.len(), mine.notes.len()), (1, 0));
        mine.keep_only_of(own + 1);
        assert_eq!((mine.files.len(), mine.notes.len()), (0, 1));
        let absolute = outside.path().join("secret.xml");
        assert_eq!(expand(&root, absolute.to_str().expect("text")).files.len(), 1);
    }
}
