//! Snapshots and artifacts in the objects that several coordinators share.
//!
//! The snapshots of a project are in *chains*. The first object of a chain has a whole snapshot, and each further one has
//! the objects that the snapshots before it in the chain lack. So a small change is a small object, and a chain is short.
//! An object is the manifest and the base tree as one line of JSON, and then the pack.

use super::{
    IDLE_AFTER, Limits, TransferStore, class_in, class_of, create_private, directories, format_of, git,
    log_failure, opened,
};
use crate::store::{Item, Key, Kind, ObjectError, Objects, now_ms};
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::{CacheError, GitError, record};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectId, SnapshotName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Maximum snapshots of a chain.
const CHAIN_MAX: usize = 16;
/// Chains of a project that are kept, newest first. Older ones are kept for live jobs only.
const CHAINS_KEPT: usize = 3;
/// Age before which no chain is removed, in milliseconds: the job of a new snapshot may not be submitted yet.
const CHAIN_AGE_MIN_MS: i64 = 24 * 60 * 60 * 1000;
/// Age in milliseconds before which a chain is not removed although its class has too many bytes.
const NEW_MS: i64 = 60 * 60 * 1000;
/// Age in milliseconds after which a snapshot that a client needs again gets the present time. It is shorter than the ages
/// before which no chain is removed, so the client has the rest of them to submit its job.
const CONFIRM_AFTER_MS: i64 = NEW_MS / 2;
/// Limit on the first line of an object, in bytes.
const HEADER_BYTES_MAX: u64 = 64 << 20;
/// First line of an object.
#[derive(Serialize, Deserialize)]
struct Header {
    manifest: Manifest,
    base: Option<ObjectId>,
}

/// The name of a snapshot's object among those of its project.
struct Link {
    chain: u64,
    tree: ObjectId,
    key: Checksum,
}

impl Link {
    fn name(chain: u64, index: usize, manifest: &Manifest) -> String {
        format!("{chain:08}.{index:02}.{}.{}", manifest.tree, record::key(manifest))
    }

    fn read(item: &str) -> Option<Self> {
        let mut parts = item.split('.');
        let (chain, _index) = (parts.next()?.parse().ok()?, parts.next()?);
        Some(Self { chain, tree: parts.next()?.parse().ok()?, key: parts.next()?.parse().ok()? })
    }

    fn fits(&self, name: &SnapshotName) -> bool {
        self.tree == name.tree && name.manifest.as_ref().is_none_or(|key| *key == self.key)
    }
}

fn unusable(error: ObjectError) -> CacheError {
    GitError::io("using the shared objects")(error.into()).into()
}

