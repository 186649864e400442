//! Recently finished jobs in memory: records and digests by job id.

use crate::store::JobRecord;
use buildpool_digest::Digest;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::limits::RING_JOBS;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// A finished job.
pub(crate) struct FinishedJob {
    pub(crate) record: Arc<JobRecord>,
    /// `None` if no attempt gave a result.
    pub(crate) digest: Option<Arc<Digest>>,
}

/// The last [`RING_JOBS`] finished jobs.
#[derive(Default)]
pub(crate) struct RecentJobs {
    inner: Mutex<NewestJobs>,
}

#[derive(Default)]
struct NewestJobs {
    order: VecDeque<JobId>,
    jobs: HashMap<JobId, Arc<FinishedJob>>,
}

impl RecentJobs {
    pub(crate) fn push(&self, finished: Arc<FinishedJob>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let job = finished.record.job;
        if inner.jobs.insert(job, finished).is_none() {
            inner.order.push_back(job);
        }
        if inner.order.len() > RING_JOBS
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.jobs.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, job: JobId) -> Option<Arc<FinishedJob>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).jobs.get(&job).cloned()
    }
}
