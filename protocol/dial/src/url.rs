//! The URL of a coordinator.

use buildpool_protocol::ids::BuildId;
use std::fmt;
use std::str::FromStr;

/// Limit on the coordinators of one pool.
const COORDINATORS_MAX: usize = 16;

/// `ws://host[:port][/prefix]` or `wss://…`. The prefix is for a proxy that serves several
/// applications on one host name. Several coordinators of one pool are separated by commas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolUrl {
    secure: bool,
    host: String,
    port: u16,
    prefix: String,
    /// The other coordinators of the pool.
    others: Box<[PoolUrl]>,
}

impl PoolUrl {
    /// Returns true if the connection uses TLS.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Returns the URL of each coordinator, at least one.
    pub fn coordinators(&self) -> impl Iterator<Item = Self> + '_ {
        let first = Self { others: Box::default(), ..self.clone() };
        std::iter::once(first).chain(self.others.iter().cloned())
    }

    /// Returns the host name or address of the first coordinator, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port of the first coordinator.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a path of the coordinator, with the prefix.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Returns the URL of a build on the coordinator's web page.
    pub fn page_of(&self, build: BuildId) -> String {
        // `ws` corresponds to `http`, and `wss` to `https` (RFC 6455, section 3).
        format!("{}/#/builds/{}", self.of_path("").replacen("ws", "http", 1), build.request_id())
    }

    /// Returns the URL of a path on the first coordinator, with the prefix.
    pub fn of_path(&self, path: &str) -> String {
        let scheme = if self.secure { "wss" } else { "ws" };
        let (host, port, prefix) = (&self.host, self.port, &self.prefix);
        if host.contains(':') {
            format!("{scheme}://[{host}]:{port}{prefix}{path}")
        } else {
            format!("{scheme}://{host}:{port}{prefix}{path}")
        }
    }
}

impl fmt::Display for PoolUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_path(""))?;
        self.others.iter().try_for_each(|other| write!(f, ",{other}"))
    }
}

impl FromStr for PoolUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let Some((first, others)) = text.split_once(',') else { return Self::one(text) };
        let fail = |reason| Err(UrlError { url: text.to_owned(), reason });
        let mut url = Self::one(first.trim())?;
        url.others = others.split(',').map(|other| Self::one(other.trim())).collect::<Result<_, _>>()?;
        if url.others.len() >= COORDINATORS_MAX {
            return fail("it names more than 16 coordinators");
        }
        if url.others.iter().any(|other| other.secure != url.secure) {
            return fail("some of its coordinators use TLS and others do not");
        }
        Ok(url)
    }
}

impl PoolUrl {
    /// Parses the URL of one coordinator.
    fn one(text: &str) -> Result<Self, UrlError> {
        let fail = |reason| Err(UrlError { url: text.to_owned(), reason });
        let Some((scheme, rest)) = text.split_once("://") else {
            return fail("it has no scheme");
        };
        let secure = match scheme {
            "ws" => false,
            "wss" => true,
            _ => return fail("its scheme is neither ws nor wss"),
        };
        if rest.contains(['?', '#', '@']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return fail("only a host, a port and a path belong into it");
        }
        let (authority, prefix) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => match bracketed.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, port)) if port.starts_with(':') => (host, Some(&port[1..])),
                _ => return fail("its bracket is not closed"),
            },
            None => match authority.split_once(':') {
                Some((_, port)) if port.contains(':') => return fail("an IPv6 address needs brackets"),
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return fail("it names no host");
        }
        let port = match port.map(str::parse::<u16>) {
            Some(Ok(port)) if port != 0 => port,
            Some(_) => return fail("its port is invalid; valid are 1 to 65535"),
            None if secure => 443,
            None => 80,
        };
        let prefix = prefix.trim_end_matches('/').to_owned();
        Ok(Self { secure, host: host.to_owned(), port, prefix, others: Box::default() })
    }
}

/// Error for a text that is not a coordinator's URL.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{}` is not the URL of a coordinator: {}; valid are ws://HOST:PORT and wss://HOST:PORT, and several of them separated by commas",
    .url.escape_debug(),
    .reason
)]
pub struct UrlError {
    /// The given text.
    pub url: String,
    reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::PoolUrl;
    use buildpool_protocol::ids::BuildId;

    #[test]
    fn urls_are_read_and_written_whole() {
        for (text, shown) in [
            ("ws://127.0.0.1:7070", "ws://127.0.0.1:7070"),
            ("wss://pool.example", "wss://pool.example:443"),
            ("ws://pool.example/", "ws://pool.example:80"),
            ("wss://[::1]:7070/build/", "wss://[::1]:7070/build"),
            ("ws://[fe80::1]", "ws://[fe80::1]:80"),
        ] {
            let url: PoolUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse::<PoolUrl>().unwrap(), url);
        }
        let several: PoolUrl = "wss://a:1, wss://[::1]:2/p".parse().unwrap();
        assert_eq!(several.to_string(), "wss://a:1,wss://[::1]:2/p");
        let each: Vec<String> = several.coordinators().map(|url| url.to_string()).collect();
        assert_eq!(each, ["wss://a:1", "wss://[::1]:2/p"]);
        assert_eq!(several.of_path("/v1/client"), "wss://a:1/v1/client");
        let url = "wss://ws:1/p".parse::<PoolUrl>().unwrap();
        assert_eq!(url.of_path("/v1/client"), "wss://ws:1/p/v1/client");
        let build = BuildId::from_uuid(uuid::Uuid::nil());
        assert_eq!(url.page_of(build), format!("https://ws:1/p/#/builds/{}", build.request_id()));
    }

    #[test]
    fn what_is_no_url_is_refused_with_its_reason() {
        let many = ["ws://h:1"; 17].join(",");
        for (text, reason) in [
            ("pool.example:7070", "no scheme"),
            ("http://pool.example", "neither ws nor wss"),
            ("ws://", "names no host"),
            ("ws://:80", "names no host"),
            ("ws://h:0", "port"),
            ("ws://h:65536", "port"),
            ("ws://h:", "port"),
            ("ws://::1:80", "brackets"),
            ("ws://[::1", "bracket"),
            ("ws://h:80\r\nX: y", "only a host"),
            ("ws://user@h", "only a host"),
            ("ws://h:1,", "no scheme"),
            ("ws://h:1,wss://h:2", "others do not"),
            (many.as_str(), "more than 16"),
        ] {
            let error = text.parse::<PoolUrl>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("wss://HOST:PORT"), "{text:?}: {error}");
        }
    }
}
