//! Arguments for tokens and the audit log.

use super::values::{role, roles, whole};
use super::{Form, PoolOptions};
use crate::{completion, durations};
use buildpool_protocol::client_link::Role;
use buildpool_protocol::spec::{Reads, Restriction, Selector};
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum TokenAction {
    /// Create a token and print it once
    Create {
        #[command(flatten)]
        place: TokenPlace,
        /// worker, submit, read (lists, results, logs, metrics and the page; no jobs, no changes)
        /// or admin
        #[arg(long, value_parser = role, add = roles())]
        role: Role,
        #[command(flatten)]
        names: TokenNames,
        /// Lifetime of the token; unlimited by default
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse_lasting)]
        expires: Option<Duration>,
        #[command(flatten)]
        only: RestrictionOptions,
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
    /// Replace a token by a new one with the same name and role, and print it once
    Rotate {
        #[command(flatten)]
        place: TokenPlace,
        /// Id or name of the token
        #[arg(value_name = "ID|NAME")]
        which: String,
        /// Time that the old token stays valid
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse, default_value = "1h")]
        grace: Duration,
        /// Lifetime of the new token; by default that of the old one
        #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse_lasting)]
        expires: Option<Duration>,
        #[command(flatten)]
        form: Form,
    },
    /// Revoke a token, or all tokens of a name: close their connections and cancel the jobs that were submitted with them
    Revoke {
        #[command(flatten)]
        place: TokenPlace,
        /// Id of the token, or the name of all tokens to revoke
        #[arg(value_name = "ID|NAME")]
        which: String,
        /// Do not cancel the jobs that were submitted with the tokens
        #[arg(long)]
        keep_jobs: bool,
        #[command(flatten)]
        form: Form,
    },
}

/// Maximum number of tokens that one command creates.
const TOKENS_MAX: u32 = 1_000;

// The name of one token, or the names of several ones.
#[derive(Args, Debug)]
pub(crate) struct TokenNames {
    /// Name of the token
    #[arg(long, required_unless_present = "count", conflicts_with = "count")]
    name: Option<String>,
    /// Create N tokens, and print one on each line (`--json`: an array)
    #[arg(long, value_name = "N", requires = "prefix", allow_negative_numbers = true, value_parser = whole::<u32>(1..=TOKENS_MAX))]
    count: Option<u32>,
    /// First part of the names with `--count`; a number follows, as in mac-01 to mac-30
    #[arg(long, value_name = "TEXT", requires = "count")]
    prefix: Option<String>,
}

impl TokenNames {
    /// Returns true if the command creates several tokens.
    pub(crate) const fn are_counted(&self) -> bool {
        self.count.is_some()
    }

    /// Returns the names. Numbers begin at 1 and have equal lengths, so that the names sort.
    pub(crate) fn read(self) -> Vec<String> {
        let (Some(count), Some(prefix)) = (self.count, self.prefix) else {
            return self.name.into_iter().collect();
        };
        let width = count.to_string().len();
        (1..=count).map(|number| format!("{prefix}{number:0width$}")).collect()
    }
}

// Selects the tokens of a data directory on this machine, or of a pool by an admin's token.
#[derive(Args, Debug)]
pub(crate) struct TokenPlace {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The coordinator's data directory on this machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["coordinator", "token", "ca_file"])]
    pub(crate) data_dir: Option<PathBuf>,
    /// The coordinator's configuration file on this machine. Default, unless a pool is selected:
    /// /etc/buildpool/coordinator.toml, if it exists
    #[arg(long, value_name = "FILE", conflicts_with_all = ["coordinator", "token", "ca_file"])]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct AuditArguments {
    #[command(flatten)]
    pub(crate) place: TokenPlace,
    /// Maximum number of lines, newest first
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = whole::<u32>(1..=u32::MAX))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}

// Where the jobs of a submit token may run, on which projects, and which jobs it may read.
#[derive(Args, Debug)]
pub(crate) struct RestrictionOptions {
    /// Let its jobs run on this worker only; repeat it for more
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::workers))]
    only_worker: Vec<String>,
    /// Let its jobs run only on workers with this label; with several, on workers that have all
    #[arg(long, value_name = "KEY[=VALUE]")]
    only_label: Vec<Selector>,
    /// Accept only snapshots of this project, its origin as in example.org/team/app; repeat it for
    /// more
    #[arg(long, value_name = "PROJECT")]
    only_project: Vec<String>,
    /// Jobs that the token can read, with their logs and artifacts: all jobs of the pool, or only
    /// those that were submitted under its name
    #[arg(long, value_name = "all|own", default_value_t = Reads::All)]
    reads: Reads,
}

impl RestrictionOptions {
    /// Returns the limits for the token.
    pub(crate) fn read(self) -> Restriction {
        let Self { only_worker: workers, only_label: labels, only_project: projects, reads } = self;
        Restriction { workers, labels, projects, reads }
    }
}
