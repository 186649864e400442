//! Fair sharing between submitters: their running jobs, and the order of their turns.

use crate::effect::JobRecord;
use crate::pool::Pool;
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::spec::JobSpec;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Limit on idle submitters with a remembered last grant. A forgotten submitter counts as never
/// served, which gains one turn. Each submitter has its own token, and pools have far fewer of
/// these.
pub(crate) const IDLE_SHARES_MAX: usize = 1_000;

/// Bytes of a live job without its texts.
const JOB_OVERHEAD_BYTES: usize = 1_024;

/// A submitter's share of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Share {
    pub(crate) running: usize,
    pub(crate) live: usize,
    /// Bytes of the specs and secrets of its live jobs.
    pub(crate) spec_bytes: u64,
    /// Number of the last grant, unique over all submitters; 0 before the first.
    last_grant: u64,
    /// The order of the job with which the submitter arrived.
    since: u64,
}

/// Order between submitters: fewest running jobs first, then the oldest last grant, then the
/// earliest arrival. The smallest goes first. Priorities are not included. Every submitter can
/// choose any priority, so they count only among the jobs of one submitter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ShareOrder {
    running: usize,
    last_grant: u64,
    since: u64,
}

impl Share {
    pub(crate) const fn order(self) -> ShareOrder {
        ShareOrder { running: self.running, last_grant: self.last_grant, since: self.since }
    }

    /// Returns the number of waiting jobs.
    pub(crate) const fn queued(self) -> usize {
        self.live.saturating_sub(self.running)
    }
}

/// Memory of a job's standard input on the coordinator, in bytes: checksum, positions and tasks.
const INPUT_BYTES: usize = 8 << 10;

/// Returns the memory of a live job in bytes, from all texts of its spec, the secrets that it uses and its standard input.
pub(crate) fn job_bytes(spec: &JobSpec, secrets: &BTreeMap<String, Secret>) -> u64 {
    let mut counted = ByteCount(JOB_OVERHEAD_BYTES);
    // Writing to a counter can't fail.
    let _ = write!(counted, "{spec:?}");
    let secrets = secrets.iter().filter(|(name, _)| spec.secrets.contains(name));
    let secrets: usize = secrets.map(|(name, value)| name.len() + value.0.len()).sum();
    let input = if spec.stdin.is_some() { INPUT_BYTES } else { 0 };
    (counted.0 + secrets + input) as u64
}

/// Counts the bytes that are written to it.
struct ByteCount(usize);

impl fmt::Write for ByteCount {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

impl Pool {
    pub(crate) fn share(&self, submitter: &str) -> Share {
        self.shares.get(submitter).copied().unwrap_or_default()
    }

    /// Adds a live job to a submitter.
    pub(crate) fn enter_share(&mut self, record: &JobRecord, bytes: u64) {
        let (submitter, order) = (record.submitter.as_str(), record.order);
        self.spec_bytes = self.spec_bytes.saturating_add(bytes);
        let share = self.shares.entry(submitter.to_owned()).or_default();
        share.since = if share.live == 0 { order } else { share.since.min(order) };
        share.live += 1;
        share.spec_bytes = share.spec_bytes.saturating_add(bytes);
    }

    /// Changes the bytes of a live job.
    pub(crate) fn resize_share(&mut self, record: &JobRecord, before: u64, bytes: u64) {
        self.spec_bytes = self.spec_bytes.saturating_sub(before).saturating_add(bytes);
        if let Some(share) = self.shares.get_mut(&record.submitter) {
            share.spec_bytes = share.spec_bytes.saturating_sub(before).saturating_add(bytes);
        }
    }

    /// Records that a job of a submitter was granted.
    pub(crate) fn serve_share(&mut self, submitter: &str) {
        self.grants += 1;
        let share = self.shares.entry(submitter.to_owned()).or_default();
        share.running += 1;
        share.last_grant = self.grants;
    }

    /// Removes a live job from a submitter. The last grant is kept after its last job. Otherwise a
    /// submitter with one job after another would be new each time, and ahead of all others.
    pub(crate) fn leave_share(&mut self, record: &JobRecord, bytes: u64) {
        let submitter = record.submitter.as_str();
        self.spec_bytes = self.spec_bytes.saturating_sub(bytes);
        let Some(share) = self.shares.get_mut(submitter) else { return };
        share.live = share.live.saturating_sub(1);
        share.spec_bytes = share.spec_bytes.saturating_sub(bytes);
        if share.live > 0 {
            return;
        }
        if share.last_grant == 0 {
            self.shares.remove(submitter);
        }
        let idle = || self.shares.iter().filter(|(_, share)| share.live == 0);
        if self.shares.len() > IDLE_SHARES_MAX && idle().count() > IDLE_SHARES_MAX {
            // The one with the oldest last grant.
            let oldest =
                idle().max_by_key(|(_, share)| Reverse(share.last_grant)).map(|(name, _)| name.clone());
            oldest.map(|name| self.shares.remove(&name));
        }
    }
}
