//! Removal of old snapshots and of torn packs.

use super::{CacheError, ObjectCache, SNAPSHOTS};
use crate::git::GitError;
use crate::limits::{GIT_RUN_MAX, PACKS_MAX, SNAPSHOTS_KEPT};
use crate::pack::{self, Part};
use buildpool_protocol::transfer::{Manifest, ObjectId};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

impl ObjectCache {
    /// Keeps pinned snapshots and the `keep` most recently used others, repacks their objects into
    /// one pack and removes the rest. Does nothing if there are few packs, unless `always` is set.
    /// It never blocks: if the cache is in use, it does nothing.
    ///
    /// # Errors
    /// Errors of git or the disk. Nothing is removed then.
    pub fn tidy(
        &self,
        is_pinned: impl Fn(&Manifest) -> bool,
        keep: usize,
        always: bool,
    ) -> Result<(), CacheError> {
        let packs = self.packs("pack")?;
        let torn = self.torn()?;
        if packs.len() < PACKS_MAX && torn.is_empty() && !always {
            return Ok(());
        }
        let Some(_alone) = self.hold_alone()? else { return Ok(()) };
        for path in torn {
            fs::remove_file(path).ok();
        }
        if packs.len() < PACKS_MAX && !always {
            return Ok(());
        }
        let kept: Vec<(PathBuf, Manifest)> = self
            .records()
            .into_iter()
            .enumerate()
            .filter(|(rank, (_, manifest))| *rank < keep.min(SNAPSHOTS_KEPT) || is_pinned(manifest))
            .map(|(_, record)| record)
            .collect();
        let mut parts: Vec<Part> = Vec::new();
        let mut previous: Option<&ObjectId> = None;
        let mut whole: BTreeSet<PathBuf> = BTreeSet::new();
        for (record, manifest) in &kept {
            parts.extend(pack::missing_parts(&self.git, &self.place(), manifest, previous, &|_| true)?);
            previous = Some(&manifest.tree);
            whole.extend([record.clone(), self.mark(&manifest.tree)]);
            whole.extend(manifest.head.iter().map(|head| self.mark(&head.tree)));
        }
        self.forget_all_but(&whole)?;
        self.write_one_pack(&parts)?;
        for stem in packs {
            self.remove_pack(&stem);
        }
        Ok(())
    }

    pub(super) fn remove_pack(&self, stem: &str) {
        for extension in ["idx", "pack", "rev"] {
            // An error is ignored. Another process may have the file open, and the space is freed
            // when it closes the file.
            fs::remove_file(self.directory.join(format!("objects/pack/{stem}.{extension}"))).ok();
        }
    }

    /// Returns incomplete pack files of a git that was killed. They are older than the longest git
    /// run, so that a git from before a restart cannot still write them.
    fn torn(&self) -> Result<Vec<PathBuf>, CacheError> {
        let directory = self.directory.join("objects/pack");
        let entries =
            fs::read_dir(&directory).map_err(GitError::io(format!("listing {}", directory.display())))?;
        let is_old = |entry: &fs::DirEntry| {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > GIT_RUN_MAX))
        };
        let torn = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp_"));
        Ok(torn.filter(is_old).map(|entry| entry.path()).collect())
    }

    /// Removes records and marks, except those in `whole`.
    pub(super) fn forget_all_but(&self, whole: &BTreeSet<PathBuf>) -> Result<(), CacheError> {
        let directory = self.directory.join(SNAPSHOTS);
        let entries =
            fs::read_dir(&directory).map_err(GitError::io(format!("listing {}", directory.display())))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| !whole.contains(path)) {
            fs::remove_file(path).ok();
        }
        Ok(())
    }

    /// Returns the names of packs without extension.
    pub(super) fn packs(&self, extension: &str) -> Result<Vec<String>, CacheError> {
        let directory = self.directory.join("objects/pack");
        let entries =
            fs::read_dir(&directory).map_err(GitError::io(format!("listing {}", directory.display())))?;
        Ok(entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
            .collect())
    }
}
