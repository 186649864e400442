//! Retry delays: exponential backoff with jitter.

use std::time::Duration;

/// The first delay, before jitter.
const FIRST: Duration = Duration::from_millis(100);
/// The longest delay, before jitter.
const LONGEST: Duration = Duration::from_secs(5);

/// Delays between attempts. Each is drawn from the upper half of a span that doubles up to a limit.
#[derive(Clone, Debug)]
pub struct Backoff {
    span: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { span: FIRST }
    }
}

impl Backoff {
    /// Returns the next delay, computed from 32 random bits.
    pub fn next(&mut self, random: u32) -> Duration {
        let half = self.span / 2;
        self.span = (self.span * 2).min(LONGEST);
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// Returns 32 random bits from the system. On failure, returns a constant; that removes only the
/// jitter.
pub fn random_bits() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::{Backoff, FIRST, LONGEST};

    #[test]
    fn delays_grow_up_to_their_limit_and_differ_by_the_random_part() {
        let (mut low, mut high) = (Backoff::default(), Backoff::default());
        assert_eq!((low.next(0), high.next(u32::MAX)), (FIRST / 2, FIRST));
        for _ in 0..20 {
            let (low, high) = (low.next(0), high.next(u32::MAX));
            assert!(low * 2 == high && high <= LONGEST, "{low:?} {high:?}");
        }
        assert_eq!(high.next(u32::MAX), LONGEST);
    }
}
