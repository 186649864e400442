//! The specification of a job. A spec is immutable after it is accepted.

use crate::duration;
use crate::ids::BuildId;
use crate::shell::quoted;
use crate::stdin::Stdin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

mod access;
mod check;
mod restriction;

pub use access::{Access, workspace_key};
pub use check::{
    OWN_VARIABLES, SpecError, check_artifact, check_given_variable, check_name, check_report,
    check_setup_input, is_trace_context,
};
pub use restriction::{Reads, Restriction};

/// The command of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Arguments without a shell. The first is the program.
    Argv(Vec<String>),
    /// A script for `sh -c`.
    Shell(String),
}

impl Command {
    /// Returns the arguments to execute.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Argv(argv) => argv.clone(),
            Self::Shell(text) => vec!["sh".into(), "-c".into(), text.clone()],
        }
    }
}

/// One line for users. Arguments are quoted if a shell would need it.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(text) => f.write_str(text),
            Self::Argv(argv) => {
                for (index, argument) in argv.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" ")?;
                    }
                    f.write_str(&quoted(argument))?;
                }
                Ok(())
            }
        }
    }
}

/// The files that the command can access.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The directory where the job was submitted, unchanged. Only on a local pool.
    InPlace {
        /// Absolute path.
        directory: String,
    },
    /// A snapshot of a working tree, in a workspace.
    Snapshot {
        /// The tree, as a git object id.
        id: String,
        /// Id of the project. It determines the matching warm workspaces.
        project: String,
        /// The command's directory inside the tree, relative. Empty for its root.
        directory: String,
        /// The commit of HEAD, if there is one.
        head: Option<String>,
        /// Checksum of its manifest. Branch, tags and ignore patterns also belong to a snapshot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        manifest: Option<String>,
    },
    /// An empty directory.
    Empty,
}

impl Source {
    /// Returns the command's directory inside a snapshot. Empty for its root and for other sources.
    pub fn directory_inside(&self) -> &str {
        match self {
            Self::Snapshot { directory, .. } => directory,
            Self::InPlace { .. } | Self::Empty => "",
        }
    }
}

/// The label with a worker's name.
pub const NAME_LABEL: &str = "name";

/// A selector for worker labels: the label must exist and, if a value is given, must have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Selector {
    /// The label.
    pub key: String,
    /// Its value. Any value if absent.
    pub value: Option<String>,
}

impl Selector {
    /// Returns true if a worker with these labels matches.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(&self.key).is_some_and(|have| self.value.as_ref().is_none_or(|want| want == have))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

impl FromStr for Selector {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (text, None),
        };
        check_name("label", key)?;
        Ok(Self { key: key.to_owned(), value })
    }
}

/// Action if the worker of a running attempt is disconnected for `lost_after`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// Queue the job again at its old position.
    #[default]
    Rerun,
    /// Continue to wait for that worker.
    Wait,
    /// End the job as `lost`.
    Fail,
}

/// Action if output arrives faster than it can be transferred, or exceeds the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPolicy {
    /// The process blocks on its pipe.
    #[default]
    Block,
    /// The process continues. Head and tail are kept, the middle becomes a counted gap.
    KeepEnds,
}

/// Amount of detail in a result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verbosity {
    /// The explanation of a failure.
    #[default]
    Minimal,
    /// Also warnings, stderr and the last lines of stdout.
    #[serde(alias = "standard")]
    Normal,
    /// Both streams.
    #[serde(alias = "verbose")]
    Full,
}

impl Verbosity {
    /// Returns the limits on lines and characters of text of an answer.
    pub const fn budget(self) -> (usize, usize) {
        match self {
            Self::Minimal => (100, 5_000),
            Self::Normal => (800, 40_000),
            Self::Full => (4_000, 200_000),
        }
    }

    /// Returns `minimal`, `normal` or `full`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

/// Purpose of the command. It decides which output the answer to a passed job contains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The output is the result. A passed job shows it unaltered.
    #[default]
    Command,
    /// The test counts are the result. A passed job is one line.
    Tests,
    /// Success is the result. A passed job is one line.
    Build,
}

impl Purpose {
    /// Returns true for [`Purpose::Command`]. serde then leaves it out of a spec.
    pub const fn is_command(&self) -> bool {
        matches!(self, Self::Command)
    }
}

/// The counted resource of processors, which each worker has.
pub const CPUS: &str = "cpus";
/// The counted resource of memory in MiB, which each worker has. It also limits the data of each process of the job.
pub const MEMORY_MIB: &str = "memory_mib";

/// Networks that a job can use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The network of its worker.
    #[default]
    Worker,
    /// A loopback interface of its own, and nothing else.
    None,
}

impl Network {
    /// Returns true for [`Network::Worker`]. Serde omits the field in this case.
    pub const fn is_worker(&self) -> bool {
        matches!(self, Self::Worker)
    }
}

impl FromStr for Verbosity {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            "minimal" => Ok(Self::Minimal),
            "normal" | "standard" => Ok(Self::Normal),
            "full" | "verbose" => Ok(Self::Full),
            other => Err(SpecError::new(
                "verbosity",
                format!("`{other}` is not a verbosity; valid are minimal, normal (standard), full (verbose)"),
            )),
        }
    }
}

