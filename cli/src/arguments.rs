//! What can be said on the command line.

mod clients;
mod daemons;
mod jobs;
mod run;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

pub(crate) use clients::{
    Init, InstallArguments, InstallMcpClientArguments, InstallServiceArguments, InstallWhat, McpArguments,
};
pub(crate) use daemons::{
    BackupArguments, CertificateAction, CoordinatorArguments, DataPlace, DoctorArguments, KeeperArguments,
    LocalPoolArguments, LogFormat, RestoreArguments, TrustOptions, WorkerArguments,
};
pub(crate) use jobs::{
    ArtifactsArguments, CancelArguments, DigestArguments, DrainArguments, JobArguments, JobsArguments,
    LogsArguments, ResumeArguments, RetryArguments, WaitArguments, WorkersAction, WorkersArguments,
};
pub(crate) use run::{Fallback, LabelSet, OutputForm, RunArguments};
pub(crate) use tokens::{AuditArguments, TokenAction, TokenArguments, TokenPlace};
pub(crate) use values::{Join, JoinText};

use crate::failure::{POOL, USAGE};
use clap::{Args, Parser};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// A build pool for coding agents and people: runs a command on the right machine, with the working tree as it is.
#[derive(Parser, Debug)]
#[command(name = "buildpool", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Subcommand {
    /// Serve a pool: queue, logs and results
    Coordinator(CoordinatorArguments),
    /// Run jobs of a pool on this machine
    Worker(WorkerArguments),
    /// Run a command as a job and show what it writes
    Run(Box<RunArguments>),
    /// Digest a log from standard input
    Digest(DigestArguments),
    /// List jobs, the newest first
    Jobs(JobsArguments),
    /// Show how a job is, or how it ended
    Job(JobArguments),
    /// Wait for the end of jobs and exit as `run` would, with the highest exit code of several
    Wait(WaitArguments),
    /// Print what a job wrote, byte for byte
    Logs(LogsArguments),
    /// List or fetch the files that a job kept
    Artifacts(ArtifactsArguments),
    /// End a job
    Cancel(CancelArguments),
    /// Run a job again: a new job with the same spec and snapshot
    Retry(RetryArguments),
    /// List workers
    Workers(WorkersArguments),
    /// Give a worker no more jobs
    Drain(DrainArguments),
    /// Let a drained worker take jobs again
    Resume(ResumeArguments),
    /// Make, list and revoke tokens
    Token(TokenArguments),
    /// Show who did what
    Audit(AuditArguments),
    /// Copy a coordinator's data directory, also while it runs
    Backup(BackupArguments),
    /// Make a data directory of a backup, where it is empty or not there
    Restore(RestoreArguments),
    /// Show or rotate the certificate that a coordinator of this machine made
    Certificate {
        #[command(subcommand)]
        action: CertificateAction,
    },
    /// Serve coding agents over MCP, on standard input and output or over HTTP
    Mcp(Box<McpArguments>),
    /// Look whether everything is as it should be
    Doctor(DoctorArguments),
    /// Set up what is around this program
    Install(InstallArguments),
    /// Serve this machine's local pool
    #[command(hide = true)]
    LocalPool(LocalPoolArguments),
    /// Keep the processes of one job
    #[command(hide = true, disable_help_flag = true)]
    Keeper(KeeperArguments),
    /// Run a job's command as its user
    #[command(hide = true, disable_help_flag = true)]
    AsUser(KeeperArguments),
}

/// Which pool is asked.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct PoolOptions {
    /// The coordinator, ws://HOST:PORT or wss://HOST:PORT; `local` for this machine's own pool [env: BUILDPOOL_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// What opens it [env: BUILDPOOL_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Certificates (PEM) of whoever vouches for it
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Send the token to a ws:// coordinator beyond this machine although it travels unencrypted
    #[arg(long)]
    pub(crate) insecure_plain_text: bool,
}

/// How the answer is printed.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct Form {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the help that was requested, else the error. In `run` and `wait`, whose exit codes are those of a job, the exit code of an
/// error is that of a failed pool.
pub(crate) fn complain(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // With stdout closed there is nobody left to tell.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // With stderr closed neither.
    let _ = write!(std::io::stderr(), "buildpool: {text}");
    let exits_as_a_job =
        std::env::args_os().nth(1).is_some_and(|subcommand| subcommand == "run" || subcommand == "wait");
    ExitCode::from(if exits_as_a_job { POOL } else { USAGE })
}
