//! Draining, and the exit of the daemon.

use super::agent::Agent;
use super::attempt::{Attempt, Stage};
use super::shutdown::Wish;
use crate::keeper::messages::ToKeeper;
use crate::limits::LAST_WORDS;
use buildpool_protocol::outcome::Acted;
use std::time::Duration;
use tokio::time::Instant;
use tracing::info;

impl Agent {
    pub(super) fn drain(&mut self, draining: bool, deadline: Option<Duration>) {
        self.is_draining = draining;
        let asked = deadline.filter(|_| draining).map(|deadline| Instant::now() + deadline);
        // During shutdown, the earliest deadline ever set applies.
        let earlier = self.drain_at.filter(|_| self.is_leaving);
        self.drain_at = [asked, earlier].into_iter().flatten().min();
        self.changed();
    }

    pub(super) fn on_wish(&mut self, wish: Wish) {
        match wish {
            Wish::Stay => {}
            Wish::Drain => {
                info!("draining");
                self.leave_after_last();
                self.drain(true, self.config.drain_deadline);
            }
            Wish::Hurry => {
                self.leave_after_last();
                self.drain(true, Some(Duration::ZERO));
            }
            Wish::Leave => self.must_leave = true,
        }
    }

    fn leave_after_last(&mut self) {
        self.is_leaving = true;
        self.last_end_at = Instant::now();
    }

    pub(super) fn end_all(&mut self) {
        let live: Vec<_> =
            self.attempts.iter().filter(|(_, held)| held.is_live()).map(|(id, _)| *id).collect();
        for id in live {
            let is_known = self.attempts.get(&id).is_some_and(|held| held.act.is_some());
            self.act(id, Acted::Drained);
            if is_known && let Some(keeper) = self.keepers.of_attempt(id) {
                let _ = self.keepers.say(keeper, &ToKeeper::Hurry { attempt: id });
            }
        }
    }

    /// Returns true if the daemon can exit. No attempt lives, and all ends are recorded or the time
    /// to record them is over. An end with files that wait for an absent coordinator is built again
    /// by the next daemon.
    pub(super) fn is_over(&self) -> bool {
        if self.must_leave {
            return true;
        }
        let is_connected = self.link.as_ref().is_some_and(|link| link.is_registered);
        let is_busy = |attempt: &Attempt| match attempt.stage {
            Stage::Ended => false,
            Stage::Concluding => is_connected,
            Stage::Preparing { .. } | Stage::Waiting { .. } | Stage::Kept { .. } => true,
        };
        if !self.is_leaving || self.attempts.values().any(is_busy) {
            return false;
        }
        self.attempts.is_empty() || Instant::now() >= self.last_end_at + LAST_WORDS
    }
}
