//! A live job: from its submission until its end is recorded.

use crate::effect::{AttemptRecord, JobRecord};
use crate::input::Now;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::ids::{BootId, JobId, Lease, WorkerId};
use buildpool_protocol::worker_link::HeldState;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Somebody asked to end the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CancelAsked {
    pub(crate) by: String,
    pub(crate) reason: String,
}

/// An attempt that was declared lost and may still come back, because nothing newer was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Adoptable {
    pub(crate) lease: Lease,
    pub(crate) worker: WorkerId,
}

/// The command waits at its pipe because its worker's disk refuses its output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OutputWaits {
    /// Milliseconds since 1970, by the pool's clock.
    pub(crate) since_ms: i64,
    /// In the words of the worker's system.
    pub(crate) reason: String,
}

/// A grant that holds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Granted {
    pub(crate) lease: Lease,
    pub(crate) worker: WorkerId,
    /// The worker has said that it holds the attempt.
    pub(crate) confirmed: bool,
    pub(crate) state: HeldState,
    /// When the worker was last sent the grant.
    pub(crate) sent_at: Duration,
    /// The daemon that said so.
    pub(crate) boot: Option<BootId>,
    /// Since when the worker has been asked to end it.
    pub(crate) ending_since: Option<Duration>,
    /// Its output waits for room on the worker's disk.
    pub(crate) output_held: Option<OutputWaits>,
    /// Since when its worker is back without it although it had begun: it may run where the pool can't see it.
    pub(crate) missing_since: Option<Duration>,
}

/// Where a live job stands:
///
/// ```text
///            grant                      completed
///  Queued ──────────▶ Granted ─────────────────────▶ (recorded, no longer live)
///    ▲  ◀────────────    │                                  ▲
///    │  lost, drained,   │ cancelled while queued, given up │
///    │  declined         ▼                                  │
///    └── adopted: the lost attempt came back ───────────────┘
/// ```
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
    pub(crate) cancel: Option<CancelAsked>,
    pub(crate) secrets: BTreeMap<String, Secret>,
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

    /// Whether an attempt under this lease may still give the job its result.
    pub(crate) fn accepts(&self, lease: Lease) -> bool {
        match &self.phase {
            Phase::Granted(granted) => granted.lease == lease,
            Phase::Queued { adoptable, .. } => adoptable.is_some_and(|lost| lost.lease == lease),
        }
    }

    /// Names of secrets whose values are not here (any more).
    pub(crate) fn missing_secrets(&self) -> impl Iterator<Item = &str> {
        self.record.spec.secrets.iter().filter(|name| !self.secrets.contains_key(*name)).map(String::as_str)
    }

    /// Whether the process of the granted attempt is known to have begun.
    pub(crate) fn has_begun(&self) -> bool {
        let started = self.attempts.last().is_some_and(|attempt| attempt.started_at_ms.is_some());
        started || self.granted().is_some_and(|granted| granted.state != HeldState::Preparing)
    }

    /// Attempts that were lost with their worker.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.attempts.iter().filter(|attempt| attempt.counted)
    }

    /// Whether an attempt was lost with this worker, or failed there for infrastructure.
    pub(crate) fn has_failed_on(&self, worker: WorkerId) -> bool {
        self.attempts.iter().any(|attempt| attempt.worker == worker && (attempt.counted || attempt.retried))
    }

    /// Whether an attempt failed on this worker for infrastructure, and the submitter wants another.
    pub(crate) fn was_retried_after(&self, worker: WorkerId) -> bool {
        self.attempts.iter().any(|attempt| attempt.worker == worker && attempt.retried)
    }

    pub(crate) fn last_attempt_mut(&mut self, number: u32) -> Option<&mut AttemptRecord> {
        self.attempts.iter_mut().rev().find(|attempt| attempt.number == number)
    }
}
