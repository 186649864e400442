//! Orders to replace the worker's program: the decision, the reception, and the moment when the daemon ends for it.

use super::agent::Agent;
use super::drain::DaemonPhase;
use super::event::Event;
use crate::upgrade::{self, Restart, Staged, failure, stage};
use crate::workspace::transfer::{TransferError, fetch_program};
use buildpool_objects::pump::PumpError;
use buildpool_protocol::error::{ErrorCode, chain};
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::limits::PROGRAM_BYTES_MAX;
use buildpool_protocol::shown::counted;
use buildpool_protocol::upgrade::{UpgradeOrder, UpgradeStage, UpgradeState};
use buildpool_protocol::version;
use std::sync::Arc;
use tokio::task::AbortHandle;
use tracing::{info, warn};

/// The order that the worker carries out, or that failed last.
pub(super) enum Upgrading {
    /// There was no order since the start.
    NoOrder,
    /// The program is received and checked. Aborting the task ends that.
    Fetching { order: UpgradeOrder, task: AbortHandle },
    /// The program is next to the present one. The daemon ends when it holds no attempt.
    Ready(Box<Staged>),
    /// The upgrade failed.
    Failed(UpgradeState),
}

impl Upgrading {
    /// Returns the order that is carried out.
    fn present(&self) -> Option<&UpgradeOrder> {
        match self {
            Self::Fetching { order, .. } => Some(order),
            Self::Ready(staged) => Some(&staged.order),
            Self::NoOrder | Self::Failed(_) => None,
        }
    }

    fn id(&self) -> Option<UpgradeId> {
        match self {
            Self::Failed(state) => Some(state.id),
            Self::NoOrder | Self::Fetching { .. } | Self::Ready(_) => self.present().map(|order| order.id),
        }
    }
}

/// Why no program is next to the present one.
#[derive(Debug)]
pub(super) enum NotStaged {
    /// The coordinator can't send the program now: another coordinator leads, which does not have it. The order ends
    /// without a failure, and its sender repeats it.
    Unavailable(String),
    /// The upgrade failed.
    Failed(String),
}

impl NotStaged {
    fn failed(error: &dyn std::error::Error) -> Self {
        Self::Failed(chain(error))
    }

    fn not_received(error: &TransferError) -> Self {
        let text = format!("the program can't be received: {}", chain(error));
        match error {
            TransferError::Pump(PumpError::Refused(refused))
                if refused.code == ErrorCode::NotFound || refused.code.is_worth_a_retry() =>
            {
                Self::Unavailable(text)
            }
            TransferError::Pump(_) | TransferError::Workspace(_) => Self::Failed(text),
        }
    }
}

/// The facts that decide about an order.
#[derive(Clone, Copy)]
struct Facts {
    /// The configuration accepts programs.
    accepts: bool,
    /// This process can be started again with its arguments.
    can_restart: bool,
    phase: DaemonPhase,
    /// Number of attempts whose process tree may live.
    live: usize,
}

/// Returns why the worker does not carry out an order.
fn refusal(order: &UpgradeOrder, facts: Facts) -> Option<String> {
    if !facts.accepts {
        return Some(
            "the worker accepts no programs; set `upgrades = true` in its configuration and start it again"
                .into(),
        );
    }
    if !facts.can_restart {
        return Some(
            "the worker can't start itself again: its program was replaced or removed while it ran, or its token came from standard input; start it again by its service, or with `token_file` in its configuration"
                .into(),
        );
    }
    if facts.phase != DaemonPhase::Draining || facts.live > 0 {
        let attempts = counted(facts.live as u64, "attempt");
        return Some(format!("the worker is not drained ({attempts}); drain it first"));
    }
    if order.version == version::program() {
        return Some(format!("the worker has version {} already", order.version));
    }
    if order.length == 0 || order.length > PROGRAM_BYTES_MAX {
        return Some(format!("the program has {} bytes; valid are 1 to {PROGRAM_BYTES_MAX}", order.length));
    }
    None
}

impl Agent {
    /// Returns the state at the start: the failure of the program that was tried before this one. Removes the programs that
    /// an interrupted upgrade left.
    pub(super) fn upgrade_before(config: &crate::config::Config, worker: &str) -> Upgrading {
        // In a trial, this process runs one of them.
        if config.trial.is_none()
            && let Some(restart) = &config.restart
        {
            stage::remove_left(restart, worker);
        }
        failure::read(&config.data_dir, version::program()).map_or(Upgrading::NoOrder, Upgrading::Failed)
    }

    /// Returns how far the worker is, for the coordinator.
    pub(super) fn upgrade_state(&self) -> Option<UpgradeState> {
        if let Some(id) = self.config.trial {
            let (version, reason) = (version::program().to_owned(), String::new());
            return Some(UpgradeState { id, version, stage: UpgradeStage::Trial, reason });
        }
        let fetching = |order: &UpgradeOrder| UpgradeState {
            id: order.id,
            version: order.version.clone(),
            stage: UpgradeStage::Fetching,
            reason: String::new(),
        };
        match &self.upgrade {
            Upgrading::Failed(state) => Some(state.clone()),
            other => other.present().map(fetching),
        }
    }

