//! The plan of changes to our index: compares the files on disk, the user's index and our own.

use super::super::disk::Disk;
use super::super::error::SnapshotError;
use super::super::index_file::{GITLINK, IndexFile, SPARSE_DIRECTORY};
use super::super::left_behind;
use super::super::repository::unexpected;
use super::super::scan::Scan;
use super::WorkTree;
use buildpool_objects::git::{GitError, split_nul};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Changes to make to our index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Plan {
    /// Files to read from disk, with their sizes.
    pub(super) add: Vec<(Vec<u8>, u64)>,
    /// Paths to remove.
    pub(super) remove: Vec<Vec<u8>>,
    /// Secrets to include in their committed form instead of the form on disk: path, mode, object.
    pub(super) pin: Vec<(Vec<u8>, u32, String)>,
    /// Whether tracked files are missing on disk. If they come back, a scan with our index does not
    /// show it.
    pub(super) lacks_some: bool,
    pub(super) kept_back: Vec<Vec<u8>>,
    pub(super) submodules: Vec<Vec<u8>>,
    /// Tracked files that are excluded although they were not deleted; `None` if unchanged.
    pub(super) left_behind: Option<Vec<String>>,
}

impl Plan {
    pub(super) fn is_done(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty() && self.pin.is_empty()
    }

    /// Returns the plan for the next scan if it finds no change. `None` if that scan needs a new
    /// comparison.
    pub(super) fn when_done(&self) -> Option<Self> {
        let (kept_back, submodules) = (self.kept_back.clone(), self.submodules.clone());
        let left_behind = self.left_behind.clone();
        (!self.lacks_some).then(|| Self { kept_back, submodules, left_behind, ..Self::default() })
    }
}

