//! An object cache: the objects of one project, and which snapshots are whole in it. The coordinator has one a project, and
//! so has each worker.

use crate::directory;
use crate::git::{Git, GitError, Place};
use crate::incoming::checksum;
use crate::limits::{PACKS_MAX, SNAPSHOTS_KEPT};
use crate::pack::{self, PackFile, Part};
use buildpool_protocol::limits::{SNAPSHOT_BYTES_MAX, TRANSFER_BYTES_MAX};
use buildpool_protocol::transfer::{Head, Manifest, ObjectFormat, ObjectId};
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why a cache can't do it.
#[derive(Debug)]
pub enum CacheError {
    /// git or the disk.
    Git(GitError),
    /// The tree that a pack builds on is not here.
    NoBase(ObjectId),
    /// The pack does not bring everything.
    Incomplete {
        /// Of which snapshot.
        tree: ObjectId,
        /// The first object that is missing or of another kind.
        object: ObjectId,
        /// How many are.
        count: usize,
    },
    /// The files are larger than allowed.
    TooLarge {
        /// In bytes.
        bytes: u64,
    },
    /// The snapshot is not here.
    Unknown(ObjectId),
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git(_) => f.write_str("the object cache's git failed"),
            Self::NoBase(base) => write!(f, "the pack builds on the tree {base}, which is not here"),
            Self::Incomplete { tree, object, count } => {
                write!(f, "the snapshot {tree} lacks {count} objects, the first is {object}")
            }
            Self::TooLarge { bytes } => {
                write!(f, "the snapshot has {bytes} bytes; at most {SNAPSHOT_BYTES_MAX} are valid")
            }
            Self::Unknown(tree) => write!(f, "the snapshot {tree} is not here"),
        }
    }
}

impl std::error::Error for CacheError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Git(source) => Some(source),
            Self::NoBase(_) | Self::Incomplete { .. } | Self::TooLarge { .. } | Self::Unknown(_) => None,
        }
    }
}

impl From<GitError> for CacheError {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

/// The directory name of a project: readable, and different for different projects on every platform.
pub fn project_key(project: &str) -> String {
    let readable: String = project
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let tail: String = readable.chars().skip(readable.len().saturating_sub(40)).collect();
    let hash = checksum(&blake3::hash(project.as_bytes()));
    format!("{}-{}", tail.trim_matches('-'), &hash.as_str()[..12])
}

/// The objects of one project.
#[derive(Clone, Debug)]
pub struct ObjectCache {
    git: Git,
    directory: PathBuf,
}

impl ObjectCache {
    /// Opens or makes it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open(git: Git, directory: &Path, format: ObjectFormat) -> Result<Self, CacheError> {
        Self::open_for_disk(git, directory, format, false)
    }

