//! `buildpool run`

use super::PoolOptions;
use super::values::{
    count, mebibytes, network, networks, on_lost, on_lost_words, priority, resource, secret, variable, whole,
};
use crate::durations;
use buildpool_protocol::spec::{Network, OnLost, Selector, Verbosity, check_artifact, check_report};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Run on a worker with this label
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<Selector>,
    /// Run once for each of these label sets, as one build with one answer; commas join the labels of a set
    #[arg(long = "on", value_name = "LABELS", num_args = 1.., value_parser = label_set)]
    pub(crate) on: Vec<LabelSet>,
    /// Run several commands, separated by `:::`, as one build with one answer
    #[arg(long)]
    pub(crate) several: bool,
    /// Take this many of a worker's resource
    #[arg(long = "resource", value_name = "NAME=N", value_parser = resource)]
    pub(crate) resources: Vec<(String, u32)>,
    /// Order among your own waiting jobs: higher goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = priority)]
    pub(crate) priority: i32,
    /// Run at most one job of this group at a time, over all submitters [default: `concurrency_group`
    /// of `.buildpool/config.yaml`]
    #[arg(long, value_name = "NAME")]
    pub(crate) concurrency_group: Option<String>,
    /// Take this many of a worker's processors
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX))]
    pub(crate) cpus: Option<u32>,
    /// Take this much of a worker's memory, in MiB or with M or G; also the limit on the data of
    /// each process
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    pub(crate) memory: Option<u32>,
    /// Networks that the command can use: worker (the worker's) or none (needs a worker with
    /// isolation bubblewrap)
    #[arg(long, value_name = "worker|none", default_value = "worker", value_parser = network, add = networks())]
    pub(crate) network: Network,
    /// Set a variable for the command
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Pass the value of this variable to the command; it is not stored, and it is masked in the log
    #[arg(long = "secret", value_name = "NAME", value_parser = secret)]
    pub(crate) secrets: Vec<String>,
    /// Directory of the command; the current directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// End the job if it runs for longer
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) timeout: Option<Duration>,
    /// End the job if it writes nothing for longer
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Time between the request to end and the kill of the command
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) grace: Option<Duration>,
    /// If the worker stays away: rerun elsewhere, wait for it, or fail
    #[arg(long, value_name = "rerun|wait|fail", value_parser = on_lost, add = on_lost_words(), default_value = "rerun")]
    pub(crate) on_lost: OnLost,
    /// Run again up to this many times after an infrastructure failure: no space, no simulator, no network
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<u32>(0..=100))]
    pub(crate) retries: u32,
    /// Wait this long for a worker that has never been connected
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    pub(crate) wait_for_worker: Option<Duration>,
    /// Use the local pool if the pool can't be reached; the result reports this
    #[arg(long, value_name = "local")]
    pub(crate) fallback: Option<Fallback>,
    /// Amount of detail in the digest: minimal, normal or full
    #[arg(long, value_name = "VERBOSITY", default_value = "minimal")]
    pub(crate) verbosity: Verbosity,
    /// Show the lines that this template selects; `raw` shows the output up to the budget
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Read a test report or result bundle that the command writes
    #[arg(long = "report", value_name = "PATH|GLOB", value_parser = report)]
    pub(crate) reports: Vec<String>,
    /// Keep files that match as artifacts
    #[arg(long = "artifact", value_name = "GLOB", value_parser = artifact)]
    pub(crate) artifacts: Vec<String>,
    /// Run on a snapshot of the working tree, on the local pool too
    #[arg(long, conflicts_with = "no_snapshot")]
    pub(crate) snapshot: bool,
    /// Run in an empty directory
    #[arg(long)]
    pub(crate) no_snapshot: bool,
    /// Run on this commit instead of the working tree
    #[arg(long = "ref", value_name = "COMMIT", conflicts_with = "no_snapshot")]
    pub(crate) commit: Option<String>,
    /// Also send files that look like secrets
    #[arg(long)]
    pub(crate) allow_secrets: bool,
    /// Send new and changed files up to this many megabytes; committed unchanged files do not count
    #[arg(long, value_name = "N", default_value_t = 1000, allow_negative_numbers = true, value_parser = count)]
    pub(crate) max_snapshot_mb: u64,
    /// Start with an empty workspace, without the build products of earlier jobs
    #[arg(long)]
    pub(crate) clean: bool,
    /// Print the id of the job and do not wait for its end
    #[arg(long, conflicts_with = "output")]
    pub(crate) detach: bool,
    /// Put the trace of the job into its environment, as TRACEPARENT (OpenTelemetry)
    #[arg(long)]
    pub(crate) trace_env: bool,
    /// Give the command an empty standard input; otherwise a pipe or a file is forwarded
    #[arg(long)]
    pub(crate) no_stdin: bool,
    /// Output to print: the command's output, the digest, or the result as JSON
    #[arg(long, value_name = "stream|digest|json", default_value = "stream", hide_possible_values = true)]
    pub(crate) output: OutputForm,
    /// The command and its arguments; no shell
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::AnyPath)]
    pub(crate) command: Vec<String>,
}

/// Labels that one worker must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LabelSet(pub(crate) Vec<Selector>);

fn artifact(text: &str) -> Result<String, String> {
    check_artifact(text).map(|_| text.to_owned()).map_err(|error| error.reason)
}

fn report(text: &str) -> Result<String, String> {
    check_report(text).map(|()| text.to_owned()).map_err(|error| error.reason)
}

fn label_set(text: &str) -> Result<LabelSet, String> {
    let labels = text.split(',').map(|label| label.parse::<Selector>().map_err(|error| error.to_string()));
    labels.collect::<Result<_, _>>().map(LabelSet)
}

/// Where a job may run when its pool can't be reached.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fallback {
    Local,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutputForm {
    Stream,
    Digest,
    Json,
}
