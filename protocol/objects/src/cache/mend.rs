//! Repairs a damaged cache. A cheap check or a failed git command detects damage. The repair keeps
//! complete snapshots. Missing snapshots are transferred again like any others.

use super::{CacheError, ObjectCache, SNAPSHOTS};
use crate::git::GitError;
use crate::{directory, pack, record, removal};
use buildpool_protocol::transfer::{Manifest, ObjectFormat};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

impl CacheError {
    /// Returns true if the cause may be missing or unreadable objects.
    pub const fn may_be_damage(&self) -> bool {
        match self {
            Self::Git(error) => error.may_be_damage(),
            Self::NoBase(_) | Self::Incomplete { .. } => true,
            Self::Unknown(_) => false,
        }
    }
}

impl GitError {
    /// Returns true if the cause may be missing or unreadable objects.
    pub const fn may_be_damage(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Unexpected { .. } | Self::Absent { .. })
    }
}

impl ObjectCache {
    /// Checks the cache without git. Every pack must have an index and end with the checksum that
    /// its index contains. If there are snapshots, there must be a pack. Other damage is only
    /// detected when git fails.
    pub fn looks_whole(&self) -> bool {
        let (Ok(packs), Ok(indexes)) = (self.packs("pack"), self.packs("idx")) else { return false };
        let (packs, indexes) = (BTreeSet::from_iter(packs), BTreeSet::from_iter(indexes));
        if packs.is_empty() && !record::all(&self.directory.join(SNAPSHOTS)).is_empty() {
            return false;
        }
        packs == indexes && packs.iter().all(|stem| self.ends_agree(stem).unwrap_or(false))
    }

    /// Returns true if a pack ends with the checksum from its index.
    fn ends_agree(&self, stem: &str) -> io::Result<bool> {
        let packs = self.directory.join("objects/pack");
        let length = match self.format {
            ObjectFormat::Sha1 => 20,
            ObjectFormat::Sha256 => 32,
        };
        let of_pack = ending(&packs.join(format!("{stem}.pack")), length)?;
        let of_both = ending(&packs.join(format!("{stem}.idx")), 2 * length)?;
        Ok(of_both.starts_with(&of_pack))
    }

    /// Checks the whole cache. Removes unreadable packs, and the records of snapshots that become
    /// incomplete. If no snapshot is complete, the cache is emptied. Returns true if there was
    /// damage. It never blocks: if the cache is in use, or `is_free` returns false, it does
    /// nothing.
    ///
    /// # Errors
    /// Fails if git cannot be run, or the disk fails.
    pub fn mend(&self, is_free: impl FnOnce() -> bool) -> Result<bool, CacheError> {
        let Some(_alone) = self.hold_alone()? else { return Ok(false) };
        if !is_free() {
            return Ok(false);
        }
        let stems: BTreeSet<String> = self.packs("pack")?.into_iter().chain(self.packs("idx")?).collect();
        let mut damaged = false;
        for stem in stems {
            if !self.is_readable(&stem)? {
                damaged = true;
                self.remove_pack(&stem);
            }
        }
        let (mut whole, mut kept) = (BTreeSet::new(), Vec::new());
        for (path, manifest) in self.records() {
            if self.is_whole(&manifest)? {
                whole.extend([path, self.mark(&manifest.tree)]);
                whole.extend(manifest.head.iter().map(|head| self.mark(&head.tree)));
                kept.push(manifest);
            } else {
                damaged = true;
            }
        }
        if damaged {
            self.forget_all_but(&whole)?;
            if kept.is_empty() {
                self.begin_anew()?;
            }
        }
        Ok(damaged)
    }

    fn is_readable(&self, stem: &str) -> Result<bool, CacheError> {
        let path = |extension: &str| self.directory.join(format!("objects/pack/{stem}.{extension}"));
        if !path("pack").is_file() || !path("idx").is_file() {
            return Ok(false);
        }
        // Pass the full path: a name that starts with a dash would be an option.
        let call = self.git.run(&self.place()).args(["verify-pack".as_ref(), path("idx").as_os_str()]);
        is_fine(call.for_bytes(self.content()).output().map(drop).map_err(CacheError::Git))
    }

    fn is_whole(&self, manifest: &Manifest) -> Result<bool, CacheError> {
        let missing = pack::missing_objects(&self.git, &self.place(), manifest, None, &|_| true);
        is_fine(
            missing
                .map_err(CacheError::Git)
                .and_then(|missing| self.check_parts(&missing, manifest).map(drop)),
        )
    }

    /// Removes everything except the lock, which this process holds, and the records, which are
    /// already removed.
    fn begin_anew(&self) -> Result<(), CacheError> {
        let failed = |path: &Path| GitError::io(format!("removing {}", path.display()));
        for entry in fs::read_dir(&self.directory).map_err(failed(&self.directory))?.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            // The settings stay, because the process that opened the cache relies on them.
            if ["lock", SNAPSHOTS, "config"].iter().any(|kept| name == *kept) {
                continue;
            }
            removal::remove(&path).map_err(failed(&path))?;
        }
        Ok(directory::lay_out(&self.directory)?)
    }
}

/// Maps a possible damage to `false`. Other errors are returned.
fn is_fine(result: Result<(), CacheError>) -> Result<bool, CacheError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.may_be_damage() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the last `length` bytes of a file.
fn ending(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let offset = i64::try_from(length).map_err(io::Error::other)?;
    file.seek(SeekFrom::End(-offset))?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
