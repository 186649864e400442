//! What can be said on the command line.

use crate::durations;
use crate::failure::{POOL, USAGE};
use buildpool_gateway::install::McpClient;
use buildpool_protocol::JobState;
use buildpool_protocol::client_link::{Role, StreamChoice};
use buildpool_protocol::spec::{OnLost, Selector, Verbosity, check_artifact, check_given_variable};
use buildpool_protocol::version::VersionRange;
use buildpool_worker::isolation::Isolation;
use clap::{Args, Parser, ValueEnum};
use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

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
    /// Print what a job wrote, byte for byte
    Logs(LogsArguments),
    /// List or fetch the files that a job kept
    Artifacts(ArtifactsArguments),
    /// End a job
    Cancel(CancelArguments),
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
    /// Make a data directory of a backup
    Restore(RestoreArguments),
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
}

/// How the answer is printed.
#[derive(Args, Debug, Clone, Copy, Default)]
pub(crate) struct Form {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CoordinatorArguments {
    /// Configuration file (TOML); flags go before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Where records and logs are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// How it logs to stderr: lines for people, or one JSON object a line
    #[arg(long, value_name = "text|json", default_value = "text", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// Serve these protocol versions: for tests of mixed versions
    #[arg(long, value_name = "MIN..MAX", hide = true)]
    pub(crate) protocol: Option<VersionRange>,
}

/// How a daemon logs.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct BackupArguments {
    /// The coordinator's data directory; the one of its configuration, or this user's, by default
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The coordinator's configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the copy goes; empty, or not there
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    /// The data directory to be made; empty, or not there
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The coordinator's configuration file, which may name it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The backup
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct WorkerArguments {
    /// Configuration file (TOML); flags go before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The coordinator, ws://HOST:PORT or wss://HOST:PORT [env: BUILDPOOL_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// This worker's name; the machine's by default
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Jobs at a time
    #[arg(long, value_name = "N")]
    pub(crate) slots: Option<u32>,
    /// Where to go and with what, as `token create` says it: the coordinator's URL, `#` and the token
    #[arg(long, value_name = "URL#TOKEN", value_parser = join, conflicts_with_all = ["coordinator", "token"])]
    pub(crate) join: Option<Join>,
    /// A label that jobs can ask for
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<String>,
    /// Offer no labels for the tools that are found, as `rust=1.91.0`
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// Something countable that jobs can take
    #[arg(long = "resource", value_name = "NAME=N", value_parser = resource)]
    pub(crate) resources: Vec<(String, u32)>,
    /// Where jobs, workspaces and their output are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// What keeps jobs from the worker's files and each other's: none, bubblewrap (Linux) or sandbox-exec (macOS)
    #[arg(long, value_name = "MODE")]
    pub(crate) isolation: Option<Isolation>,
    /// A worker's token [env: BUILDPOOL_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// How it logs to stderr: lines for people, or one JSON object a line
    #[arg(long, value_name = "text|json", default_value = "text", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// Speak these protocol versions: for tests of mixed versions
    #[arg(long, value_name = "MIN..MAX", hide = true)]
    pub(crate) protocol: Option<VersionRange>,
}

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Run on a worker with this label
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<Selector>,
    /// Run on a worker of each of these labels, as one build with one answer; labels of one worker are joined by commas
    #[arg(long = "on", value_name = "LABELS", num_args = 1.., value_parser = label_set)]
    pub(crate) on: Vec<LabelSet>,
    /// The command is several commands, separated by `:::`, run as one build with one answer
    #[arg(long)]
    pub(crate) several: bool,
    /// Take this many of a worker's resource
    #[arg(long = "resource", value_name = "NAME=N", value_parser = resource)]
    pub(crate) resources: Vec<(String, u32)>,
    /// Higher goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i32,
    /// Set a variable for the command
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Pass this variable's value along, stored nowhere and masked in the log
    #[arg(long = "secret", value_name = "NAME")]
    pub(crate) secrets: Vec<String>,
    /// The command's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// End the job when it runs for longer
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    pub(crate) timeout: Option<Duration>,
    /// End the job when it writes nothing for longer
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Between asking the command to end and killing it
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    pub(crate) grace: Option<Duration>,
    /// When the worker stays away: run again elsewhere, wait for it, or fail
    #[arg(long, value_name = "rerun|wait|fail", value_parser = on_lost, default_value = "rerun")]
    pub(crate) on_lost: OnLost,
    /// Try again, this often at most, when it fails for what is not its fault: no space, no simulator, no network
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// Wait this long for a worker that nobody has seen yet
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    pub(crate) wait_for_worker: Option<Duration>,
    /// When the pool can't be reached, run on this machine's own; the result says so
    #[arg(long, value_name = "local")]
    pub(crate) fallback: Option<Fallback>,
    /// How much the digest shows: minimal, normal or full
    #[arg(long, value_name = "VERBOSITY", default_value = "minimal")]
    pub(crate) verbosity: Verbosity,
    /// Show what this template lets through; `raw` shows all that fits
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// A test report or result bundle
    #[arg(long = "report", value_name = "PATH|GLOB")]
    pub(crate) reports: Vec<String>,
    /// Files to keep
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
    /// Send files that look like secrets too
    #[arg(long)]
    pub(crate) allow_secrets: bool,
    /// Send new and changed files up to this many megabytes
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_snapshot_mb: u64,
    /// Remove what earlier jobs built first
    #[arg(long)]
    pub(crate) clean: bool,
    /// Print the job's id and leave it running
    #[arg(long, conflicts_with = "output")]
    pub(crate) detach: bool,
    /// What to print: the command's output, the digest, or the result as JSON
    #[arg(long, value_name = "stream|digest|json", default_value = "stream", hide_possible_values = true)]
    pub(crate) output: OutputForm,
    /// The command and its arguments; no shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Labels that one worker must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LabelSet(pub(crate) Vec<Selector>);

fn artifact(text: &str) -> Result<String, String> {
    check_artifact(text).map(|_| text.to_owned()).map_err(|error| error.reason)
}

fn label_set(text: &str) -> Result<LabelSet, String> {
    let labels = text.split(',').map(|label| label.parse::<Selector>().map_err(|error| error.to_string()));
    labels.collect::<Result<_, _>>().map(LabelSet)
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
    /// The job, or the beginning of its id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
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

#[derive(Args, Debug)]
pub(crate) struct DigestArguments {
    /// The process's exit code
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=255))]
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
pub(crate) struct JobsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Only those in this state: queued, preparing, running, sealing, done
    #[arg(long, value_parser = state)]
    pub(crate) state: Option<JobState>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct JobArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Its id, or the beginning of it
    pub(crate) id: String,
    /// Wait this long for its end
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, default_value = "0")]
    pub(crate) wait: Duration,
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
pub(crate) struct LogsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The job's id, or the beginning of it
    pub(crate) id: String,
    /// stdout, stderr, both (each to its own), or interleaved (both to stdout, in true order)
    #[arg(long, value_name = "STREAM", value_parser = stream, default_value = "both")]
    pub(crate) stream: StreamChoice,
    /// Only this many of the last lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u64>,
    /// Go on while the log grows
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Of this attempt; the newest by default
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// The job's id, or the beginning of it
    pub(crate) id: String,
    /// Why, for whoever looks at the job later
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
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
}

