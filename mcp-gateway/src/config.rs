//! What a gateway is told when it starts.

use crate::client::Target;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How long a call may block for a client of which nothing is known; clients give up after 60 seconds by default.
const WAIT_UNKNOWN: Duration = Duration::from_secs(50);
/// Clients that are known to wait longer, by the name that they give themselves.
const WAITS: [(&str, Duration); 1] = [("claude-code", Duration::from_secs(170))];

/// What a gateway serves.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The pool that it asks.
    pub target: Target,
    /// The project: where commands run and whose configuration counts.
    pub directory: PathBuf,
    /// Further projects, by the name in their URL (`/mcp/p/NAME`); over HTTP only.
    pub projects: BTreeMap<String, PathBuf>,
    /// Only tools that change nothing.
    pub read_only: bool,
    /// How long calls may block.
    pub waits: WaitBudgets,
    /// Also what the conformance suite calls.
    pub conformance_fixtures: bool,
}

impl GatewayConfig {
    /// A gateway for a pool and a project, with defaults.
    pub fn new(target: Target, directory: impl Into<PathBuf>) -> Self {
        Self {
            target,
            directory: directory.into(),
            projects: BTreeMap::new(),
            read_only: false,
            waits: WaitBudgets::default(),
            conformance_fixtures: false,
        }
    }
}

/// How long a call may block before it answers `running`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitBudgets {
    /// For every client, whatever its name.
    pub for_all: Option<Duration>,
    /// By the name that a client gives itself, exactly.
    pub by_client: BTreeMap<String, Duration>,
}

impl WaitBudgets {
    /// For a client of this name.
    pub fn of(&self, client: &str) -> Duration {
        let known = || WAITS.iter().find(|(name, _)| *name == client).map(|(_, wait)| *wait);
        self.by_client.get(client).copied().or(self.for_all).or_else(known).unwrap_or(WAIT_UNKNOWN)
    }

    /// The longest that any client may wait.
    pub fn longest(&self) -> Duration {
        let known = WAITS.iter().map(|(_, wait)| *wait).chain([WAIT_UNKNOWN]);
        self.by_client.values().copied().chain(self.for_all).chain(known).max().unwrap_or(WAIT_UNKNOWN)
    }
}

/// Who may ask over HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HttpAuth {
    /// Who comes with a token of the pool.
    #[default]
    Token,
    /// Everybody who can reach it; on loopback only.
    None,
}

/// How a gateway listens.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where. Beyond loopback only with tokens, and only behind something that speaks TLS.
    pub listen: SocketAddr,
    /// Who may ask.
    pub auth: HttpAuth,
    /// Listening beyond loopback without TLS was allowed in as many words.
    pub allow_plain: bool,
    /// Under which names it is reached, beside those of the loopback interface and its address.
    pub hosts: Vec<String>,
    /// Web pages that may ask, as origins (`https://app.example`); none by default.
    pub origins: Vec<String>,
}

impl HttpConfig {
    /// A gateway that listens there, for holders of tokens.
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
