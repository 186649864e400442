//! Recovery at startup: running attempts, ended attempts without a report, and leftover
//! directories.

use super::agent::Agent;
use super::attempt::{Attempt, Stage};
use super::disk::DiskWatch;
use super::memory;
use super::previous_starts::{self, AttemptsOwner};
use super::undeletable;
use crate::isolation::permissions;
use crate::records::{self, AttemptRecord};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use tracing::{error, info, warn};

impl Agent {
    /// Recovers the state of earlier daemons, and starts the first keeper.
    pub(super) fn recover(&mut self) -> io::Result<()> {
        let earlier = previous_starts::read(&self.data_directory);
        undeletable::clear(self.data_directory.path());
        self.data_directory.spares.clear();
        self.keepers.find(&self.data_directory)?;
        // A keeper that holds a lock in this directory was started in it.
        let owner =
            if self.keepers.has_unknown_attempts() { AttemptsOwner::ThisWorker } else { earlier.owner };
        for entry in fs::read_dir(&self.data_directory.attempts)? {
            let directory = entry?.path();
            if !is_ours(&directory, owner) {
                // End no processes and send no report: the coordinator waits for the worker that
                // owns the attempt.
                warn!(
                    "{} was left by a worker elsewhere, of which this is a copy; it is removed here",
                    directory.display()
                );
                self.remove_directory(&directory);
                continue;
            }
            match records::read::<AttemptRecord>(&directory, records::ATTEMPT) {
                Ok(Some(record)) if directory == self.data_directory.attempt(record.lease.attempt) => {
                    self.restore_attempt(record.found_in(self.data_directory.path()), owner)
                }
                // The directory has no record, so no keeper has run it. The coordinator grants it
                // again.
                Ok(None) => {
                    info!("removing {}, which holds no attempt", directory.display());
                    self.remove_directory(&directory);
                }
                Ok(Some(_)) if has_lost_record(&directory, owner) => {
                    warn!("removing {}: its record was lost with the power", directory.display());
                    self.remove_directory(&directory);
                }
                Ok(Some(_)) => warn!("{} holds the record of another attempt", directory.display()),
                Err(error) => warn!("{} is left alone: {error}", directory.display()),
            }
        }
        if let Some(groups) = &self.files.groups {
            let held: BTreeSet<String> = self.attempts.keys().copied().map(memory::name).collect();
            groups.remove_others(|name| held.contains(name));
        }
        previous_starts::record(&self.data_directory, self.boot, &earlier);
        self.ended_boots = earlier.boots;
        let open = self.attempts.values().filter(|attempt| attempt.is_live());
        let open = open.flat_map(|attempt| attempt.gates.iter().cloned()).collect();
        permissions::settle(self.data_directory.path(), !self.users.is_empty(), &open)?;
        let held: Vec<_> = self.attempts.keys().copied().collect();
        self.files.begin(&held);
        self.finish_unclaimed();
        if let Err(error) = self.keepers.start(&self.data_directory) {
            warn!("no keeper can be started yet: {error}");
        }
        Ok(())
    }

    /// Removes a directory. If it can be neither removed nor moved, it stays, and the worker still
    /// starts.
    fn remove_directory(&self, directory: &Path) {
        if let Err(error) = undeletable::discard(self.data_directory.path(), directory) {
            error!("{} can't be removed: {error}", directory.display());
        }
    }

