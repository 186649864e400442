//! Tokens and the audit log.

use super::values::role;
use super::{Form, PoolOptions};
use crate::durations;
use buildpool_protocol::client_link::Role;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum TokenAction {
    /// Make a token; it is printed once
    Create {
        #[command(flatten)]
        place: TokenPlace,
        /// worker, submit, read (lists, results, logs, metrics and the page; no jobs, no changes) or admin
        #[arg(long, value_parser = role)]
        role: Role,
        /// For whom
        #[arg(long)]
        name: String,
        /// For how long it is valid; for ever by default
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse_lasting)]
        expires: Option<Duration>,
        #[command(flatten)]
        form: Form,
    },
    /// List tokens
    List {
        #[command(flatten)]
        place: TokenPlace,
        #[command(flatten)]
        form: Form,
    },
    /// Replace a token by a new one of the same name and role, which is printed once
    Rotate {
        #[command(flatten)]
        place: TokenPlace,
        /// Its id or its name
        #[arg(value_name = "ID|NAME")]
        which: String,
        /// How long the old one still counts
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse, default_value = "1h")]
        grace: Duration,
        /// For how long the new one is valid; by default as long as the old one was to last
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse_lasting)]
        expires: Option<Duration>,
        #[command(flatten)]
        form: Form,
    },
    /// End a token, and the connections that were opened with it
    Revoke {
        #[command(flatten)]
        place: TokenPlace,
        /// Its id or its name
        #[arg(value_name = "ID|NAME")]
        which: String,
        #[command(flatten)]
        form: Form,
    },
}

/// Where tokens are kept: a data directory on this machine, or a pool that is asked with an admin's token.
#[derive(Args, Debug)]
pub(crate) struct TokenPlace {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The coordinator's data directory on this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["coordinator", "token", "ca_file"])]
    pub(crate) data_dir: Option<PathBuf>,
    /// The coordinator's configuration file on this machine. Default, unless a pool is named: /etc/buildpool/coordinator.toml, if it is there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["coordinator", "token", "ca_file"])]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct AuditArguments {
    #[command(flatten)]
    pub(crate) place: TokenPlace,
    /// At most this many, the newest first
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}
