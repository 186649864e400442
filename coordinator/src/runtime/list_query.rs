//! Filter for a list of jobs. Live jobs and records of finished jobs use the same one.

use buildpool_pool::{AttemptRecord, JobRecord};
use buildpool_protocol::client_link::{JobCursor, JobQuery};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::report::{JobState, Verdict};
use buildpool_protocol::spec::JobSpec;
use uuid::Uuid;

/// A query for a list of jobs, and the maximum length of the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) query: JobQuery,
    pub(crate) limit: usize,
}

/// A job, as the filter sees it.
pub(crate) struct ListedJob<'a> {
    pub(crate) state: JobState,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) place: JobCursor,
    pub(crate) spec: &'a JobSpec,
    pub(crate) submitter: &'a str,
    pub(crate) worker: Option<&'a str>,
}

impl<'a> ListedJob<'a> {
    /// Returns a live job.
    pub(crate) fn live(state: JobState, record: &'a JobRecord, attempts: &'a [AttemptRecord]) -> Self {
        Self {
            state,
            verdict: None,
            place: JobCursor { created_at_ms: record.created_at_ms, job: record.job },
            spec: &record.spec,
            submitter: &record.submitter,
            worker: attempts.last().map(|attempt| attempt.worker_name.as_str()),
        }
    }
}

impl ListQuery {
    /// Returns true if the filter matches this job.
    pub(crate) fn selects(&self, job: &ListedJob<'_>) -> bool {
        let requests = |label: &String| {
            let mut selectors = job.spec.selectors.iter();
            selectors.any(|selector| selector.key == *label || selector.to_string() == *label)
        };
        let query = &self.query;
        query.state.is_none_or(|state| state == job.state)
            && query.verdict.is_none_or(|verdict| Some(verdict) == job.verdict)
            && query.build.is_none_or(|build| Some(build) == job.spec.build)
            && query.submitter.as_deref().is_none_or(|submitter| submitter == job.submitter)
            && query.worker.as_deref().is_none_or(|worker| Some(worker) == job.worker)
            && query.since_ms.is_none_or(|since| job.place.created_at_ms >= since)
            && self.after().is_none_or(|after| job.place < after)
            && query.label.as_ref().is_none_or(requests)
            && query.command.as_ref().is_none_or(|text| job.spec.command.to_string().contains(text))
            && query.project.as_ref().is_none_or(|text| job.spec.project.contains(text))
    }

    /// Returns the place after which the list begins: that of the cursor or of `until_ms`, whichever is later in the
    /// list.
    pub(crate) fn after(&self) -> Option<JobCursor> {
        let nil = JobId::from_uuid(Uuid::nil());
        let until = self.query.until_ms.map(|created_at_ms| JobCursor { created_at_ms, job: nil });
        [until, self.query.cursor].into_iter().flatten().min()
    }

    /// Returns true if the store's own filter (build, times, place) decides alone which finished jobs match.
    pub(crate) const fn is_decided_by_store(&self) -> bool {
        let query = &self.query;
        query.submitter.is_none()
            && query.label.is_none()
            && query.verdict.is_none()
            && query.worker.is_none()
            && query.command.is_none()
            && query.project.is_none()
    }
}
