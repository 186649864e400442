//! Units of counted resources that stay free for the jobs that go first.
//!
//! A job that needs more units than are free would wait for ever beside jobs that need fewer: each unit that comes free would be
//! theirs. So what is free is kept for it, on each worker that could run it until one has enough: which of them will be the first
//! is not known, and a job that has its units for hours must not keep it waiting beside a worker whose units come free every
//! second. A slot need not be kept: the last unit that comes free comes with the slot of the job that had it, and the job that
//! goes first is the first to get it.

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
    /// Keeps what is free of a job's resources on all workers that could run it.
    pub(crate) fn reserve(&self, spec: &JobSpec, reserved: &mut Reserved) {
        if spec.resources.is_empty() {
            return;
        }
        for (id, worker) in self.roster.iter() {
            if !worker.is_in_service() || !worker.could_run(spec) {
                continue;
            }
            for (name, count) in &spec.resources {
                let kept = worker.free_units(name, reserved).min(*count);
                *reserved.0.entry(*id).or_default().entry(name.clone()).or_default() += kept;
            }
        }
    }
}
