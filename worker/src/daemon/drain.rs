//! Draining, and the exit of the daemon.

use super::agent::Agent;
use super::attempt::{Attempt, Stage};
use super::shutdown::ShutdownRequest;
use crate::keeper::messages::ToKeeper;
use crate::limits::LAST_WORDS;
use buildpool_protocol::outcome::EndReason;
use std::time::Duration;
use tokio::time::Instant;
use tracing::info;

/// Phase of the daemon. Only `Draining` can go back, to `Accepting`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum DaemonPhase {
    /// It accepts jobs.
    Accepting,
    /// It accepts no jobs, by order of the coordinator.
    Draining,
    /// It accepts no jobs and exits after its last attempt.
    ShuttingDown,
    /// It exits now. Its attempts go on in their keepers.
    Exiting,
}

impl DaemonPhase {
    pub(super) fn accepts_jobs(self) -> bool {
        self == Self::Accepting
    }

    /// Returns true during a shutdown, which can't be cancelled.
    pub(super) fn is_shutdown(self) -> bool {
        self >= Self::ShuttingDown
    }
}

impl Agent {
    /// Starts or ends a drain. During a shutdown, the drain goes on.
    pub(super) fn drain(&mut self, draining: bool, deadline: Option<Duration>) {
        let is_shutdown = self.phase.is_shutdown();
        if !is_shutdown {
            self.phase = if draining { DaemonPhase::Draining } else { DaemonPhase::Accepting };
            if !draining {
                self.resume_ends_upgrade();
            }
        }
        let asked = deadline.filter(|_| draining).map(|deadline| Instant::now() + deadline);
        // During shutdown, the earliest deadline ever set applies.
        let earlier = self.drain_at.filter(|_| is_shutdown);
        self.drain_at = [asked, earlier].into_iter().flatten().min();
        self.report_soon();
    }

    pub(super) fn on_shutdown_request(&mut self, request: ShutdownRequest) {
        match request {
            ShutdownRequest::Drain => {
                info!("draining");
                self.exit_after_last();
                self.drain(true, self.config.drain_deadline);
            }
            ShutdownRequest::EndJobs => {
                self.exit_after_last();
                self.drain(true, Some(Duration::ZERO));
            }
            ShutdownRequest::Exit => self.phase = DaemonPhase::Exiting,
        }
    }

    fn exit_after_last(&mut self) {
        self.phase = self.phase.max(DaemonPhase::ShuttingDown);
        self.last_end_at = Instant::now();
    }

    pub(super) fn end_all(&mut self) {
        let live: Vec<_> =
            self.attempts.iter().filter(|(_, held)| held.is_live()).map(|(id, _)| *id).collect();
        for id in live {
            let is_known = self.attempts.get(&id).is_some_and(|held| held.end_reason.is_some());
            self.end_attempt(id, EndReason::Drained);
            if is_known && let Some(keeper) = self.keepers.of_attempt(id) {
                let _ = self.keepers.send(keeper, &ToKeeper::SkipGrace { attempt: id });
            }
        }
    }

    /// Returns true if the daemon can exit. No attempt lives, and all ends are recorded or the time
    /// to record them is over. An end with files that wait for an absent coordinator is built again
    /// by the next daemon.
    pub(super) fn can_exit(&self) -> bool {
        if self.phase == DaemonPhase::Exiting {
            return true;
        }
        let is_connected = self.link.as_ref().is_some_and(|link| link.is_registered);
        let is_busy = |attempt: &Attempt| match attempt.stage {
            Stage::Ended => false,
            Stage::BuildingOutcome => is_connected,
            Stage::Preparing { .. } | Stage::Waiting { .. } | Stage::InKeeper { .. } => true,
        };
        if !self.phase.is_shutdown() || self.attempts.values().any(is_busy) {
            return false;
        }
        self.attempts.is_empty() || Instant::now() >= self.last_end_at + LAST_WORDS
    }
}
