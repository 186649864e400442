//! Converts the files into a tree. Our index is updated from disk, in rounds, until a scan finds no
//! change.

mod plan;

use super::disk::Disk;
use super::error::SnapshotError;
use super::ignores::{self, IgnoreFile};
use super::index_file::IndexFile;
use super::repository::Repository;
use super::scan::{self, Scan};
use super::secrets::is_secret;
use super::store::{self, Basis, Store, StoreState};
use buildpool_objects::git::GitError;
use buildpool_objects::{Git, Place};
use buildpool_protocol::limits::SNAPSHOT_FILES_MAX;
use buildpool_protocol::transfer::ObjectId;
use plan::Plan;
use std::collections::{BTreeSet, HashSet};

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
        let mut state = self.store.state();
        let mut round = 0;
        let mut reading = Reading::default();
        // Basis of the last scan, and the parts of its plan that stay valid after it is applied.
        let mut carried_out: Option<(Basis, Plan)> = None;
        let (plan, scan, changed_meanwhile) = loop {
            let stamp = self.copy_users_index()?;
            if round == 0 && !self.store.index().exists() {
                // The stored basis belongs to another index.
                state.basis = None;
                self.seed()?;
            }
            let mut scan = scan::scan(self.git, self.store, self.repository)?;
            self.keep_back_nested(&mut scan)?;
            let basis = self.basis(stamp, &scan);
            let nothing_new = scan.changed.is_empty() && scan.deleted.is_empty();
            if let (true, Some(tree), true) = (nothing_new, &state.tree, state.basis.as_ref() == Some(&basis))
            {
                return Ok(taken(tree.clone(), &state, Plan::default(), scan, Vec::new()));
            }
            let mut plan = match carried_out.take() {
                Some((before, plan)) if nothing_new && before == basis => plan,
                _ if state.basis.as_ref() == Some(&basis) && self.is_plain(&scan) => {
                    self.plan_of_changes(&scan)
                }
                _ => {
                    // This plan contains the refused files again.
                    state.refused.clear();
                    self.plan(&scan)?
                }
            };
            plan.add.retain(|(path, _)| !reading.refused.contains(path));
            if plan.is_done() {
                // The basis alone determines the tree only if it has no submodules, secrets or
                // missing files.
                let is_plain = plan.kept_back.is_empty() && plan.submodules.is_empty() && !plan.lacks_some;
                state.basis = is_plain.then_some(basis);
                break (plan, scan, Vec::new());
            }
            state.basis = None;
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
            state.own_bytes += plan.add.iter().map(|(_, size)| size).sum::<u64>();
            round += 1;
        };
        state.refused.extend(reading.refused.iter().map(|path| String::from_utf8_lossy(path).into_owned()));
        self.finish(state, plan, scan, changed_meanwhile, reading.ours)
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
        mut state: StoreState,
        plan: Plan,
        scan: Scan,
        changed_meanwhile: Vec<Vec<u8>>,
        ours: Option<IndexFile>,
    ) -> Result<Taken, SnapshotError> {
        // git writes the ids of subtrees into the index.
        let tree = self.store.write_index(&self.store.index(), |place| store::write_tree(self.git, place))?;
        let ours = ours.map_or_else(|| self.read_index(&self.store.index()), Ok)?;
        state.files = ours.entries.len() as u64;
        state.bytes = ours.entries.iter().map(|entry| u64::from(entry.size)).sum();
        if state.files > SNAPSHOT_FILES_MAX {
            return Err(SnapshotError::TooManyFiles { count: state.files });
        }
        if let Some(names) = &plan.left_behind {
            state.left_behind.clone_from(names);
        }
        state.tree = Some(tree.clone());
        self.store.write_state(&state)?;
        Ok(taken(tree, &state, plan, scan, changed_meanwhile))
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

fn taken(
    tree: ObjectId,
    state: &StoreState,
    plan: Plan,
    scan: Scan,
    changed_meanwhile: Vec<Vec<u8>>,
) -> Taken {
    let mut nested = scan.nested;
    nested.extend(plan.submodules);
    nested.sort_unstable();
    nested.dedup();
    Taken {
        tree,
        files: state.files,
        bytes: state.bytes,
        kept_back: plan.kept_back,
        changed_meanwhile,
        refused: state.refused.iter().map(|path| path.clone().into_bytes()).collect(),
        closed: scan.closed,
        nested,
        left_behind: state.left_behind.clone(),
    }
}
