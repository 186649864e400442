//! Signatures of Standard Webhooks: HMAC-SHA256 of id, time and body.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use std::fmt;

/// Prefix of a secret as text.
const PREFIX: &str = "whsec_";
/// Length of a secret in bytes.
const SECRET_BYTES: usize = 32;

/// Secret of a webhook. Only the answer to its creation shows it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Returns a new random secret.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = vec![0; SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the secret with these stored bytes.
    pub(super) const fn of_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the database.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text that receivers verify with.
    pub(crate) fn text(&self) -> String {
        format!("{PREFIX}{}", BASE64_STANDARD.encode(&self.0))
    }

    /// Returns the value of the header `webhook-signature`.
    pub(super) fn sign(&self, id: &str, timestamp_secs: i64, body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let tag = hmac::sign(&key, format!("{id}.{timestamp_secs}.{body}").as_bytes());
        format!("v1,{}", BASE64_STANDARD.encode(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::{BASE64_STANDARD, Engine, Secret};

    /// Example of the reference libraries of Standard Webhooks.
    #[test]
    fn the_signature_is_that_of_the_reference_libraries() {
        let bytes = BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let secret = Secret::of_bytes(bytes);
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = secret.sign(id, 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(secret.text(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
