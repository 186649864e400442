//! The end of an attempt: its outcome and its state on disk.

use super::super::log_tail::tail_in_order;
use super::super::messages::EndAccount;
use super::super::spool::Sealed;
use super::super::stdin::Stdin;
use super::{RunningAttempt, shorter_text, wall_clock_ms};
use crate::limits::DISK_FULL_RETRY;
use crate::platform::{self, Now};
use crate::records::{self, Durability, StateRecord};
use crate::supervisor::Input;
use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::limits::SETUP_LOG_BYTES_MAX;
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, SetupOutcome};
use std::io;
use std::time::Duration;

impl RunningAttempt {
    pub(super) fn finish(&mut self, now: Now) {
        let elapsed_ms = self.elapsed_ms(now);
        let survivors = if self.has_survivors {
            self.process.as_mut().map(|process| process.tree.survivors()).unwrap_or_default()
        } else {
            Vec::new()
        };
        let input_error = self.stdin.as_ref().filter(|_| self.acted.is_none()).and_then(Stdin::input_error);
        let ending = match (input_error, self.ending.clone()) {
            (Some(reason), _) => Ending::Unobserved { reason },
            (None, Some(ending)) => ending,
            (None, None) => {
                Ending::Unobserved { reason: "the process was killed and did not end".to_owned() }
            }
        };
        // A failed sync does not mean lost bytes: the outcome describes the content of the file.
        let sealed = self.spool.seal(elapsed_ms).or_else(|_| self.spool.seal(elapsed_ms));
        let Ok(sealed) = sealed else {
            self.retry_at = Some(now.running + DISK_FULL_RETRY);
            return;
        };
        let outcome = Outcome {
            ending,
            acted: self.acted.clone(),
            started_at_ms: self.started_at_ms,
            finished_at_ms: wall_clock_ms(),
            duration: now.running.saturating_sub(self.began.running),
            seals: sealed.seals,
            log_length: sealed.log_length,
            usage: self.usage,
            survivors,
            leaked: std::mem::take(&mut self.leaked),
            gaps: sealed.gaps,
            evidence: Evidence {
                notes: self.stdin.as_ref().and_then(Stdin::note).into_iter().collect(),
                ..Evidence::default()
            },
            artifacts: Vec::new(),
            root: None,
            setup: self.setup_outcome.take(),
        };
        self.outcome = Some(if self.is_setup() { self.of_setup(outcome) } else { outcome });
    }

    /// The outcome of the job whose setup ended like this. It is the last word only if the setup did not pass.
    fn of_setup(&mut self, own: Outcome) -> Outcome {
        let ending = match own.ending {
            Ending::Exited { code: 0 } if self.has_survivors || own.acted.is_some() => {
                Ending::Unobserved { reason: "not all of its processes ended by themselves".to_owned() }
            }
            ending => ending,
        };
        let log = self.directory.join(records::LOG);
        let log = tail_in_order(&log, self.id(), SETUP_LOG_BYTES_MAX).unwrap_or_default();
        let setup = SetupOutcome {
            command: self.setup.as_ref().map(|plan| plan.command.clone()).unwrap_or_default(),
            ending: ending.clone(),
            duration: own.duration,
            log: shorter_text(&log),
            log_bytes: own.seals.iter().map(|seal| seal.length).sum(),
        };
        self.setup_outcome = Some(setup.clone());
        let none = Sealed::empty();
        Outcome {
            ending,
            started_at_ms: None,
            duration: Duration::ZERO,
            seals: none.seals,
            log_length: none.log_length,
            gaps: none.gaps,
            setup: Some(setup),
            ..own
        }
    }

    /// Records that the setup passed. False if it did not.
    fn note_passed(&self) -> bool {
        let has_passed = self.setup_outcome.as_ref().is_some_and(SetupOutcome::passed);
        if let Some(plan) = self.setup.as_ref().filter(|_| has_passed)
            && let Err(error) = plan.note_passed()
        {
            eprintln!("buildpool keeper: the setup of {} is not recorded: {error}", plan.root.display());
        }
        has_passed
    }

    /// Ends an attempt with no recipient for its outcome.
    pub(in crate::keeper) fn give_up(&mut self, now: Now) {
        self.handle(now, Input::End(EndReason::CutOff));
    }

    /// Writes the outcome if there is one. Returns true when it is on disk.
    ///
    /// # Errors
    /// Fails if the disk fails. A retry is useful.
    pub(in crate::keeper) fn write_outcome(&mut self, now: Now) -> io::Result<bool> {
        if !self.supervisor.is_done() {
            return Ok(false);
        }
        if self.outcome.is_none() {
            self.finish(now);
        }
        let Some(outcome) = &self.outcome else { return Ok(false) };
        if self.is_setup() && self.note_passed() {
            return Ok(true);
        }
        self.retry_at = Some(now.running + DISK_FULL_RETRY);
        // A success has no evidence that names its processes.
        let is_success = outcome.ending == Ending::Exited { code: 0 };
        if self.has_new_processes || self.state_at.take().is_some() && !is_success {
            // An error is ignored, because this record only helps to find evidence.
            let _ = self.write_state(Durability::Process);
            self.has_new_processes = false;
        }
        let Some(outcome) = &self.outcome else { return Ok(false) };
        records::write_outcome(&self.outcome_directory, records::OUTCOME, self.lease.attempt, outcome)?;
        Ok(true)
    }

    /// Returns the content of the written records, for the worker.
    pub(in crate::keeper) fn account(&self) -> Option<Box<EndAccount>> {
        let pids = self.process.as_ref().map(|process| process.tree.pids()).unwrap_or_default();
        self.outcome.clone().map(|outcome| Box::new(EndAccount { outcome, pids }))
    }

    /// Writes the record of the process if it is due.
    pub(super) fn write_due_state(&mut self, now: Now) {
        if self.state_at.take_if(|at| *at <= now.running).is_some() {
            // An error is ignored: a restarted worker can also find the tree by the ids in its environment.
            let _ = self.write_state(Durability::Process);
        }
    }

    pub(super) fn write_state(&mut self, durability: Durability) -> io::Result<()> {
        let (Some(process), Some(started_at_ms)) = (&mut self.process, self.started_at_ms) else {
            return Ok(());
        };
        if process.started.is_none() && self.ending.is_none() {
            // Until it is reaped, even an ended process is in the process table, and no other one has its id.
            process.started = platform::process(process.pid).map(|process| process.started);
        }
        let state = StateRecord {
            pid: process.pid,
            process_started: process.started.unwrap_or(0),
            started_at_ms,
            acted: self.acted.clone(),
            pids: process.tree.pids(),
        };
        records::write(&self.directory, records::STATE, &state, durability)
    }
}
