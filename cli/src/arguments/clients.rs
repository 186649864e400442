//! What sets up and serves agents, and what keeps daemons running.

use super::PoolOptions;
use super::daemons::TrustOptions;
use super::values::{JoinText, address, project};
use crate::durations;
use buildpool_gateway::install::McpClient;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Listen here instead of using standard input and output; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// Who may use it: holders of a token of the pool, or, on loopback only, every user of this machine
    #[arg(long, value_name = "HOW", value_parser = ["token", "none"], default_value = "token", requires = "http")]
    pub(crate) http_auth: String,
    /// Listen beyond loopback although tokens travel unencrypted
    #[arg(long, requires = "http")]
    pub(crate) http_plain: bool,
    /// Another name by which it is reached, as behind a proxy
    #[arg(long = "http-host", value_name = "HOST", requires = "http")]
    pub(crate) http_hosts: Vec<String>,
    /// A web page that may ask, as `https://app.example`
    #[arg(long = "http-origin", value_name = "ORIGIN", requires = "http")]
    pub(crate) http_origins: Vec<String>,
    /// Another project, served at /mcp/p/NAME
    #[arg(long = "project", value_name = "NAME=DIR", value_parser = project, requires = "http")]
    pub(crate) projects: Vec<(String, String)>,
    /// The project; the present directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Offer only tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Longest that a call blocks before it answers `running`; by default what the client is known to wait
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) wait: Option<Duration>,
    /// Also offer what the MCP conformance suite calls
    #[arg(long, hide = true)]
    pub(crate) conformance_fixtures: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InstallArguments {
    #[command(subcommand)]
    pub(crate) what: InstallWhat,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum InstallWhat {
    /// Print the configuration with which an MCP client starts the gateway, or write it
    McpClient(InstallMcpClientArguments),
    /// Print the unit or property list that keeps a worker running, or write it
    Worker(InstallServiceArguments),
    /// Print the unit or property list that keeps a coordinator running, or write it
    Coordinator(InstallServiceArguments),
}

#[derive(Args, Debug)]
pub(crate) struct InstallServiceArguments {
    /// For the machine, as a user of its own, instead of for this user's session
    #[arg(long)]
    pub(crate) system: bool,
    /// systemd or launchd; what this system has by default
    #[arg(long, value_name = "systemd|launchd", hide_possible_values = true)]
    pub(crate) init: Option<Init>,
    /// Write the files instead of printing the unit, and print what starts it
    #[arg(long)]
    pub(crate) write: bool,
    /// A worker's coordinator and token, as `token create` says them, or - for standard input; they go into its configuration
    #[arg(long, value_name = "URL#TOKEN")]
    pub(crate) join: Option<JoinText>,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
    /// Its configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Its data directory
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// As whom the machine runs it
    #[arg(long, value_name = "USER", requires = "system")]
    pub(crate) service_user: Option<String>,
    /// Write below this directory instead of below `/`, as when a package is made
    #[arg(long, value_name = "DIR", requires = "write")]
    pub(crate) root: Option<PathBuf>,
}

/// Who starts daemons.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Init {
    Systemd,
    Launchd,
}

#[derive(Args, Debug)]
pub(crate) struct InstallMcpClientArguments {
    /// claude-code, claude-desktop, codex, cursor or vscode
    #[arg(value_name = "CLIENT")]
    pub(crate) client: McpClient,
    /// Add it to the client's own file, where everything else stays; prints the file's name
    #[arg(long)]
    pub(crate) write: bool,
    /// The coordinator that the gateway asks; its token is for the environment or config.toml, not for this file
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// The project; the present directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Offer only tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
}
