//! Packs a snapshot for a receiver that has an earlier one.

use super::error::SnapshotError;
use super::store;
use super::take::{Snapshot, take_from};
use buildpool_objects::git::GitError;
use buildpool_objects::incoming::{checksum, checksum_of_open, remove_stale};
use buildpool_objects::pack::{self, PackFile};
use buildpool_protocol::transfer::ObjectId;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Age after which unused packs are removed.
const OUTGOING_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Limit on attempts to create a pack that other processes remove at once.
const PACK_TRIES_MAX: u32 = 10;

impl Snapshot {
    /// Returns the trees that a pack can be based on: trees that were sent earlier, and the
    /// committed tree.
    pub fn bases(&self) -> Vec<ObjectId> {
        let mut bases = store::sent(&self.root);
        let committed = self.manifest.head.iter().map(|head| head.tree.clone());
        bases.extend(committed.filter(|tree| *tree != self.manifest.tree));
        let mut seen = std::collections::HashSet::new();
        bases.retain(|tree| seen.insert(tree.clone()));
        bases
    }

    /// Packs the objects that a receiver with the tree `base` lacks. Of the head's objects, only
    /// those in `lacks` are packed, or all if `lacks` is `None`.
    ///
    /// The same arguments give the same file until [`Snapshot::delivered`], so that a transfer can
    /// be resumed. The file is returned open, because another process that sends the same pack may
    /// remove its name.
    ///
    /// # Errors
    /// [`SnapshotError::BaseGone`] if `base` can't be read any more, so that another base is
    /// needed. [`SnapshotError::Git`] or [`SnapshotError::Gone`] if an object of the snapshot is
    /// gone from the repository.
    pub fn pack(
        &self,
        base: Option<&ObjectId>,
        lacks: Option<&[ObjectId]>,
    ) -> Result<(PackFile, File), SnapshotError> {
        let question = format!("{} {base:?} {lacks:?} {:?}", self.manifest.tree, self.manifest.head);
        let name = checksum(&blake3::hash(question.as_bytes()));
        let outgoing = self.root.join("outgoing");
        fs::create_dir_all(&outgoing).map_err(GitError::io(format!("creating {}", outgoing.display())))?;
        remove_stale(&outgoing, OUTGOING_MAX, SystemTime::now());
        let path = outgoing.join(format!("{}.pack", &name.as_str()[..32]));
        let mut tries = 0;
        loop {
            let unreadable = || GitError::io(format!("reading {}", path.display()));
            match File::open(&path) {
                Ok(file) => {
                    let (blake3, length) = checksum_of_open(&file).map_err(unreadable())?;
                    return Ok((PackFile { path, blake3, length }, file));
                }
                Err(error) if tries == PACK_TRIES_MAX => return Err(unreadable()(error).into()),
                Err(_) => tries += 1,
            }
            match self.pack_on(base, lacks, &path) {
                Err(SnapshotError::Git(GitError::Failed { .. } | GitError::Absent { .. })) => {
                    self.read_again()?;
                    self.pack_on(base, lacks, &path)?;
                }
                result => result?,
            }
        }
    }

    fn pack_on(
        &self,
        base: Option<&ObjectId>,
        lacks: Option<&[ObjectId]>,
        path: &Path,
    ) -> Result<(), SnapshotError> {
        match (self.write_pack(base, lacks, path), base) {
            (Err(GitError::Failed { .. } | GitError::Absent { .. }), Some(base))
                if self.is_base_gone(base)? =>
            {
                Err(SnapshotError::BaseGone { base: base.clone() })
            }
            (result, _) => Ok(result.map(drop)?),
        }
    }

    /// Returns true if the base can't be read but the snapshot can. A part of the base may have
    /// been in the store of a removed nested repository, or in our own store before a reset.
    fn is_base_gone(&self, base: &ObjectId) -> Result<bool, GitError> {
        let is_unreadable =
            |base| match pack::missing_parts(&self.git, &self.place, &self.manifest, base, &|_| false) {
                Err(GitError::Failed { .. } | GitError::Absent { .. }) => Ok(true),
                listed => listed.map(|_| false),
            };
        Ok(is_unreadable(Some(base))? && !is_unreadable(None)?)
    }

    fn write_pack(
        &self,
        base: Option<&ObjectId>,
        lacks: Option<&[ObjectId]>,
        path: &Path,
    ) -> Result<PackFile, GitError> {
        let is_wanted = |id: &ObjectId| lacks.is_none_or(|lacks| lacks.contains(id));
        let parts = pack::missing_parts(&self.git, &self.place, &self.manifest, base, &is_wanted)?;
        pack::write(&self.git, &self.place, &parts, base, 0, path)
    }

    /// Reads all files again into our own objects, after the user's repository has dropped objects
    /// that our index refers to. The tree is the same, unless files have changed.
    fn read_again(&self) -> Result<(), SnapshotError> {
        let again = take_from(&self.options, true)?;
        if again.id() == self.id() { Ok(()) } else { Err(SnapshotError::Gone { tree: self.id().clone() }) }
    }

    /// Stops offering this tree as a base.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn forget_base(&self, base: &ObjectId) -> Result<(), SnapshotError> {
        store::forget_sent(&self.root, base)
    }

    /// Records the tree as a base for later snapshots, and removes the sent pack. Other packs may
    /// belong to other processes.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn delivered(&self, by: Option<&PackFile>) -> Result<(), SnapshotError> {
        store::remember_sent(&self.root, &self.manifest.tree)?;
        if let Some(pack) = by {
            // Another process may have removed the pack of the same snapshot already.
            fs::remove_file(&pack.path).ok();
        }
        Ok(())
    }
}
