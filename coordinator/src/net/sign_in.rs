//! One-time codes: a client that has a token gets a code, and a browser that has the code gets the token.
//!
//! The codes are in memory only. A restart of the coordinator ends them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a code is valid.
pub(crate) const VALID: Duration = Duration::from_secs(60);
/// Limit on the codes that are valid at a time. A further one ends the oldest one.
const CODES_MAX: usize = 64;
/// Limit on the codes of one token.
const CODES_OF_TOKEN_MAX: usize = 4;
/// Random bytes of a code.
const CODE_BYTES: usize = 24;

/// The codes that are valid now.
#[derive(Default)]
pub(crate) struct SignIns {
    codes: Mutex<VecDeque<Code>>,
}

struct Code {
    /// A hash, so that the time of a comparison contains no information about the code.
    hash: blake3::Hash,
    token: String,
    until: Instant,
}

impl SignIns {
    /// Returns a new code for this token.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn create(&self, token: String, now: Instant) -> Result<String, getrandom::Error> {
        let mut bytes = [0; CODE_BYTES];
        getrandom::fill(&mut bytes)?;
        let code: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| now < code.until);
        let of_token: Vec<usize> =
            codes.iter().enumerate().filter(|(_, code)| code.token == token).map(|(at, _)| at).collect();
        if of_token.len() >= CODES_OF_TOKEN_MAX {
            // A token can't end the codes of others.
            codes.remove(of_token[0]);
        } else if codes.len() >= CODES_MAX {
            codes.pop_front();
        }
        codes.push_back(Code { hash: blake3::hash(code.as_bytes()), token, until: now + VALID });
        Ok(code)
    }

    /// Returns the token of a code, once.
    pub(crate) fn take(&self, code: &str, now: Instant) -> Option<String> {
        let hash = blake3::hash(code.as_bytes());
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = codes.iter().position(|code| code.hash == hash)?;
        codes.remove(at).filter(|code| now < code.until).map(|code| code.token)
    }
}

#[cfg(test)]
mod tests {
    use super::{CODES_MAX, SignIns, VALID};
    use std::time::{Duration, Instant};

    #[test]
    fn a_code_is_valid_once_and_for_a_short_time() {
        let (codes, now) = (SignIns::default(), Instant::now());
        let code = codes.create("t1".into(), now).expect("random bytes");
        assert_eq!(codes.take("", now), None);
        assert_eq!(codes.take(&code, now), Some("t1".into()));
        assert_eq!(codes.take(&code, now), None, "it was used");
        let late = codes.create("t2".into(), now).expect("random bytes");
        assert_eq!(codes.take(&late, now + VALID), None);
        let short = codes.create("t3".into(), now).expect("random bytes");
        assert_eq!(codes.take(&short, now + VALID - Duration::from_millis(1)), Some("t3".into()));
    }

    #[test]
    fn a_token_does_not_end_the_codes_of_another_one() {
        let (codes, now) = (SignIns::default(), Instant::now());
        let other = codes.create("other".into(), now).expect("random bytes");
        let many: Vec<String> =
            (0..CODES_MAX).map(|_| codes.create("many".into(), now).expect("random bytes")).collect();
        assert_eq!(codes.take(&many[0], now), None);
        assert_eq!(codes.take(&many[CODES_MAX - 1], now), Some("many".into()));
        assert_eq!(codes.take(&other, now), Some("other".into()));
    }

    #[test]
    fn the_oldest_of_too_many_codes_ends() {
        let (codes, now) = (SignIns::default(), Instant::now());
        let all: Vec<String> =
            (0..=CODES_MAX).map(|n| codes.create(n.to_string(), now).expect("random bytes")).collect();
        assert_eq!(codes.take(&all[0], now), None);
        assert_eq!(codes.take(&all[1], now), Some("1".into()));
        assert_eq!(codes.take(&all[CODES_MAX], now), Some(CODES_MAX.to_string()));
    }
}
