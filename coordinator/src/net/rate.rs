//! Limits on the rate of a principal's requests and on the bytes of its new jobs, over all of its connections.

use buildpool_protocol::error::{ErrorCode, LinkError};
use dashmap::DashMap;
use std::num::NonZeroU32;
use std::time::Instant;

/// Period of the limit: a minute, in seconds.
const PERIOD_SECS: f64 = 60.0;

/// Remaining requests of each principal. The number of entries is limited by the number of token
/// names.
pub(crate) struct Rates {
    per_minute: Option<NonZeroU32>,
    left: DashMap<String, Left>,
}

struct Left {
    requests: f64,
    at: Instant,
}

impl Rates {
    pub(crate) fn new(per_minute: Option<NonZeroU32>) -> Self {
        Self { per_minute, left: DashMap::new() }
    }

    /// Consumes one request of a principal.
    ///
    /// # Errors
    /// [`ErrorCode::Exhausted`] if no request is left.
    pub(crate) fn within(&self, principal: &str, now: Instant) -> Result<(), LinkError> {
        self.take(principal, now).map_err(|limit| {
            let text = format!(
                "`{principal}` sends too many requests: {limit} a minute are allowed (requests_per_minute); try again in a moment"
            );
            LinkError::new(ErrorCode::Exhausted, text)
        })
    }

    /// Consumes one request, or returns the limit per minute if there is no request left. Unused
    /// requests are kept for a minute.
    fn take(&self, principal: &str, now: Instant) -> Result<(), NonZeroU32> {
        let Some(limit) = self.per_minute else { return Ok(()) };
        let most = f64::from(limit.get());
        let mut left = self.left.entry(principal.to_owned()).or_insert(Left { requests: most, at: now });
        let passed = now.saturating_duration_since(left.at).as_secs_f64();
        left.requests = (left.requests + passed * most / PERIOD_SECS).min(most);
        left.at = now;
        if left.requests < 1.0 {
            return Err(limit);
        }
        left.requests -= 1.0;
        Ok(())
    }
}

/// Bytes of new jobs that a principal may submit within [`VOLUME_PERIOD_SECS`]. The specs stay in the records, of which
/// retention removes the oldest of each submitter.
const VOLUME_BYTES: f64 = (256 << 20) as f64;
/// The interval between two passes of retention, in seconds.
const VOLUME_PERIOD_SECS: f64 = 600.0;
/// Bytes that each job counts in addition to its texts.
const JOB_BYTES: f64 = 512.0;

/// Bytes of new jobs that each principal may still submit.
#[derive(Default)]
pub(crate) struct Volumes(DashMap<String, (f64, Instant)>);

impl Volumes {
    /// Consumes the bytes of a new job.
    ///
    /// # Errors
    /// [`ErrorCode::Exhausted`] if the principal has submitted too many bytes.
    pub(crate) fn within(&self, principal: &str, bytes: usize, now: Instant) -> Result<(), LinkError> {
        let mut left = self.0.entry(principal.to_owned()).or_insert((VOLUME_BYTES, now));
        let passed = now.saturating_duration_since(left.1).as_secs_f64();
        let room = (left.0 + passed * VOLUME_BYTES / VOLUME_PERIOD_SECS).min(VOLUME_BYTES);
        let needed = bytes as f64 + JOB_BYTES;
        *left = (room, now);
        if needed > room {
            let text = format!(
                "`{principal}` has submitted {} MiB of commands and variables within {} minutes, which is the limit; submit again in a minute, or put large data in the working tree",
                VOLUME_BYTES / 1_048_576.0,
                VOLUME_PERIOD_SECS / 60.0
            );
            return Err(LinkError::new(ErrorCode::Exhausted, text));
        }
        left.0 -= needed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{JOB_BYTES, Rates, VOLUME_BYTES, VOLUME_PERIOD_SECS, Volumes};
    use std::num::NonZeroU32;
    use std::time::{Duration, Instant};

    #[test]
    fn each_principal_has_its_own_bytes_of_new_jobs() {
        let (volumes, now, large) = (Volumes::default(), Instant::now(), 1 << 20);
        let most = (VOLUME_BYTES / (f64::from(large) + JOB_BYTES)) as usize;
        let submit = |name, now| volumes.within(name, large as usize, now);
        assert_eq!((0..1000).take_while(|_| submit("eve", now).is_ok()).count(), most);
        let refused = submit("eve", now).expect_err("it has no bytes left").message;
        assert!(
            refused.contains("`eve`")
                && refused.contains("256 MiB of commands and variables within 10 minutes"),
            "{refused}"
        );
        assert!(submit("ada", now).is_ok());
        let later = now + Duration::from_secs_f64(VOLUME_PERIOD_SECS / 2.0);
        let again = (0..1000).take_while(|_| submit("eve", later).is_ok()).count();
        assert!((most / 2 - 1..=most / 2 + 1).contains(&again), "{again}");
    }

    #[test]
    fn each_principal_has_its_own_minute() {
        let limit = NonZeroU32::new(3);
        let rates = Rates::new(limit);
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(rates.take("a", now), Ok(()));
        }
        assert_eq!(rates.take("a", now).err(), limit);
        assert_eq!(rates.take("b", now), Ok(()));
        let later = now + Duration::from_secs(20);
        assert_eq!(rates.take("a", later), Ok(()), "one has come back");
        assert_eq!(rates.take("a", later).err(), limit);
        let much_later = now + Duration::from_secs(3600);
        let taken = (0..100).take_while(|_| rates.take("a", much_later).is_ok()).count();
        assert_eq!(taken, 3, "no more than a minute's are kept");
        assert_eq!(Rates::new(None).take("a", now), Ok(()));
    }
}
