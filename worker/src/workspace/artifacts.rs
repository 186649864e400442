//! Collects the artifacts of a job at its end. They are copied, because the next job uses the
//! workspace.

use super::error::WorkspaceError;
use super::no_follow;
use buildpool_objects::incoming::checksum_of;
use buildpool_protocol::frame::encoded_length;
use buildpool_protocol::limits::{ARTIFACTS_MAX, ARTIFACTS_NAMED_BYTES_MAX, PATH_BYTES_MAX};
use buildpool_protocol::report::ArtifactEntry;
use buildpool_protocol::shown::counted;
use buildpool_protocol::spec::check_artifact;
use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Limit on the files and directories visited for one pattern.
const LOOKED_AT_MAX: usize = 5_000_000;
/// Upper bound for the size of an outcome entry without its path, in bytes.
const ENTRY_BYTES_MAX: usize = 200;
/// Limit on the files listed by name when they could not be collected. The others are counted.
const NAMED_MAX: usize = 10;

/// Result of the collection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CollectedArtifacts {
    /// Files, each once, sorted by path. The content is in the target directory, named by its
    /// checksum.
    pub entries: Vec<ArtifactEntry>,
    /// Requested files that were not collected, with the reason.
    pub notes: Vec<String>,
}

/// Source and target of the collection.
#[derive(Clone, Copy, Debug)]
pub struct Collection<'a> {
    /// Patterns are relative to this directory.
    pub directory: &'a Path,
    /// Files outside of this directory are not collected.
    pub root: &'a Path,
    /// True if the root may be a symbolic link. In place it belongs to the submitter, otherwise a
    /// job has created it.
    pub follows_root: bool,
    /// Directory for the copies.
    pub target: &'a Path,
    /// Only files of this user are collected. `None` if jobs run as this process's user.
    pub owner: Option<u32>,
    /// Limit on all files together, in bytes.
    pub bytes_max: u64,
}

/// Collects the files that these patterns match: `*` and `?` inside a name, `**` over directories,
/// `[…]`, `{a,b}`. A directory matches all files in it. Symbolic links are not followed.
///
/// # Errors
/// Fails if the target cannot be written. An unreadable file becomes a note.
pub fn collect(place: Collection<'_>, patterns: &[String]) -> Result<CollectedArtifacts, WorkspaceError> {
    let mut collected = CollectedArtifacts::default();
    if patterns.is_empty() {
        return Ok(collected);
    }
    fs::create_dir_all(place.target).map_err(WorkspaceError::io("creating", place.target))?;
    let directory = match open_directory(place) {
        Ok(directory) => directory,
        Err(error) => {
            collected
                .notes
                .push(format!("artifacts: the command's directory is not there any more: {error}"));
            return Ok(collected);
        }
    };
    let mut paths = BTreeSet::new();
    for pattern in patterns {
        let (found, problems) = matches(place, pattern, &mut paths);
        // Files that an earlier pattern also matched still count.
        if problems.named.is_empty() && found == 0 {
            collected.notes.push(format!("artifact `{pattern}`: nothing matches"));
        }
        problems.tell(&format!("artifact `{pattern}`"), &mut collected.notes);
    }
    let mut bytes = 0_u64;
    let mut named = 0_usize;
    let mut left = 0_usize;
    let mut problems = Problems::default();
    for path in paths {
        let (file, metadata) = match no_follow::file(&directory, Path::new(&path)) {
            Ok(opened) => opened,
            Err(error) => {
                problems.add(format!("`{path}`: {error}"));
                continue;
            }
        };
        if place.owner.is_some_and(|owner| metadata.uid() != owner) {
            // It may be a hard link to a file that the job had no permission to read.
            problems.add(format!("`{path}` belongs to another user than the job's"));
            continue;
        }
        let size = metadata.len();
        if collected.entries.len() >= ARTIFACTS_MAX
            || bytes.saturating_add(size) > place.bytes_max
            || named + encoded_length(&path) + ENTRY_BYTES_MAX > ARTIFACTS_NAMED_BYTES_MAX
        {
            left += 1;
            continue;
        }
        match copy(place.target, &path, &file, &metadata)? {
            Ok(entry) => {
                bytes += entry.bytes;
                named += encoded_length(&entry) + 1;
                collected.entries.push(entry);
            }
            Err(error) => problems.add(format!("`{path}`: {error}")),
        }
    }
    problems.tell("artifacts", &mut collected.notes);
    if left > 0 {
        collected.notes.push(format!(
            "{} stayed behind: at most {ARTIFACTS_MAX} files, {} bytes, and {ARTIFACTS_NAMED_BYTES_MAX} bytes of paths and checksums are taken",
            counted(left as u64, "artifact"),
            place.bytes_max
        ));
    }
    Ok(collected)
}

