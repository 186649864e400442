//! Orders to replace the program of a worker. The pool decides whether a worker may get one; it keeps no state of it.

use crate::effect::Effect;
use crate::input::{ClientRef, Session};
use crate::pool::Pool;
use crate::roster::Worker;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::shown::counted;
use buildpool_protocol::upgrade::{UpgradeOrder, UpgradeStage};
use buildpool_protocol::worker_link::ToWorker;

impl Pool {
    /// Sends an order to a worker that accepts programs, runs nothing and carries out no other order.
    pub(crate) fn upgrade(&mut self, client: ClientRef, name: &str, order: UpgradeOrder) {
        let Some(worker) = self.named(name).and_then(|id| self.roster.get(id)) else {
            return self.refuse_unknown_worker(client, name);
        };
        match recipient(worker, &order) {
            Ok(session) => {
                self.emit(Effect::Send { session, message: Box::new(ToWorker::Upgrade(order)) });
                self.emit(Effect::Acknowledged { client, job: None });
            }
            Err(error) => self.emit(Effect::Refused { client, error }),
        }
    }
}

/// Returns the connection of a worker that may replace its program now.
fn recipient(worker: &Worker, order: &UpgradeOrder) -> Result<Session, LinkError> {
    let name = worker.record.name.escape_debug();
    let Some(session) = worker.session() else {
        let text = format!("worker `{name}` is not connected; start it, and try again");
        return Err(LinkError::new(ErrorCode::Unavailable, text));
    };
    if worker.condition.upgrade_target.is_none() {
        let text = format!(
            "worker `{name}` accepts no programs from the coordinator; set `upgrades = true` in its configuration and start it again"
        );
        return Err(LinkError::new(ErrorCode::Forbidden, text));
    }
    // The worker would ignore the order.
    let others = worker.condition.upgrade.as_ref().filter(|state| state.id != order.id);
    if let Some(other) = others.filter(|state| state.stage != UpgradeStage::Failed) {
        let text = format!(
            "worker `{name}` carries out another order, for version {}; wait for its end, or end it with `buildpool resume {name}`, and try again",
            other.version.escape_debug()
        );
        return Err(LinkError::new(ErrorCode::Conflict, text));
    }
    let attempts = worker.jobs.len() as u64 + u64::from(worker.foreign_attempts);
    if !worker.record.draining || attempts > 0 {
        let text = format!(
            "worker `{name}` is not drained ({}); `buildpool drain {name}`, and wait until none is left",
            counted(attempts, "attempt")
        );
        return Err(LinkError::new(ErrorCode::Conflict, text));
    }
    Ok(session)
}
