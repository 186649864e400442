//! Starts attempts, and handles messages from keepers.

use super::agent::Agent;
use super::attempt::{Attempt, ENDED_BEFORE_START, Stage};
use super::disk::DiskWatch;
use super::fallback_outcome::wall_clock_ms;
use super::keepers::{KeeperLink, KeeperState};
use super::lease::cut_off;
use super::limits;
use super::preparation::PreparedAttempt;
use super::spans;
use crate::environment;
use crate::isolation::{Isolation, JobAccess};
use crate::keeper::messages::{FromKeeper, HeldAttempt, Run, SetupRun, ToKeeper};
use crate::platform::Now;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::limits::{GRACE, LOST_AFTER};
use buildpool_protocol::outcome::{EndReason, StartFailure};
use buildpool_protocol::spec::{Command, Network};
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info, warn};

impl Agent {
    pub(super) fn on_prepared(&mut self, id: AttemptId, result: Result<PreparedAttempt, StartFailure>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Stage::Preparing { secrets, .. } = &mut attempt.stage else { return };
        let secrets = std::mem::take(secrets);
        if let Ok(prepared) = &result {
            attempt.gates.clone_from(&prepared.record.gates);
            attempt.disk = prepared.record.disk.clone().map(DiskWatch::new);
            attempt.record = Some(Arc::clone(&prepared.record));
        }
        let (from_ms, to_ms) = (attempt.granted_at_ms, wall_clock_ms());
        spans::prepared(&attempt.spec, id, from_ms, to_ms, result.as_ref().err());
        match result {
            Err(failure) => self.fail_start(id, failure),
            Ok(_) if attempt.end_reason.is_some() => {
                self.fail_start(id, StartFailure::Workspace { reason: ENDED_BEFORE_START.into() });
            }
            Ok(_) if self.hidden.check().is_err() => {
                let reason = self.quarantine().unwrap_or_default();
                self.fail_start(id, StartFailure::Resources { reason });
                self.report_soon();
            }
            Ok(prepared) => {
                let grace = attempt.spec.grace.unwrap_or(GRACE);
                let (cut_off_after, cut_off_grace) =
                    cut_off(self.lost_after.unwrap_or(LOST_AFTER), attempt.spec.on_lost, grace);
                let now = Now::read().continuous;
                let account_home = prepared.class_home.as_ref().and_then(|_| environment::account_home());
                let access = JobAccess {
                    has_network: attempt.spec.network == Network::Worker,
                    account_home: account_home.as_deref(),
                    hidden: &self.hidden,
                    own: &prepared.own,
                    readable: &prepared.readable,
                    directory: &prepared.directory,
                    user: attempt.user.as_ref(),
                };
                let setup = prepared.setup.map(|plan| {
                    let access = JobAccess { directory: &plan.directory, ..access };
                    let argv = Command::Shell(plan.command.clone()).argv();
                    SetupRun { argv: self.config.isolation.wrap(&self.sandbox, argv, &access), plan }
                });
                let argv = self.config.isolation.wrap(&self.sandbox, prepared.argv, &access);
                let base = match &attempt.user {
                    Some(user) => &environment::of_user(&self.environment, &self.config.env, &user.user),
                    None => &self.environment,
                };
                let of_class =
                    prepared.class_home.as_deref().map(|class_home| environment::of_class(base, class_home));
                let base = of_class.as_ref().unwrap_or(base);
                let run = Run {
                    lease: attempt.lease,
                    attempt_directory: self.data_directory.attempt(id),
                    argv,
                    directory: prepared.directory,
                    setup,
                    environment: environment::of_attempt(
                        &attempt.spec,
                        id,
                        base,
                        spans::trace_of_process(&attempt.spec, id),
                    ),
                    secrets,
                    timeout: attempt.spec.timeout,
                    idle_timeout: attempt.spec.idle_timeout,
                    grace,
                    cut_off_after,
                    cut_off_grace,
                    contact_age: self.contact_at.map_or(Duration::ZERO, |at| now.saturating_sub(at)),
                    output_policy: attempt.spec.output_policy,
                    log_bytes_max: attempt.spec.log_bytes_max,
                    core_bytes_max: self.config.core_bytes_max,
                    stdin: attempt.spec.stdin.is_some(),
                    processes_max: self.config.processes_of_job(),
                    memory_bytes_max: attempt.spec.memory_bytes(),
                    group: self
                        .files
                        .groups
                        .as_ref()
                        .map(|groups| limits::group(groups, &self.config, &attempt.spec, id)),
                    jobs_reach_socket: self.config.isolation == Isolation::None,
                    hands_variables_inside: self.config.isolation.hands_variables_inside(),
                };
                attempt.spec.env.clear();
                attempt.stage = Stage::Waiting { run: Box::new(run) };
                self.start_waiting();
            }
        }
    }

    /// Gives waiting attempts to idle keepers, and keeps one keeper idle while a slot is free.
    pub(super) fn start_waiting(&mut self) {
        let waiting = self.waiting_attempts();
        let mut left = waiting.len();
        for id in waiting {
            let Some(keeper) = self.keepers.idle() else { break };
            let Some(attempt) = self.attempts.get_mut(&id) else { continue };
            let stage = Stage::InKeeper { keeper: Some(keeper), is_ending: false };
            let Stage::Waiting { run } = std::mem::replace(&mut attempt.stage, stage) else { continue };
            left -= 1;
            self.keepers.set_state(keeper, KeeperState::Running(id));
            if let Err(error) = self.keepers.send(keeper, &ToKeeper::Run(run)) {
                self.fail_start(
                    id,
                    StartFailure::Resources { reason: format!("no keeper took it: {error}") },
                );
            }
        }
        let live = self.attempts.values().filter(|attempt| attempt.is_live()).count();
        let is_slot_free = live < self.config.slots as usize;
        let wanted = left + usize::from(is_slot_free && self.phase.accepts_jobs());
        for _ in self.keepers.count_available()..wanted {
            if let Err(error) = self.keepers.start(&self.data_directory) {
                return self.fail_waiting(&error.to_string());
            }
        }
    }

