//! Arguments of `mcp` and `install`.

use super::PoolOptions;
use super::daemons::TrustOptions;
use super::values::{JoinText, address, project};
use crate::durations;
use buildpool_gateway::install::McpClient;
use buildpool_worker::isolation::Isolation;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Listen on this address instead of using standard input and output; port 0 selects a free
    /// port
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// Required authorization: a token of the pool, or `none` for every user of this machine
    /// (loopback only)
    #[arg(long, value_name = "HOW", value_parser = ["token", "none"], default_value = "token", requires = "http")]
    pub(crate) http_auth: String,
    /// Listen beyond loopback although tokens are sent unencrypted
    #[arg(long, requires = "http")]
    pub(crate) http_plain: bool,
    /// Another host name of the gateway, such as that of a proxy
    #[arg(long = "http-host", value_name = "HOST", requires = "http")]
    pub(crate) http_hosts: Vec<String>,
    /// Origin of a web page that may send requests, such as `https://app.example`
    #[arg(long = "http-origin", value_name = "ORIGIN", requires = "http")]
    pub(crate) http_origins: Vec<String>,
    /// Another project, served at /mcp/p/NAME
    #[arg(long = "project", value_name = "NAME=DIR", value_parser = project, requires = "http")]
    pub(crate) projects: Vec<(String, String)>,
    /// Directory of the project; the current directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Offer only tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Maximum time that a call blocks before it answers `running`; the default depends on the
    /// client
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) wait: Option<Duration>,
}

#[derive(Args, Debug)]
pub(crate) struct InstallArguments {
    #[command(subcommand)]
    pub(crate) target: InstallTarget,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum InstallTarget {
    /// Print or write the configuration that lets an MCP client start the gateway
    McpClient(InstallMcpClientArguments),
    /// Print or write the unit or property list that keeps a worker running
    Worker(InstallServiceArguments),
    /// Print or write the unit or property list that keeps a coordinator running
    Coordinator(InstallServiceArguments),
}

#[derive(Args, Debug)]
pub(crate) struct InstallServiceArguments {
    /// Install for the machine, with a service user, instead of for this user's session
    #[arg(long)]
    pub(crate) system: bool,
    /// systemd or launchd; the default is that of this system
    #[arg(long, value_name = "systemd|launchd", hide_possible_values = true)]
    pub(crate) init: Option<Init>,
    /// Write the files instead of printing the unit, and print the commands that start it
    #[arg(long)]
    pub(crate) write: bool,
    /// A worker's coordinator and token, as printed by `token create`, or - for standard input;
    /// they are written into its configuration
    #[arg(long, value_name = "URL#TOKEN")]
    pub(crate) join: Option<JoinText>,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
    /// Path of its configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Path of its data directory
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Isolation of a worker's jobs, for a new configuration: none, bubblewrap or user (Linux),
    /// sandbox-exec (macOS); a question on a terminal asks for it otherwise
    #[arg(long, value_name = "MODE", requires = "join")]
    pub(crate) isolation: Option<Isolation>,
    /// With --isolation user, a user that jobs run as; repeat it once per slot
    #[arg(long = "job-user", value_name = "NAME", requires = "isolation")]
    pub(crate) job_users: Vec<String>,
    /// User that runs the service
    #[arg(long, value_name = "USER", requires = "system")]
    pub(crate) service_user: Option<String>,
    /// Write below this directory instead of `/`, for example to build a package
    #[arg(long, value_name = "DIR", requires = "write")]
    pub(crate) root: Option<PathBuf>,
}

/// The system's service manager.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Init {
    Systemd,
    Launchd,
}

#[derive(Args, Debug)]
pub(crate) struct InstallMcpClientArguments {
    /// claude-code, claude-desktop, codex, copilot-cli, cursor, gemini-cli, opencode, vscode, windsurf, zed, or generic
    #[arg(value_name = "CLIENT")]
    pub(crate) client: McpClient,
    /// Add the entry to the client's own file and keep its other entries; prints the path of the
    /// file and the next step
    #[arg(long)]
    pub(crate) write: bool,
    /// Remove this project's entry from the client's own file
    #[arg(long, conflicts_with = "write")]
    pub(crate) remove: bool,
    /// Coordinator that the gateway uses; set its token in the environment or config.toml, not in
    /// this file
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// Directory of the project; the current directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Offer only tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
}
