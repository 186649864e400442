//! Command line arguments.

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

/// Build pool for coding agents and people: runs a command on a matching machine, with the current
/// working tree
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
    /// Run a command as a job and print its output
    Run(Box<RunArguments>),
    /// Digest a log from standard input
    Digest(DigestArguments),
    /// List jobs, newest first
    Jobs(JobsArguments),
    /// Show the state or the result of a job
    Job(JobArguments),
    /// Wait for the end of jobs and exit as `run` would, with the highest exit code of several
    Wait(WaitArguments),
    /// Print the output of a job, byte for byte
    Logs(LogsArguments),
    /// List or fetch the artifacts of a job
    Artifacts(ArtifactsArguments),
    /// Cancel a job
    Cancel(CancelArguments),
    /// Run a job again: a new job with the same spec and snapshot
    Retry(RetryArguments),
    /// List workers
    Workers(WorkersArguments),
    /// Drain a worker: it gets no more jobs
    Drain(DrainArguments),
    /// Resume a drained worker
    Resume(ResumeArguments),
    /// Create, list and revoke tokens
    Token(TokenArguments),
    /// Show the audit log
    Audit(AuditArguments),
    /// Copy a coordinator's data directory, also while it runs
    Backup(BackupArguments),
    /// Create a data directory from a backup; the directory must be empty or missing
    Restore(RestoreArguments),
    /// Show or rotate the self-signed certificate of a coordinator on this machine
    Certificate {
        #[command(subcommand)]
        action: CertificateAction,
    },
    /// Serve coding agents over MCP, on standard input and output or over HTTP
    Mcp(Box<McpArguments>),
    /// Check the setup and suggest remedies
    Doctor(DoctorArguments),
    /// Set up services and MCP clients
    Install(InstallArguments),
    /// Serve this machine's local pool
    #[command(hide = true)]
    LocalPool(LocalPoolArguments),
    /// Supervise the processes of one job
    #[command(hide = true, disable_help_flag = true)]
    Keeper(KeeperArguments),
    /// Run a job's command as its user
    #[command(hide = true, disable_help_flag = true)]
    AsUser(KeeperArguments),
}

/// Options that select a pool.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct PoolOptions {
    /// The coordinator, ws://HOST:PORT or wss://HOST:PORT; `local` for this machine's own pool
    /// [env: BUILDPOOL_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// Token for the pool [env: BUILDPOOL_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Certificates (PEM) of the authorities that may sign the coordinator's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Send the token unencrypted to a ws:// coordinator beyond this machine
    #[arg(long)]
    pub(crate) insecure_plain_text: bool,
}

/// Format of the answer.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct Form {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the requested help, or the error. In `run` and `wait`, an error gets the exit code of a
/// failed pool, because their other exit codes are those of jobs.
pub(crate) fn complain(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // An error means that stdout is closed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // An error means that stderr is closed.
    let _ = write!(std::io::stderr(), "buildpool: {text}");
    let exits_as_a_job =
        std::env::args_os().nth(1).is_some_and(|subcommand| subcommand == "run" || subcommand == "wait");
    ExitCode::from(if exits_as_a_job { POOL } else { USAGE })
}
