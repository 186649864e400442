//! An object cache: the git objects of one project, and the list of complete snapshots in it. The
//! coordinator and each worker have one cache per project.

mod error;
mod mend;
mod tidy;

pub use error::CacheError;

use crate::directory;
use crate::extent::Extent;
use crate::git::{Git, GitError, Place};
use crate::incoming::checksum;
use crate::pack::{self, MissingObjects, PackFile, Part};
use crate::trees::Difference;
use crate::{record, removal, scan};
use buildpool_protocol::limits::TRANSFER_BYTES_MAX;
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectFormat, ObjectId, SnapshotName};
use nix::fcntl::{Flock, FlockArg};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Limit on a delta that many packs may unpack concurrently, in bytes. Larger deltas are unpacked
/// one at a time, so that memory use does not grow with the number of peers.
const LIGHT_DELTA_BYTES: u64 = 16 << 20;
static HEAVY: Mutex<()> = Mutex::new(());

/// Estimated cost of one path in addition to its content, in bytes.
const PATH_WORK_BYTES: u64 = 4 << 10;

/// Directory with the records of complete snapshots.
const SNAPSHOTS: &str = "snapshots";

/// Returns the directory name of a project. It is readable, and unique per project on every
/// platform.
pub fn project_key(project: &str) -> String {
    let readable: String = project
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let tail: String = readable.chars().skip(readable.len().saturating_sub(40)).collect();
    let hash = checksum(&blake3::hash(project.as_bytes()));
    format!("{}-{}", tail.trim_matches('-'), &hash.as_str()[..12])
}

/// Returns the directory name of a project within a trust class. Two classes have different names for
/// every project. The empty class has the names that older versions used.
pub fn project_key_in(class: &str, project: &str) -> String {
    if class.is_empty() {
        return project_key(project);
    }
    format!("{}.{}", project_key(project), class_key(class))
}

/// Returns the part of a directory name that stands for a trust class. Only the operator names classes.
pub fn class_key(class: &str) -> String {
    checksum(&blake3::hash(class.as_bytes())).as_str()[..16].to_owned()
}

/// The object cache of one project.
#[derive(Clone, Debug)]
pub struct ObjectCache {
    git: Git,
    directory: PathBuf,
    format: ObjectFormat,
}

