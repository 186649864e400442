//! Command line arguments.

mod clients;
mod daemons;
mod examples;
mod history;
mod jobs;
mod run;
mod shells;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

pub(crate) use clients::{
    Init, InstallArguments, InstallMcpClientArguments, InstallServiceArguments, InstallTarget, McpArguments,
};
pub(crate) use daemons::{
    BackupArguments, CertificateAction, CoordinatorAction, CoordinatorArguments, DataPlace, DoctorArguments,
    LocalPoolArguments, LogFormat, MigrateArguments, RestoreArguments, TrustOptions, WorkerArguments,
};
pub(crate) use history::{EventsArguments, TestsArguments};
pub(crate) use jobs::{
    ArtifactsArguments, CancelArguments, DigestArguments, DrainArguments, JobArguments, JobsArguments,
    LogsArguments, PageArguments, ResumeArguments, RetryArguments, TopArguments, UpgradeArguments,
    WaitArguments, WorkersAction, WorkersArguments,
};
pub(crate) use run::{Fallback, LabelSet, OutputForm, RunArguments};
pub(crate) use shells::{CompletionsArguments, ManArguments, Shell};
pub(crate) use tokens::{AuditArguments, TokenAction, TokenArguments, TokenPlace};
pub(crate) use values::{Join, JoinText};

use crate::failure::{POOL, USAGE};
use buildpool_protocol::spec::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, ColorChoice, Parser};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Build pool for coding agents and people: runs a command on a matching machine, with the current
/// working tree
#[derive(Parser, Debug)]
#[command(name = "buildpool", version = env!("BUILDPOOL_VERSION"), max_term_width = 100, after_help = examples::PROGRAM)]
pub(crate) struct Arguments {
    /// Colours: auto (on a terminal), always or never
    #[arg(
        long,
        global = true,
        value_name = "auto|always|never",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) color: ColorChoice,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(clap::Subcommand, Debug)]
// The options of a subcommand are built only if it is the one that runs: the program starts more than a millisecond
// earlier. clap adds them after the attributes of the subcommand, so a `///` comment on a struct of options would replace
// the sentence of the subcommand: those structs have `//` comments, and a test checks the sentences.
#[command(defer = true)]
pub(crate) enum Subcommand {
    /// Serve a pool: queue, logs and results
    #[command(after_help = examples::COORDINATOR)]
    Coordinator(CoordinatorArguments),
    /// Run jobs of a pool on this machine
    #[command(after_help = examples::WORKER)]
    Worker(WorkerArguments),
    /// Run a command as a job and print its output
    #[command(after_help = examples::RUN)]
    Run(Box<RunArguments>),
    /// Find the failures in a log on standard input
    #[command(after_help = examples::DIGEST)]
    Digest(DigestArguments),
    /// List jobs, newest first
    #[command(after_help = examples::JOBS)]
    Jobs(JobsArguments),
    /// Show the state or the result of a job
    #[command(after_help = examples::JOB)]
    Job(JobArguments),
    /// Wait for the end of jobs and exit as `run` would, with the highest exit code of several
    #[command(after_help = examples::WAIT)]
    Wait(WaitArguments),
    /// Print the output of a job, byte for byte
    #[command(after_help = examples::LOGS)]
    Logs(LogsArguments),
    /// List or fetch the artifacts of a job
    #[command(after_help = examples::ARTIFACTS)]
    Artifacts(ArtifactsArguments),
    /// List tests with their last results: flaky, failing or slow ones
    #[command(after_help = examples::TESTS)]
    Tests(TestsArguments),
    /// Follow the events of the pool: jobs, builds, workers and tokens
    #[command(after_help = examples::EVENTS)]
    Events(EventsArguments),
    /// Watch workers, queue, running and failed jobs on a terminal
    #[command(after_help = examples::TOP)]
    Top(TopArguments),
    /// Open the pool's web page in a browser, signed in
    #[command(after_help = examples::PAGE)]
    Page(PageArguments),
    /// Cancel a job
    #[command(after_help = examples::CANCEL)]
    Cancel(CancelArguments),
    /// Run a job again: a new job with the same spec and snapshot
    #[command(after_help = examples::RETRY)]
    Retry(RetryArguments),
    /// List workers
    #[command(after_help = examples::WORKERS)]
    Workers(WorkersArguments),
    /// Stop giving jobs to a worker
    #[command(after_help = examples::DRAIN)]
    Drain(DrainArguments),
    /// Give jobs to a drained worker again
    #[command(after_help = examples::RESUME)]
    Resume(ResumeArguments),
    /// Create, list and revoke tokens
    #[command(after_help = examples::TOKEN)]
    Token(TokenArguments),
    /// Show the audit log
    #[command(after_help = examples::AUDIT)]
    Audit(AuditArguments),
    /// Copy a coordinator's data directory, also while it runs
    #[command(after_help = examples::BACKUP)]
    Backup(BackupArguments),
    /// Create a data directory from a backup; the directory must be empty or missing
    #[command(after_help = examples::RESTORE)]
    Restore(RestoreArguments),
    /// Show or rotate the self-signed certificate of a coordinator on this machine
    #[command(after_help = examples::CERTIFICATE)]
    Certificate {
        #[command(subcommand)]
        action: CertificateAction,
    },
    /// Serve coding agents over MCP, on standard input and output or over HTTP
    #[command(after_help = examples::MCP)]
    Mcp(Box<McpArguments>),
    /// Check this machine and the pool for problems
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArguments),
    /// Set up services and MCP clients
    #[command(after_help = examples::INSTALL)]
    Install(InstallArguments),
    /// Print the script that completes commands, job ids and worker names in a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArguments),
    /// Write the manual pages into a directory
    #[command(after_help = examples::MAN)]
    Man(ManArguments),
    /// Serve this machine's local pool
    #[command(hide = true)]
    LocalPool(LocalPoolArguments),
}

// Options that select a pool.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct PoolOptions {
    /// URL of the coordinator, ws://HOST:PORT or wss://HOST:PORT, or `local` for this user's local
    /// pool [env: BUILDPOOL_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// Access token [env: BUILDPOOL_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Certificates (PEM) of the authorities that may sign the coordinator's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Send the token unencrypted to a ws:// coordinator beyond this machine
    #[arg(long)]
    pub(crate) insecure_plain_text: bool,
}

// Format of the answer.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct Form {
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the requested help, or the error. In `run` and `wait`, an error gets the exit code of a
/// failed pool, because their other exit codes are those of jobs.
pub(crate) fn complain(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // An error means that stdout is closed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
    if let Some(line) = separated(&error, &words) {
        let tip = format!("the command follows `--`: {line}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // An error means that stderr is closed.
    let _ = write!(std::io::stderr(), "buildpool: {text}");
    let exits_as_a_job =
        std::env::args_os().nth(1).is_some_and(|subcommand| subcommand == "run" || subcommand == "wait");
    ExitCode::from(if exits_as_a_job { POOL } else { USAGE })
}

/// Returns the line with the missing `--` before the command of `run`, if that is the error.
fn separated(error: &clap::Error, words: &[String]) -> Option<String> {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && words.first()? == "run";
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg).filter(|_| is_unknown)
    else {
        return None;
    };
    let at = words.iter().skip(1).position(|word| word == unknown)? + 1;
    if unknown.starts_with('-') || words.iter().any(|word| word == "--") {
        return None;
    }
    // Options can contain a token.
    let options = if at > 1 { " …" } else { "" };
    Some(format!("buildpool run{options} -- {}", Command::Argv(words[at..].to_vec())))
}