    /// Returns the attempts that are prepared and have no keeper yet.
    fn waiting_attempts(&self) -> Vec<AttemptId> {
        let is_waiting = |attempt: &Attempt| matches!(attempt.stage, Stage::Waiting { .. });
        self.attempts.iter().filter(|(_, attempt)| is_waiting(attempt)).map(|(id, _)| *id).collect()
    }

    pub(super) fn fail_waiting(&mut self, reason: &str) {
        error!("no keeper can be started: {reason}");
        for id in self.waiting_attempts() {
            let reason = format!("no keeper can be started: {reason}");
            self.fail_start(id, StartFailure::Resources { reason });
        }
    }

    pub(super) fn on_keeper(&mut self, link: KeeperLink, message: FromKeeper) {
        match message {
            FromKeeper::Hello { kept, generation, .. } => {
                self.keepers.note_generation(link, generation);
                self.on_hello(link, kept);
            }
            FromKeeper::Started { attempt, started_at_ms } => {
                let trace = self.attempts.get(&attempt).and_then(|held| held.spec.trace.as_deref());
                info!(worker = %self.config.name, job = %attempt.job, attempt = attempt.number, trace, "attempt started");
                if let Some(attempt) = self.attempts.get_mut(&attempt) {
                    attempt.started_at_ms = Some(started_at_ms);
                }
                self.report_soon();
            }
            FromKeeper::Progress { attempt, log_length, ending, held: output } => {
                self.outbox.written(attempt, log_length);
                let Some(held) = self.attempts.get_mut(&attempt) else { return };
                held.log_length = held.log_length.max(log_length);
                let mut is_new = held.note_held(output);
                if let Stage::InKeeper { is_ending, .. } = &mut held.stage {
                    is_new |= *is_ending != ending;
                    *is_ending = ending;
                }
                if is_new {
                    self.report_soon();
                }
            }
            FromKeeper::Stdin { attempt, place } => self.on_stdin_room(attempt, place),
            FromKeeper::Ended { attempt, account } => {
                // Without isolation, a job can replace the socket of a keeper that was found.
                let account = account.filter(|_| self.keepers.is_own(link));
                if let Some(held) = self.attempts.get_mut(&attempt) {
                    held.account = account.map(Arc::from);
                }
                self.keepers.release(link);
                self.build_outcome(attempt);
                self.start_waiting();
            }
            FromKeeper::Refused { attempt, reason } => {
                self.keepers.release(link);
                self.fail_start(attempt, StartFailure::Resources { reason });
            }
        }
    }

    pub(super) fn on_hello(&mut self, link: KeeperLink, kept: Option<HeldAttempt>) {
        let Some(kept) = kept else {
            self.keepers.release(link);
            self.finish_unclaimed();
            return self.start_waiting();
        };
        let id = kept.lease.attempt;
        self.keepers.set_state(link, KeeperState::Running(id));
        if let Some(attempt) = self.attempts.get_mut(&id).filter(|attempt| attempt.lease == kept.lease) {
            attempt.masking.add_values(&kept.secrets);
            attempt.stage = Stage::InKeeper { keeper: Some(link), is_ending: kept.ending };
            attempt.started_at_ms = kept.started_at_ms;
            attempt.log_length = kept.log_length;
            attempt.note_held(kept.held);
            attempt.stdin = kept.stdin;
            self.outbox.written(id, kept.log_length);
            info!(worker = %self.config.name, job = %id.job, attempt = id.number, "attempt goes on");
            if let Some(acted) = attempt.end_reason.clone() {
                let _ = self.keepers.send(link, &ToKeeper::End { attempt: id, acted });
            }
            self.send_contact(link, id);
            self.request_stdin(true);
        } else {
            // Its attempt is unknown to this daemon, so no result could be reported.
            let _ = self.keepers.send(link, &ToKeeper::End { attempt: id, acted: EndReason::Fenced });
        }
        self.finish_unclaimed();
        self.report_soon();
    }

    pub(super) fn on_keeper_gone(&mut self, link: KeeperLink) {
        let Some((number, state, is_found)) = self.keepers.remove(link) else { return };
        // If its lock cannot be checked, the keeper counts as running and is checked again.
        let is_alive = self.data_directory.keeper_paths.is_alive(number).unwrap_or(true);
        match state {
            KeeperState::Running(id) if is_alive => {
                if let Some(Attempt { stage: Stage::InKeeper { keeper, .. }, .. }) =
                    self.attempts.get_mut(&id)
                {
                    *keeper = None;
                }
                self.keepers.reconnect(&self.data_directory, number);
            }
            KeeperState::Running(id) => {
                warn!(worker = %self.config.name, job = %id.job, attempt = id.number, "the keeper of an attempt is gone");
                self.build_outcome(id);
            }
            KeeperState::Connecting if is_found && is_alive => {
                self.keepers.reconnect(&self.data_directory, number)
            }
            KeeperState::Connecting if !is_found => {
                let reason = format!(
                    "a keeper ended before its greeting; see {}",
                    self.data_directory.keeper_log().display()
                );
                self.fail_waiting(&reason);
            }
            KeeperState::Connecting | KeeperState::Idle => {}
        }
        self.finish_unclaimed();
    }
}
