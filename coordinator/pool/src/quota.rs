//! What one submitter may have of a pool.

use crate::input::Submit;
use crate::pool::Pool;
use crate::share::Share;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::spec::JobSpec;
use std::collections::BTreeMap;
use std::time::Duration;

/// Limits of one submitter; none where it may have what the pool has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Jobs that wait at once; a submit beyond that is refused.
    pub queued_jobs: Option<usize>,
    /// Jobs that run at once; others of the same submitter wait.
    pub running_jobs: Option<usize>,
    /// Longest run of a job: its timeout where nobody chose one, refused where somebody chose a longer one.
    pub job_time: Option<Duration>,
    /// Longest log of an attempt, in bytes; beyond that head and tail are kept.
    pub log_bytes: Option<u64>,
    /// Most bytes that one snapshot may bring to the pool.
    pub snapshot_bytes: Option<u64>,
}

impl Quota {
    /// This, with what it leaves open taken from another.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            queued_jobs: self.queued_jobs.or(other.queued_jobs),
            running_jobs: self.running_jobs.or(other.running_jobs),
            job_time: self.job_time.or(other.job_time),
            log_bytes: self.log_bytes.or(other.log_bytes),
            snapshot_bytes: self.snapshot_bytes.or(other.snapshot_bytes),
        }
    }

    /// The spec as a worker is to carry it out.
    pub(crate) fn applied_to(&self, spec: &JobSpec) -> JobSpec {
        let mut spec = spec.clone();
        spec.timeout = smaller(spec.timeout, self.job_time);
        spec.log_bytes_max = smaller(spec.log_bytes_max, self.log_bytes);
        spec
    }
}

fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The quotas of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    /// For everybody.
    pub everybody: Quota,
    /// For some, by name; what one leaves open is as for everybody.
    pub submitters: BTreeMap<String, Quota>,
}

impl Quotas {
    /// What holds for this submitter.
    pub fn of(&self, submitter: &str) -> Quota {
        self.submitters.get(submitter).copied().unwrap_or_default().or(self.everybody)
    }
}

impl Pool {
    /// Refuses a submit that is beyond its submitter's quota.
    pub(crate) fn check_quota(&self, submit: &Submit) -> Result<(), LinkError> {
        let name = &submit.submitter.name;
        let quota = self.config.quotas.of(name);
        let asked = submit.spec.timeout.filter(|_| !submit.spec.timeout_is_default).unwrap_or_default();
        if let Some(most) = quota.job_time.filter(|most| asked > *most) {
            let text = format!(
                "timeout: {} s asked for (`--timeout`, `timeout_secs`); the quota (job_secs) of `{name}` is {} s, which counts where none is asked for",
                asked.as_secs(),
                most.as_secs()
            );
            return Err(LinkError::new(ErrorCode::Invalid, text));
        }
        let share = self.share(name);
        let queued = share.live.saturating_sub(share.running);
        if let Some(most) = quota.queued_jobs.filter(|most| queued >= *most) {
            let text = format!(
                "{queued} jobs of `{name}` wait already; the quota (queued_jobs) is {most}: cancel some, or submit again when some have begun"
            );
            return Err(LinkError::new(ErrorCode::Exhausted, text));
        }
        Ok(())
    }

    /// How many jobs of this submitter may run at once, when that many do.
    pub(crate) fn running_quota_reached(&self, submitter: &str, share: Share) -> Option<usize> {
        self.config.quotas.of(submitter).running_jobs.filter(|most| share.running >= *most)
    }
}
