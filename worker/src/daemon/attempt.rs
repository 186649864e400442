//! An attempt in the daemon's state.

use super::disk::DiskWatch;
use super::fallback_outcome::wall_clock_ms;
use super::final_outcome::OutcomeContext;
use super::keepers::KeeperLink;
use super::masking::Masking;
use crate::isolation::users::JobUser;
use crate::keeper::messages::{EndAccount, Run, StdinWindow};
use crate::records::AttemptRecord;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::{EndReason, OutputHeld};
use buildpool_protocol::spec::{JobSpec, Source};
use buildpool_protocol::worker_link::{Held, HeldState};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// Reason of an attempt that was ended before it started.
pub(super) const ENDED_BEFORE_START: &str = "it was ended before it started";

/// Stage of an attempt.
pub(super) enum Stage {
    /// The workspace is being prepared. Only this stage contains the values of its secrets.
    Preparing {
        secrets: BTreeMap<String, Secret>,
        /// Set to true if it must not be started any more.
        stop: watch::Sender<bool>,
    },
    /// Prepared, but no keeper is idle.
    Waiting { run: Box<Run> },
    /// A keeper runs it. `None` if its keeper does not answer.
    InKeeper { keeper: Option<KeeperLink>, is_ending: bool },
    /// Its process tree has ended, and its outcome is being built.
    BuildingOutcome,
    /// The outcome is complete and on disk.
    Ended,
}

pub(super) struct Attempt {
    pub(super) lease: Lease,
    /// The spec. Its environment is removed when the attempt runs.
    pub(super) spec: JobSpec,
    pub(super) stage: Stage,
    /// When the grant arrived, in milliseconds since 1970. Of no use after a restart.
    pub(super) granted_at_ms: i64,
    pub(super) started_at_ms: Option<i64>,
    pub(super) log_length: u64,
    /// How far its standard input is, if its keeper takes one.
    pub(super) stdin: Option<StdinWindow>,
    /// Time since the disk refuses its output, and the system error.
    pub(super) output_held: Option<(Instant, String)>,
    /// Reason to end it. It is sent to its keeper, or prevents the start.
    pub(super) end_reason: Option<EndReason>,
    /// True if a newer grant exists or the job is done. No output of it is sent.
    pub(super) is_fenced: bool,
    /// The user that it runs as, if that is not the worker's user.
    pub(super) user: Option<JobUser>,
    /// Directories that this user can pass until it ends.
    pub(super) gates: Vec<PathBuf>,
    /// True if the machine lost power since its start, so that written data may be missing.
    pub(super) has_lost_power: bool,
    /// Limit on its disk space.
    pub(super) disk: Option<DiskWatch>,
    /// Masking of secrets in its evidence.
    pub(super) masking: Masking,
    /// Its record, if this daemon prepared it. Otherwise it is on the disk.
    pub(super) record: Option<Arc<AttemptRecord>>,
    /// The account of its keeper, if it has ended and this daemon started the keeper. Otherwise it is on the disk.
    pub(super) account: Option<Arc<EndAccount>>,
}

impl Attempt {
    pub(super) fn new(lease: Lease, spec: JobSpec, stage: Stage) -> Self {
        let masking = Masking::from_spec(&spec);
        Self {
            lease,
            spec,
            stage,
            granted_at_ms: wall_clock_ms(),
            started_at_ms: None,
            log_length: 0,
            stdin: None,
            output_held: None,
            end_reason: None,
            is_fenced: false,
            user: None,
            gates: Vec::new(),
            has_lost_power: false,
            disk: None,
            masking,
            record: None,
            account: None,
        }
    }

    /// Returns true if a workspace may belong to it.
    pub(super) fn holds_workspace(&self) -> bool {
        matches!(self.spec.source, Source::Snapshot { .. })
    }

    /// Returns true if this daemon's keeper saw that its command ended by itself, and no process was left.
    pub(super) fn ended_alone(&self) -> bool {
        self.account.as_ref().is_some_and(|account| {
            let outcome = &account.outcome;
            outcome.acted.is_none() && outcome.leaked.is_empty() && outcome.survivors.is_empty()
        })
    }

    pub(super) fn outcome_context(&self) -> OutcomeContext {
        OutcomeContext {
            is_fenced: self.is_fenced,
            has_lost_power: self.has_lost_power,
            masking: self.masking.clone(),
            holds_workspace: self.holds_workspace(),
            record: self.record.clone(),
            account: self.account.clone(),
        }
    }

    pub(super) fn held(&self) -> Held {
        Held {
            lease: self.lease,
            state: self.state(),
            log_length: self.log_length,
            started_at_ms: self.started_at_ms,
            output_held: self
                .output_held
                .as_ref()
                .filter(|_| self.is_live())
                .map(|(since, reason)| OutputHeld { held_for: since.elapsed(), reason: reason.clone() }),
        }
    }

    /// Records blocked output as reported by its keeper. Returns true if its state changed.
    pub(super) fn note_held(&mut self, held: Option<OutputHeld>) -> bool {
        let is_new = held.is_some() != self.output_held.is_some();
        self.output_held = held.map(|held| {
            let now = Instant::now();
            (now.checked_sub(held.held_for).unwrap_or(now), held.reason)
        });
        is_new
    }

    pub(super) fn state(&self) -> HeldState {
        match self.stage {
            Stage::Preparing { .. } | Stage::Waiting { .. } => HeldState::Preparing,
            // Its setup runs.
            Stage::InKeeper { is_ending: false, .. }
                if self.spec.setup.is_some() && self.started_at_ms.is_none() =>
            {
                HeldState::Preparing
            }
            Stage::InKeeper { is_ending: false, .. } => HeldState::Running,
            Stage::InKeeper { is_ending: true, .. } => HeldState::Ending,
            Stage::BuildingOutcome | Stage::Ended => HeldState::Ended,
        }
    }

    /// Returns true if it takes a slot.
    pub(super) fn is_live(&self) -> bool {
        self.state() != HeldState::Ended
    }
}