impl ObjectCache {
    /// Opens or creates a cache.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn open(git: Git, directory: &Path, format: ObjectFormat) -> Result<Self, CacheError> {
        Self::open_for_disk(git, directory, format, false)
    }

    /// Opens or creates a cache for checkouts on a disk that may ignore case.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn open_for_disk(
        git: Git,
        directory: &Path,
        format: ObjectFormat,
        ignores_case: bool,
    ) -> Result<Self, CacheError> {
        let settings = [
            // The user's ignore patterns must not decide which files are build products.
            ("core.excludesFile", "/dev/null"),
            ("core.ignoreCase", if ignores_case { "true" } else { "false" }),
            ("core.preComposeUnicode", if ignores_case { "true" } else { "false" }),
        ];
        directory::write(directory, format, true, &settings.map(|(key, value)| (key.into(), value.into())))?;
        let snapshots = directory.join(SNAPSHOTS);
        fs::create_dir_all(&snapshots).map_err(GitError::io(format!("creating {}", snapshots.display())))?;
        Ok(Self { git, directory: directory.to_owned(), format })
    }

    /// Returns true if the cache in this directory contains a complete snapshot. This marks the
    /// snapshot as used. It does not run git.
    pub fn holds(directory: &Path, name: &SnapshotName) -> bool {
        record::find(&directory.join(SNAPSHOTS), name).is_some_and(|path| use_record(&path).is_ok())
    }

    /// Returns the place for git commands on this cache.
    pub fn place(&self) -> Place {
        Place { git_dir: Some(self.directory.clone()), ..Place::default() }
    }

    /// Returns the git of this cache.
    pub const fn git(&self) -> &Git {
        &self.git
    }

    /// Returns the directory of this cache.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the manifest of a snapshot if it is complete. This marks the snapshot as used.
    pub fn manifest(&self, name: &SnapshotName) -> Option<Manifest> {
        let path = record::find(&self.directory.join(SNAPSHOTS), name)?;
        let manifest = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        // An error is ignored, because only the order of removal depends on it.
        use_record(&path).ok();
        Some(manifest)
    }

    /// Returns the manifests of all complete snapshots, most recently used first.
    pub fn manifests(&self) -> Vec<Manifest> {
        self.records().into_iter().map(|(_, manifest)| manifest).collect()
    }

    fn records(&self) -> Vec<(PathBuf, Manifest)> {
        let records = record::all(&self.directory.join(SNAPSHOTS)).into_iter();
        records
            .filter_map(|(_, path)| {
                let manifest = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
                Some((path, manifest))
            })
            .collect()
    }

    /// Returns true if a tree and all objects in it are in the cache.
    pub fn has_tree(&self, tree: &ObjectId) -> bool {
        self.mark(tree).exists()
    }

    /// Returns the path of a tree's mark. The file exists if the tree is complete, and contains the
    /// tree's extent. Earlier versions left the file empty.
    fn mark(&self, id: &ObjectId) -> PathBuf {
        self.directory.join(format!("{SNAPSHOTS}/{id}.tree"))
    }

    /// Returns the missing objects of a snapshot's head: its commits, its tags, its tree. Each
    /// object is checked, because the same commit can have more or less history.
    ///
    /// # Errors
    /// Fails if git fails.
    pub fn missing_ids(&self, manifest: &Manifest) -> Result<Vec<ObjectId>, CacheError> {
        let Some(head) = &manifest.head else { return Ok(Vec::new()) };
        let parts: Vec<Part> = pack::commits_and_tags(head).collect();
        let found = self.look(&parts)?;
        let missing =
            parts.into_iter().zip(found).filter(|(_, size)| size.is_none()).map(|(part, _)| part.id);
        let tree = Some(&head.tree).filter(|tree| **tree != manifest.tree && !self.has_tree(tree));
        Ok(tree.cloned().into_iter().chain(missing).collect())
    }

    /// Imports a pack. The snapshot is recorded only if all its objects are in the cache.
    ///
    /// # Errors
    /// Every [`CacheError`]. The snapshot is not recorded then.
    pub fn accept(
        &self,
        pack: &Path,
        manifest: &Manifest,
        base: Option<&ObjectId>,
    ) -> Result<(), CacheError> {
        let _shared = self.lock(FlockArg::LockShared)?;
        if let Some(base) = base
            && !self.has_tree(base)
        {
            return Err(CacheError::NoBase(base.clone()));
        }
        let file = File::open(pack).map_err(GitError::io(format!("opening {}", pack.display())))?;
        let bound = format!("--max-input-size={TRANSFER_BYTES_MAX}");
        let length = file.metadata().map_err(GitError::io(format!("measuring {}", pack.display())))?.len();
        if length > 0 {
            let reader = BufReader::new(file.try_clone().map_err(GitError::io("opening a pack"))?);
            let unpacked = scan::scan(reader, self.format, &self.git.stop())?;
            (&file).rewind().map_err(GitError::io(format!("reading {}", pack.display())))?;
            let _alone = (unpacked.largest_delta > LIGHT_DELTA_BYTES)
                .then(|| HEAVY.lock().unwrap_or_else(PoisonError::into_inner));
            self.git
                .run(&self.place())
                .args(["index-pack", "--stdin", "--fix-thin", &bound])
                .for_bytes(unpacked.bytes.saturating_add(length))
                .input_from(file)?;
        }
        self.complete(manifest, base)
    }

    /// Records a snapshot if all its objects are already in the cache.
    ///
    /// # Errors
    /// [`CacheError::Incomplete`] if an object is missing.
    pub fn adopt(&self, manifest: &Manifest) -> Result<(), CacheError> {
        let _shared = self.lock(FlockArg::LockShared)?;
        self.complete(manifest, None)
    }

    /// Records a snapshot after a check that all its objects are in the cache. Parts that are known
    /// to be complete are skipped.
    fn complete(&self, manifest: &Manifest, base: Option<&ObjectId>) -> Result<(), CacheError> {
        let base = if self.has_tree(&manifest.tree) { Some(&manifest.tree) } else { base };
        let whole = manifest.head.as_ref().map(|head| &head.tree).filter(|tree| self.has_tree(tree));
        let missing =
            pack::missing_objects(&self.git, &self.place(), manifest, base, &|id| Some(id) != whole)?;
        let sizes = self.check_parts(&missing, manifest)?;
        let extent = match (&missing.tree, base) {
            (Some(difference), base) => difference.extent(self.extent_of(base)?, &sizes),
            (None, base) => self.extent_of(base)?,
        };
        extent.check().map_err(GitError::Excess)?;
        if let (Some(difference), Some(head)) = (&missing.head, &manifest.head) {
            let extent = difference.extent(extent, &sizes);
            extent.check().map_err(GitError::Excess)?;
            self.note_tree(&head.tree, extent)?;
        }
        self.note_tree(&manifest.tree, extent)?;
        let text = serde_json::to_vec(manifest).expect("a manifest has string keys only");
        let path = self.directory.join(SNAPSHOTS).join(record::file_name(manifest));
        directory::write_if_different(&path, &text)?;
        // Update the time, so that a lookup by tree and commit alone returns this snapshot.
        use_record(&path).map_err(GitError::io(format!("writing {}", path.display())))?;
        Ok(())
    }

    /// Returns the size of each object, or `None` for one that is missing or of another kind.
    fn look(&self, parts: &[Part]) -> Result<Vec<Option<u64>>, CacheError> {
        let mut list = Vec::with_capacity(parts.len() * 41);
        for part in parts {
            list.extend_from_slice(part.id.as_str().as_bytes());
            list.push(b'\n');
        }
        let arguments = ["cat-file", "--batch-check=%(objecttype) %(objectsize)", "--buffer"];
        let call = self.git.run(&self.place()).args(arguments);
        let answer = String::from_utf8_lossy(&call.input(list).output()?).into_owned();
        let mut lines = answer.lines();
        let sizes = parts.iter().map(|part| {
            let (kind, size) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
            part.kind.fits(kind).then(|| size.parse().unwrap_or(0))
        });
        Ok(sizes.collect())
    }

    /// Fails if an object is missing. Otherwise returns the sizes of all objects that differ.
    fn check_parts(
        &self,
        missing: &MissingObjects,
        manifest: &Manifest,
    ) -> Result<HashMap<ObjectId, u64>, CacheError> {
        let mut parts = missing.parts.clone();
        parts.extend([&missing.tree, &missing.head].into_iter().flatten().flat_map(Difference::gone));
        let found = self.look(&parts)?;
        let wanted = parts.iter().zip(&found).take(missing.parts.len());
        let mut missing = wanted.filter(|(_, size)| size.is_none()).map(|(part, _)| part);
        if let Some(first) = missing.next() {
            let (tree, object) = (manifest.tree.clone(), first.id.clone());
            return Err(CacheError::Incomplete { tree, object, count: 1 + missing.count() });
        }
        let sizes = parts.iter().zip(&found).filter_map(|(part, size)| Some((part.id.clone(), (*size)?)));
        Ok(sizes.collect())
    }

    /// Returns the extent of a complete tree.
    fn extent_of(&self, tree: Option<&ObjectId>) -> Result<Extent, CacheError> {
        let Some(tree) = tree else { return Ok(Extent::default()) };
        let noted = fs::read(self.mark(tree)).ok();
        if let Some(extent) = noted.and_then(|text| serde_json::from_slice(&text).ok()) {
            return Ok(extent);
        }
        let difference = Difference::between(&self.git, &self.place(), None, tree)?;
        let found = self.look(&difference.parts)?;
        let sizes = difference.parts.iter().zip(found);
        let sizes = sizes.filter_map(|(part, size)| Some((part.id.clone(), size?))).collect();
        let extent = difference.extent(Extent::default(), &sizes);
        self.note_tree(tree, extent)?;
        Ok(extent)
    }

    /// Returns the estimated work of a checkout of this tree, in bytes. It determines the time
    /// limit of commands on it.
    pub fn work_of(&self, tree: &ObjectId) -> u64 {
        let extent = self.extent_of(Some(tree)).unwrap_or_default();
        extent.paths.saturating_mul(PATH_WORK_BYTES).saturating_add(extent.bytes)
    }

    fn note_tree(&self, tree: &ObjectId, extent: Extent) -> Result<(), CacheError> {
        let text = serde_json::to_vec(&extent).expect("an extent has string keys only");
        Ok(directory::write_if_different(&self.mark(tree), &text)?)
    }

    /// Writes a pack with the objects of a snapshot that a receiver lacks. `trees` and `known` are
    /// the trees and complete snapshots that the receiver has. Also returns the base tree of the
    /// pack.
    ///
    /// # Errors
    /// [`CacheError::Unknown`] if the snapshot is not in the cache, and errors of git.
    pub fn pack(
        &self,
        name: &SnapshotName,
        trees: &[ObjectId],
        known: &[Checksum],
        into: &Path,
    ) -> Result<(PackFile, Manifest, Option<ObjectId>), CacheError> {
        let _shared = self.lock(FlockArg::LockShared)?;
        let manifest = self.manifest(name).ok_or_else(|| CacheError::Unknown(name.tree.clone()))?;
        let base = trees.iter().find(|base| self.has_tree(base));
        let mut theirs: HashSet<ObjectId> = trees.iter().cloned().collect();
        for head in self.manifests().iter().filter(|other| known.contains(&record::key(other))) {
            theirs.extend(head.head.iter().flat_map(pack::commits_and_tags).map(|part| part.id));
            theirs.extend(head.head.iter().map(|head| head.tree.clone()));
        }
        let parts =
            pack::missing_parts(&self.git, &self.place(), &manifest, base, &|id| !theirs.contains(id))?;
        let file = pack::write(&self.git, &self.place(), &parts, base, self.content(), into)?;
        Ok((file, manifest, base.cloned()))
    }

    /// Writes all kept objects into one pack. The new pack has a unique name, so it can be in place
    /// before the old packs are removed.
    fn write_one_pack(&self, parts: &[Part]) -> Result<(), CacheError> {
        if parts.is_empty() {
            return Ok(());
        }
        let whole = self.directory.join("whole.pack");
        pack::write(&self.git, &self.place(), parts, None, self.content(), &whole)?;
        let staging = self.directory.join("staging");
        // A previous run that was killed may have left this directory.
        removal::remove(&staging).map_err(GitError::io(format!("removing {}", staging.display())))?;
        directory::write(&staging, parts[0].id.format(), true, &[])?;
        let file = File::open(&whole).map_err(GitError::io("opening the new pack"))?;
        let place = Place { git_dir: Some(staging.clone()), ..Place::default() };
        let call = self.git.run(&place).args(["index-pack", "--stdin"]);
        call.for_bytes(self.content()).input_from(file)?;
        let made = staging.join("objects/pack");
        let mut files: Vec<PathBuf> = fs::read_dir(&made)
            .map_err(GitError::io("listing the new pack"))?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        // Move the index last: git ignores a pack without an index.
        files.sort_by_key(|path| path.extension().is_some_and(|extension| extension == "idx"));
        let stamp =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        for file in files {
            let extension = file.extension().unwrap_or_default().to_string_lossy().into_owned();
            let target = self.directory.join(format!("objects/pack/pack-{stamp:040x}.{extension}"));
            fs::rename(&file, &target).map_err(GitError::io(format!("moving {}", file.display())))?;
        }
        removal::remove(&staging)
            .and_then(|()| fs::remove_file(&whole))
            .map_err(GitError::io("clearing up"))?;
        Ok(())
    }

    /// Locks the cache for reading. [`ObjectCache::tidy`] does nothing while the lock exists.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn hold(&self) -> Result<Flock<File>, CacheError> {
        self.lock(FlockArg::LockShared)
    }

    /// Locks the cache exclusively, for its removal. Returns `None` if the cache is in use.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn hold_alone(&self) -> Result<Option<Flock<File>>, CacheError> {
        self.try_lock(FlockArg::LockExclusiveNonblock)
    }

    fn lock(&self, kind: FlockArg) -> Result<Flock<File>, CacheError> {
        self.try_lock(kind)?.ok_or_else(|| {
            CacheError::Git(GitError::Io {
                operation: "locking the object cache".into(),
                source: io::ErrorKind::WouldBlock.into(),
            })
        })
    }

    fn try_lock(&self, kind: FlockArg) -> Result<Option<Flock<File>>, CacheError> {
        let path = self.directory.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(GitError::io(format!("opening {}", path.display())))?;
        match Flock::lock(file, kind) {
            Ok(lock) => Ok(Some(lock)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(GitError::io(format!("locking {}", path.display()))(error.into()).into()),
        }
    }

    /// Returns an estimate of the unpacked size of all packs, in bytes.
    pub(crate) fn content(&self) -> u64 {
        self.bytes().saturating_mul(8)
    }

    /// Returns the size of the cache on disk, in bytes.
    pub fn bytes(&self) -> u64 {
        let files = fs::read_dir(self.directory.join("objects/pack")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }
}

fn use_record(path: &Path) -> io::Result<()> {
    File::open(path)?.set_modified(SystemTime::now())
}

#[cfg(test)]
mod tests;
