//! The address of the coordinator, and the parts of a token.

use std::fmt;

/// Address of the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// True for TLS.
    pub is_tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path prefix before the link's own path, without a trailing slash.
    pub base: String,
}

impl Address {
    /// Parses `ws://host:port` or `wss://host:port`, with a path for a coordinator behind a proxy.
    ///
    /// # Errors
    /// Fails for any other text.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError { url: url.to_owned() };
        let (is_tls, rest) = if let Some(rest) = url.strip_prefix("ws://") {
            (false, rest)
        } else {
            (true, url.strip_prefix("wss://").ok_or_else(wrong)?)
        };
        let (authority, base) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let default_port = if is_tls { 443 } else { 80 };
        let (host, port) = if let Some(bracketed) = authority.strip_prefix('[') {
            let (host, after) = bracketed.split_once(']').ok_or_else(wrong)?;
            (host, after.strip_prefix(':').map(str::parse).transpose().map_err(|_| wrong())?)
        } else {
            match authority.split_once(':') {
                Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
                None => (authority, None),
            }
        };
        if host.is_empty() || host.contains(['@', '?', '#', ' ']) || base.contains(['?', '#', ' ']) {
            return Err(wrong());
        }
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port: port.unwrap_or(default_port),
            base: base.trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the URL of the worker link.
    pub fn link_url(&self) -> String {
        format!("{self}{}", buildpool_protocol::worker_link::PATH)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "wss" } else { "ws" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{scheme}://{host}:{}{}", self.port, self.base)
    }
}

/// Error: the text is not an address of a coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressError {
    url: String,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no coordinator; valid are ws://host:port and wss://host:port", self.url)
    }
}

impl std::error::Error for AddressError {}

/// Splits a token: the part sent to the coordinator, and the BLAKE3 of its certificate.
pub fn split_token(token: &str) -> (&str, Option<&str>) {
    match token.rsplit_once('_') {
        Some((said, pin))
            if pin.len() == 64
                && pin.bytes().all(|byte| byte.is_ascii_hexdigit())
                && said.matches('_').count() >= 2 =>
        {
            (said, Some(pin))
        }
        _ => (token, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, split_token};

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (url, link) in [
            ("ws://127.0.0.1:7878", "ws://127.0.0.1:7878/v1/worker"),
            ("ws://localhost:1/", "ws://localhost:1/v1/worker"),
            ("wss://pool.example", "wss://pool.example:443/v1/worker"),
            ("wss://[::1]:9/pool/", "wss://[::1]:9/pool/v1/worker"),
        ] {
            assert_eq!(Address::parse(url).expect("valid").link_url(), link);
        }
        for url in ["", "http://host", "ws://", "ws://host:port", "ws://[::1", "ws://user@host", "ws://h/?x"]
        {
            let error = Address::parse(url).expect_err("no address").to_string();
            assert!(error.contains("valid are ws://"), "{error}");
        }
    }

    #[test]
    fn a_fingerprint_is_the_last_part_of_a_token_and_is_not_said() {
        let pin = "0123456789abcdef".repeat(4);
        let said = "bp_0192_s3cret";
        assert_eq!(split_token(said), (said, None));
        assert_eq!(split_token(&format!("{said}_{pin}")), (said, Some(pin.as_str())));
        let secret_like_a_pin = format!("bp_0192_{pin}");
        assert_eq!(split_token(&secret_like_a_pin), (secret_like_a_pin.as_str(), None));
    }
}
