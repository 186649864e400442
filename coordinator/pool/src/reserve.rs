//! Units of counted resources that stay free for the jobs that go first.
//!
//! A job that needs more units than are free would wait for ever beside jobs that need fewer: each unit that comes free would be
//! theirs. So what is free is kept for it on the worker where the least is missing. A slot need not be kept: the last unit that
//! comes free comes with the slot of the job that had it, and the job that goes first is the first to get it.

use crate::pool::Pool;
use buildpool_protocol::ids::WorkerId;
use buildpool_protocol::spec::JobSpec;
use std::collections::BTreeMap;

/// Units by worker and resource.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reserved(BTreeMap<WorkerId, BTreeMap<String, u32>>);

impl Reserved {
    pub(crate) fn units(&self, worker: WorkerId, resource: &str) -> u32 {
        self.0.get(&worker).and_then(|units| units.get(resource)).copied().unwrap_or(0)
    }
}

impl Pool {
    /// Keeps what is free of a job's resources on one worker.
    pub(crate) fn reserve(&self, spec: &JobSpec, reserved: &mut Reserved) {
        let fitting =
            self.roster.iter().filter(|(_, worker)| worker.is_in_service() && worker.could_run(spec));
        let nearest =
            fitting.min_by_key(|(_, worker)| (worker.shortage(spec, reserved), &worker.record.name));
        let Some((id, worker)) = nearest else { return };
        for (name, count) in &spec.resources {
            let kept = worker.free_units(name, reserved).min(*count);
            *reserved.0.entry(*id).or_default().entry(name.clone()).or_default() += kept;
        }
    }
}
