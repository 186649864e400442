//! Backoff between connection attempts: exponential, with full jitter, so that many workers do not
//! reconnect at the same time.

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};
use std::time::Duration;

/// The next pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    ceiling: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { ceiling: BACKOFF_MIN }
    }
}

impl Backoff {
    /// Returns a random pause between [`BACKOFF_MIN`] and the current ceiling, and doubles the
    /// ceiling.
    pub fn pause(&mut self, random: u64) -> Duration {
        let ceiling = self.ceiling;
        self.ceiling = (ceiling * 2).min(BACKOFF_MAX);
        let range = u64::try_from((ceiling - BACKOFF_MIN).as_millis()).unwrap_or(u64::MAX);
        BACKOFF_MIN + Duration::from_millis(random % (range + 1))
    }

    /// Returns a pause for an error that needs a user's action.
    pub fn long_pause(&mut self, random: u64) -> Duration {
        self.ceiling = BACKOFF_MAX;
        self.pause(random).max(BACKOFF_MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};

    #[test]
    fn pauses_grow_to_a_bound_and_keep_their_jitter() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.pause(u64::MAX), BACKOFF_MIN);
        let longest: Vec<_> = (0..12)
            .map(|_| {
                let mut other = backoff;
                assert_eq!(other.pause(0), BACKOFF_MIN);
                backoff.pause(u64::MAX)
            })
            .collect();
        assert!(longest.iter().all(|pause| (BACKOFF_MIN..=BACKOFF_MAX).contains(pause)));
        assert!(backoff.long_pause(0) >= BACKOFF_MAX / 2);
    }
}
