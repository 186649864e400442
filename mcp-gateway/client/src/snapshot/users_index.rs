//! Prepares indexes from the user's index: a standalone copy, and the initial version of our own
//! index. So a first call need not read every file.

use super::error::SnapshotError;
use super::index_file::{self, GITLINK, IndexEntry, IndexFile, SPARSE_DIRECTORY};
use super::repository::UserSide;
use super::worktree::WorkTree;
use buildpool_objects::git::{GitError, split_nul};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

impl WorkTree<'_> {
    /// Copies the user's index, so that one round uses a single version. The copy keeps the
    /// modification time, which git uses to decide which entries it can trust. Returns the identity
    /// of the copied version.
    pub(super) fn copy_users_index(&self) -> Result<Option<(u64, i64, u64)>, SnapshotError> {
        let target = self.store.users_index();
        let Some(user) = &self.repository.user else {
            // Remove copies of an earlier index.
            for path in [target, self.store.users_sparse()] {
                fs::remove_file(path).ok();
            }
            return Ok(None);
        };
        let Ok(mut source) = File::open(&user.index) else {
            fs::remove_file(&target).ok();
            return Ok(None);
        };
        let io = |operation: &str| GitError::io(format!("{operation} {}", user.index.display()));
        let metadata = source.metadata().map_err(io("measuring"))?;
        let stamp =
            (metadata.len(), metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(), metadata.ino());
        let text = format!("{stamp:?}");
        let note = self.store.root().join("users-index.stamp");
        if target.exists() && fs::read_to_string(&note).is_ok_and(|known| known == text) {
            return Ok(Some(stamp));
        }
        let beside = target.with_extension("new");
        let mut copy = File::create(&beside).map_err(io("copying"))?;
        std::io::copy(&mut source, &mut copy).map_err(io("copying"))?;
        copy.set_modified(metadata.modified().map_err(io("measuring"))?).map_err(io("copying"))?;
        fs::rename(&beside, &target).map_err(io("copying"))?;
        self.make_plain(user)?;
        fs::write(&note, text).map_err(io("noting the state of"))?;
        Ok(Some(stamp))
    }

    /// Converts a split or sparse index into a standalone one.
    fn make_plain(&self, user: &UserSide) -> Result<(), SnapshotError> {
        let path = self.store.users_index();
        let mut index = self.read_index(&path)?;
        if let Some(shared) = &index.shared {
            let name = format!("sharedindex.{shared}");
            let source = [&user.git_dir, &user.common_dir].map(|directory| directory.join(&name));
            let source = source.iter().find(|path| path.exists()).unwrap_or(&source[0]);
            // git looks for the shared index in its directory; newer versions look next to the
            // index.
            for target in [self.store.git_dir(), self.store.root().to_owned()] {
                fs::copy(source, target.join(&name))
                    .map_err(GitError::io(format!("copying {}", source.display())))?;
            }
            let arguments = ["update-index", "--no-split-index", "--force-write-index"];
            self.store.write_index(&path, |place| Ok(self.git.run(place).args(arguments).output()?))?;
            index = self.read_index(&path)?;
        }
        let is_sparse = index.entries.iter().any(|entry| entry.mode == SPARSE_DIRECTORY);
        let left = index.entries.iter().filter(|entry| is_sparse && entry.skip_worktree);
        let left: Vec<u8> = left.flat_map(|entry| [entry.path.as_slice(), b"\0"].concat()).collect();
        fs::write(self.store.users_sparse(), left)
            .map_err(GitError::io("recording the files of a sparse index"))?;
        if is_sparse {
            // git would read and update the trees of whole directories, although their files are
            // not on disk.
            let present =
                index.entries.iter().filter(|entry| entry.mode != SPARSE_DIRECTORY && entry.stage == 0);
            let lines = present.flat_map(|entry| {
                [format!("{:o} {}\t", entry.mode, entry.id).as_bytes(), &entry.path, b"\0"].concat()
            });
            fs::remove_file(&path).map_err(GitError::io("removing the sparse copy of the index"))?;
            let lines = lines.collect();
            self.store.write_index(&path, |place| {
                let call = self.git.run(place).args(["update-index", "-z", "--index-info"]);
                Ok(call.input(lines).output()?)
            })?;
        }
        Ok(())
    }

    pub(super) fn read_index(&self, path: &Path) -> Result<IndexFile, SnapshotError> {
        let Ok(bytes) = fs::read(path) else { return Ok(IndexFile::default()) };
        let hash_bytes = self.repository.format().empty_tree().as_str().len() / 2;
        index_file::parse(&bytes, hash_bytes).map_err(|source| {
            // Our file is a copy, so report the user's index as damaged.
            let user = self.repository.user.as_ref().filter(|_| path == self.store.users_index());
            let path = user.map_or_else(|| path.to_owned(), |user| user.index.clone());
            SnapshotError::Index { path, source }
        })
    }

    /// Creates our index from the user's, so that a first call need not read every file. Takes over
    /// all entries that represent the bytes on disk.
    pub(super) fn seed(&self) -> Result<(), SnapshotError> {
        let users = self.store.users_index();
        let Ok(metadata) = fs::metadata(&users) else { return Ok(()) };
        let index = self.read_index(&users)?;
        let filtered = self.filtered_paths()?;
        let differing = self.converted_paths(&index)?;
        let mut doubtful: Vec<u8> = Vec::new();
        for entry in &index.entries {
            let odd = entry.mode == GITLINK
                || entry.stage > 0
                || entry.assume_valid
                || entry.skip_worktree
                || entry.intent_to_add;
            if odd
                || filtered.binary_search(&entry.path).is_ok()
                || differing.binary_search(&entry.path).is_ok()
            {
                doubtful.extend_from_slice(&entry.path);
                doubtful.push(0);
            }
        }
        let beside = self.store.root().join("index.new");
        let io = || GitError::io("copying the user's index");
        fs::copy(&users, &beside).map_err(io())?;
        let copy = File::options().write(true).open(&beside).map_err(io())?;
        copy.set_modified(metadata.modified().map_err(io())?).map_err(io())?;
        if !doubtful.is_empty() {
            self.store.write_index(&beside, |place| self.remove(place, doubtful))?;
        }
        fs::rename(&beside, self.store.index()).map_err(io())?;
        Ok(())
    }

    /// Returns tracked files with content that a filter (LFS and others) changes when it is added.
    fn filtered_paths(&self) -> Result<Vec<Vec<u8>>, SnapshotError> {
        let Some(user) = self.repository.user.as_ref().filter(|user| !user.filters.is_empty()) else {
            return Ok(Vec::new());
        };
        let place = self.store.attributes_place(self.repository)?;
        let mut paths = Vec::new();
        for filter in &user.filters {
            let pattern = format!(":(attr:filter={filter})");
            let output = self.git.run(&place).args(["ls-files", "-z", "--", &pattern]).output()?;
            paths.extend(split_nul(&output).map(<[u8]>::to_vec));
        }
        paths.sort_unstable();
        Ok(paths)
    }

    /// Returns tracked files with a blob of another size than the file: line ends or the encoding
    /// were converted. Also returns files with a missing blob (in a partial clone).
    fn converted_paths(&self, index: &IndexFile) -> Result<Vec<Vec<u8>>, SnapshotError> {
        let plain: Vec<&IndexEntry> = index.entries.iter().filter(|entry| entry.mode != GITLINK).collect();
        let list = plain.iter().flat_map(|entry| [entry.id.as_bytes(), b"\n"].concat()).collect();
        let place = self.store.reading_place();
        let call = self.git.run(&place).args(["cat-file", "--batch-check=%(objectsize)", "--buffer"]);
        let answer = String::from_utf8_lossy(&call.input(list).output()?).into_owned();
        let sizes = answer.lines().map(|line| line.parse::<u64>().ok());
        let mut paths: Vec<Vec<u8>> = plain
            .iter()
            .zip(sizes)
            .filter(|(entry, size)| size.is_none_or(|size| size as u32 != entry.size))
            .map(|(entry, _)| entry.path.clone())
            .collect();
        paths.sort_unstable();
        Ok(paths)
    }
}
