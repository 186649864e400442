//! An attempt as the daemon sees it.

use super::conclude::About;
use super::keepers::KeeperLink;
use super::masking::Masking;
use crate::isolation::users::JobUser;
use crate::keeper::messages::Run;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::{Acted, OutputHeld};
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::{Held, HeldState};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use tokio::sync::watch;

/// How far it is.
pub(super) enum Stage {
    /// Files are laid out. The values of its secrets wait here, and nowhere else.
    Preparing {
        secrets: BTreeMap<String, Secret>,
        /// Said when it is not to be started any more.
        stop: watch::Sender<bool>,
    },
    /// Ready, and no keeper is.
    Waiting { run: Box<Run> },
    /// With a keeper; none where the keeper that has it does not answer.
    Kept { keeper: Option<KeeperLink>, is_ending: bool },
    /// Its tree is gone; what is known of it is put together.
    Concluding,
    /// All is known and on the disk.
    Ended,
}

pub(super) struct Attempt {
    pub(super) lease: Lease,
    /// Without its environment from the moment that it runs.
    pub(super) spec: JobSpec,
    pub(super) stage: Stage,
    pub(super) started_at_ms: Option<i64>,
    pub(super) log_length: u64,
    /// Since when the disk refuses its output, and the system's word.
    pub(super) output_held: Option<(Instant, String)>,
    /// Why it is to be ended; told to its keeper, or the reason why it is not started.
    pub(super) act: Option<Acted>,
    /// A newer grant exists, or the job is over: nothing of it is sent.
    pub(super) is_fenced: bool,
    /// As whom it runs, where that is not the worker's user.
    pub(super) user: Option<JobUser>,
    /// What that user can pass until it ends.
    pub(super) gates: Vec<PathBuf>,
    /// The machine was switched off since it was begun: not all that was written of it may be there.
    pub(super) has_lost_power: bool,
    /// What is kept out of what files say of it.
    pub(super) masking: Masking,
}

impl Attempt {
    pub(super) fn new(lease: Lease, spec: JobSpec, stage: Stage) -> Self {
        let masking = Masking::of(&spec);
        Self {
            lease,
            spec,
            stage,
            started_at_ms: None,
            log_length: 0,
            output_held: None,
            act: None,
            is_fenced: false,
            user: None,
            gates: Vec::new(),
            has_lost_power: false,
            masking,
        }
    }

    pub(super) fn about(&self) -> About {
        About {
            is_fenced: self.is_fenced,
            has_lost_power: self.has_lost_power,
            masking: self.masking.clone(),
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

    /// Takes what its keeper says of output that the disk refuses; whether that is new.
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
            Stage::Kept { is_ending: false, .. } => HeldState::Running,
            Stage::Kept { is_ending: true, .. } => HeldState::Ending,
            Stage::Concluding | Stage::Ended => HeldState::Ended,
        }
    }

    /// Whether it takes a slot.
    pub(super) fn is_live(&self) -> bool {
        self.state() != HeldState::Ended
    }
}
