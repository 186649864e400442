//! Grants that came before a slot is free. They start when jobs end, without a round trip to the coordinator between two jobs.
//!
//! To the coordinator, such a grant is still on its way: it is in no report, and it is gone with its connection.

use buildpool_protocol::ids::Lease;
use buildpool_protocol::limits::{EARLY_GRANT_WAIT_MAX, EARLY_GRANTS_MAX};
use buildpool_protocol::worker_link::Grant;
use std::collections::VecDeque;
use tokio::time::Instant;

/// Grants that wait for a slot, in the order of their arrival.
#[derive(Default)]
pub(super) struct EarlyGrants {
    waiting: VecDeque<(Instant, Box<Grant>)>,
}

impl EarlyGrants {
    /// Returns how many of them a worker keeps: two for each slot cover the time from a job's end to the next grant.
    pub(super) fn limit(slots: u32) -> u32 {
        slots.saturating_mul(2).min(EARLY_GRANTS_MAX)
    }

    /// Keeps a grant until a slot is free.
    ///
    /// # Errors
    /// Returns the grant if there are too many.
    pub(super) fn keep(&mut self, now: Instant, slots: u32, grant: Box<Grant>) -> Result<(), Box<Grant>> {
        if self.waiting.iter().any(|(_, kept)| kept.lease == grant.lease) {
            return Ok(());
        }
        if self.waiting.len() >= Self::limit(slots) as usize {
            return Err(grant);
        }
        self.waiting.push_back((now, grant));
        Ok(())
    }

    /// Removes the grant that came first.
    pub(super) fn next(&mut self) -> Option<Box<Grant>> {
        self.waiting.pop_front().map(|(_, grant)| grant)
    }

    /// Removes a grant that has waited for too long.
    pub(super) fn next_overdue(&mut self, now: Instant) -> Option<Box<Grant>> {
        self.deadline().filter(|at| *at <= now)?;
        self.next()
    }

    /// Removes the grant with this lease.
    pub(super) fn remove(&mut self, lease: Lease) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(_, grant)| grant.lease != lease);
        self.waiting.len() < before
    }

    /// Removes all grants.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Returns when the first grant has waited for too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|(came_at, _)| *came_at + EARLY_GRANT_WAIT_MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::EarlyGrants;
    use buildpool_protocol::ids::{AttemptId, JobId, Lease};
    use buildpool_protocol::limits::EARLY_GRANT_WAIT_MAX;
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use buildpool_protocol::worker_link::Grant;
    use std::collections::BTreeMap;
    use std::time::Duration;
    use tokio::time::Instant;

    fn grant(number: u32) -> Box<Grant> {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::from_u128(1)), number };
        let spec = JobSpec::new(Command::Shell("true".into()), Source::Empty);
        Box::new(Grant { lease: Lease { attempt, epoch: number.into() }, spec, secrets: BTreeMap::new() })
    }

    #[test]
    fn grants_wait_in_order_up_to_a_limit_and_a_time() {
        let mut early = EarlyGrants::default();
        let now = Instant::now();
        for number in 1..=4 {
            assert!(early.keep(now + Duration::from_millis(u64::from(number)), 2, grant(number)).is_ok());
        }
        assert!(early.keep(now, 2, grant(3)).is_ok(), "a repeated grant is kept once");
        assert!(early.keep(now, 2, grant(5)).is_err(), "two for each slot");
        assert!(early.remove(grant(2).lease) && !early.remove(grant(2).lease));
        let number = |grant: Box<Grant>| grant.lease.attempt.number;
        assert_eq!(early.next().map(number), Some(1));
        let overdue = now + EARLY_GRANT_WAIT_MAX + Duration::from_millis(3);
        assert_eq!(early.deadline(), Some(overdue));
        assert_eq!(early.next_overdue(overdue - Duration::from_millis(1)), None);
        assert_eq!(early.next_overdue(overdue).map(number), Some(3));
        assert_eq!(early.next_overdue(overdue), None, "the next one came later");
        early.clear();
        assert!(early.is_empty() && early.deadline().is_none());
    }
}
