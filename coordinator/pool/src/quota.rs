//! Quotas of submitters.

use crate::input::Submit;
use crate::pool::Pool;
use crate::queue::Class;
use crate::share::Share;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::limits;
use buildpool_protocol::shown::counted;
use buildpool_protocol::spec::JobSpec;
use std::collections::BTreeMap;
use std::time::Duration;

/// Limit on the different sets of requirements of one submitter's queued jobs. A dispatch looks at
/// the first job of each set.
const KINDS_MAX: usize = 512;

/// Limits of one submitter. `None` means no limit other than the pool's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Limit on queued jobs. Further submits are refused.
    pub queued_jobs: Option<usize>,
    /// Limit on running jobs. Further jobs of the same submitter wait.
    pub running_jobs: Option<usize>,
    /// Limit on the run time of a job. It is the timeout if the submitter chose no timeout. A
    /// longer chosen timeout is refused.
    pub job_time: Option<Duration>,
    /// Limit on the log of an attempt, in bytes. Beyond it, head and tail are kept.
    pub log_bytes: Option<u64>,
    /// Limit on the new bytes of one snapshot.
    pub snapshot_bytes: Option<u64>,
    /// Limit on the bytes of all stored snapshots of the submitter's trust class.
    pub stored_snapshot_bytes: Option<u64>,
}

impl Quota {
    /// The default quota of each submitter.
    pub const fn standard() -> Self {
        Self {
            queued_jobs: None,
            running_jobs: None,
            job_time: None,
            log_bytes: Some(limits::LOG_BYTES_DEFAULT),
            snapshot_bytes: Some(limits::SNAPSHOT_TRANSFER_BYTES_DEFAULT),
            stored_snapshot_bytes: Some(limits::STORED_SNAPSHOT_BYTES_DEFAULT),
        }
    }

    /// Returns this quota, with unset limits taken from another one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            queued_jobs: self.queued_jobs.or(other.queued_jobs),
            running_jobs: self.running_jobs.or(other.running_jobs),
            job_time: self.job_time.or(other.job_time),
            log_bytes: self.log_bytes.or(other.log_bytes),
            snapshot_bytes: self.snapshot_bytes.or(other.snapshot_bytes),
            stored_snapshot_bytes: self.stored_snapshot_bytes.or(other.stored_snapshot_bytes),
        }
    }

    /// Returns the spec with this quota applied, for the worker.
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
    /// Default quota.
    pub everybody: Quota,
    /// Quotas of single submitters by name. Unset limits come from the default.
    pub submitters: BTreeMap<String, Quota>,
}

impl Quotas {
    /// Returns the quota of this submitter.
    pub fn of(&self, submitter: &str) -> Quota {
        self.submitters.get(submitter).copied().unwrap_or_default().or(self.everybody)
    }
}

/// Live jobs of one submitter, as its quota counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LiveJobs {
    /// Jobs that wait for a worker.
    pub queued: usize,
    /// Jobs that a worker has.
    pub running: usize,
}

impl Pool {
    /// Returns the live jobs of each submitter that has some.
    pub fn live_by_submitter(&self) -> BTreeMap<String, LiveJobs> {
        let live = self.shares.iter().filter(|(_, share)| share.live > 0);
        live.map(|(name, share)| (name.clone(), LiveJobs { queued: share.queued(), running: share.running }))
            .collect()
    }

    /// Refuses a submit for which the pool has no place. A submitter may have as many live jobs, and as many bytes of specs,
    /// as there are free places after them. So a single submitter gets half of the pool, and places stay free for others
    /// however many submitters fill their part.
    pub(crate) fn check_room(&self, submit: &Submit, bytes: u64) -> Result<(), LinkError> {
        let name = &submit.submitter.name;
        let share = self.share(name);
        let free = self.config.live_jobs_max.saturating_sub(self.jobs.len());
        if share.live >= free {
            let text = match free {
                0 => format!(
                    "{} waiting or running already, which is the limit of this pool; try again later",
                    counted(self.jobs.len() as u64, "job")
                ),
                free => format!(
                    "`{name}` has {} waiting or running; the other {free} places of this pool are kept for other submitters; submit again when some jobs are done",
                    counted(share.live as u64, "job")
                ),
            };
            return Err(LinkError::new(ErrorCode::Exhausted, text));
        }
        let free = self.config.spec_bytes_max.saturating_sub(self.spec_bytes);
        if share.spec_bytes.saturating_add(bytes) > free {
            let text = format!(
                "the live jobs of `{name}` have {} bytes of commands and variables, and this one has {bytes}; {free} bytes of the pool are free, of which it may have no more; submit again when some jobs are done",
                share.spec_bytes
            );
            return Err(LinkError::new(ErrorCode::Exhausted, text));
        }
        if self.queue.kinds_of(name) >= KINDS_MAX
            && !self.queue.has_kind(&Class::from_spec(&submit.spec), name)
        {
            let text = format!(
                "the queued jobs of `{name}` have {KINDS_MAX} different sets of requirements (labels, resources, concurrency group, project), which is the limit of one submitter; submit again when some jobs run"
            );
            return Err(LinkError::new(ErrorCode::Exhausted, text));
        }
        Ok(())
    }

    /// Refuses a submit that exceeds its submitter's quota.
    pub(crate) fn check_quota(&self, submit: &Submit) -> Result<(), LinkError> {
        let name = &submit.submitter.name;
        let quota = self.config.quotas.of(name);
        let asked = submit.spec.timeout.filter(|_| !submit.spec.timeout_is_default).unwrap_or_default();
        if let Some(most) = quota.job_time.filter(|most| asked > *most) {
            let text = format!(
                "timeout: {} s requested (`--timeout`, `timeout_secs`); the quota (job_secs) of `{name}` is {} s, which is also the default timeout",
                asked.as_secs(),
                most.as_secs()
            );
            return Err(LinkError::new(ErrorCode::Invalid, text));
        }
        let queued = self.share(name).queued();
        if let Some(most) = quota.queued_jobs.filter(|most| queued >= *most) {
            let text = format!(
                "`{name}` has {} waiting already; the quota (queued_jobs) is {most}: cancel some, or submit again when some have begun",
                counted(queued as u64, "job")
            );
            return Err(LinkError::new(ErrorCode::Exhausted, text));
        }
        Ok(())
    }

    /// Returns the quota of running jobs if this submitter has reached it.
    pub(crate) fn running_quota_reached(&self, submitter: &str, share: Share) -> Option<usize> {
        self.config.quotas.of(submitter).running_jobs.filter(|most| share.running >= *most)
    }
}