#[derive(Args, Debug)]
pub(crate) struct AuditArguments {
    #[command(flatten)]
    pub(crate) place: TokenPlace,
    /// At most this many, the newest first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct DrainArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Its name
    pub(crate) worker: String,
    /// End what still runs after this long
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
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
        /// worker, submit or admin
        #[arg(long, value_parser = role)]
        role: Role,
        /// For whom
        #[arg(long)]
        name: String,
        /// For how long it is valid; for ever by default
        #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
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
        #[arg(long, value_name = "DURATION", value_parser = durations::parse, default_value = "1h")]
        grace: Duration,
        /// For how long the new one is valid; by default as long as the old one was to last
        #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
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
    /// The coordinator's configuration file on this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["coordinator", "token", "ca_file"])]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    /// Look at this data directory of a coordinator
    #[arg(long, value_name = "DIR", conflicts_with = "worker")]
    pub(crate) data_dir: Option<PathBuf>,
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

/// Prints help where it was asked for, else what is wrong; in `run` that is the pool's fault and not the command's.
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
    let is_run = std::env::args_os().nth(1).is_some_and(|subcommand| subcommand == "run");
    ExitCode::from(if is_run { POOL } else { USAGE })
}

#[derive(Args, Debug)]
pub(crate) struct InstallArguments {
    #[command(subcommand)]
    pub(crate) what: InstallWhat,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum InstallWhat {
    /// Print the configuration with which an MCP client starts the gateway, or write it
    McpClient(InstallMcpClientArguments),
    /// Print the unit or property list that keeps a worker running, or write it
    Worker(InstallServiceArguments),
    /// Print the unit or property list that keeps a coordinator running, or write it
    Coordinator(InstallServiceArguments),
}

#[derive(Args, Debug)]
pub(crate) struct InstallServiceArguments {
    /// For the machine, as a user of its own, instead of for this user's session
    #[arg(long)]
    pub(crate) system: bool,
    /// systemd or launchd; what this system has by default
    #[arg(long, value_name = "systemd|launchd", hide_possible_values = true)]
    pub(crate) init: Option<Init>,
    /// Write the files instead of printing the unit, and print what starts it
    #[arg(long)]
    pub(crate) write: bool,
    /// A worker's coordinator and token, as `token create` says them; they go into its configuration
    #[arg(long, value_name = "URL#TOKEN", value_parser = join)]
    pub(crate) join: Option<Join>,
    /// Its configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Its data directory
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// As whom the machine runs it
    #[arg(long, value_name = "USER", requires = "system")]
    pub(crate) service_user: Option<String>,
    /// Write below this directory instead of below `/`, as when a package is made
    #[arg(long, value_name = "DIR", requires = "write")]
    pub(crate) root: Option<PathBuf>,
}

/// Who starts daemons.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Init {
    Systemd,
    Launchd,
}