    /// Opens or makes it, for laying out files on a disk that ignores case or not.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open_for_disk(
        git: Git,
        directory: &Path,
        format: ObjectFormat,
        ignores_case: bool,
    ) -> Result<Self, CacheError> {
        let settings = [
            // The patterns of whoever runs this have no say in what is a build product.
            ("core.excludesFile", "/dev/null"),
            ("core.ignoreCase", if ignores_case { "true" } else { "false" }),
            ("core.preComposeUnicode", if ignores_case { "true" } else { "false" }),
        ];
        directory::write(directory, format, true, &settings.map(|(key, value)| (key.into(), value.into())))?;
        let snapshots = directory.join("snapshots");
        fs::create_dir_all(&snapshots).map_err(GitError::io(format!("creating {}", snapshots.display())))?;
        Ok(Self { git, directory: directory.to_owned() })
    }

    /// Whether a snapshot is whole in the cache in this directory; counts as a use of it. Needs no git.
    pub fn holds(directory: &Path, tree: &ObjectId, head: Option<&ObjectId>) -> bool {
        let path = directory.join(record_name(tree, head));
        // Only the order of removal depends on its time.
        File::open(path).map(|file| file.set_modified(SystemTime::now()).ok()).is_ok()
    }

    /// For commands of git's on it.
    pub fn place(&self) -> Place {
        Place { git_dir: Some(self.directory.clone()), ..Place::default() }
    }

    /// The git that it uses.
    pub const fn git(&self) -> &Git {
        &self.git
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is known of a snapshot with this commit checked out, if it is whole here; counts as a use of it.
    pub fn manifest(&self, tree: &ObjectId, head: Option<&ObjectId>) -> Option<Manifest> {
        let path = self.record(tree, head);
        let manifest = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        // Only the order of removal depends on it.
        File::open(&path).and_then(|file| file.set_modified(SystemTime::now())).ok();
        Some(manifest)
    }

    /// The snapshots that are whole here, the most recently used one first.
    pub fn manifests(&self) -> Vec<Manifest> {
        let mut records: Vec<(SystemTime, PathBuf)> = fs::read_dir(self.directory.join("snapshots"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        records.sort_by(|a, b| b.cmp(a));
        records.iter().filter_map(|(_, path)| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
    }

    /// Whether a commit is here with all that belongs to it.
    pub fn has_head(&self, commit: &ObjectId) -> bool {
        self.mark(commit, "head").exists()
    }

    /// Whether a tree is here with all that is in it.
    pub fn has_tree(&self, tree: &ObjectId) -> bool {
        self.mark(tree, "tree").exists()
    }

    fn record(&self, tree: &ObjectId, head: Option<&ObjectId>) -> PathBuf {
        self.directory.join(record_name(tree, head))
    }

    /// An empty file that says that something is whole.
    fn mark(&self, id: &ObjectId, kind: &str) -> PathBuf {
        self.directory.join(format!("snapshots/{id}.{kind}"))
    }

    /// Takes a pack in. Only when everything that belongs to the snapshot is here does the snapshot count as being here.
    ///
    /// # Errors
    /// Every [`CacheError`]; the snapshot is not here then.
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
        let empty = file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if !empty {
            self.git
                .run(&self.place())
                .args(["index-pack", "--stdin", "--fix-thin", &bound])
                .input_from(file)?;
        }
        let head_is_there = manifest.head.as_ref().is_none_or(|head| self.has_head(&head.commit));
        let parts = pack::lacking(&self.git, &self.place(), manifest, base, head_is_there)?;
        self.check_parts(&parts, manifest)?;
        directory::write_if_different(&self.mark(&manifest.tree, "tree"), b"")?;
        if let Some(head) = &manifest.head {
            directory::write_if_different(&self.mark(&head.tree, "tree"), b"")?;
            directory::write_if_different(&self.mark(&head.commit, "head"), b"")?;
        }
        let text = serde_json::to_vec(manifest).expect("a manifest has string keys only");
        directory::write_if_different(&self.record_of(manifest), &text)?;
        Ok(())
    }

    fn record_of(&self, manifest: &Manifest) -> PathBuf {
        self.record(&manifest.tree, manifest.head.as_ref().map(|head| &head.commit))
    }

    /// Notes what changed beside the objects of a snapshot that is here.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn renew(&self, manifest: &Manifest) -> Result<(), CacheError> {
        let path = self.record_of(manifest);
        // The history may be one that was not sent.
        let known: Option<Manifest> =
            fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let Some(known) = known else { return Ok(()) };
        let head = known.head.zip(manifest.head.as_ref());
        let head = head.map(|(head, new)| Head { branch: new.branch.clone(), ..head });
        let renewed = Manifest { head, excludes: manifest.excludes.clone(), ..known };
        let text = serde_json::to_vec(&renewed).expect("a manifest has string keys only");
        Ok(directory::write_if_different(&path, &text)?)
    }

    fn check_parts(&self, parts: &[Part], manifest: &Manifest) -> Result<(), CacheError> {
        let mut list = Vec::with_capacity(parts.len() * 41);
        for part in parts {
            list.extend_from_slice(part.id.as_str().as_bytes());
            list.push(b'\n');
        }
        let call = self.git.run(&self.place()).args([
            "cat-file",
            "--batch-check=%(objecttype) %(objectsize)",
            "--buffer",
        ]);
        let answer = String::from_utf8_lossy(&call.input(list).output()?).into_owned();
        let (mut bytes, mut count, mut first) = (0_u64, 0, None);
        let mut lines = answer.lines();
        for part in parts {
            let (kind, size) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
            if part.kind.fits(kind) {
                bytes = bytes.saturating_add(size.parse().unwrap_or(0));
            } else {
                count += 1;
                first = first.or(Some(&part.id));
            }
        }
        match first {
            Some(object) => {
                Err(CacheError::Incomplete { tree: manifest.tree.clone(), object: object.clone(), count })
            }
            None if bytes > SNAPSHOT_BYTES_MAX => Err(CacheError::TooLarge { bytes }),
            None => Ok(()),
        }
    }

    /// Makes the pack that somebody lacks of a tree with a commit checked out who has these trees and heads; also says which
    /// tree it builds on.
    ///
    /// # Errors
    /// [`CacheError::Unknown`] when the snapshot is not here, and what git says.
    pub fn pack(
        &self,
        wanted: (&ObjectId, Option<&ObjectId>),
        trees: &[ObjectId],
        heads: &[ObjectId],
        into: &Path,
    ) -> Result<(PackFile, Manifest, Option<ObjectId>), CacheError> {
        let _shared = self.lock(FlockArg::LockShared)?;
        let (tree, head) = wanted;
        let manifest = self.manifest(tree, head).ok_or_else(|| CacheError::Unknown(tree.clone()))?;
        let base = trees.iter().find(|base| self.has_tree(base));
        let head_is_there = manifest.head.as_ref().is_none_or(|head| heads.contains(&head.commit));
        let parts = pack::lacking(&self.git, &self.place(), &manifest, base, head_is_there)?;
        let file = pack::write(&self.git, &self.place(), &parts, base, into)?;
        Ok((file, manifest, base.cloned()))
    }

    /// Keeps every snapshot in `pinned` and the most recently used others, makes one pack of what they need, and
    /// removes the rest. Does nothing while there are few packs, unless `always`. Waits for nobody: when the cache is in
    /// use it is left as it is.
    ///
    /// # Errors
    /// What git or the disk says; nothing is removed then.
    pub fn tidy(&self, pinned: &[ObjectId], keep: usize, always: bool) -> Result<(), CacheError> {
        let packs = self.packs("pack")?;
        if packs.len() < PACKS_MAX && !always {
            return Ok(());
        }
        let Some(_alone) = self.try_lock(FlockArg::LockExclusiveNonblock)? else { return Ok(()) };
        let known = self.manifests();
        let (kept, gone): (Vec<_>, Vec<_>) = known.into_iter().enumerate().partition(|(rank, manifest)| {
            *rank < keep.min(SNAPSHOTS_KEPT) || pinned.contains(&manifest.tree)
        });
        for (_, manifest) in &gone {
            fs::remove_file(self.record_of(manifest)).ok();
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut previous: Option<&ObjectId> = None;
        for (_, manifest) in &kept {
            parts.extend(pack::lacking(&self.git, &self.place(), manifest, previous, false)?);
            previous = Some(&manifest.tree);
        }
        let mut whole: BTreeSet<String> = BTreeSet::new();
        for (_, manifest) in &kept {
            whole.insert(format!("{}.tree", manifest.tree));
            whole.extend(manifest.head.iter().map(|head| format!("{}.tree", head.tree)));
            whole.extend(manifest.head.iter().map(|head| format!("{}.head", head.commit)));
        }
        self.forget_marks_but(&whole)?;
        self.write_one_pack(&parts)?;
        for stem in packs {
            for extension in ["idx", "pack", "rev"] {
                // Another process may have it open; the bytes go when it closes them.
                fs::remove_file(self.directory.join(format!("objects/pack/{stem}.{extension}"))).ok();
            }
        }
        Ok(())
    }

    fn forget_marks_but(&self, whole: &BTreeSet<String>) -> Result<(), CacheError> {
        let directory = self.directory.join("snapshots");
        let entries =
            fs::read_dir(&directory).map_err(GitError::io(format!("listing {}", directory.display())))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with(".json") && !whole.contains(&name) {
                fs::remove_file(entry.path()).ok();
            }
        }
        Ok(())
    }

    /// Names of packs without extension.
    fn packs(&self, extension: &str) -> Result<Vec<String>, CacheError> {
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

    /// Moves everything that is kept into one pack. The new pack has another name than any of its content before, so it is
    /// in place before the old ones go.
    fn write_one_pack(&self, parts: &[Part]) -> Result<(), CacheError> {
        if parts.is_empty() {
            return Ok(());
        }
        let whole = self.directory.join("whole.pack");
        pack::write(&self.git, &self.place(), parts, None, &whole)?;
        let staging = self.directory.join("staging");
        directory::write(&staging, parts[0].id.format(), true, &[])?;
        let file = File::open(&whole).map_err(GitError::io("opening the new pack"))?;
        let place = Place { git_dir: Some(staging.clone()), ..Place::default() };
        self.git.run(&place).args(["index-pack", "--stdin"]).input_from(file)?;
        let made = staging.join("objects/pack");
        let mut files: Vec<PathBuf> = fs::read_dir(&made)
            .map_err(GitError::io("listing the new pack"))?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        // The index last: a pack without it is not seen.
        files.sort_by_key(|path| path.extension().is_some_and(|extension| extension == "idx"));
        let stamp =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        for file in files {
            let extension = file.extension().unwrap_or_default().to_string_lossy().into_owned();
            let target = self.directory.join(format!("objects/pack/pack-{stamp:040x}.{extension}"));
            fs::rename(&file, &target).map_err(GitError::io(format!("moving {}", file.display())))?;
        }
        fs::remove_dir_all(&staging)
            .and_then(|()| fs::remove_file(&whole))
            .map_err(GitError::io("clearing up"))?;
        Ok(())
    }

    /// Lets [`ObjectCache::tidy`] wait as long as the lock lives: something reads from the objects.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn hold(&self) -> Result<Flock<File>, CacheError> {
        self.lock(FlockArg::LockShared)
    }

    fn lock(&self, kind: FlockArg) -> Result<Flock<File>, CacheError> {
        self.try_lock(kind)?.ok_or_else(|| {
            CacheError::Git(GitError::Io {
                what: "locking the object cache".into(),
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

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        let files = fs::read_dir(self.directory.join("objects/pack")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    }
}

fn record_name(tree: &ObjectId, head: Option<&ObjectId>) -> String {
    let head = head.map_or("none", ObjectId::as_str);
    format!("snapshots/{tree}.{head}.json")
}

#[cfg(test)]
mod tests;