    /// Handles an order. A repeated one changes nothing. Another one changes nothing either while an order is carried out:
    /// two senders would otherwise replace each other's order in turn. A resume of the worker ends an order.
    pub(super) fn on_upgrade(&mut self, order: UpgradeOrder) {
        if self.upgrade.id() == Some(order.id) {
            return;
        }
        if let Some(present) = self.upgrade.present() {
            warn!(
                version = order.version,
                "an order is ignored, because the one for {} is carried out; resume the worker to end that",
                present.version
            );
            return;
        }
        let facts = Facts {
            accepts: self.config.upgrades && self.config.trial.is_none(),
            can_restart: self.config.restart.as_ref().is_some_and(Restart::is_unchanged),
            phase: self.phase,
            live: self.attempts.values().filter(|attempt| attempt.is_live()).count(),
        };
        if let Some(reason) = refusal(&order, facts) {
            return self.fail_upgrade(&order, reason);
        }
        let Some(restart) = self.config.restart.clone() else { return };
        info!(version = order.version, "the coordinator orders an upgrade");
        failure::remove(&self.config.data_dir);
        let (transfers, config) = (Arc::clone(&self.files.transfers), Arc::clone(&self.config));
        let (id, worker, wanted) = (order.id, self.data_directory.worker.to_string(), order.clone());
        let task = self.work.spawn(async move {
            let fetched = async {
                let (place, name) = (restart.clone(), worker.clone());
                let checked = tokio::task::spawn_blocking(move || stage::check_place(&place, &name, id));
                checked
                    .await
                    .map_err(|error| NotStaged::failed(&error))?
                    .map_err(|error| NotStaged::failed(&error))?;
                let directory = upgrade::directory(&config.data_dir);
                let received = fetch_program(&transfers, &directory, &wanted).await;
                let received = received.map_err(|error| NotStaged::not_received(&error))?;
                let copying = tokio::task::spawn_blocking(move || {
                    stage::copy(received, wanted, restart, &worker, &config.data_dir)
                });
                let staged = copying
                    .await
                    .map_err(|error| NotStaged::failed(&error))?
                    .map_err(|error| NotStaged::failed(&error))?;
                stage::check_version(staged).await.map_err(|error| NotStaged::failed(&error))
            };
            Event::Staged { id, result: fetched.await }
        });
        self.upgrade = Upgrading::Fetching { order, task };
        self.report_soon();
    }

    /// Handles the end of the reception.
    pub(super) fn on_staged(&mut self, id: UpgradeId, result: Result<Staged, NotStaged>) {
        let Upgrading::Fetching { order, .. } = &self.upgrade else { return };
        if order.id != id {
            return;
        }
        match result {
            Ok(staged) => self.upgrade = Upgrading::Ready(Box::new(staged)),
            Err(NotStaged::Unavailable(reason)) => {
                warn!(
                    version = order.version,
                    "the order for an upgrade ends, until it is repeated: {reason}"
                );
                self.end_upgrade();
                self.report_soon();
            }
            Err(NotStaged::Failed(reason)) => {
                let order = order.clone();
                self.fail_upgrade(&order, reason);
            }
        }
    }

    /// Ends an upgrade because the worker takes jobs again.
    pub(super) fn resume_ends_upgrade(&mut self) {
        let Some(order) = self.upgrade.present().cloned() else { return };
        self.fail_upgrade(&order, "the worker was resumed before its program was replaced".to_owned());
    }

    /// Stops the present order. Its program is removed.
    fn end_upgrade(&mut self) {
        if let Upgrading::Fetching { task, .. } = std::mem::replace(&mut self.upgrade, Upgrading::NoOrder) {
            task.abort();
        }
    }

    fn fail_upgrade(&mut self, order: &UpgradeOrder, reason: String) {
        warn!(version = order.version, "the upgrade failed: {reason}");
        self.end_upgrade();
        let (id, version) = (order.id, order.version.clone());
        self.upgrade = Upgrading::Failed(UpgradeState { id, version, stage: UpgradeStage::Failed, reason });
        self.report_soon();
    }

    /// Returns true if the daemon can end for the new program.
    pub(super) fn is_ready_for_upgrade(&self) -> bool {
        matches!(self.upgrade, Upgrading::Ready(_)) && self.attempts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, refusal};
    use crate::daemon::drain::DaemonPhase;
    use buildpool_protocol::ids::UpgradeId;
    use buildpool_protocol::limits::PROGRAM_BYTES_MAX;
    use buildpool_protocol::upgrade::UpgradeOrder;
    use buildpool_protocol::version;
    use std::time::Duration;

    #[test]
    fn only_a_drained_worker_that_accepts_programs_carries_an_order_out() {
        let order = UpgradeOrder {
            id: UpgradeId::from_uuid(uuid::Uuid::now_v7()),
            version: "999.0.0".into(),
            blake3: "ab".repeat(32).parse().expect("64 digits"),
            length: 10,
            register_within: Duration::from_secs(60),
        };
        let good = Facts { accepts: true, can_restart: true, phase: DaemonPhase::Draining, live: 0 };
        assert_eq!(refusal(&order, good), None);
        for (facts, part) in [
            (Facts { accepts: false, ..good }, "set `upgrades = true`"),
            (Facts { can_restart: false, ..good }, "can't start itself again"),
            (Facts { live: 1, ..good }, "is not drained (1 attempt)"),
            (Facts { phase: DaemonPhase::Accepting, ..good }, "is not drained"),
            (Facts { phase: DaemonPhase::ShuttingDown, ..good }, "is not drained"),
        ] {
            let reason = refusal(&order, facts).unwrap_or_default();
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let same = UpgradeOrder { version: version::program().into(), ..order.clone() };
        assert!(refusal(&same, good).is_some_and(|reason| reason.contains("already")));
        for length in [0, PROGRAM_BYTES_MAX + 1] {
            assert!(refusal(&UpgradeOrder { length, ..order.clone() }, good).is_some(), "{length}");
        }
    }
}
