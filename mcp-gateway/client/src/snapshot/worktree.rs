//! Converts the files into a tree. Our index is updated from disk, in rounds, until a scan finds no
//! change.

use super::disk::Disk;
use super::error::SnapshotError;
use super::ignores::{self, IgnoreFile};
use super::index_file::{GITLINK, IndexFile, SPARSE_DIRECTORY};
use super::left_behind;
use super::repository::{Repository, odd};
use super::scan::{self, Scan};
use super::secrets::is_secret;
use super::store::{self, Basis, Memory, Store};
use buildpool_objects::git::{GitError, split_nul};
use buildpool_objects::{Git, Place};
use buildpool_protocol::limits::SNAPSHOT_FILES_MAX;
use buildpool_protocol::transfer::ObjectId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Limit on rounds for files that keep changing.
const ROUNDS_MAX: usize = 3;
/// Limit on files that an error lists.
const FILES_NAMED: usize = 10;

/// Rules for secrets and for the total size.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) allow_secrets: bool,
    pub(super) guard_bytes: u64,
}

/// A working tree as objects.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) tree: ObjectId,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) kept_back: Vec<Vec<u8>>,
    pub(super) changed_meanwhile: Vec<Vec<u8>>,
    /// Files with paths that git refuses.
    pub(super) refused: Vec<Vec<u8>>,
    /// Directories that can't be read.
    pub(super) closed: Vec<Vec<u8>>,
    /// Directories with their own repositories: untracked ones and submodules.
    pub(super) nested: Vec<Vec<u8>>,
    /// Files of the commit that are not in the snapshot, in the manifest's form.
    pub(super) left_behind: Vec<String>,
}

/// Changes to make to our index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Plan {
    /// Files to read from disk, with their sizes.
    add: Vec<(Vec<u8>, u64)>,
    /// Paths to remove.
    remove: Vec<Vec<u8>>,
    /// Secrets to include in their committed form instead of the form on disk: path, mode, object.
    pin: Vec<(Vec<u8>, u32, String)>,
    /// Whether tracked files are missing on disk. If they come back, a scan with our index does not
    /// show it.
    lacks_some: bool,
    kept_back: Vec<Vec<u8>>,
    submodules: Vec<Vec<u8>>,
    /// Tracked files that are excluded although they were not deleted; `None` if unchanged.
    left_behind: Option<Vec<String>>,
}

impl Plan {
    fn is_done(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty() && self.pin.is_empty()
    }

    /// Returns the plan for the next scan if it finds no change. `None` if that scan needs a new
    /// comparison.
    fn when_done(&self) -> Option<Self> {
        let (kept_back, submodules) = (self.kept_back.clone(), self.submodules.clone());
        let left_behind = self.left_behind.clone();
        (!self.lacks_some).then(|| Self { kept_back, submodules, left_behind, ..Self::default() })
    }
}

/// Results of applying plans.
#[derive(Debug, Default)]
struct Reading {
    /// Files on disk with paths that git refuses.
    refused: BTreeSet<Vec<u8>>,
    /// Our index after the last change.
    ours: Option<IndexFile>,
}

pub(super) struct WorkTree<'a> {
    pub(super) git: &'a Git,
    pub(super) repository: &'a Repository,
    pub(super) store: &'a Store,
    pub(super) rules: &'a Rules,
    /// Path in the outermost repository: empty, or with `/` at the end.
    pub(super) prefix: &'a [u8],
    /// Ignore files of this repository and its outer ones.
    pub(super) ignores: &'a [IgnoreFile],
}