impl WorkTree<'_> {
    /// Returns true if each changed path can be handled on its own.
    pub(super) fn is_plain(&self, scan: &Scan) -> bool {
        self.rules.allow_secrets || !scan.changed.iter().any(|path| self.is_secret(path))
    }

    /// Returns the plan for a state that differs from our index only in these files. The indexes
    /// need not be compared.
    pub(super) fn plan_of_changes(&self, scan: &Scan) -> Plan {
        let mut disk = Disk::below(&self.repository.top);
        let mut plan =
            Plan { remove: scan.deleted.clone(), lacks_some: !scan.deleted.is_empty(), ..Plan::default() };
        for path in &scan.changed {
            match disk.size(path) {
                Some(size) => plan.add.push((path.clone(), size)),
                None => plan.lacks_some = true,
            }
        }
        plan
    }

    /// Compares the wanted content of our index with its current content.
    pub(super) fn plan(&self, scan: &Scan) -> Result<Plan, SnapshotError> {
        let users = self.read_index(&self.store.users_index())?;
        let ours = self.read_index(&self.store.index())?;
        let mut plan = Plan::default();
        let mut disk = Disk::below(&self.repository.top);
        let sparse = fs::read(self.store.users_sparse()).unwrap_or_default();
        let mut left: Vec<Vec<u8>> = split_nul(&sparse).map(<[u8]>::to_vec).collect();
        let mut wanted: Vec<&[u8]> = scan.others.iter().map(Vec::as_slice).collect();
        for entry in &users.entries {
            match entry.mode {
                // A file or link in place of a submodule is handled like any other.
                GITLINK if disk.is_directory(&entry.path) => plan.submodules.push(entry.path.clone()),
                SPARSE_DIRECTORY => {}
                _ if entry.skip_worktree && disk.size(&entry.path).is_none() => {
                    left.push(entry.path.clone());
                    plan.lacks_some = true;
                }
                GITLINK => {
                    plan.lacks_some = true;
                    wanted.push(&entry.path);
                }
                _ => wanted.push(&entry.path),
            }
        }
        self.keep_back(&users, &mut wanted, &mut plan, &mut left)?;
        wanted.sort_unstable();
        wanted.dedup();
        plan.left_behind = Some(left_behind::named(&left, wanted.iter().copied()));
        let pins = if self.rules.allow_secrets {
            BTreeMap::new()
        } else {
            self.hold_back(&mut wanted, &mut disk, &mut plan)?
        };
        let present: Vec<&[u8]> = ours.entries.iter().map(|entry| entry.path.as_slice()).collect();
        let absent = wanted.iter().copied().filter(|path| present.binary_search(path).is_err());
        let changed =
            scan.changed.iter().map(Vec::as_slice).filter(|path| wanted.binary_search(path).is_ok());
        for path in absent.chain(changed) {
            match disk.size(path) {
                Some(size) => plan.add.push((path.to_vec(), size)),
                None => plan.lacks_some = true,
            }
        }
        for path in present {
            if !pins.contains_key(path) && wanted.binary_search(&path).is_err() {
                plan.remove.push(path.to_vec());
            }
        }
        let deleted = scan.deleted.iter().filter(|path| !pins.contains_key(path.as_slice()));
        plan.remove.extend(deleted.cloned());
        plan.lacks_some |= !scan.deleted.is_empty();
        plan.remove.sort_unstable();
        plan.remove.dedup();
        for (path, (mode, id)) in pins {
            let same =
                ours.entries.iter().any(|entry| entry.path == path && entry.mode == mode && entry.id == id);
            if !same {
                plan.pin.push((path, mode, id));
            }
        }
        Ok(plan)
    }

    /// Removes paths that an ignore file excludes from `wanted`. Tracked ones are recorded in
    /// `left`.
    fn keep_back(
        &self,
        users: &IndexFile,
        wanted: &mut Vec<&[u8]>,
        plan: &mut Plan,
        left: &mut Vec<Vec<u8>>,
    ) -> Result<(), SnapshotError> {
        if self.ignores.is_empty() {
            return Ok(());
        }
        let ignored = self.ignored(wanted, &plan.submodules)?;
        wanted.retain(|path| !ignored.contains(*path));
        plan.submodules.retain(|path| !ignored.contains(path));
        let tracked = users.entries.iter().map(|entry| &entry.path);
        left.extend(tracked.filter(|path| ignored.contains(*path)).cloned());
        Ok(())
    }

    /// Removes paths that look like secrets from `wanted`. Committed ones may be included in their
    /// committed form.
    fn hold_back(
        &self,
        wanted: &mut Vec<&[u8]>,
        disk: &mut Disk<'_>,
        plan: &mut Plan,
    ) -> Result<BTreeMap<Vec<u8>, (u32, String)>, SnapshotError> {
        let secrets: Vec<Vec<u8>> = wanted
            .iter()
            .filter(|path| self.is_secret(path) && disk.is_regular(path))
            .map(|path| path.to_vec())
            .collect();
        if secrets.is_empty() {
            return Ok(BTreeMap::new());
        }
        wanted.retain(|path| secrets.binary_search_by(|secret| secret.as_slice().cmp(path)).is_err());
        let mut pins = self.committed(&secrets)?;
        let on_disk = self.hash_as_they_are(pins.keys())?;
        for path in &secrets {
            let same = pins.get(path).is_some_and(|(_, id)| on_disk.get(path) == Some(id));
            if !same {
                plan.kept_back.push(path.clone());
            }
        }
        pins.retain(|path, _| secrets.contains(path));
        Ok(pins)
    }

    fn committed(&self, paths: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, (u32, String)>, SnapshotError> {
        let head = self.repository.user.as_ref().and_then(|user| user.head.as_ref());
        let Some((_, tree)) = head else { return Ok(BTreeMap::new()) };
        let mut found = BTreeMap::new();
        for some in paths.chunks(500) {
            let mut arguments: Vec<&OsStr> =
                ["--literal-pathspecs", "ls-tree", "-r", "-z", tree.as_str(), "--"].map(OsStr::new).to_vec();
            arguments.extend(some.iter().map(|path| OsStr::from_bytes(path)));
            let output = self.git.run(&self.store.reading_place()).args(arguments).output()?;
            for line in split_nul(&output) {
                let cut = line
                    .iter()
                    .position(|byte| *byte == b'\t')
                    .ok_or_else(|| unexpected("ls-tree", "no tab"))?;
                let facts = String::from_utf8_lossy(&line[..cut]).into_owned();
                let mut facts = facts.split(' ');
                let mode =
                    facts.next().and_then(|mode| u32::from_str_radix(mode, 8).ok()).unwrap_or_default();
                if let Some(id) = facts.nth(1).filter(|_| mode != GITLINK) {
                    found.insert(line[cut + 1..].to_vec(), (mode, id.to_owned()));
                }
            }
        }
        Ok(found)
    }

    fn hash_as_they_are<'p>(
        &self,
        paths: impl Iterator<Item = &'p Vec<u8>>,
    ) -> Result<HashMap<Vec<u8>, String>, SnapshotError> {
        let paths: Vec<&Vec<u8>> = paths.collect();
        match self.hash_all(&paths) {
            Err(SnapshotError::Git(GitError::Failed { .. })) => {
                // Hash the files one by one, so that an unreadable one does not affect the others.
                let each = paths.iter().filter_map(|path| self.hash_all(std::slice::from_ref(path)).ok());
                Ok(each.flatten().collect())
            }
            result => result,
        }
    }

    fn hash_all(&self, paths: &[&Vec<u8>]) -> Result<HashMap<Vec<u8>, String>, SnapshotError> {
        if paths.is_empty() {
            return Ok(HashMap::new());
        }
        let list = paths.iter().flat_map(|path| line_of(path)).collect();
        let call = self.git.run(&self.store.place(self.store.index()));
        let text = call.args(["hash-object", "--no-filters", "--stdin-paths"]).input(list).text()?;
        Ok(paths.iter().map(|path| path.to_vec()).zip(text.lines().map(str::to_owned)).collect())
    }
}

/// Formats a path as an input line for git: in C quotes if it contains special characters.
fn line_of(path: &[u8]) -> Vec<u8> {
    if !path.starts_with(b"\"") && !path.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return [path, b"\n"].concat();
    }
    let mut line = vec![b'"'];
    for byte in path {
        match byte {
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            other => line.push(*other),
        }
    }
    line.extend(b"\"\n");
    line
}
