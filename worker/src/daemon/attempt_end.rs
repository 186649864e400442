//! The end of an attempt: requested, concluded, reported, deleted.

use super::agent::Agent;
use super::attempt::{Attempt, ENDED_BEFORE_START, Stage};
use super::event::Event;
use super::fallback_outcome;
use super::final_outcome::{OutcomeContext, without_files};
use super::memory;
use super::message_size;
use super::spans;
use super::undeletable;
use crate::isolation::{Isolation, permissions};
use crate::keeper::messages::ToKeeper;
use buildpool_dial::pause_for;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::{EndReason, Outcome, StartFailure};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{error, info, warn};

impl Agent {
    pub(super) fn end_attempt(&mut self, id: AttemptId, acted: EndReason) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let acted = attempt.end_reason.get_or_insert(acted).clone();
        match &attempt.stage {
            Stage::InKeeper { keeper: Some(keeper), .. } => {
                // An error is ignored: the next answer of the coordinator repeats the order.
                let _ = self.keepers.send(*keeper, &ToKeeper::End { attempt: id, acted });
            }
            Stage::Waiting { .. } => {
                self.fail_start(id, StartFailure::Workspace { reason: ENDED_BEFORE_START.into() });
            }
            // The preparation checks this flag as soon as possible.
            Stage::Preparing { stop, .. } => drop(stop.send_replace(true)),
            // Checked when the keeper connects, or too late.
            Stage::InKeeper { keeper: None, .. } | Stage::BuildingOutcome | Stage::Ended => {}
        }
    }

    pub(super) fn fence(&mut self, id: AttemptId) {
        self.outbox.remove(id);
        match self.attempts.get(&id).map(|attempt| &attempt.stage) {
            Some(Stage::Ended) => self.delete(id),
            Some(_) => {
                if let Some(attempt) = self.attempts.get_mut(&id) {
                    attempt.end_reason = None;
                }
                self.end_attempt(id, EndReason::Fenced);
            }
            None => {}
        }
    }

    pub(super) fn delete(&mut self, id: AttemptId) {
        let attempt = self.attempts.remove(&id);
        let holds_workspace = attempt.as_ref().is_some_and(Attempt::holds_workspace);
        // The attributes of an old directory could carry data from an isolated job to one of another trust class.
        let is_reusable =
            self.config.isolation == Isolation::None && attempt.is_some_and(|attempt| attempt.ended_alone());
        self.outbox.remove(id);
        let (directory, data_directory, files) =
            (self.data_directory.attempt(id), Arc::clone(&self.data_directory), self.files.clone());
        self.work.spawn_blocking(move || {
            if holds_workspace {
                files.release(id);
            }
            if !(is_reusable && data_directory.spares.keep(&directory))
                && let Err(error) = undeletable::discard_attempt(data_directory.path(), &directory)
            {
                warn!("{} can't be removed: {error}", directory.display());
            }
            if let Some(groups) = &files.groups {
                groups.remove(&memory::name(id));
            }
            Event::Deleted
        });
    }

    /// Marks an attempt as ended. Its user is free for the next one, so close the directories to
    /// its files.
    fn mark_ended(&mut self, id: AttemptId) -> Option<&mut Attempt> {
        self.last_end_at = Instant::now();
        let attempt = self.attempts.get_mut(&id)?;
        attempt.stage = Stage::BuildingOutcome;
        if let Err(error) = permissions::close_gates(&attempt.gates) {
            error!(job = %id.job, attempt = id.number, %error, "the files of an attempt can't be closed");
        }
        Some(attempt)
    }

    pub(super) fn fail_start(&mut self, id: AttemptId, failure: StartFailure) {
        let Some(attempt) = self.mark_ended(id) else { return };
        let (acted, holds_workspace) = (attempt.end_reason.clone(), attempt.holds_workspace());
        self.note_shortage(&failure);
        let (data_directory, files) = (Arc::clone(&self.data_directory), self.files.clone());
        self.work.spawn_blocking(move || {
            if holds_workspace {
                files.release(id);
            }
            let outcome = fallback_outcome::of_unstarted(&data_directory, id, failure, acted);
            Event::OutcomeBuilt { attempt: id, outcome: Ok(Box::new(outcome)) }
        });
        self.report_soon();
    }

    /// Starts to build the outcome of an attempt.
    pub(super) fn build_outcome(&mut self, id: AttemptId) {
        let Some(attempt) = self.mark_ended(id) else { return };
        let context = attempt.outcome_context();
        match without_files(&self.config, &context) {
            Some(outcome) => self.on_outcome(id, Ok(Box::new(outcome))),
            None => self.spawn_outcome(id, context, Duration::ZERO),
        }
        self.report_soon();
    }

    fn spawn_outcome(&mut self, id: AttemptId, context: OutcomeContext, after: Duration) {
        let (data_directory, config, files) =
            (Arc::clone(&self.data_directory), Arc::clone(&self.config), self.files.clone());
        self.work.spawn(async move {
            pause_for(after).await;
            Event::OutcomeBuilt {
                attempt: id,
                outcome: files.build_outcome(data_directory, config, id, context).await,
            }
        });
    }

    pub(super) fn on_outcome(&mut self, id: AttemptId, outcome: io::Result<Box<Outcome>>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                error!(job = %id.job, attempt = id.number, %error, "the outcome of an attempt can't be read or written");
                let context = attempt.outcome_context();
                return self.spawn_outcome(id, context, crate::limits::DISK_FULL_RETRY);
            }
        };
        attempt.stage = Stage::Ended;
        self.last_end_at = Instant::now();
        attempt.started_at_ms = outcome.started_at_ms;
        attempt.log_length = outcome.log_length;
        let (lease, is_fenced) = (attempt.lease, attempt.is_fenced);
        let trace = attempt.spec.trace.as_deref();
        info!(worker = %self.config.name, job = %id.job, attempt = id.number, trace, log_length = outcome.log_length, "attempt ended");
        spans::concluded(&attempt.spec, id, &outcome, fallback_outcome::wall_clock_ms());
        for survivor in &outcome.survivors {
            warn!(job = %id.job, attempt = id.number, pid = survivor.pid, command = survivor.command, "a process could not be ended");
        }
        self.survivors.note(&outcome.survivors);
        if is_fenced {
            self.delete(id);
        } else {
            let log_length = outcome.log_length;
            self.outbox.complete(id, log_length, message_size::complete(lease, outcome));
        }
        self.start_waiting();
        self.tidy();
        self.report_soon();
    }
}
