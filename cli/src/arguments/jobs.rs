//! What asks for jobs, their logs and files, and for workers.

use super::values::{count, state, stream};
use super::{Form, PoolOptions};
use crate::durations;
use buildpool_protocol::JobState;
use buildpool_protocol::client_link::StreamChoice;
use buildpool_protocol::spec::Verbosity;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct JobsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Only those in this state: queued, preparing, running, sealing, done
    #[arg(long, value_parser = state)]
    pub(crate) state: Option<JobState>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct JobArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Its id, or the beginning of it, or a build's
    pub(crate) id: String,
    /// Wait this long for its end, and exit as `run` would; 125 when the job is not done by then
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) wait: Option<Duration>,
    /// How much to show: minimal, normal or full; what the job asked for by default
    #[arg(long, value_name = "VERBOSITY")]
    pub(crate) verbosity: Option<Verbosity>,
    /// Show what this template lets through; `raw` shows all that fits
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Say why: the rule, the line and the evidence behind the verdict, each finding and each cut
    #[arg(long, conflicts_with_all = ["json", "finding"])]
    pub(crate) explain: bool,
    /// Show this finding, whole and uncompressed
    #[arg(long, value_name = "ID")]
    pub(crate) finding: Option<String>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct WaitArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Stop waiting after this long; the jobs go on and the exit code is 125
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Ids of jobs, or the beginnings of them, or ids of builds
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The job's id, or the beginning of it
    pub(crate) id: String,
    /// stdout, stderr, both (each to its own), or interleaved (both to stdout, in true order)
    #[arg(long, value_name = "STREAM", value_parser = stream, default_value = "both")]
    pub(crate) stream: StreamChoice,
    /// Only this many of the last lines
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) tail: Option<u64>,
    /// Go on while the log grows
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) follow: bool,
    /// Of this attempt; the newest by default
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempt: Option<u32>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct ArtifactsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Fetch them into this directory
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Let fetched files be executable if they were so in the job
    #[arg(long, requires = "output")]
    pub(crate) keep_executable: bool,
    /// The job, or the beginning of its id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The job's id, or the beginning of it, or a build's
    pub(crate) id: String,
    /// Why, for whoever looks at the job later
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct RetryArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The job's id, or the beginning of it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct DigestArguments {
    /// The process's exit code; `-N` is a death by signal N, as Python tells it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-64..=255))]
    pub(crate) exit_code: Option<i32>,
    /// The signal that the process died of: SIGSEGV
    #[arg(long, value_name = "NAME", conflicts_with = "exit_code")]
    pub(crate) signal: Option<String>,
    /// How much to show: minimal, normal or full
    #[arg(long, value_name = "VERBOSITY", default_value = "minimal")]
    pub(crate) verbosity: Verbosity,
    /// Show what this template lets through; `raw` shows all that fits
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Say why: the rule, the line and the evidence behind the verdict, each finding and each cut
    #[arg(long, conflicts_with = "json")]
    pub(crate) explain: bool,
    /// A test report or result bundle
    #[arg(long = "report", value_name = "FILE")]
    pub(crate) reports: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkersArguments {
    #[command(subcommand)]
    pub(crate) action: Option<WorkersAction>,
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum WorkersAction {
    /// Let a worker take jobs that waits for an operator's word
    Approve(ResumeArguments),
    /// Free the name of a worker that is gone for good
    Forget(ResumeArguments),
}

#[derive(Args, Debug)]
pub(crate) struct DrainArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Its name
    pub(crate) worker: String,
    /// End what still runs after this long
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) deadline: Option<Duration>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Its name
    pub(crate) worker: String,
    #[command(flatten)]
    pub(crate) form: Form,
}
