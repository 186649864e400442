//! When deliveries are sent. No clock and no I/O: times are milliseconds since 1970.

/// Limit on the deliveries that wait for one webhook. Beyond it, later events wait in the history of events.
pub(super) const QUEUED_MAX: usize = 1_000;
/// Time for which a delivery is retried.
pub(super) const RETRY_FOR_MS: i64 = 24 * 60 * 60 * 1_000;
/// Delay after the first failure. It doubles with each further one.
const FIRST_DELAY_MS: i64 = 5_000;
/// Longest delay between two attempts, without the random part.
const DELAY_MAX_MS: i64 = 60 * 60 * 1_000;

/// Action after a failed delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Send it again at this time.
    Retry { at_ms: i64 },
    /// Move it to the dead letters.
    GiveUp,
}

/// Returns the number of events that the queue of a webhook has room for.
pub(super) const fn room(queued: usize) -> usize {
    QUEUED_MAX.saturating_sub(queued)
}

/// Decides about a delivery that failed. `attempts` counts the earlier failures. `jitter` lengthens the delay by up to a
/// quarter.
pub(super) fn after_failure(now_ms: i64, first_ms: i64, attempts: u32, jitter: u8) -> Next {
    let doubled = FIRST_DELAY_MS.saturating_mul(1 << attempts.min(20)).min(DELAY_MAX_MS);
    let at_ms = now_ms + doubled + doubled * i64::from(jitter) / 1_024;
    if at_ms - first_ms > RETRY_FOR_MS { Next::GiveUp } else { Next::Retry { at_ms } }
}

#[cfg(test)]
mod tests {
    use super::{Next, RETRY_FOR_MS, after_failure};

    #[test]
    fn delays_grow_to_an_hour_and_end_after_a_day() {
        for jitter in [0, 255] {
            let (mut now, mut attempts, mut delays) = (0, 0, Vec::new());
            while let Next::Retry { at_ms } = after_failure(now, 0, attempts, jitter) {
                delays.push(at_ms - now);
                (now, attempts) = (at_ms, attempts + 1);
            }
            assert!(delays.is_sorted() && (5_000..6_300).contains(&delays[0]), "{delays:?}");
            assert!(delays.iter().all(|delay| *delay <= 75 * 60 * 1_000), "{delays:?}");
            assert!(now > RETRY_FOR_MS - 2 * 75 * 60 * 1_000 && now <= RETRY_FOR_MS, "{now}");
            assert!((25..40).contains(&attempts), "{attempts}");
        }
    }
}
