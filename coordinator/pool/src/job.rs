//! A live job, from its submission until its end is recorded.

use crate::effect::{AttemptRecord, JobRecord};
use crate::input::Now;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::ids::{BootId, JobId, Lease, WorkerId};
use buildpool_protocol::worker_link::HeldState;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A cancellation by a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CancelRequest {
    pub(crate) by: String,
    pub(crate) reason: String,
}

/// A lost attempt that may still return, because no newer attempt was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Adoptable {
    pub(crate) lease: Lease,
    pub(crate) worker: WorkerId,
}

/// Blocked output: the worker's disk refuses writes, so the command blocks on its pipe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeldOutput {
    /// Start in milliseconds since 1970, by the pool's clock.
    pub(crate) since_ms: i64,
    /// Error of the worker's system.
    pub(crate) reason: String,
}

/// A valid grant.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Granted {
    pub(crate) lease: Lease,
    pub(crate) worker: WorkerId,
    /// True if the worker has reported that it holds the attempt.
    pub(crate) confirmed: bool,
    pub(crate) state: HeldState,
    /// Time when the grant was last sent to the worker.
    pub(crate) sent_at: Duration,
    /// The start of the daemon that confirmed it.
    pub(crate) boot: Option<BootId>,
    /// Time when the worker was ordered to end it.
    pub(crate) ending_since: Option<Duration>,
    /// True if its result and all of its log are stored, so that its worker is not needed any more.
    pub(crate) log_arrived: bool,
    /// Time when its digest was instructed to leave out the rest of the log.
    pub(crate) digest_cut: Option<Duration>,
    /// Since when the worker reports that the attempt has ended, in milliseconds since 1970.
    pub(crate) ended_since_ms: Option<i64>,
    /// Set while its output is blocked because the worker's disk refuses writes.
    pub(crate) output_held: Option<HeldOutput>,
    /// Time since its worker is back without it although it had started. It may still run where the
    /// pool cannot observe it.
    pub(crate) missing_since: Option<Duration>,
}

/// Phase of a live job:
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Phase {
    Queued { since: Now, adoptable: Option<Adoptable> },
    Granted(Granted),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Job {
    pub(crate) record: Arc<JobRecord>,
    pub(crate) phase: Phase,
    pub(crate) attempts: Vec<AttemptRecord>,
    pub(crate) cancel: Option<CancelRequest>,
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// Bytes of its spec and secrets, as they count in its submitter's share.
    pub(crate) bytes: u64,
}

impl Job {
    pub(crate) fn id(&self) -> JobId {
        self.record.job
    }

    pub(crate) fn granted(&self) -> Option<&Granted> {
        match &self.phase {
            Phase::Granted(granted) => Some(granted),
            Phase::Queued { .. } => None,
        }
    }

    pub(crate) fn granted_mut(&mut self) -> Option<&mut Granted> {
        match &mut self.phase {
            Phase::Granted(granted) => Some(granted),
            Phase::Queued { .. } => None,
        }
    }

    /// Returns true if an attempt with this lease may still provide the job's result.
    pub(crate) fn accepts(&self, lease: Lease) -> bool {
        match &self.phase {
            Phase::Granted(granted) => granted.lease == lease,
            Phase::Queued { adoptable, .. } => adoptable.is_some_and(|lost| lost.lease == lease),
        }
    }

    /// Returns the names of secrets without a value.
    pub(crate) fn missing_secrets(&self) -> impl Iterator<Item = &str> {
        self.record.spec.secrets.iter().filter(|name| !self.secrets.contains_key(*name)).map(String::as_str)
    }

    /// Returns true if the process of the granted attempt is known to have started.
    pub(crate) fn has_begun(&self) -> bool {
        let started = self.attempts.last().is_some_and(|attempt| attempt.started_at_ms.is_some());
        started || self.granted().is_some_and(|granted| granted.state != HeldState::Preparing)
    }

    /// Returns the attempts that were lost with their worker.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.attempts.iter().filter(|attempt| attempt.counted)
    }

    /// Returns true if an attempt was lost with this worker, or had an infrastructure failure on
    /// it.
    pub(crate) fn has_failed_on(&self, worker: WorkerId) -> bool {
        self.attempts.iter().any(|attempt| attempt.worker == worker && (attempt.counted || attempt.retried))
    }

    /// Returns true if an attempt had an infrastructure failure on this worker and was retried.
    pub(crate) fn was_retried_after(&self, worker: WorkerId) -> bool {
        self.attempts.iter().any(|attempt| attempt.worker == worker && attempt.retried)
    }

    pub(crate) fn last_attempt_mut(&mut self, number: u32) -> Option<&mut AttemptRecord> {
        self.attempts.iter_mut().rev().find(|attempt| attempt.number == number)
    }
}
