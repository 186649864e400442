//! What each submitter has of the pool, and whose turn it is.

use crate::pool::Pool;
use std::cmp::Reverse;

/// Submitters without a job of whom is remembered when they were served last. Who is forgotten counts as never served, which is
/// worth one turn; each has a token of its own, and pools have far fewer of these.
pub(crate) const IDLE_SHARES_MAX: usize = 1_000;

/// What a submitter has of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Share {
    pub(crate) running: usize,
    pub(crate) live: usize,
    /// The number of the last grant, which no other submitter has; 0 for none yet.
    last_grant: u64,
    /// The order of the job with which it came.
    since: u64,
}

/// What decides between submitters: who has the fewest jobs running, then who was served longest ago, then who came first. The
/// smallest goes first. Priorities are not in it: anybody may give any, so they count among the jobs of one submitter only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Turn {
    running: usize,
    last_grant: u64,
    since: u64,
}

impl Share {
    pub(crate) const fn turn(self) -> Turn {
        Turn { running: self.running, last_grant: self.last_grant, since: self.since }
    }
}

impl Pool {
    pub(crate) fn share(&self, submitter: &str) -> Share {
        self.shares.get(submitter).copied().unwrap_or_default()
    }

    /// A submitter has one live job more.
    pub(crate) fn enter_share(&mut self, submitter: &str, order: u64) {
        let share = self.shares.entry(submitter.to_owned()).or_default();
        share.since = if share.live == 0 { order } else { share.since.min(order) };
        share.live += 1;
    }

    /// A job of a submitter's runs.
    pub(crate) fn serve_share(&mut self, submitter: &str) {
        self.grants += 1;
        let share = self.shares.entry(submitter.to_owned()).or_default();
        share.running += 1;
        share.last_grant = self.grants;
    }

    /// A submitter has one live job less. When it was served last outlives its jobs: otherwise who submits one job after another
    /// would be new each time, and before all who wait.
    pub(crate) fn leave_share(&mut self, submitter: &str) {
        let Some(share) = self.shares.get_mut(submitter) else { return };
        share.live = share.live.saturating_sub(1);
        if share.live > 0 {
            return;
        }
        if share.last_grant == 0 {
            self.shares.remove(submitter);
        }
        let idle = || self.shares.iter().filter(|(_, share)| share.live == 0);
        if self.shares.len() > IDLE_SHARES_MAX && idle().count() > IDLE_SHARES_MAX {
            // The one that was served longest ago.
            let oldest =
                idle().max_by_key(|(_, share)| Reverse(share.last_grant)).map(|(name, _)| name.clone());
            oldest.map(|name| self.shares.remove(&name));
        }
    }
}