/// Problems that prevented files from being collected.
#[derive(Default)]
struct Problems {
    named: Vec<String>,
    more: usize,
}

impl Problems {
    fn one(text: impl Into<String>) -> Self {
        Self { named: vec![text.into()], more: 0 }
    }

    fn add(&mut self, text: String) {
        if self.named.len() < NAMED_MAX {
            self.named.push(text);
        } else {
            self.more += 1;
        }
    }

    fn tell(self, whose: &str, notes: &mut Vec<String>) {
        notes.extend(self.named.into_iter().map(|why| format!("{whose}: {why}")));
        if self.more > 0 {
            notes.push(format!(
                "{whose}: {} could not be taken either",
                counted(self.more as u64, "other file")
            ));
        }
    }
}

/// Adds the paths that a pattern matches. Returns their number, and the problems with other paths.
fn matches(place: Collection<'_>, pattern: &str, paths: &mut BTreeSet<String>) -> (usize, Problems) {
    let pattern = match check_artifact(pattern) {
        Ok(pattern) => pattern,
        Err(error) => return (0, Problems::one(error.reason)),
    };
    let matcher = match GlobBuilder::new(&pattern).literal_separator(true).build() {
        Ok(glob) => glob.compile_matcher(),
        Err(error) => return (0, Problems::one(format!("is not a valid pattern: {}", error.kind()))),
    };
    let fixed: PathBuf =
        pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).collect();
    let start = place.directory.join(&fixed);
    let inside = |path: &Path| {
        let real = path.canonicalize().ok();
        real.zip(place.root.canonicalize().ok()).is_some_and(|(path, root)| path.starts_with(root))
    };
    if fs::symlink_metadata(&start).is_err() {
        return (0, Problems::default());
    }
    if !inside(&start) {
        return (0, Problems::one("lies outside of the workspace"));
    }
    walk(place, &start, &matcher, paths)
}

fn walk(
    place: Collection<'_>,
    start: &Path,
    matcher: &GlobMatcher,
    paths: &mut BTreeSet<String>,
) -> (usize, Problems) {
    let (mut found, mut problems) = (0, Problems::default());
    let entries = walkdir::WalkDir::new(start)
        .follow_links(false)
        .follow_root_links(false)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != ".git");
    for (count, entry) in entries.enumerate() {
        if count == LOOKED_AT_MAX {
            problems
                .add(format!("more than {LOOKED_AT_MAX} files would have to be looked at; name a directory"));
            break;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                problems.add(error.to_string());
                continue;
            }
        };
        let Ok(path) = entry.path().strip_prefix(place.directory) else { continue };
        let wanted = || path.ancestors().any(|part| !part.as_os_str().is_empty() && matcher.is_match(part));
        if entry.file_type().is_file() && wanted() {
            match path.to_str() {
                None => problems.add(format!("the name {} is not UTF-8", path.display())),
                Some(text) if text.len() > PATH_BYTES_MAX => {
                    problems.add(format!("a path is longer than {PATH_BYTES_MAX} bytes: {text:.80}…"));
                }
                Some(text) => {
                    found += 1;
                    paths.insert(text.to_owned());
                }
            }
        }
    }
    (found, problems)
}

/// Opens the command's directory from the root without following a link.
fn open_directory(place: Collection<'_>) -> io::Result<OwnedFd> {
    let below = place.directory.strip_prefix(place.root).map_err(io::Error::other)?;
    no_follow::enter(no_follow::directory(place.root, place.follows_root)?, below)
}

