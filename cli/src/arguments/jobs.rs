//! Arguments for jobs, logs, artifacts and workers.

use super::values::{count, state, states, stream, streams, verdict, verdicts, whole};
use super::{Form, PoolOptions};
use crate::{completion, durations};
use buildpool_protocol::JobState;
use buildpool_protocol::client_link::StreamChoice;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Selector, Verbosity};
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct JobsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// List only jobs in this state: queued, preparing, running, sealing, done
    #[arg(long, value_parser = state, add = states())]
    pub(crate) state: Option<JobState>,
    /// List only jobs of this submitter
    #[arg(long, value_name = "NAME")]
    pub(crate) submitter: Option<String>,
    /// List only jobs that request this label
    #[arg(long, value_name = "K[=V]")]
    pub(crate) label: Option<String>,
    /// List only jobs with this verdict: passed, failed, crashed, timed_out, cancelled, lost, rejected, inconclusive
    #[arg(long, value_parser = verdict, add = verdicts())]
    pub(crate) verdict: Option<Verdict>,
    /// Maximum number of jobs
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = whole::<u32>(1..=u32::MAX))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct JobArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Id of the job, a unique prefix of it, or the id of a build
    #[arg(add = ArgValueCandidates::new(completion::jobs))]
    pub(crate) id: String,
    /// Wait this long for its end, and exit as `run` would; 125 if the job is not done by then
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) wait: Option<Duration>,
    /// Amount of detail: minimal, normal or full; the default is that of the job
    #[arg(long, value_name = "VERBOSITY")]
    pub(crate) verbosity: Option<Verbosity>,
    /// Show the output that this template selects; `raw` shows all that fits
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Explain the verdict, each finding and each cut: rule, line and evidence
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
    /// Stop waiting after this time; the jobs continue and the exit code is 125
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Ids of jobs, unique prefixes of them, or ids of builds
    #[arg(value_name = "ID", required = true, add = ArgValueCandidates::new(completion::live_jobs))]
    pub(crate) ids: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Id of the job, or a unique prefix of it
    #[arg(add = ArgValueCandidates::new(completion::jobs))]
    pub(crate) id: String,
    /// stdout, stderr, both (each to its own), or interleaved (both to stdout, in true order)
    #[arg(long, value_name = "STREAM", value_parser = stream, add = streams(), default_value = "both")]
    pub(crate) stream: StreamChoice,
    /// Print only the last lines, at most this many
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) tail: Option<u64>,
    /// Follow the log until the job ends
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) follow: bool,
    /// Number of the attempt; the newest by default
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=u32::MAX))]
    pub(crate) attempt: Option<u32>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
}

#[derive(Args, Debug)]
pub(crate) struct PageArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Only print the address
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ArtifactsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Fetch the artifacts into this directory
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Keep the executable bit of fetched files
    #[arg(long, requires = "output")]
    pub(crate) keep_executable: bool,
    /// Id of the job, or a unique prefix of it
    #[arg(value_name = "ID", add = ArgValueCandidates::new(completion::jobs))]
    pub(crate) id: String,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Id of the job, a unique prefix of it, or the id of a build
    #[arg(add = ArgValueCandidates::new(completion::live_jobs))]
    pub(crate) id: String,
    /// Reason, shown with the job later
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct RetryArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Id of the job, or a unique prefix of it
    #[arg(add = ArgValueCandidates::new(completion::jobs))]
    pub(crate) id: String,
    /// Worker that runs the new job, instead of any that fits
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::workers))]
    pub(crate) worker: Option<String>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct DigestArguments {
    /// Exit code of the process; `-N` means death by signal N, as in Python
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<i32>(-64..=255))]
    pub(crate) exit_code: Option<i32>,
    /// Name of the signal that killed the process: SIGSEGV
    #[arg(long, value_name = "NAME", conflicts_with = "exit_code")]
    pub(crate) signal: Option<String>,
    /// Amount of detail: minimal, normal or full
    #[arg(long, value_name = "VERBOSITY", default_value = "minimal")]
    pub(crate) verbosity: Verbosity,
    /// Show the output that this template selects; `raw` shows all that fits
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Explain the verdict, each finding and each cut: rule, line and evidence
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
    /// Approve a new worker
    Approve(ResumeArguments),
    /// Remove a worker that will not return, and free its name
    Forget(ResumeArguments),
    /// Upgrade the programs of workers, one worker after another, and stop at the first failure
    ///
    /// Each worker is drained, tries the new program, and is resumed when it has registered with the new version. A worker
    /// needs `upgrades = true` in its configuration. Upgrade the coordinator first.
    Upgrade(UpgradeArguments),
}

#[derive(Args, Debug)]
pub(crate) struct UpgradeArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The new version, as in 0.2.0
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: String,
    /// Directory with the files of the release: SHA256SUMS and an archive for each kind of worker
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) release: PathBuf,
    /// Names of the workers; all by default
    #[arg(value_name = "WORKER", add = ArgValueCandidates::new(completion::workers))]
    pub(crate) workers: Vec<String>,
    /// Only workers with this label
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<Selector>,
    /// Print the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Cancel jobs that still run after this time; the default is to wait for them
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) drain_deadline: Option<Duration>,
    /// Time in which the new program of a worker must register; at most 1h
    #[arg(long, value_name = "DURATION", default_value = "60s", allow_hyphen_values = true, value_parser = durations::parse_trial)]
    pub(crate) register_within: Duration,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct DrainArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Name of the worker
    #[arg(add = ArgValueCandidates::new(completion::workers))]
    pub(crate) worker: String,
    /// Cancel jobs that still run after this time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) deadline: Option<Duration>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Name of the worker
    #[arg(add = ArgValueCandidates::new(completion::workers))]
    pub(crate) worker: String,
    #[command(flatten)]
    pub(crate) form: Form,
}
