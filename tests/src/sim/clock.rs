//! Clocks with different rates, one per machine.

use std::time::Duration;

/// Real time since the start of the simulation. The product code never reads it.
pub(crate) type Time = Duration;

const MILLION: u128 = 1_000_000;

/// A monotonic clock that runs slightly too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Time,
    shown: Duration,
    /// Microseconds that it counts per real second.
    rate: u64,
}

impl Clock {
    pub(crate) fn new(began: Time, shown: Duration, rate: u64) -> Self {
        Self { began, shown, rate }
    }

    /// Returns the clock's time at a real time.
    pub(crate) fn at(&self, now: Time) -> Duration {
        let passed = now.saturating_sub(self.began).as_nanos() * u128::from(self.rate) / MILLION;
        self.shown + Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Returns the earliest real time at which the clock shows `shown`.
    pub(crate) fn when(&self, shown: Duration) -> Time {
        let left = shown.saturating_sub(self.shown).as_nanos() * MILLION;
        let passed = left.div_ceil(u128::from(self.rate));
        let nanos = u64::try_from(passed).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        self.began.saturating_add(Duration::from_nanos(nanos))
    }
}

/// Returns the earlier of two optional times.
pub(crate) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use std::time::Duration;

    #[test]
    fn a_clock_comes_to_what_it_was_asked_for() {
        for rate in [950_000, 1_000_000, 1_030_000] {
            let clock = Clock::new(Duration::from_secs(7), Duration::from_secs(100), rate);
            for shown in [100, 101, 5_000, 1_000_000].map(Duration::from_secs) {
                let at = clock.when(shown);
                assert!(clock.at(at) >= shown, "{rate} {shown:?}");
                assert!(clock.at(at) - shown < Duration::from_micros(2), "{rate} {shown:?}");
            }
        }
    }
}
