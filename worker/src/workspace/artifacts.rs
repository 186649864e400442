//! Files that a job made, collected at its end: copied aside, because the workspace goes on to the next job.

use super::error::WorkspaceError;
use buildpool_objects::incoming::checksum_of;
use buildpool_protocol::limits::{ARTIFACTS_MAX, PATH_BYTES_MAX};
use buildpool_protocol::report::ArtifactEntry;
use buildpool_protocol::spec::check_artifact;
use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files and directories that are looked at for one pattern.
const LOOKED_AT_MAX: usize = 5_000_000;

/// What was collected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    /// Files, each once, by path. Their content lies in the target directory under its checksum.
    pub entries: Vec<ArtifactEntry>,
    /// What was asked for and did not come, and why.
    pub notes: Vec<String>,
}

/// Where to collect from.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Patterns are relative to it.
    pub directory: &'a Path,
    /// Nothing outside of it is taken.
    pub root: &'a Path,
    /// Where the copies go.
    pub target: &'a Path,
    /// Most bytes of all files together.
    pub bytes_max: u64,
}

/// Collects what these patterns match: `*` and `?` inside a name, `**` over directories, `[…]`, `{a,b}`. A directory
/// stands for all files in it. Links are not followed.
///
/// # Errors
/// When the target can't be written. What can't be read is a note.
pub fn collect(place: Place<'_>, patterns: &[String]) -> Result<Collected, WorkspaceError> {
    let mut collected = Collected::default();
    if patterns.is_empty() {
        return Ok(collected);
    }
    fs::create_dir_all(place.target).map_err(WorkspaceError::io("creating", place.target))?;
    let mut paths = BTreeSet::new();
    for pattern in patterns {
        let before = paths.len();
        match matches(place, pattern, &mut paths) {
            Ok(()) if paths.len() == before => {
                collected.notes.push(format!("artifact `{pattern}`: nothing new matches"));
            }
            Ok(()) => {}
            Err(why) => collected.notes.push(format!("artifact `{pattern}`: {why}")),
        }
    }
    let mut bytes = 0_u64;
    let mut left = 0_usize;
    for path in paths {
        let size = fs::symlink_metadata(place.directory.join(&path)).map_or(0, |metadata| metadata.len());
        if collected.entries.len() >= ARTIFACTS_MAX || bytes.saturating_add(size) > place.bytes_max {
            left += 1;
            continue;
        }
        match copy(place, &path)? {
            Ok(entry) => {
                bytes += entry.bytes;
                collected.entries.push(entry);
            }
            Err(why) => collected.notes.push(format!("artifact `{path}`: {why}")),
        }
    }
    if left > 0 {
        collected.notes.push(format!(
            "{left} artifacts stayed behind: at most {ARTIFACTS_MAX} files and {} bytes are taken",
            place.bytes_max
        ));
    }
    Ok(collected)
}

/// Adds the paths that a pattern matches.
fn matches(place: Place<'_>, pattern: &str, paths: &mut BTreeSet<String>) -> Result<(), String> {
    let pattern = check_artifact(pattern).map_err(|_| "leads out of the command's directory".to_owned())?;
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("is no valid pattern: {}", error.kind()))?
        .compile_matcher();
    let fixed: PathBuf =
        pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).collect();
    let start = place.directory.join(&fixed);
    let inside = |path: &Path| {
        let real = path.canonicalize().ok();
        real.zip(place.root.canonicalize().ok()).is_some_and(|(path, root)| path.starts_with(root))
    };
    if fs::symlink_metadata(&start).is_err() {
        return Ok(());
    }
    if !inside(&start) {
        return Err("lies outside of the workspace".into());
    }
    walk(place, &start, &matcher, paths)
}

fn walk(
    place: Place<'_>,
    start: &Path,
    matcher: &GlobMatcher,
    paths: &mut BTreeSet<String>,
) -> Result<(), String> {
    let entries = walkdir::WalkDir::new(start)
        .follow_links(false)
        .follow_root_links(false)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != ".git");
    for (count, entry) in entries.enumerate() {
        if count == LOOKED_AT_MAX {
            return Err(format!(
                "more than {LOOKED_AT_MAX} files would have to be looked at; name a directory"
            ));
        }
        let entry = entry.map_err(|error| error.to_string())?;
        let Ok(path) = entry.path().strip_prefix(place.directory) else { continue };
        let wanted = || path.ancestors().any(|part| !part.as_os_str().is_empty() && matcher.is_match(part));
        if entry.file_type().is_file() && wanted() {
            let text = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
            if text.len() > PATH_BYTES_MAX {
                return Err(format!("a path is longer than {PATH_BYTES_MAX} bytes"));
            }
            paths.insert(text.to_owned());
        }
    }
    Ok(())
}