impl TransferStore {
    /// Copies a snapshot to the shared objects, unless they have it. When this returns, another coordinator can give it
    /// to workers. Blocks.
    ///
    /// # Errors
    /// If git or the object store fails.
    pub(crate) fn share_snapshot(&self, manifest: &Manifest) -> Result<(), CacheError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let owner = self.owner(&manifest.project, &manifest.tree);
        let cache = self.cache(&manifest.project, manifest.tree.format())?;
        self.share_from(objects, &owner, &cache, manifest)
    }

    fn share_from(
        &self,
        objects: &Objects,
        owner: &str,
        cache: &ObjectCache,
        manifest: &Manifest,
    ) -> Result<(), CacheError> {
        let _lock = self.owner_locks.lock(owner);
        let items = objects.items(Kind::Snapshot, owner).map_err(unusable)?;
        let links: Vec<(Link, &Item)> =
            items.iter().filter_map(|item| Some((Link::read(&item.item)?, item))).collect();
        let name = record::name(manifest);
        let newest = links.last().map_or(0, |(link, _)| link.chain);
        // An older chain may be removed before the job that is about to be submitted names the snapshot.
        let is_kept = |link: &Link| link.chain + CHAINS_KEPT as u64 > newest;
        if let Some((_, item)) = links.iter().rfind(|(link, _)| link.fits(&name) && is_kept(link)) {
            if now_ms() - item.stored_at_ms > CONFIRM_AFTER_MS {
                objects.confirm(Kind::Snapshot, owner, item).map_err(unusable)?;
            }
            return Ok(());
        }
        let mut chain: Vec<&(Link, &Item)> = links.iter().filter(|(link, _)| link.chain == newest).collect();
        let first = chain.first().map_or(0, |(_, item)| item.bytes);
        let grown: u64 = chain.iter().skip(1).map(|(_, item)| item.bytes).sum();
        let begins = chain.is_empty() || chain.len() >= CHAIN_MAX || grown > first;
        let number = if begins { newest + 1 } else { newest };
        if begins {
            chain.clear();
        }
        // The newest is the most similar one.
        let trees: Vec<ObjectId> = chain.iter().rev().map(|(link, _)| link.tree.clone()).collect();
        let known: Vec<Checksum> = chain.iter().map(|(link, _)| link.key.clone()).collect();
        let item = Link::name(number, chain.len(), manifest);
        let key = Key { kind: Kind::Snapshot, owner, item: &item };
        let work = Work::new(self)?;
        let (_, manifest, base) = cache.pack(&name, &trees, &known, &work.pack)?;
        work.join(&Header { manifest, base }).map_err(work.failed())?;
        objects.put_file(key, &work.object).map_err(unusable)
    }

    /// Returns true if the store has the whole snapshot. The shared objects then have it too, because another coordinator
    /// may have to give it to the job's worker. Blocks.
    ///
    /// # Errors
    /// If git or the object store fails.
    pub(crate) fn keep_for_job(&self, project: &str, name: &SnapshotName) -> Result<bool, CacheError> {
        if !self.has(project, name) {
            return Ok(false);
        }
        if self.objects.is_none() {
            return Ok(true);
        }
        let Some(manifest) = self.cache(project, name.tree.format())?.manifest(name) else {
            return Ok(false);
        };
        self.share_snapshot(&manifest).map(|()| true)
    }

    /// Copies a snapshot from the shared objects, unless it is here. Blocks.
    ///
    /// # Errors
    /// If git or the object store fails.
    pub(super) fn fetch_snapshot(&self, project: &str, name: &SnapshotName) -> Result<(), CacheError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        if ObjectCache::holds(&self.project(project, name.tree.format()), name) {
            return Ok(());
        }
        self.fetch_chain(objects, &self.owner(project, &name.tree), |link| link.fits(name))
    }

    /// Copies the newest snapshot that `is_wanted` and the ones before it in its chain, unless they are here.
    fn fetch_chain(
        &self,
        objects: &Objects,
        owner: &str,
        is_wanted: impl Fn(&Link) -> bool,
    ) -> Result<(), CacheError> {
        let _lock = self.owner_locks.lock(owner);
        let items = objects.items(Kind::Snapshot, owner).map_err(unusable)?;
        let links: Vec<(Link, &Item)> =
            items.iter().filter_map(|item| Some((Link::read(&item.item)?, item))).collect();
        let Some(last) = links.iter().rposition(|(link, _)| is_wanted(link)) else { return Ok(()) };
        let directory = self.root.join("projects").join(owner);
        create_private(&directory).map_err(GitError::io(format!("creating {}", directory.display())))?;
        let cache = ObjectCache::open(git(&self.stop)?, &directory, format_of(owner))?;
        let known: Vec<Checksum> = cache.manifests().iter().map(record::key).collect();
        let chain = links[..=last].iter().filter(|(link, _)| link.chain == links[last].0.chain);
        for (link, item) in chain {
            if !known.contains(&link.key) {
                self.fetch_link(objects, &cache, item)?;
            }
        }
        Ok(())
    }

    fn fetch_link(&self, objects: &Objects, cache: &ObjectCache, item: &Item) -> Result<(), CacheError> {
        let work = Work::new(self)?;
        let file = File::create_new(&work.object).map_err(work.failed())?;
        objects.read(item, file).map_err(unusable)?;
        let Header { manifest, base } = work.split().map_err(work.failed())?;
        cache.accept(&work.pack, &manifest, base.as_ref())
    }

    /// Copies a snapshot with this tree of this class from the shared objects.
    pub(super) fn fetch_tree(&self, tree: &ObjectId) {
        let Some(objects) = &self.objects else { return };
        let fetch = || -> Result<(), CacheError> {
            let is_own =
                |owner: &str| class_in(owner) == class_of(&self.class) && format_of(owner) == tree.format();
            for owner in objects.owners(Kind::Snapshot).map_err(unusable)? {
                // The name states the class, so no object of another class is read.
                if is_own(&owner.name) {
                    self.fetch_chain(objects, &owner.name, |link| link.tree == *tree)?;
                }
            }
            Ok(())
        };
        if let Err(error) = fetch() {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(%tree, error, "a shared snapshot can't be copied to this machine");
        }
    }

    /// Returns the owner of the objects of a project: the name of its directory.
    fn owner(&self, project: &str, tree: &ObjectId) -> String {
        name_of(&self.project(project, tree.format()))
    }

    /// Returns true if an artifact is stored.
    pub(crate) fn has_artifact(&self, job: JobId, blake3: &Checksum, length: u64) -> bool {
        match &self.objects {
            None => fs::metadata(self.artifact(job, blake3)).is_ok_and(|metadata| metadata.len() == length),
            Some(objects) => {
                let (owner, item) = (&job.to_string(), blake3.as_str());
                let key = Key { kind: Kind::Artifact, owner, item };
                objects.item(key).is_ok_and(|item| item.is_some_and(|item| item.bytes == length))
            }
        }
    }

    pub(super) fn share_artifact(&self, job: JobId, blake3: &Checksum, file: &Path) -> io::Result<()> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let (owner, item) = (&job.to_string(), blake3.as_str());
        Ok(objects.put_file(Key { kind: Kind::Artifact, owner, item }, file)?)
    }

    /// Returns the file of an artifact, or `None` if it is not stored. Blocks while it is copied from the shared objects.
    ///
    /// # Errors
    /// If the disk or the object store fails.
    pub(crate) fn artifact_file(&self, job: JobId, blake3: &Checksum) -> io::Result<Option<PathBuf>> {
        let file = self.artifact(job, blake3);
        if file.is_file() {
            return Ok(Some(file));
        }
        let Some(objects) = &self.objects else { return Ok(None) };
        let (owner, item) = (&job.to_string(), blake3.as_str());
        let directory = file.parent().unwrap_or(&self.root);
        create_private(directory)?;
        create_private(&self.incoming())?;
        let written = self.incoming().join(Uuid::now_v7().to_string());
        if !objects.get_file(Key { kind: Kind::Artifact, owner, item }, &written)? {
            return Ok(None);
        }
        fs::rename(&written, &file)?;
        Ok(Some(file))
    }

    /// Copies all snapshots to the shared objects, unless they have them. Blocks. No other process may use the store.
    ///
    /// # Errors
    /// If git or the object store fails.
    pub(crate) fn export_snapshots(&self) -> Result<(), CacheError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        Work::remove_leftovers(self);
        for directory in directories(&self.root.join("projects")) {
            let (cache, owner) = (opened(&directory)?, name_of(&directory));
            // Oldest first, so that a chain grows as it did.
            for manifest in cache.manifests().iter().rev() {
                self.share_from(objects, &owner, &cache, manifest)?;
            }
        }
        Ok(())
    }

    /// Copies all snapshots of an owner from the shared objects, unless they are here. Blocks.
    ///
    /// # Errors
    /// If git or the object store fails.
    pub(crate) fn import_snapshots(&self, owner: &str) -> Result<(), CacheError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let directory = self.root.join("projects").join(owner);
        create_private(&directory).map_err(GitError::io(format!("creating {}", directory.display())))?;
        let cache = opened(&directory)?;
        let known: Vec<Checksum> = cache.manifests().iter().map(record::key).collect();
        for item in objects.items(Kind::Snapshot, owner).map_err(unusable)? {
            if Link::read(&item.item).is_some_and(|link| !known.contains(&link.key)) {
                self.fetch_link(objects, &cache, &item)?;
            }
        }
        Ok(())
    }

    /// Copies all artifacts to the shared objects, unless they have them. Blocks.
    ///
    /// # Errors
    /// If the disk or the object store fails.
    pub(crate) fn export_artifacts(&self) -> io::Result<()> {
        for directory in directories(&self.artifacts()) {
            let Ok(job) = name_of(&directory).parse() else { continue };
            for file in fs::read_dir(&directory)?.flatten().map(|entry| entry.path()) {
                let Ok(blake3) = name_of(&file).parse() else { continue };
                if !self.has_artifact(job, &blake3, fs::metadata(&file)?.len()) {
                    self.share_artifact(job, &blake3, &file)?;
                }
            }
        }
        Ok(())
    }

    /// Copies all artifacts of a job from the shared objects, unless they are here. Blocks.
    ///
    /// # Errors
    /// If the disk or the object store fails.
    pub(crate) fn import_artifacts(&self, owner: &str) -> io::Result<()> {
        let (Some(objects), Ok(job)) = (&self.objects, owner.parse()) else { return Ok(()) };
        for item in objects.items(Kind::Artifact, owner)? {
            if let Ok(blake3) = item.item.parse() {
                self.artifact_file(job, &blake3)?;
            }
        }
        Ok(())
    }

    /// Removes shared artifacts and snapshots that no job needs.
    pub(super) fn tidy_shared(
        &self,
        objects: &Objects,
        pinned: &[SnapshotName],
        Limits { artifact_bytes, class_bytes }: Limits,
        is_known: &impl Fn(JobId) -> bool,
    ) -> Result<(), ObjectError> {
        let artifacts = objects.owners(Kind::Artifact)?;
        let mut total: u64 = artifacts.iter().map(|owner| owner.bytes).sum();
        // Ids of jobs are UUIDv7, so names sort by age.
        for owner in artifacts {
            let is_needed = owner.name.parse().is_ok_and(is_known);
            if !is_needed || total > artifact_bytes {
                objects.remove(Kind::Artifact, &owner.name, |_| true)?;
                total -= owner.bytes;
            }
        }
        for owner in objects.owners(Kind::Snapshot)? {
            let _lock = self.owner_locks.lock(&owner.name);
            tidy_chains(objects, &owner.name, pinned, idle_chains)?;
        }
        self.limit_shared(objects, pinned, class_bytes)?;
        objects.sweep_sometimes()
    }

    /// Returns the bytes of the shared snapshots of each class.
    pub(super) fn shared_bytes(&self) -> BTreeMap<String, u64> {
        let mut stored = BTreeMap::new();
        let Some(objects) = &self.objects else { return stored };
        match objects.owners(Kind::Snapshot) {
            Ok(owners) => {
                for owner in owners {
                    *stored.entry(class_in(&owner.name).to_owned()).or_default() += owner.bytes;
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "the shared snapshots can't be counted; only those on this machine are"
                );
            }
        }
        stored
    }

    /// Removes the shared snapshots of a class that were stored the longest time ago, project by project, until the class
    /// has at most three quarters of `most` bytes.
    fn limit_shared(&self, objects: &Objects, pinned: &[SnapshotName], most: u64) -> Result<(), ObjectError> {
        let mut totals = self.shared_bytes();
        totals.retain(|_, bytes| *bytes > most / 4 * 3);
        if totals.is_empty() {
            return Ok(());
        }
        let mut owners = objects.owners(Kind::Snapshot)?;
        owners.sort_by_key(|owner| owner.stored_at_ms);
        for owner in owners {
            let Some(total) = totals.get_mut(class_in(&owner.name)).filter(|total| **total > most / 4 * 3)
            else {
                continue;
            };
            let _lock = self.owner_locks.lock(&owner.name);
            // The job of a new snapshot may not be submitted yet.
            let may_go = |_, age_ms| age_ms > NEW_MS;
            *total -= tidy_chains(objects, &owner.name, pinned, may_go)?.min(*total);
        }
        Ok(())
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned()
}

