//! Arguments of the daemons and of their maintenance.

use super::values::{JoinText, address, resource};
use super::{Form, PoolOptions};
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::version::VersionRange;
use buildpool_worker::isolation::Isolation;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

// Options of both daemons.
#[derive(Args, Debug)]
pub(crate) struct DaemonOptions {
    /// Configuration file (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Log format on stderr: text lines, or one JSON object per line
    #[arg(long, value_name = "text|json", default_value = "text", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// Use these protocol versions: for tests of mixed versions
    #[arg(long, value_name = "MIN..MAX", hide = true)]
    pub(crate) protocol: Option<VersionRange>,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CoordinatorArguments {
    #[command(subcommand)]
    pub(crate) action: Option<CoordinatorAction>,
    #[command(flatten)]
    pub(crate) daemon: DaemonOptions,
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum CoordinatorAction {
    /// Move a pool from a data directory to PostgreSQL and shared objects, or back
    ///
    /// Stop all coordinators first. The source is not changed. If the command is interrupted, run it again to resume.
    Migrate(MigrateArguments),
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArguments {
    /// Target: postgres://USER@HOST/DATABASE, or file:///DIRECTORY for a new data directory
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Shared objects (target, or source of a move to a directory): s3://, gs://, az:// or file:///DIRECTORY
    #[arg(long, value_name = "URL")]
    pub(crate) objects: Option<String>,
    /// Data directory to move; the default is that of the coordinator
    #[arg(long, value_name = "DIR")]
    pub(crate) from_data_dir: Option<PathBuf>,
    /// Coordinator configuration (TOML): supplies `password_file`, and `[store]` as the source if --to is a directory
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// Log format of a daemon.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

// How a worker verifies its coordinator. Without it, the worker uses the fingerprint in the token.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TrustOptions {
    /// Certificates of the authority that signed the coordinator's certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// BLAKE3 of the coordinator's own certificate, as printed by `token create`
    #[arg(long, value_name = "HEX", conflicts_with = "ca_file")]
    pub(crate) fingerprint: Option<String>,
    /// Send the token unencrypted to a ws:// coordinator beyond this machine
    #[arg(long)]
    pub(crate) insecure_plain_text: bool,
}

impl TrustOptions {
    /// Overrides the configuration with the given options.
    pub(crate) fn apply(&self, config: &mut buildpool_worker::Config) {
        if self.ca_file.is_some() || self.fingerprint.is_some() {
            (config.ca_file, config.fingerprint) = (self.ca_file.clone(), self.fingerprint.clone());
            config.trust_before_token = true;
        }
        config.insecure_plain_text |= self.insecure_plain_text;
    }
}

#[derive(Args, Debug)]
pub(crate) struct WorkerArguments {
    #[command(flatten)]
    pub(crate) daemon: DaemonOptions,
    /// The coordinator, ws://HOST:PORT or wss://HOST:PORT; several separated by commas [env: BUILDPOOL_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// Name of this worker; the machine's name by default
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Number of jobs at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) slots: Option<u32>,
    /// Coordinator and token, as printed by `token create`: the URL, `#` and the token; - for
    /// standard input
    #[arg(long, value_name = "URL#TOKEN", conflicts_with_all = ["coordinator", "token"])]
    pub(crate) join: Option<JoinText>,
    /// Label that jobs can select
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<String>,
    /// Offer no labels for found tools, such as `rust=1.91.0`
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// Counted resource that jobs can take
    #[arg(long = "resource", value_name = "NAME=N", value_parser = resource)]
    pub(crate) resources: Vec<(String, u32)>,
    /// Accept only jobs of this submitter or team; repeat it for more
    #[arg(long, value_name = "NAME")]
    pub(crate) accepts: Vec<String>,
    /// Remove warm workspaces, least recently used first, while less than this is free on their
    /// disk; default: a tenth of it, at most 10 GiB
    #[arg(long, value_name = "BYTES")]
    pub(crate) keep_free_bytes: Option<u64>,
    /// Isolation of jobs from the worker's files and from each other: none, bubblewrap or user
    /// (Linux), sandbox-exec (macOS)
    #[arg(long, value_name = "MODE")]
    pub(crate) isolation: Option<Isolation>,
    /// With --isolation user, a user that jobs run as; repeat it once per slot
    #[arg(long = "job-user", value_name = "NAME")]
    pub(crate) job_users: Vec<String>,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
    /// Register, print a line and exit: a worker starts its new program this way before it replaces its own
    #[arg(long, value_name = "ORDER", hide = true)]
    pub(crate) upgrade_trial: Option<UpgradeId>,
    /// Access token of the worker [env: BUILDPOOL_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

// Selects the data directory of a coordinator on this machine.
#[derive(Args, Debug)]
pub(crate) struct DataPlace {
    /// The coordinator's data directory. Default: the one of its configuration, else this user's
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The coordinator's configuration file. Default: /etc/buildpool/coordinator.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct BackupArguments {
    #[command(flatten)]
    pub(crate) place: DataPlace,
    /// Target directory; empty or missing
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    #[command(flatten)]
    pub(crate) place: DataPlace,
    /// Directory of the backup
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum CertificateAction {
    /// Print the certificate (PEM) that clients must trust, as for `curl --cacert`
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
    /// Check this data directory of a coordinator
    #[arg(long, value_name = "DIR", conflicts_with = "worker")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Also read all logs and records in it, and verify their checksums; this takes as long as
    /// reading them
    #[arg(long, conflicts_with = "worker")]
    pub(crate) full: bool,
    /// Check a coordinator, by its configuration file
    #[arg(long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) config: Option<PathBuf>,
    /// Check this machine as a worker, by its configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) worker: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct LocalPoolArguments {
    /// Directory of all its files
    pub(crate) directory: PathBuf,
}