impl WorkTree<'_> {
    /// Takes the tree.
    pub(super) fn take(&self) -> Result<Taken, SnapshotError> {
        let mut memory = self.store.memory();
        let mut round = 0;
        let mut reading = Reading::default();
        // Basis of the last scan, and the parts of its plan that stay valid after it is applied.
        let mut carried_out: Option<(Basis, Plan)> = None;
        let (plan, scan, changed_meanwhile) = loop {
            let stamp = self.copy_users_index()?;
            if round == 0 && !self.store.index().exists() {
                // The stored basis belongs to another index.
                memory.basis = None;
                self.seed()?;
            }
            let mut scan = scan::scan(self.git, self.store, self.repository)?;
            self.keep_back_nested(&mut scan)?;
            let basis = self.basis(stamp, &scan);
            let nothing_new = scan.changed.is_empty() && scan.deleted.is_empty();
            if let (true, Some(tree), true) =
                (nothing_new, &memory.tree, memory.basis.as_ref() == Some(&basis))
            {
                return Ok(taken(tree.clone(), &memory, Plan::default(), scan, Vec::new()));
            }
            let mut plan = match carried_out.take() {
                Some((before, plan)) if nothing_new && before == basis => plan,
                _ if memory.basis.as_ref() == Some(&basis) && self.is_plain(&scan) => {
                    self.plan_of_changes(&scan)
                }
                _ => {
                    // This plan contains the refused files again.
                    memory.refused.clear();
                    self.plan(&scan)?
                }
            };
            plan.add.retain(|(path, _)| !reading.refused.contains(path));
            if plan.is_done() {
                // The basis alone determines the tree only if it has no submodules, secrets or
                // missing files.
                let is_plain = plan.kept_back.is_empty() && plan.submodules.is_empty() && !plan.lacks_some;
                memory.basis = is_plain.then_some(basis);
                break (plan, scan, Vec::new());
            }
            memory.basis = None;
            if round == ROUNDS_MAX {
                let paths = plan.add.iter().map(|(path, _)| path).chain(&plan.remove).cloned().collect();
                break (plan, scan, paths);
            }
            self.guard(&plan)?;
            match self.apply(&plan) {
                // git fails if a file changes while it is read. The next round reads it again.
                Err(SnapshotError::Git(GitError::Failed { .. })) if round + 1 < ROUNDS_MAX => {
                    self.check_readable(&plan)?;
                }
                done => {
                    done?;
                    self.note_refused(&plan, &mut reading)?;
                    carried_out = plan.when_done().map(|plan| (basis, plan));
                }
            }
            memory.own_bytes += plan.add.iter().map(|(_, size)| size).sum::<u64>();
            round += 1;
        };
        memory.refused.extend(reading.refused.iter().map(|path| String::from_utf8_lossy(path).into_owned()));
        self.finish(memory, plan, scan, changed_meanwhile, reading.ours)
    }

    /// Records files that git silently skipped. git refuses paths that could modify a repository's
    /// own files on some platform.
    fn note_refused(&self, plan: &Plan, reading: &mut Reading) -> Result<(), SnapshotError> {
        let ours = self.read_index(&self.store.index())?;
        let mut disk = Disk::below(&self.repository.top);
        for (path, _) in &plan.add {
            let is_there = ours.entries.binary_search_by(|entry| entry.path.cmp(path)).is_ok();
            // A file that was removed meanwhile does not count as refused.
            if !is_there && disk.size(path).is_some() {
                reading.refused.insert(path.clone());
            }
        }
        reading.ours = Some(ours);
        Ok(())
    }

    fn finish(
        &self,
        mut memory: Memory,
        plan: Plan,
        scan: Scan,
        changed_meanwhile: Vec<Vec<u8>>,
        ours: Option<IndexFile>,
    ) -> Result<Taken, SnapshotError> {
        // git writes the ids of subtrees into the index.
        let tree = self.store.write_index(&self.store.index(), |place| store::write_tree(self.git, place))?;
        let ours = ours.map_or_else(|| self.read_index(&self.store.index()), Ok)?;
        memory.files = ours.entries.len() as u64;
        memory.bytes = ours.entries.iter().map(|entry| u64::from(entry.size)).sum();
        if memory.files > SNAPSHOT_FILES_MAX {
            return Err(SnapshotError::TooManyFiles { count: memory.files });
        }
        if let Some(names) = &plan.left_behind {
            memory.left_behind.clone_from(names);
        }
        memory.tree = Some(tree.clone());
        self.store.remember(&memory)?;
        Ok(taken(tree, &memory, plan, scan, changed_meanwhile))
    }

    fn ignored(&self, files: &[&[u8]], directories: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>, SnapshotError> {
        let names = (files, directories);
        ignores::ignored(self.git, self.store, self.repository, self.ignores, self.prefix, names)
    }

    /// Removes untracked repositories that an ignore file excludes. Removes unreadable directories
    /// that it excludes too, so that they cause no note.
    fn keep_back_nested(&self, scan: &mut Scan) -> Result<(), SnapshotError> {
        if !self.ignores.is_empty() && !scan.nested.is_empty() {
            let ignored = self.ignored(&[], &scan.nested)?;
            scan.nested.retain(|path| !ignored.contains(path));
        }
        if !self.ignores.is_empty() && !scan.closed.is_empty() {
            let ignored = self.ignored(&[], &scan.closed)?;
            scan.closed.retain(|path| !ignored.contains(path));
        }
        Ok(())
    }

    fn basis(&self, users_index: Option<(u64, i64, u64)>, scan: &Scan) -> Basis {
        Basis {
            users_index,
            others: scan.others_checksum.clone(),
            ignores: ignores::checksum_of(self.ignores),
            head: self.repository.user.as_ref().and_then(|user| user.head.clone()).map(|(commit, _)| commit),
            allow_secrets: self.rules.allow_secrets,
            prefix: String::from_utf8_lossy(self.prefix).into_owned(),
        }
    }

    fn is_secret(&self, path: &[u8]) -> bool {
        if self.prefix.is_empty() { is_secret(path) } else { is_secret(&[self.prefix, path].concat()) }
    }

    /// Returns true if each changed path can be handled on its own.
    fn is_plain(&self, scan: &Scan) -> bool {
        self.rules.allow_secrets || !scan.changed.iter().any(|path| self.is_secret(path))
    }

    /// Returns the plan for a state that differs from our index only in these files. The indexes
    /// need not be compared.
    fn plan_of_changes(&self, scan: &Scan) -> Plan {
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
    fn plan(&self, scan: &Scan) -> Result<Plan, SnapshotError> {
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
                let cut =
                    line.iter().position(|byte| *byte == b'\t').ok_or_else(|| odd("ls-tree", "no tab"))?;
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

    fn guard(&self, plan: &Plan) -> Result<(), SnapshotError> {
        let bytes: u64 = plan.add.iter().map(|(_, size)| size).sum();
        if plan.add.len() as u64 > SNAPSHOT_FILES_MAX {
            return Err(SnapshotError::TooManyFiles { count: plan.add.len() as u64 });
        }
        if bytes <= self.rules.guard_bytes {
            return Ok(());
        }
        let mut largest: Vec<_> = plan.add.iter().collect();
        largest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let largest = largest
            .into_iter()
            .take(FILES_NAMED)
            .map(|(path, size)| (String::from_utf8_lossy(path).into_owned(), *size))
            .collect();
        Err(SnapshotError::TooLarge { bytes, guard: self.rules.guard_bytes, largest })
    }

    /// Fails if this user may not read some files: a retry would not help.
    fn check_readable(&self, plan: &Plan) -> Result<(), SnapshotError> {
        let mut disk = Disk::below(&self.repository.top);
        let closed = plan.add.iter().filter(|(path, _)| disk.is_closed(path));
        let paths: Vec<Vec<u8>> = closed.map(|(path, _)| [self.prefix, path].concat()).collect();
        let count = paths.len();
        let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
        let paths: Vec<String> = paths.iter().take(FILES_NAMED).map(text).collect();
        if count == 0 { Ok(()) } else { Err(SnapshotError::Unreadable { paths, count }) }
    }

    fn apply(&self, plan: &Plan) -> Result<(), SnapshotError> {
        self.store.write_index(&self.store.index(), |place| {
            if !plan.remove.is_empty() {
                let list = plan.remove.iter().flat_map(|path| [path.as_slice(), b"\0"].concat()).collect();
                self.remove(place, list)?;
            }
            if !plan.pin.is_empty() {
                let lines = plan.pin.iter().flat_map(|(path, mode, id)| {
                    [format!("{mode:o} {id}\t").as_bytes(), path.as_slice(), b"\0"].concat()
                });
                let call = self.git.run(place).args(["update-index", "-z", "--index-info"]);
                call.input(lines.collect()).output()?;
            }
            if !plan.add.is_empty() {
                let list = plan.add.iter().flat_map(|(path, _)| [path.as_slice(), b"\0"].concat()).collect();
                let arguments = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
                self.git.run(place).args(arguments).input(list).output()?;
            }
            Ok(())
        })
    }

    pub(super) fn remove(&self, place: &Place, list: Vec<u8>) -> Result<(), SnapshotError> {
        let arguments = ["update-index", "-z", "--force-remove", "--stdin"];
        self.git.run(place).args(arguments).input(list).output()?;
        Ok(())
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

fn taken(tree: ObjectId, memory: &Memory, plan: Plan, scan: Scan, changed_meanwhile: Vec<Vec<u8>>) -> Taken {
    let mut nested = scan.nested;
    nested.extend(plan.submodules);
    nested.sort_unstable();
    nested.dedup();
    Taken {
        tree,
        files: memory.files,
        bytes: memory.bytes,
        kept_back: plan.kept_back,
        changed_meanwhile,
        refused: memory.refused.iter().map(|path| path.clone().into_bytes()).collect(),
        closed: scan.closed,
        nested,
        left_behind: memory.left_behind.clone(),
    }
}