/// Returns true for the older chains of a project, and for all chains of a project that was not used for long. `rank` is
/// 0 for the newest chain.
fn idle_chains(rank: usize, age_ms: i64) -> bool {
    let idle_ms = i64::try_from(IDLE_AFTER.as_millis()).unwrap_or(i64::MAX);
    age_ms > if rank < CHAINS_KEPT { idle_ms } else { CHAIN_AGE_MIN_MS }
}

/// Removes the chains of a project for which `may_go(rank, age)` is true, unless a live job needs one. Returns their bytes.
fn tidy_chains(
    objects: &Objects,
    owner: &str,
    pinned: &[SnapshotName],
    may_go: impl Fn(usize, i64) -> bool,
) -> Result<u64, ObjectError> {
    let mut chains: BTreeMap<u64, Vec<Item>> = BTreeMap::new();
    for item in objects.items(Kind::Snapshot, owner)? {
        let chain = Link::read(&item.item).map_or(0, |link| link.chain);
        chains.entry(chain).or_default().push(item);
    }
    let mut removed = 0;
    for (rank, items) in chains.into_values().rev().enumerate() {
        let age_ms = now_ms() - items.iter().map(|item| item.stored_at_ms).max().unwrap_or(0);
        let links = items.iter().filter_map(|item| Link::read(&item.item));
        let is_pinned = links.into_iter().any(|link| pinned.iter().any(|name| link.fits(name)));
        if !is_pinned && may_go(rank, age_ms) {
            objects.remove(Kind::Snapshot, owner, |item| items.contains(item))?;
            removed += items.iter().map(|item| item.bytes).sum::<u64>();
        }
    }
    Ok(removed)
}