/// A reusable output filter. The job contains the definition, so that a later change of the file
/// has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateSpec {
    /// Name as requested.
    pub name: String,
    /// Description for users.
    #[serde(default)]
    pub description: String,
    /// Lines that match are shown.
    #[serde(default)]
    pub include_regex: Option<String>,
    /// Lines that match are not shown, even if `include_regex` matches.
    #[serde(default)]
    pub exclude_regex: Option<String>,
    /// Lines before each included one.
    #[serde(default)]
    pub context_before: u32,
    /// Lines after each included one.
    #[serde(default)]
    pub context_after: u32,
    /// Number of paragraphs at the end that are always shown.
    #[serde(default)]
    pub tail_paragraphs: Option<u32>,
    /// Other values for a job that passed.
    #[serde(default)]
    pub on_success: Option<Box<TemplateSpec>>,
}

/// A command that prepares a workspace, for example by installing dependencies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The text for `sh -c`.
    pub command: String,
    /// Where it runs: a directory inside the snapshot, relative; empty for its top.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Globs relative to `directory`. The command runs again in a workspace if a file that they match has changed.
    #[serde(default)]
    pub inputs: Vec<String>,
}

/// The immutable specification of a job. [`JobSpec::new`] sets the defaults.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// The command.
    pub command: Command,
    /// The files.
    pub source: Source,
    /// Root or name of the project, which the history of this command belongs to. Empty if unknown.
    #[serde(default)]
    pub project: String,
    /// Variables in addition to the worker's environment. For a job in place, the submitter's whole
    /// environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// For a job in place: names of the variables that were set explicitly for this job. The other
    /// variables come from the submitter's environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_env: Vec<String>,
    /// Names of secrets. Their values are sent separately and are never stored.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Selectors for suitable workers.
    #[serde(default)]
    pub selectors: Vec<Selector>,
    /// Units of resources that the attempt takes from its worker.
    #[serde(default)]
    pub resources: BTreeMap<String, u32>,
    /// Priority among jobs of the same submitter. Higher values run first.
    #[serde(default)]
    pub priority: i32,
    /// Only one job of a group runs at a time.
    #[serde(default)]
    pub concurrency_group: Option<String>,
    /// Limit on the run time.
    #[serde(default, with = "duration::option")]
    pub timeout: Option<Duration>,
    /// True if `timeout` is a default value. The pool's own limit then applies if it is shorter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timeout_is_default: bool,
    /// Limit on the time without output on both streams.
    #[serde(default, with = "duration::option")]
    pub idle_timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL.
    #[serde(default, with = "duration::option")]
    pub grace: Option<Duration>,
    /// Action if the worker is lost.
    #[serde(default)]
    pub on_lost: OnLost,
    /// Time to wait for a suitable worker that has never connected.
    #[serde(default, with = "duration::option")]
    pub wait_for_worker: Option<Duration>,
    /// Number of retries after an infrastructure failure.
    #[serde(default)]
    pub retries: u32,
    /// Action if output arrives too fast.
    #[serde(default)]
    pub output_policy: OutputPolicy,
    /// Limit on the log in bytes. Beyond it, head and tail are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes_max: Option<u64>,
    /// Amount of detail in the result.
    #[serde(default)]
    pub verbosity: Verbosity,
    /// Purpose of the command.
    #[serde(default, skip_serializing_if = "Purpose::is_command")]
    pub purpose: Purpose,
    /// The filter that the submitter chose.
    #[serde(default)]
    pub template: Option<TemplateSpec>,
    /// Test reports and result bundles: paths or globs, relative to the command's directory.
    #[serde(default)]
    pub reports: Vec<String>,
    /// Artifacts: globs, relative to the command's directory.
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// True to remove build products of earlier jobs first.
    #[serde(default)]
    pub clean: bool,
    /// Prepares the workspace of a snapshot; it is ignored for other sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// The standard input that comes with it; empty if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
    /// The build that this job belongs to.
    #[serde(default)]
    pub build: Option<BuildId>,
    /// Reason why it runs on another pool than the requested one, if the submitter allowed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The project's configuration requests quarantine: a cause states that all failed tests are known to be flaky.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quarantine: bool,
    /// The submitter's trace as W3C `traceparent`. In a grant, the trace of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The environment of the job contains its trace as `TRACEPARENT`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace_env: bool,
    /// The submitter and its trust class; the coordinator sets them.
    #[serde(default, skip_serializing_if = "Access::is_open")]
    pub access: Access,
    /// Networks that the job can use.
    #[serde(default, skip_serializing_if = "Network::is_worker")]
    pub network: Network,
}

impl JobSpec {
    /// Returns the requested memory ([`MEMORY_MIB`]) in bytes. It is also the job's limit.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.resources.get(MEMORY_MIB).map(|mib| u64::from(*mib) << 20)
    }

    /// Creates a spec with defaults.
    pub fn new(command: Command, source: Source) -> Self {
        Self {
            command,
            source,
            project: String::new(),
            env: BTreeMap::new(),
            given_env: Vec::new(),
            secrets: Vec::new(),
            selectors: Vec::new(),
            resources: BTreeMap::new(),
            priority: 0,
            concurrency_group: None,
            timeout: None,
            timeout_is_default: false,
            idle_timeout: None,
            grace: None,
            on_lost: OnLost::default(),
            wait_for_worker: None,
            retries: 0,
            output_policy: OutputPolicy::default(),
            log_bytes_max: None,
            verbosity: Verbosity::default(),
            purpose: Purpose::default(),
            template: None,
            reports: Vec::new(),
            artifacts: Vec::new(),
            clean: false,
            setup: None,
            stdin: None,
            build: None,
            fallback: None,
            quarantine: false,
            trace: None,
            trace_env: false,
            access: Access::default(),
            network: Network::default(),
        }
    }
}