#[derive(Args, Debug)]
pub(crate) struct InstallMcpClientArguments {
    /// claude-code, claude-desktop, codex, cursor or vscode
    #[arg(value_name = "CLIENT")]
    pub(crate) client: McpClient,
    /// Add it to the client's own file, where everything else stays; prints the file's name
    #[arg(long)]
    pub(crate) write: bool,
    /// The coordinator that the gateway asks; its token is for the environment or config.toml, not for this file
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// The project; the present directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Offer only tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Args, Debug)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Listen here instead of using standard input and output; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    /// Who may ask: holders of a token of the pool, or, on loopback only, everybody
    #[arg(long, value_name = "HOW", value_parser = ["token", "none"], default_value = "token", requires = "http")]
    pub(crate) http_auth: String,
    /// Listen beyond loopback although tokens travel unencrypted
    #[arg(long, requires = "http")]
    pub(crate) http_plain: bool,
    /// Another name by which it is reached, as behind a proxy
    #[arg(long = "http-host", value_name = "HOST", requires = "http")]
    pub(crate) http_hosts: Vec<String>,
    /// A web page that may ask, as `https://app.example`
    #[arg(long = "http-origin", value_name = "ORIGIN", requires = "http")]
    pub(crate) http_origins: Vec<String>,
    /// Another project, served at /mcp/p/NAME
    #[arg(long = "project", value_name = "NAME=DIR", value_parser = variable, requires = "http")]
    pub(crate) projects: Vec<(String, String)>,
    /// The project; the present directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Offer only tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Longest that a call blocks before it answers `running`; by default what the client is known to wait
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    pub(crate) wait: Option<Duration>,
    /// Also offer what the MCP conformance suite calls
    #[arg(long, hide = true)]
    pub(crate) conformance_fixtures: bool,
}

/// A coordinator and the token that opens it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Join {
    pub(crate) url: String,
    pub(crate) token: String,
}