/// Start of the names of a copy's files.
const WORK_PREFIX: &str = "shared-";

/// Files of one copy. They are removed on drop.
struct Work {
    object: PathBuf,
    pack: PathBuf,
}

impl Work {
    fn new(store: &TransferStore) -> Result<Self, CacheError> {
        let directory = store.incoming();
        create_private(&directory).map_err(GitError::io(format!("creating {}", directory.display())))?;
        let stem = directory.join(format!("{WORK_PREFIX}{}", Uuid::now_v7()));
        Ok(Self { object: stem.with_extension("object"), pack: stem.with_extension("pack") })
    }

    /// Removes the files of copies whose process was killed.
    fn remove_leftovers(store: &TransferStore) {
        for entry in fs::read_dir(store.incoming()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(WORK_PREFIX) {
                log_failure(&entry.path(), fs::remove_file(entry.path()));
            }
        }
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> CacheError + use<> {
        let operation = format!("writing {}", self.object.display());
        move |error| GitError::io(operation)(error).into()
    }

    fn join(&self, header: &Header) -> io::Result<()> {
        let mut object = File::create_new(&self.object)?;
        serde_json::to_writer(&mut object, header)?;
        object.write_all(b"\n")?;
        io::copy(&mut File::open(&self.pack)?, &mut object).map(drop)
    }

    fn split(&self) -> io::Result<Header> {
        let mut object = BufReader::new(File::open(&self.object)?);
        let mut line = Vec::new();
        (&mut object).take(HEADER_BYTES_MAX).read_until(b'\n', &mut line)?;
        io::copy(&mut object, &mut File::create_new(&self.pack)?)?;
        Ok(serde_json::from_slice(&line)?)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for path in [&self.object, &self.pack] {
            if path.exists() {
                log_failure(path, fs::remove_file(path));
            }
        }
    }
}

#[cfg(test)]
mod tests;