    fn restore_attempt(&mut self, record: AttemptRecord, owner: AttemptsOwner) {
        let attempt = record.lease.attempt;
        let directory = self.data_directory.attempt(attempt);
        let has_ended = directory.join(records::OUTCOME).exists();
        info!(
            "attempt {attempt} of an earlier daemon {}",
            if has_ended { "has ended" } else { "may still run" }
        );
        let stage = if has_ended {
            Stage::BuildingOutcome
        } else {
            Stage::InKeeper { keeper: None, is_ending: false }
        };
        let mut restored = Attempt::new(record.lease, record.spec, stage);
        restored.user =
            record.user.and_then(|name| self.users.iter().find(|user| user.name() == name)).cloned();
        restored.disk = record.disk.map(DiskWatch::new);
        restored.gates = record.gates;
        restored.has_lost_power = owner == AttemptsOwner::BeforeReboot;
        restored.log_length = fs::metadata(directory.join(records::LOG)).map_or(0, |metadata| metadata.len());
        self.outbox.add(attempt, directory.join(records::LOG), 0);
        self.attempts.insert(attempt, restored);
        if has_ended {
            self.build_outcome(attempt);
        }
    }

    /// Builds the outcomes of attempts without a keeper, after every running keeper has reported its attempt. An
    /// attempt with an outcome on disk does not need to wait for keepers that did not answer.
    pub(super) fn finish_unclaimed(&mut self) {
        let is_certain = !self.keepers.has_unknown_attempts();
        let unclaimed: Vec<_> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| matches!(attempt.stage, Stage::InKeeper { keeper: None, .. }))
            .map(|(id, _)| *id)
            .collect();
        for attempt in unclaimed {
            if self.data_directory.attempt(attempt).join(records::OUTCOME).exists() {
                info!(job = %attempt.job, attempt = attempt.number, "an attempt has ended");
            } else if is_certain {
                warn!(job = %attempt.job, attempt = attempt.number, "an attempt has no keeper any more");
            } else {
                continue;
            }
            self.build_outcome(attempt);
        }
    }
}

/// Returns true if an attempt in this directory belongs to this worker.
fn is_ours(directory: &Path, owner: AttemptsOwner) -> bool {
    match owner {
        AttemptsOwner::ThisWorker | AttemptsOwner::BeforeReboot => true,
        AttemptsOwner::WorkerOfOriginal => false,
        AttemptsOwner::Unknown => has_own_outcome(directory),
    }
}

/// Returns true for a directory with the record of another attempt if nothing of its own attempt can be reported: the new
/// bytes of the record were lost with the power, and the file has those of an earlier attempt.
fn has_lost_record(directory: &Path, owner: AttemptsOwner) -> bool {
    owner == AttemptsOwner::BeforeReboot && !has_own_outcome(directory)
}

/// Returns true if the directory has an outcome of the attempt that its name states. After a power loss, it can have the
/// outcome of an earlier one.
fn has_own_outcome(directory: &Path) -> bool {
    records::attempt_of(directory).is_some_and(|attempt| {
        [records::OUTCOME, records::RESULT].iter().any(|name| {
            let outcome = records::read_outcome(directory, name, attempt);
            outcome.is_ok_and(|outcome| outcome.is_some())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{AttemptsOwner, has_lost_record, has_own_outcome, is_ours};
    use crate::keeper::spool::Sealed;
    use crate::records;
    use buildpool_protocol::ids::{AttemptId, JobId};
    use buildpool_protocol::outcome::{Ending, Outcome};

    #[test]
    fn an_outcome_of_an_earlier_attempt_is_not_its_own() {
        let attempts = tempfile::tempdir().unwrap();
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number: 2 };
        let directory = records::attempt_directory(attempts.path(), attempt);
        std::fs::create_dir(&directory).unwrap();
        let outcome = Outcome::new(Ending::Exited { code: 0 }, 1, Sealed::empty().seals);
        for (writer, is_own) in [(AttemptId { number: 1, ..attempt }, false), (attempt, true)] {
            records::write_outcome(&directory, records::OUTCOME, writer, &outcome).unwrap();
            assert_eq!(has_own_outcome(&directory), is_own);
            assert_eq!(is_ours(&directory, AttemptsOwner::Unknown), is_own);
            assert_eq!(has_lost_record(&directory, AttemptsOwner::BeforeReboot), !is_own);
            assert!(!has_lost_record(&directory, AttemptsOwner::ThisWorker));
        }
    }
}
