//! Names of workers: ownership, release, approval and removal.

use crate::effect::{Change, Effect, WorkerRecord};
use crate::input::{ClientRef, Now};
use crate::pool::Pool;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::WorkerId;
use buildpool_protocol::spec::NAME_LABEL;
use buildpool_protocol::worker_link::Register;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit on the names shown in a refusal.
const NAMES_SHOWN_MAX: usize = 20;

impl Pool {
    /// Checks if a worker may use its name. A name belongs to the token of its holder, even while
    /// the holder is absent. Jobs that select the name, and approvals of the name, mean that
    /// worker.
    pub(crate) fn admit_name(&self, now: Now, register: &Register, token: &str) -> Result<(), LinkError> {
        let holder = self.roster.by_name(&register.name).filter(|holder| *holder != register.worker);
        let Some(holder) = holder.and_then(|holder| self.roster.get(holder)) else { return Ok(()) };
        let name = &register.name;
        if let Some(owner) = holder.record.token.as_deref().filter(|owner| *owner != token) {
            return Err(LinkError::new(
                ErrorCode::Forbidden,
                format!(
                    "the name `{name}` belongs to a worker of the token `{owner}`, and this is `{token}`; give this one another --name, or have an admin free it when that worker is gone for good: `buildpool workers forget {name}`"
                ),
            ));
        }
        if self.needs_name(now, holder.record.worker) {
            return Err(LinkError::new(
                ErrorCode::Conflict,
                format!("another worker is named `{name}`; give this one another --name"),
            ));
        }
        Ok(())
    }

    /// Returns true if a holder still needs its name. A name passes to a new identity of the same
    /// token if its holder is absent and idle, or lost.
    fn needs_name(&self, now: Now, holder: WorkerId) -> bool {
        self.roster.get(holder).is_some_and(|worker| {
            worker.session().is_some() || !(worker.jobs.is_empty() || self.is_lost(now, holder))
        })
    }

    /// Takes a name from its holder (see [`Pool::needs_name`]).
    pub(crate) fn take_name(&mut self, name: &str, by: WorkerId) {
        if let Some(holder) = self.roster.by_name(name).filter(|holder| *holder != by) {
            self.free_name(holder);
        }
    }

    /// Renames a worker with waiting jobs to a name that no worker can have. A worker without jobs
    /// is removed.
    pub(crate) fn free_name(&mut self, holder: WorkerId) {
        let Some(worker) = self.roster.get(holder) else { return };
        if worker.jobs.is_empty() {
            self.roster.remove(holder);
            return self.emit(Effect::Persist(Change::WorkerForgotten(holder)));
        }
        let name = nameless(&worker.record.name, holder);
        let record = WorkerRecord { name, ..WorkerRecord::clone(&worker.record) };
        self.roster.set_record(record.clone());
        self.emit(Effect::Persist(Change::Worker(record)));
    }

    /// Returns the worker with this id or name.
    pub(crate) fn named(&self, text: &str) -> Option<WorkerId> {
        let by_id = text.parse().ok().filter(|id| self.roster.get(*id).is_some());
        by_id.or_else(|| self.roster.by_name(text))
    }

    pub(crate) fn refuse_unknown_worker(&mut self, client: ClientRef, name: &str) {
        let names = self.roster.iter().map(|(_, worker)| worker.record.name.as_str());
        let names: Vec<_> = names.take(NAMES_SHOWN_MAX).collect();
        let error = LinkError::new(
            ErrorCode::NotFound,
            format!("no worker is named `{}`; there are: {}", name.escape_debug(), names.join(", ")),
        );
        self.emit(Effect::Refused { client, error });
    }

    /// Approves a new worker.
    pub(crate) fn approve(&mut self, client: ClientRef, name: &str) {
        let Some(id) = self.named(name) else { return self.refuse_unknown_worker(client, name) };
        let Some(mut worker) = self.roster.get_mut(id) else { return };
        Arc::make_mut(&mut worker.record).approved = true;
        let record = WorkerRecord::clone(&worker.record);
        drop(worker);
        self.triggers.worker(id);
        self.emit(Effect::Persist(Change::Worker(record)));
        self.emit(Effect::Acknowledged { client, job: None });
    }

    /// Removes an absent worker and frees its name.
    pub(crate) fn forget(&mut self, now: Now, client: ClientRef, name: &str) {
        let Some(id) = self.named(name) else { return self.refuse_unknown_worker(client, name) };
        if self.needs_name(now, id) {
            let error = LinkError::new(
                ErrorCode::Conflict,
                format!(
                    "worker `{}` is connected, or may come back to its running jobs; only an absent worker without jobs can be forgotten: stop it, or revoke its token, and cancel its jobs or wait until they count as lost",
                    name.escape_debug()
                ),
            );
            return self.emit(Effect::Refused { client, error });
        }
        self.free_name(id);
        self.emit(Effect::Acknowledged { client, job: None });
    }
}

/// Returns the labels of a worker. The label `name` always equals its own name.
pub(crate) fn labels_of(register: &Register) -> BTreeMap<String, String> {
    let mut labels = register.labels.clone();
    if let Some(name) = labels.get_mut(NAME_LABEL) {
        name.clone_from(&register.name);
    }
    labels
}

/// Returns the name of a worker that has lost its name. No worker can register with it.
pub(crate) fn nameless(name: &str, worker: WorkerId) -> String {
    format!("{name} ({worker})")
}
