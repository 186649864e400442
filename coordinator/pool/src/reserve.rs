//! Reservation of counted resources for jobs that are due first.
//!
//! A job that needs more units than are free could starve next to jobs that need fewer: they would
//! take each unit that becomes free. Therefore free units are reserved for it, on each worker that
//! could run it, until one worker has enough. The first such worker is not known in advance. A job
//! that holds its units for hours must not delay it if units of another worker become free every
//! second. A slot needs no reservation: the last unit becomes free together with the slot of its
//! job, and the waiting job gets both first.

use crate::pool::Pool;
use buildpool_protocol::ids::WorkerId;
use buildpool_protocol::spec::JobSpec;
use std::collections::BTreeMap;

/// Reserved units by worker and resource.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reserved(BTreeMap<WorkerId, BTreeMap<String, u32>>);

impl Reserved {
    pub(crate) fn units(&self, worker: WorkerId, resource: &str) -> u32 {
        self.0.get(&worker).and_then(|units| units.get(resource)).copied().unwrap_or(0)
    }
}

impl Pool {
    /// Reserves the free units of a job's resources on all workers that could run it.
    pub(crate) fn reserve(&self, spec: &JobSpec, reserved: &mut Reserved) {
        if spec.resources.is_empty() {
            return;
        }
        for (id, worker) in self.roster.fitting(spec).filter(|(_, worker)| worker.is_in_service()) {
            for (name, count) in &spec.resources {
                let kept = worker.free_units(name, reserved).min(*count);
                *reserved.0.entry(*id).or_default().entry(name.clone()).or_default() += kept;
            }
        }
    }
}
