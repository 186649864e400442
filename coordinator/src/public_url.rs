//! The URL by which others reach a coordinator.

use rustls_pki_types::ServerName;
use std::fmt;
use std::str::FromStr;

/// `wss://HOST[:PORT][/PATH]`, or `ws://` behind a proxy in the same network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicUrl {
    text: String,
    /// A DNS name, or an IP address without brackets.
    pub host: String,
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host = host_of(text).ok_or_else(|| {
            format!(
                "`{}`: valid is wss://HOST:PORT with a DNS name or an IP address, as in wss://pool.example.com:7420",
                text.escape_debug()
            )
        })?;
        Ok(Self { text: text.trim_end_matches('/').to_owned(), host: host.to_owned() })
    }
}

fn host_of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("wss://").or_else(|| text.strip_prefix("ws://"))?;
    if rest.contains(['?', '#', '@']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let authority = rest.split('/').next()?;
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
    };
    let has_port = port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
    let is_valid = (port.is_empty() || has_port) && ServerName::try_from(host).is_ok();
    is_valid.then_some(host)
}

#[cfg(test)]
mod tests {
    use super::PublicUrl;

    #[test]
    fn the_host_is_a_name_or_an_address() {
        for (text, host) in [
            ("wss://pool.example.com:7420", "pool.example.com"),
            ("wss://pool.example.com/", "pool.example.com"),
            ("ws://192.0.2.1:80/pool", "192.0.2.1"),
            ("wss://[2001:db8::1]:7420", "2001:db8::1"),
        ] {
            assert_eq!(text.parse::<PublicUrl>().map(|url| url.host), Ok(host.to_owned()));
        }
        for text in [
            "pool",
            "https://pool",
            "wss://",
            "wss://a b",
            "wss://pool:0",
            "wss://pool:x",
            "wss://[::1",
            "wss://u@h",
            "wss://pool#t",
        ] {
            let error = text.parse::<PublicUrl>().expect_err(text);
            assert!(error.contains("valid is wss://HOST:PORT"), "{error}");
        }
    }
}