fn join(text: &str) -> Result<Join, String> {
    match text.split_once('#') {
        Some((url, token)) if url.contains("://") && token.starts_with("bp_") => {
            Ok(Join { url: url.to_owned(), token: token.to_owned() })
        }
        // The text may hold a token: it is not repeated.
        _ => Err("valid is URL#TOKEN, as in wss://pool.example.com:7420#bp_…".to_owned()),
    }
}

fn resource(text: &str) -> Result<(String, u32), String> {
    let wrong = || format!("`{text}` is no resource; valid is NAME=N, as in simulator=2");
    let (name, count) = text.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), count.parse().map_err(|_| wrong())?))
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => {
            check_given_variable("--env", name).map_err(|error| error.reason)?;
            Ok((name.to_owned(), value.to_owned()))
        }
        None => Err(format!("`{text}` sets no variable; valid is NAME=VALUE")),
    }
}

/// One of several words, by the name that it has everywhere.
fn one_of<T: Copy, const N: usize>(text: &str, known: [(&str, T); N]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| format!("valid are {}", known.map(|(name, _)| name).join(", ")))
}

fn on_lost(text: &str) -> Result<OnLost, String> {
    one_of(text, [("rerun", OnLost::Rerun), ("wait", OnLost::Wait), ("fail", OnLost::Fail)])
}

fn state(text: &str) -> Result<JobState, String> {
    use JobState::{Done, Preparing, Queued, Running, Sealing};
    one_of(text, [Queued, Preparing, Running, Sealing, Done].map(|state| (state.name(), state)))
}

fn stream(text: &str) -> Result<StreamChoice, String> {
    use StreamChoice::{Both, Interleaved, Stderr, Stdout};
    one_of(text, [("stdout", Stdout), ("stderr", Stderr), ("both", Both), ("interleaved", Interleaved)])
}

fn role(text: &str) -> Result<Role, String> {
    one_of(text, [Role::Worker, Role::Submit, Role::Admin].map(|role| (role.name(), role)))
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Subcommand};
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_definitions_agree_with_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_command_keeps_every_argument_of_its_own() {
        let line = [
            "buildpool",
            "run",
            "--priority",
            "-3",
            "--label",
            "os=macos",
            "--",
            "cargo",
            "test",
            "--",
            "--nocapture",
            "-p",
        ];
        let Subcommand::Run(run) = Arguments::try_parse_from(line).unwrap().subcommand else {
            panic!("no run")
        };
        assert_eq!(run.command, ["cargo", "test", "--", "--nocapture", "-p"]);
        assert_eq!(run.priority, -3);
        assert_eq!(run.labels[0].to_string(), "os=macos");
    }

    #[test]
    fn bad_values_are_refused_with_what_is_valid() {
        for (line, expected) in [
            (&["run", "--resource", "simulator", "--", "true"][..], "NAME=N"),
            (&["run", "--env", "=x", "--", "true"], "NAME=VALUE"),
            (&["run", "--timeout", "soon", "--", "true"], "valid are 90s"),
            (&["run", "--on-lost", "cry", "--", "true"], "rerun, wait, fail"),
            (&["run", "--verbosity", "loud", "--", "true"], "minimal, normal (standard), full (verbose)"),
            (&["run", "--label", "a b", "--", "true"], "letters, digits"),
            (&["run"], "COMMAND"),
            (&["logs", "1", "--stream", "x"], "interleaved"),
            (&["jobs", "--state", "x"], "queued, preparing, running, sealing, done"),
            (&["digest", "--exit-code", "256"], "0..=255"),
            (&["digest", "--exit-code", "1", "--signal", "SIGSEGV"], "cannot be used with"),
            (&["token", "create", "--role", "king", "--name", "n"], "worker, submit, admin"),
            (&["token", "list", "--data-dir", "d", "--coordinator", "ws://h"], "cannot be used with"),
        ] {
            let line = ["buildpool"].iter().chain(line);
            let error = Arguments::try_parse_from(line.clone()).unwrap_err().to_string();
            assert!(error.contains(expected), "{:?}: {error}", line.collect::<Vec<_>>());
        }
    }
}
