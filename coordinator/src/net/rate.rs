//! Rate limit on the requests of a principal, over all of its connections.

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

#[cfg(test)]
mod tests {
    use super::Rates;
    use std::num::NonZeroU32;
    use std::time::{Duration, Instant};

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
