//! Configuration of a gateway.

use buildpool_client::Target;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum blocking time of a call for an unknown client. Most clients time out after 60 seconds.
const WAIT_UNKNOWN: Duration = Duration::from_secs(50);
/// Blocking times for known clients with a longer timeout, by the name that the client reports.
const WAITS: [(&str, Duration); 1] = [("claude-code", Duration::from_secs(170))];

/// Configuration of the MCP service.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The pool to use.
    pub target: Target,
    /// Directory of the project: commands run there, and its configuration applies.
    pub directory: PathBuf,
    /// Further projects, by the name in their URL (`/mcp/p/NAME`). Only for HTTP.
    pub projects: BTreeMap<String, PathBuf>,
    /// Offer only tools that change nothing.
    pub read_only: bool,
    /// Maximum blocking times of calls.
    pub waits: WaitBudgets,
}

impl GatewayConfig {
    /// Returns the default configuration for a pool and a project.
    pub fn new(target: Target, directory: impl Into<PathBuf>) -> Self {
        Self {
            target,
            directory: directory.into(),
            projects: BTreeMap::new(),
            read_only: false,
            waits: WaitBudgets::default(),
        }
    }
}

/// Maximum time that a call blocks before it answers `running`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitBudgets {
    /// For every client.
    pub for_all: Option<Duration>,
    /// By the exact name that a client reports.
    pub by_client: BTreeMap<String, Duration>,
}

impl WaitBudgets {
    /// Returns the time for a client with this name.
    pub fn of(&self, client: &str) -> Duration {
        let known = || WAITS.iter().find(|(name, _)| *name == client).map(|(_, wait)| *wait);
        self.by_client.get(client).copied().or(self.for_all).or_else(known).unwrap_or(WAIT_UNKNOWN)
    }

    /// Returns the longest time for any client.
    pub fn longest(&self) -> Duration {
        let known = WAITS.iter().map(|(_, wait)| *wait).chain([WAIT_UNKNOWN]);
        self.by_client.values().copied().chain(self.for_all).chain(known).max().unwrap_or(WAIT_UNKNOWN)
    }
}

/// Authorization of HTTP requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HttpAuth {
    /// Requests need a token of the pool.
    #[default]
    Token,
    /// All requests are accepted; on loopback only.
    None,
}

/// Configuration of the HTTP listener.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Address to listen on. Beyond loopback only with tokens, and only behind a proxy with TLS.
    pub listen: SocketAddr,
    /// Authorization of requests.
    pub auth: HttpAuth,
    /// Listening beyond loopback without TLS was allowed explicitly.
    pub allow_plain: bool,
    /// Host names of the gateway, in addition to its address and those of the loopback interface.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests (`https://app.example`); empty by default.
    pub origins: Vec<String>,
}

impl HttpConfig {
    /// Returns the configuration for this address; requests need tokens.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, auth: HttpAuth::Token, allow_plain: false, hosts: Vec::new(), origins: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::WaitBudgets;
    use std::time::Duration;

    #[test]
    fn a_configured_wait_goes_before_what_is_known() {
        let mut waits = WaitBudgets::default();
        let secs = |waits: &WaitBudgets, client| waits.of(client).as_secs();
        assert_eq!((secs(&waits, "claude-code"), secs(&waits, "cursor")), (170, 50));
        waits.for_all = Some(Duration::from_secs(20));
        waits.by_client.insert("cursor".into(), Duration::from_secs(30));
        assert_eq!((secs(&waits, "claude-code"), secs(&waits, "cursor")), (20, 30));
        assert_eq!(waits.longest().as_secs(), 170);
    }
}
