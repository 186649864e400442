//! What runs and looks after daemons.

use super::values::{JoinText, address, resource};
use super::{Form, PoolOptions};
use buildpool_protocol::version::VersionRange;
use buildpool_worker::isolation::Isolation;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What both daemons are told in the same way.
#[derive(Args, Debug)]
pub(crate) struct DaemonOptions {
    /// Configuration file (TOML); flags go before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where all that it keeps lies
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// How it logs to stderr: lines for people, or one JSON object a line
    #[arg(long, value_name = "text|json", default_value = "text", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// Speak these protocol versions: for tests of mixed versions
    #[arg(long, value_name = "MIN..MAX", hide = true)]
    pub(crate) protocol: Option<VersionRange>,
}

#[derive(Args, Debug)]
pub(crate) struct CoordinatorArguments {
    #[command(flatten)]
    pub(crate) daemon: DaemonOptions,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// How a daemon logs.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// By what a worker knows its coordinator, where the token does not say it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TrustOptions {
    /// Certificates of the authority that signed the coordinator's (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// BLAKE3 of the coordinator's own certificate, as `token create` says it
    #[arg(long, value_name = "HEX", conflicts_with = "ca_file")]
    pub(crate) fingerprint: Option<String>,
    /// Send the token to a ws:// coordinator beyond this machine although it travels unencrypted
    #[arg(long)]
    pub(crate) insecure_plain_text: bool,
}

impl TrustOptions {
    /// Puts what is given in the place of what a configuration says.
    pub(crate) fn apply(&self, config: &mut buildpool_worker::Config) {
        if self.ca_file.is_some() || self.fingerprint.is_some() {
            (config.ca_file, config.fingerprint) = (self.ca_file.clone(), self.fingerprint.clone());
        }
        config.insecure_plain_text |= self.insecure_plain_text;
    }
}

#[derive(Args, Debug)]
pub(crate) struct WorkerArguments {
    #[command(flatten)]
    pub(crate) daemon: DaemonOptions,
    /// The coordinator, ws://HOST:PORT or wss://HOST:PORT [env: BUILDPOOL_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// This worker's name; the machine's by default
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Jobs at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) slots: Option<u32>,
    /// Where to go and with what, as `token create` says it: the coordinator's URL, `#` and the token; - for standard input
    #[arg(long, value_name = "URL#TOKEN", conflicts_with_all = ["coordinator", "token"])]
    pub(crate) join: Option<JoinText>,
    /// A label that jobs can ask for
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<String>,
    /// Offer no labels for the tools that are found, as `rust=1.91.0`
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// Something countable that jobs can take
    #[arg(long = "resource", value_name = "NAME=N", value_parser = resource)]
    pub(crate) resources: Vec<(String, u32)>,
    /// Remove warm workspaces, the least recently used first, while less than this is free on their disk; a tenth of it by default, at
    /// most 10 GiB
    #[arg(long, value_name = "BYTES")]
    pub(crate) keep_free_bytes: Option<u64>,
    /// What keeps jobs from the worker's files and each other's: none, bubblewrap or user (Linux), sandbox-exec (macOS)
    #[arg(long, value_name = "MODE")]
    pub(crate) isolation: Option<Isolation>,
    /// With --isolation user, a user that jobs run as; repeat it, one a slot
    #[arg(long = "job-user", value_name = "NAME")]
    pub(crate) job_users: Vec<String>,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
    /// A worker's token [env: BUILDPOOL_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// Which data directory of a coordinator on this machine.
#[derive(Args, Debug)]
pub(crate) struct DataPlace {
    /// The coordinator's data directory. Default: the one of its configuration, else this user's
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The coordinator's configuration file. Default: /etc/buildpool/coordinator.toml, if it is there
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct BackupArguments {
    #[command(flatten)]
    pub(crate) place: DataPlace,
    /// Where the copy goes; empty, or not there
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    #[command(flatten)]
    pub(crate) place: DataPlace,
    /// The backup
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum CertificateAction {
    /// Print the certificate (PEM) that others trust to trust the coordinator, as for `curl --cacert`
    Show {
        #[command(flatten)]
        place: DataPlace,
    },
    /// Replace the key and the certificate that tokens pin; tokens stay valid
    Rotate {
        #[command(flatten)]
        place: DataPlace,
        #[command(flatten)]
        form: Form,
    },
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    /// Look at this data directory of a coordinator
    #[arg(long, value_name = "DIR", conflicts_with = "worker")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Read all logs and records in it, too, and compare them with their checksums: takes as long as reading them does
    #[arg(long, conflicts_with = "worker")]
    pub(crate) full: bool,
    /// Look at a coordinator by its configuration
    #[arg(long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) config: Option<PathBuf>,
    /// Look at this machine as a worker, by its configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) worker: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct LocalPoolArguments {
    /// Where everything of it lies
    pub(crate) directory: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct KeeperArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}
