//! A coordinator to dial, and the credentials to use there.

use super::error::ClientError;
use buildpool_dial::PoolUrl;
use buildpool_trust::{Trust, is_loopback};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A coordinator to dial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// URL of the coordinator.
    pub url: PoolUrl,
    /// Token to send.
    pub token: Option<AccessToken>,
    /// PEM file of the authorities that may sign the coordinator's certificate. Without it, the
    /// fingerprint in the token is used; without that, the system's authorities.
    pub ca_file: Option<PathBuf>,
    /// BLAKE3 of the coordinator's leaf certificate (DER), if known from another source. It takes
    /// precedence over that of the token.
    pub certificate: Option<[u8; 32]>,
    /// Whether the token may be sent unencrypted beyond this machine. Must be set explicitly.
    pub allow_plain: bool,
}

impl Endpoint {
    /// Returns an endpoint that is verified only by its token's fingerprint.
    pub fn new(url: PoolUrl, token: Option<AccessToken>) -> Self {
        Self { url, token, ca_file: None, certificate: None, allow_plain: false }
    }

    /// Checks that the token is safe on its way to the coordinator.
    ///
    /// # Errors
    /// [`ClientError::PlainBeyondLoopback`] if the token would leave this machine unencrypted and
    /// `allow_plain` is not set.
    pub fn check(&self) -> Result<(), ClientError> {
        let is_safe = self.url.is_secure()
            || self.token.is_none()
            || self.url.coordinators().all(|url| is_loopback(url.host()));
        if is_safe || self.allow_plain {
            return Ok(());
        }
        Err(ClientError::PlainBeyondLoopback { url: self.url.clone() })
    }

    /// Returns the expected certificate fingerprint, if one is known.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        self.certificate.or_else(|| self.token.as_ref().and_then(AccessToken::fingerprint))
    }

    /// Returns the verification method: the authority file if set, else the fingerprint, else the
    /// system's authorities.
    pub fn trust(&self) -> Trust {
        let named = self.ca_file.clone().map(Trust::Authorities);
        named.or(self.fingerprint().map(Trust::Fingerprint)).unwrap_or_else(Trust::of_system)
    }
}

/// A token: `bp_<id>_<secret>`, followed by `_<fingerprint>` if the coordinator's certificate is
/// self-signed. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// Returns the whole text, for the HTTP header and for the endpoint file of the local pool.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if the text has the form of a token. Otherwise it can't be valid for any pool.
    pub fn is_well_formed(&self) -> bool {
        let rest = self.0.strip_prefix("bp_").and_then(|rest| rest.split_once('_'));
        rest.is_some_and(|(id, secret)| !id.is_empty() && !secret.is_empty() && !secret.starts_with('_'))
    }

    /// Returns the BLAKE3 of the coordinator's leaf certificate (DER), if the token contains it.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        let mut parts = self.0.strip_prefix("bp_")?.splitn(3, '_');
        let hex = parts.nth(2)?;
        Some(*blake3::Hash::from_hex(hex).ok()?.as_bytes())
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

impl FromStr for AccessToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError);
        }
        Ok(Self(text.to_owned()))
    }
}

/// Error for a text that can't be a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the token is empty or has characters that no token has; `buildpool token create` prints valid ones")]
pub struct TokenError;

#[cfg(test)]
mod tests {
    use super::{AccessToken, Endpoint};
    use crate::ClientError;

    #[test]
    fn a_token_leaves_this_machine_unencrypted_only_where_that_was_said() {
        let endpoint = |url: &str, token: Option<&str>| {
            Endpoint::new(url.parse().unwrap(), token.map(|token| token.parse().unwrap()))
        };
        for url in ["ws://127.0.0.1:1", "ws://localhost:1", "ws://[::1]:1", "wss://192.0.2.2:1", "wss://pool"]
        {
            assert!(endpoint(url, Some("bp_1_secret")).check().is_ok(), "{url}");
        }
        for url in ["ws://192.0.2.2:1", "ws://pool.example", "ws://[fe80::1]:1"] {
            let clear = endpoint(url, Some("bp_1_secret"));
            let error = clear.check().unwrap_err();
            assert!(matches!(error, ClientError::PlainBeyondLoopback { .. }), "{error:?}");
            assert!(error.to_string().contains("wss:// in place of ws://"), "{error}");
            assert!(Endpoint { allow_plain: true, ..clear }.check().is_ok(), "{url}");
            assert!(endpoint(url, None).check().is_ok(), "there is nothing to give away at {url}");
        }
    }

    #[test]
    fn a_token_hides_itself_and_gives_its_fingerprint() {
        let hash = blake3::hash(b"certificate");
        let token: AccessToken = format!("bp_0123abcd_s3cret_{}\n", hash.to_hex()).parse().unwrap();
        assert_eq!(token.fingerprint(), Some(*hash.as_bytes()));
        assert!(!format!("{token:?}").contains("s3cret"));
        for bad in ["bad", "bp_", "bp_0", "bp_0_", "bp__s", "BP_0_s"] {
            assert!(!bad.parse::<AccessToken>().unwrap().is_well_formed(), "{bad}");
        }
        assert!(token.is_well_formed());
        for without in ["bp_0123_secret", "secret", "bp_0123_secret_beef", "a_b_c_d"] {
            assert_eq!(without.parse::<AccessToken>().unwrap().fingerprint(), None, "{without}");
        }
        for bad in ["", " ", "a b", "a\nb", "ä"] {
            assert!(bad.parse::<AccessToken>().is_err(), "{bad:?}");
        }
    }
}
