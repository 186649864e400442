//! Pauses between connection attempts: exponential, with jitter, so that many peers do not reconnect
//! at the same time.

use std::time::Duration;

/// Waits for this time. Returns at once for zero: the runtime's timer has whole milliseconds, so even a sleep of zero lasts
/// up to one.
pub async fn pause_for(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// The next pause. Each is drawn from the span between half of the first one and a ceiling, which
/// doubles up to a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    ceiling: Duration,
}

impl Backoff {
    /// Returns pauses that begin at most at `first` and grow to at most `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, ceiling: first }
    }

    /// Returns the next pause, computed from random bits.
    pub fn pause(&mut self, random: u64) -> Duration {
        let (floor, ceiling) = (self.first / 2, self.ceiling);
        self.ceiling = (ceiling * 2).min(self.longest);
        let range = u64::try_from((ceiling - floor).as_millis()).unwrap_or(u64::MAX - 1);
        floor + Duration::from_millis(random % (range + 1))
    }

    /// Returns a pause for an error that needs a user's action.
    pub fn long_pause(&mut self, random: u64) -> Duration {
        self.ceiling = self.longest;
        self.pause(random).max(self.longest / 2)
    }

    /// Limits the next pause, if it would be longer.
    pub fn limit(&mut self, longest: Duration) {
        self.ceiling = self.ceiling.min(longest.max(self.first));
    }

    /// Starts again with the first pause.
    pub fn reset(&mut self) {
        self.ceiling = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn pauses_grow_to_a_bound_and_keep_their_jitter() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(30));
        let mut backoff = Backoff::new(first, longest);
        let mut highest = Duration::ZERO;
        for _ in 0..12 {
            let mut other = backoff;
            assert_eq!(other.pause(0), first / 2);
            let range = (backoff.ceiling - first / 2).as_millis() as u64;
            let pause = backoff.pause(range);
            assert!(pause > highest || pause == longest, "{pause:?} after {highest:?}");
            highest = pause;
        }
        assert_eq!(highest, longest);
        for random in [0, 1, 12_345, u64::MAX] {
            let mut other = backoff;
            assert!((first / 2..=longest).contains(&other.pause(random)));
            assert!(other.long_pause(random) >= longest / 2);
        }
        backoff.limit(Duration::from_secs(1));
        assert!(backoff.pause(u64::MAX) <= Duration::from_secs(1));
        backoff.reset();
        assert!(backoff.pause(u64::MAX) <= first);
    }
}
