//! Tests with real repositories in many states. The user's git directory is compared byte for byte
//! before and after.

use super::{Options, Snapshot, SnapshotError, take};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

mod contents;
mod guards;
mod nesting;
mod states;
mod together;

/// A project and its surroundings in one temporary directory.
struct Project {
    root: tempfile::TempDir,
}

type Contents = BTreeMap<String, (String, Vec<u8>)>;

impl Project {
    fn empty() -> Self {
        let project = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(project.top()).unwrap();
        project
    }

    /// Returns a repository with one commit of three files.
    fn new() -> Self {
        let project = Self::empty();
        project.git(&["init", "-q", "-b", "main"]);
        project.write("src/main.rs", "fn main() {}\n");
        project.write("src/lib.rs", "pub fn f() {}\n");
        project.write("README", "read me\n");
        project.commit("first");
        project
    }

    fn top(&self) -> PathBuf {
        self.root.path().join("project")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.top().join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.top(), arguments)
    }

    fn options(&self) -> Options {
        let cache = Some(self.root.path().join("cache"));
        Options { cache, ..Options::new(self.top()) }
    }

    /// Takes a snapshot, and checks that no git directory below the root changed.
    fn take(&self) -> Snapshot {
        self.take_with(&self.options())
    }

    fn take_with(&self, options: &Options) -> Snapshot {
        let before = fingerprint(&self.top(), true);
        let snapshot = take(options).unwrap();
        assert_same(&before, &fingerprint(&self.top(), true));
        snapshot
    }

    /// Returns the contents of a snapshot after it was packed and unpacked elsewhere.
    fn contents(&self, snapshot: &Snapshot) -> Contents {
        let elsewhere = tempfile::tempdir().unwrap();
        git(elsewhere.path(), &["init", "-q", "--bare", "--object-format", snapshot.id().format().name()]);
        let (pack, into) = snapshot.pack(None, None).unwrap();
        let mut unpack = git_command(elsewhere.path(), &["unpack-objects", "-q"]);
        // An empty snapshot needs no pack.
        assert!(pack.length == 0 || unpack.stdin(rewound(into)).status().unwrap().success());
        let listed = git(elsewhere.path(), &["ls-tree", "-r", "-z", snapshot.id().as_str()]);
        let mut contents = Contents::new();
        for line in listed.split('\0').filter(|line| !line.is_empty()) {
            let (facts, path) = line.split_once('\t').unwrap();
            let (mode, rest) = facts.split_once(' ').unwrap();
            let id = rest.split_once(' ').unwrap().1;
            if mode == "160000" {
                // An empty directory.
                continue;
            }
            let blob = Command::new("git")
                .args(["cat-file", "blob", id])
                .current_dir(elsewhere.path())
                .output()
                .unwrap();
            assert!(blob.status.success());
            contents.insert(path.to_owned(), (mode.to_owned(), blob.stdout));
        }
        if let Some(head) = &snapshot.manifest.head {
            git(elsewhere.path(), &["cat-file", "commit", head.commit.as_str()]);
            git(elsewhere.path(), &["ls-tree", "-r", head.tree.as_str()]);
        }
        contents
    }

    /// Returns the files on disk, without git directories and these paths.
    fn on_disk(&self, without: &[&str]) -> Contents {
        let mut contents = Contents::new();
        for entry in
            walkdir::WalkDir::new(self.top()).into_iter().filter_entry(|entry| entry.file_name() != ".git")
        {
            let entry = entry.unwrap();
            let path = entry.path().strip_prefix(self.top()).unwrap().to_str().unwrap().to_owned();
            let kind = entry.file_type();
            if without.contains(&path.as_str()) || kind.is_dir() {
                continue;
            }
            let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
            let found = if kind.is_symlink() {
                ("120000", fs::read_link(entry.path()).unwrap().to_str().unwrap().as_bytes().to_vec())
            } else {
                (if executable { "100755" } else { "100644" }, fs::read(entry.path()).unwrap())
            };
            contents.insert(path, (found.0.to_owned(), found.1));
        }
        contents
    }

    /// Takes a snapshot and checks that it matches the disk.
    fn take_as_it_is(&self) -> Snapshot {
        let snapshot = self.take();
        assert_eq!(self.contents(&snapshot), self.on_disk(&[]));
        assert!(snapshot.changed_meanwhile.is_empty() && snapshot.kept_back.is_empty());
        snapshot
    }
}

/// Seeks the file to its start.
fn rewound(mut file: fs::File) -> fs::File {
    std::io::Seek::rewind(&mut file).unwrap();
    file
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = git_command(directory, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn git_command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

type Fingerprint = BTreeMap<PathBuf, (String, u32, i64, i64, u64)>;

fn assert_same(before: &Fingerprint, after: &Fingerprint) {
    let paths = before.keys().chain(after.keys());
    let differing: Vec<_> = paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(differing.is_empty(), "files of the user's changed: {differing:?}");
}

/// Returns content, mode, size, modification time and inode of every file. With `git_only`, only of
/// files in git directories.
fn fingerprint(root: &Path, git_only: bool) -> Fingerprint {
    walkdir::WalkDir::new(root)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| !git_only || entry.path().components().any(|part| part.as_os_str() == ".git"))
        .map(|entry| {
            let metadata = fs::symlink_metadata(entry.path()).unwrap();
            let content = if metadata.is_file() { fs::read(entry.path()).unwrap() } else { Vec::new() };
            let hash = blake3::hash(&content).to_hex().to_string();
            (
                entry.path().to_owned(),
                (hash, metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino()),
            )
        })
        .collect()
}