/// Copies a file to a name with its checksum. The outer error belongs to the target, the inner one
/// to the file.
fn copy(
    target: &Path,
    path: &str,
    file: &File,
    metadata: &Metadata,
) -> Result<Result<ArtifactEntry, io::Error>, WorkspaceError> {
    let beside = target.join("copying");
    let mut into = File::create(&beside).map_err(WorkspaceError::io("creating", &beside))?;
    // Copy no more than the known size, because the file may be growing.
    if let Err(error) = io::copy(&mut file.take(metadata.len()), &mut into) {
        super::checkout::remove(&beside)?;
        return Ok(Err(error));
    }
    let executable = metadata.permissions().mode() & 0o100 != 0;
    let (blake3, bytes) = checksum_of(&beside).map_err(WorkspaceError::io("reading", &beside))?;
    let target = target.join(blake3.as_str());
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&beside, &target))
        .map_err(WorkspaceError::io("writing", &target))?;
    Ok(Ok(ArtifactEntry { path: path.to_owned(), bytes, blake3: blake3.into(), executable }))
}

#[cfg(test)]
mod tests {
    use super::{CollectedArtifacts, Collection, collect, counted};
    use buildpool_protocol::frame::encoded_length;
    use buildpool_protocol::limits::ARTIFACTS_NAMED_BYTES_MAX;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    struct Fixture {
        root: tempfile::TempDir,
    }

    impl Fixture {
        fn new(files: &[&str]) -> Self {
            let fixture = Self { root: tempfile::tempdir().unwrap() };
            fs::create_dir_all(fixture.path("work/app")).unwrap();
            for file in files {
                let path = fixture.path(&format!("work/app/{file}"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, file.as_bytes()).unwrap();
            }
            fixture
        }

        fn path(&self, path: &str) -> PathBuf {
            self.root.path().join(path)
        }

        fn collect(&self, patterns: &[&str], bytes_max: u64) -> CollectedArtifacts {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            let place = Collection {
                directory: &self.path("work/app"),
                root: &self.path("work"),
                follows_root: false,
                owner: None,
                target: &self.path("out"),
                bytes_max,
            };
            collect(place, &patterns).unwrap()
        }
    }