/// Copies a file under its checksum. The outer error is the target's, the inner one the file's.
fn copy(place: Place<'_>, path: &str) -> Result<Result<ArtifactEntry, String>, WorkspaceError> {
    let beside = place.target.join("copying");
    if let Err(error) = fs::copy(place.directory.join(path), &beside) {
        super::checkout::remove(&beside)?;
        return Ok(Err(error.to_string()));
    }
    let executable = fs::metadata(&beside).is_ok_and(|metadata| metadata.permissions().mode() & 0o100 != 0);
    let (blake3, bytes) = checksum_of(&beside).map_err(WorkspaceError::io("reading", &beside))?;
    let target = place.target.join(blake3.as_str());
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&beside, &target))
        .map_err(WorkspaceError::io("writing", &target))?;
    Ok(Ok(ArtifactEntry { path: path.to_owned(), bytes, blake3: blake3.into(), executable }))
}

#[cfg(test)]
mod tests {
    use super::{Collected, Place, collect};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    struct Made {
        root: tempfile::TempDir,
    }

    impl Made {
        fn new(files: &[&str]) -> Self {
            let made = Self { root: tempfile::tempdir().unwrap() };
            fs::create_dir_all(made.path("work/app")).unwrap();
            for file in files {
                let path = made.path(&format!("work/app/{file}"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, file.as_bytes()).unwrap();
            }
            made
        }

        fn path(&self, path: &str) -> PathBuf {
            self.root.path().join(path)
        }

        fn collect(&self, patterns: &[&str], bytes_max: u64) -> Collected {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            let place = Place {
                directory: &self.path("work/app"),
                root: &self.path("work"),
                target: &self.path("out"),
                bytes_max,
            };
            collect(place, &patterns).unwrap()
        }
    }

    fn paths(collected: &Collected) -> Vec<&str> {
        collected.entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    #[test]
    fn patterns_match_names_directories_and_whole_trees_each_file_once() {
        let made = Made::new(&[
            "out/a.xml",
            "out/deep/b.xml",
            "App.app/Contents/App",
            "App.app/Info",
            "c.txt",
            ".git/x.xml",
        ]);
        let all = made.collect(&["**/*.xml", "out/*.xml", "App.app", "c.{txt,md}"], 1 << 20);
        assert_eq!(
            paths(&all),
            ["App.app/Contents/App", "App.app/Info", "c.txt", "out/a.xml", "out/deep/b.xml"]
        );
        assert_eq!(all.notes, ["artifact `out/*.xml`: nothing new matches"]);
        for entry in &all.entries {
            assert_eq!(fs::read(made.path("out").join(&entry.blake3)).unwrap(), entry.path.as_bytes());
        }
        assert_eq!(paths(&made.collect(&["out/"], 1 << 20)), ["out/a.xml", "out/deep/b.xml"]);
        assert_eq!(paths(&made.collect(&["*.xml"], 1 << 20)), [""; 0]);
        fs::set_permissions(made.path("work/app/c.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(made.collect(&["c.txt"], 1 << 20).entries[0].executable);
    }

    #[test]
    fn nothing_from_outside_comes_by_a_pattern_or_a_link() {
        let made = Made::new(&["a"]);
        fs::create_dir(made.path("secret")).unwrap();
        fs::write(made.path("secret/key"), "key").unwrap();
        symlink(made.path("secret"), made.path("work/app/link")).unwrap();
        symlink(made.path("secret/key"), made.path("work/app/file-link")).unwrap();
        let patterns =
            ["../../secret/*", "/etc/passwd", "link/*", "link", "file-link", "*", "**/key", "[", ""];
        let all = made.collect(&patterns, 1 << 20);
        assert_eq!(paths(&all), ["a"]);
        assert_eq!(all.notes.len(), patterns.len() - 1, "{:?}", all.notes);
    }

    #[test]
    fn what_is_over_the_bound_is_counted() {
        let made = Made::new(&["1", "22", "333"]);
        let some = made.collect(&["*"], 3);
        assert_eq!(paths(&some), ["1", "22"]);
        assert!(some.notes[0].starts_with("1 artifacts stayed behind"), "{:?}", some.notes);
    }
}
