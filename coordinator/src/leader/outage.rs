//! Limits the log lines about a server that does not answer: one at the start of the outage, and one each minute.

use std::time::{Duration, Instant};

const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The current outage, if there is one.
#[derive(Default, Debug)]
pub(super) struct Outage {
    since: Option<Instant>,
    logged_at: Option<Instant>,
}

impl Outage {
    /// Notes a failure. Returns true if it should be logged.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.since.get_or_insert(now);
        let is_due = self.logged_at.is_none_or(|at| now.saturating_duration_since(at) >= AGAIN_AFTER);
        if is_due {
            self.logged_at = Some(now);
        }
        is_due
    }

    /// Notes a success. Returns the duration of the outage that it ends.
    pub(super) fn ended(&mut self, now: Instant) -> Option<Duration> {
        self.logged_at = None;
        self.since.take().map(|since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::{AGAIN_AFTER, Outage};
    use std::time::{Duration, Instant};

    #[test]
    fn an_outage_is_logged_at_its_start_and_each_minute() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        assert_eq!(outage.ended(start), None);
        let logged =
            (0..240).filter(|half| outage.failed(start + Duration::from_millis(500) * *half)).count();
        assert_eq!(logged, 2, "two minutes, twice a second");
        assert_eq!(outage.ended(start + AGAIN_AFTER * 2), Some(AGAIN_AFTER * 2));
        assert!(outage.failed(start + AGAIN_AFTER * 2), "the next outage");
    }
}
