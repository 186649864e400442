//! Leases of checkouts. A lease is a file in the checkout, so that it survives a restart of the
//! worker.

use super::{Workspaces, readable_name};
use crate::workspace::checkout::{Checkout, CheckoutState, now, remove};
use crate::workspace::error::WorkspaceError;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::transfer::ObjectId;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Limit on the checkouts of one project: concurrent jobs on one worker.
const CHECKOUTS_MAX: u32 = 1024;

impl Workspaces {
    /// Takes a free checkout, best first: one with this tree, else the last used one, else a new
    /// one.
    pub(super) fn take_checkout(
        &self,
        project: &str,
        tree: &ObjectId,
        attempt: AttemptId,
    ) -> Result<Checkout, WorkspaceError> {
        let home = self.project(project).join("checkouts");
        fs::create_dir_all(&home).map_err(WorkspaceError::io("creating", &home))?;
        let name = readable_name(project);
        let mut known: Vec<(bool, u64, Checkout)> = checkouts(&home, &name)
            .map(|checkout| {
                let state = checkout.state();
                (state.tree.as_ref() == Some(tree), state.used_at, checkout)
            })
            .collect();
        known.sort_by_key(|(is_same, used_at, _)| std::cmp::Reverse((*is_same, *used_at)));
        for (_, _, checkout) in known {
            if take_lease(&checkout.directory, &attempt.to_string())? {
                return Ok(checkout);
            }
        }
        self.new_checkout(project, attempt)
    }

    /// Creates a checkout for this attempt.
    pub(super) fn new_checkout(&self, project: &str, attempt: AttemptId) -> Result<Checkout, WorkspaceError> {
        let home = self.project(project).join("checkouts");
        for number in 1..=CHECKOUTS_MAX {
            let checkout = Checkout::new(home.join(number.to_string()), &readable_name(project));
            match fs::create_dir(&checkout.directory) {
                Ok(()) if take_lease(&checkout.directory, &attempt.to_string())? => return Ok(checkout),
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(WorkspaceError::io("creating", &checkout.directory)(error)),
            }
        }
        Err(WorkspaceError::TooManyCheckouts { limit: CHECKOUTS_MAX })
    }

    /// Releases the checkout of an ended attempt. Does nothing for an attempt without one.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn release(&self, attempt: AttemptId) -> Result<(), WorkspaceError> {
        let text = attempt.to_string();
        for checkout in self.all_checkouts() {
            if lease_of(&checkout.directory).is_some_and(|lease| lease == text) {
                // A failure to record the time on a full disk must not prevent the release.
                let noted = checkout.note(&CheckoutState { used_at: now(), ..checkout.state() });
                remove(&checkout.directory.join("lease"))?;
                noted?;
            }
        }
        Ok(())
    }

    /// Releases the checkouts of attempts that are no longer held, at the start of a worker.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn keep_only(&self, held: &[AttemptId]) -> Result<(), WorkspaceError> {
        let held: BTreeSet<String> = held.iter().map(AttemptId::to_string).collect();
        for checkout in self.all_checkouts() {
            if lease_of(&checkout.directory).is_some_and(|lease| !held.contains(&lease)) {
                remove(&checkout.directory.join("lease"))?;
            }
        }
        Ok(())
    }
}

pub(super) fn checkouts(home: &Path, name: &str) -> impl Iterator<Item = Checkout> + use<> {
    let name = name.to_owned();
    fs::read_dir(home)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .map(move |path| Checkout::new(path, &name))
}

/// Takes the lease of a checkout. Returns false if another holder has it.
pub(super) fn take_lease(directory: &Path, holder: &str) -> Result<bool, WorkspaceError> {
    let path = directory.join("lease");
    match fs::File::options().write(true).create_new(true).open(&path) {
        Ok(mut file) => {
            if let Err(error) = file.write_all(holder.as_bytes()) {
                // An empty lease has no holder, so remove it.
                remove(&path)?;
                return Err(WorkspaceError::io("writing", &path)(error));
            }
            Ok(true)
        }
        // NotFound: it was removed to free space. PermissionDenied: a job gave it to another user.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::AlreadyExists | ErrorKind::NotFound | ErrorKind::PermissionDenied
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(WorkspaceError::io("writing", &path)(error)),
    }
}

pub(super) fn lease_of(directory: &Path) -> Option<String> {
    fs::read_to_string(directory.join("lease")).ok()
}