    fn paths(collected: &CollectedArtifacts) -> Vec<&str> {
        collected.entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    proptest::proptest! {
        #[test]
        fn a_pattern_that_is_taken_is_a_glob_and_a_glob_is_taken(text in "[]\\[{}!^a-c,*?\\\\-]{1,12}") {
            let is_taken = buildpool_protocol::spec::check_artifact(&text).is_ok();
            let glob = globset::GlobBuilder::new(&text).literal_separator(true).build();
            proptest::prop_assert_eq!(is_taken, glob.is_ok(), "{:?}", glob);
        }
    }

    #[test]
    fn patterns_match_names_directories_and_whole_trees_each_file_once() {
        let fixture = Fixture::new(&[
            "out/a.xml",
            "out/deep/b.xml",
            "App.app/Contents/App",
            "App.app/Info",
            "c.txt",
            ".git/x.xml",
        ]);
        let all = fixture.collect(&["**/*.xml", "out/*.xml", "App.app", "c.{txt,md}", "*.none"], 1 << 20);
        assert_eq!(
            paths(&all),
            ["App.app/Contents/App", "App.app/Info", "c.txt", "out/a.xml", "out/deep/b.xml"]
        );
        assert_eq!(all.notes, ["artifact `*.none`: nothing matches"]);
        for odd in ["./out//a.xml", "out/./a.xml", "out//*.xml"] {
            assert_eq!(paths(&fixture.collect(&[odd], 1 << 20)), ["out/a.xml"], "{odd}");
        }
        for entry in &all.entries {
            assert_eq!(fs::read(fixture.path("out").join(&entry.blake3)).unwrap(), entry.path.as_bytes());
        }
        assert_eq!(paths(&fixture.collect(&["out/"], 1 << 20)), ["out/a.xml", "out/deep/b.xml"]);
        assert_eq!(paths(&fixture.collect(&["*.xml"], 1 << 20)), [""; 0]);
        fs::set_permissions(fixture.path("work/app/c.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(fixture.collect(&["c.txt"], 1 << 20).entries[0].executable);
    }

    #[test]
    fn nothing_from_outside_comes_by_a_pattern_or_a_link() {
        let fixture = Fixture::new(&["a"]);
        fs::create_dir(fixture.path("secret")).unwrap();
        fs::write(fixture.path("secret/key"), "key").unwrap();
        symlink(fixture.path("secret"), fixture.path("work/app/link")).unwrap();
        symlink(fixture.path("secret/key"), fixture.path("work/app/file-link")).unwrap();
        let patterns =
            ["../../secret/*", "/etc/passwd", "link/*", "link", "file-link", "*", "**/key", "[", ""];
        let all = fixture.collect(&patterns, 1 << 20);
        assert_eq!(paths(&all), ["a"]);
        assert_eq!(all.notes.len(), patterns.len() - 1, "{:?}", all.notes);
    }

    #[test]
    fn a_file_of_another_user_is_not_taken() {
        let fixture = Fixture::new(&["a"]);
        let own = nix::unistd::Uid::effective().as_raw();
        for (owner, count) in [(None, 1), (Some(own), 1), (Some(own + 1), 0)] {
            let place = Collection {
                directory: &fixture.path("work/app"),
                root: &fixture.path("work"),
                follows_root: false,
                owner,
                target: &fixture.path("out"),
                bytes_max: 1 << 20,
            };
            let all = collect(place, &["a".to_owned()]).unwrap();
            assert_eq!((all.entries.len(), all.notes.len()), (count, 1 - count), "{owner:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_named_or_read_keeps_no_other_one_back() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let names: Vec<String> = (0..30).map(|number| format!("out/{number}")).collect();
        let fixture = Fixture::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let bad = |number: u8| fixture.path("work/app/out").join(OsStr::from_bytes(&[b'b', number, 0xe9]));
        if fs::write(bad(b'0'), "x").is_err() {
            eprintln!("SKIPPED: this disk takes no names that are not UTF-8");
            return;
        }
        let all = fixture.collect(&["out/**"], 1 << 20);
        assert_eq!(all.entries.len(), names.len());
        assert!(matches!(all.notes.as_slice(), [one] if one.ends_with("is not UTF-8")), "{:?}", all.notes);
        (b'a'..=b'z').for_each(|number| fs::write(bad(number), "x").unwrap());
        let all = fixture.collect(&["out/**"], 1 << 20);
        assert_eq!(all.entries.len(), names.len());
        assert_eq!(
            (all.notes.len(), all.notes[10].ends_with("17 other files could not be taken either")),
            (11, true)
        );
    }

    #[test]
    fn a_link_that_a_job_puts_in_place_of_its_files_leads_nowhere() {
        let fixture = Fixture::new(&["a", "deep/b"]);
        fs::create_dir_all(fixture.path("secret/app/deep")).unwrap();
        fs::write(fixture.path("secret/app/deep/key"), "key").unwrap();
        let (work, app) = (fixture.path("work"), fixture.path("work/app"));
        let replaced = |path: &Path, by: &str| {
            fs::rename(path, fixture.path("aside")).unwrap();
            symlink(fixture.path(by), path).unwrap();
            let all = fixture.collect(&["**", "deep/key"], 1 << 20);
            fs::remove_file(path).unwrap();
            fs::rename(fixture.path("aside"), path).unwrap();
            all
        };
        for all in [replaced(&work, "secret"), replaced(&app, "secret/app")] {
            assert_eq!((paths(&all).len(), all.notes.len()), (0, 1), "{:?}", all.notes);
        }
    }

    #[test]
    fn what_is_over_the_bound_is_counted() {
        let fixture = Fixture::new(&["1", "22", "333"]);
        let some = fixture.collect(&["*"], 3);
        assert_eq!(paths(&some), ["1", "22"]);
        assert!(some.notes[0].starts_with("1 artifact stayed behind"), "{:?}", some.notes);
    }

    #[test]
    fn what_names_the_artifacts_stays_far_below_one_message() {
        // A control character takes six bytes of a message.
        let deep = ["\u{1}".repeat(200), "\u{1}".repeat(200), "d".repeat(200)].join("/");
        let names: Vec<String> = (0..1_000).map(|number| format!("a/{deep}/{number}")).collect();
        let fixture = Fixture::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let some = fixture.collect(&["a/**"], 1 << 30);
        let length = encoded_length(&some.entries);
        assert!(
            (ARTIFACTS_NAMED_BYTES_MAX * 9 / 10..=ARTIFACTS_NAMED_BYTES_MAX).contains(&length),
            "{length}"
        );
        let left =
            format!("{} stayed behind", counted((names.len() - some.entries.len()) as u64, "artifact"));
        assert!(some.notes[0].starts_with(&left), "{:?}", some.notes);
    }
}
