//! What a job asks for. A spec is immutable once accepted.

use crate::duration;
use crate::ids::BuildId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

mod check;

pub use check::{
    OWN_VARIABLES, SpecError, check_artifact, check_given_variable, check_name, check_report,
    is_trace_context,
};

/// What is executed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// These arguments, without a shell; the first is the program.
    Argv(Vec<String>),
    /// This text by `sh -c`.
    Shell(String),
}

impl Command {
    /// The arguments that are executed.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Argv(argv) => argv.clone(),
            Self::Shell(text) => vec!["sh".into(), "-c".into(), text.clone()],
        }
    }
}

/// One line for a person; arguments are quoted where a shell would need it.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(text) => f.write_str(text),
            Self::Argv(argv) => {
                for (index, argument) in argv.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" ")?;
                    }
                    if is_plain(argument) {
                        f.write_str(argument)?;
                    } else {
                        write!(f, "'{}'", argument.replace('\'', r"'\''"))?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn is_plain(argument: &str) -> bool {
    !argument.is_empty()
        && argument.chars().all(|c| {
            c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '=' | ':' | ',' | '+' | '@' | '%')
        })
}

/// The files that the command sees.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The directory where the job was asked for, as it is; only on a local pool.
    InPlace {
        /// Absolute.
        directory: String,
    },
    /// A working tree at a moment, in a workspace.
    Snapshot {
        /// The tree, as git names it.
        id: String,
        /// Which project: decides which warm workspaces fit.
        project: String,
        /// The command's directory inside the tree, relative; empty for its root.
        directory: String,
        /// The commit that HEAD pointed at, where there is one.
        head: Option<String>,
        /// The checksum of its manifest: branch, tags and ignore patterns belong to a snapshot, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        manifest: Option<String>,
    },
    /// An empty directory.
    Empty,
}

impl Source {
    /// The command's directory inside of a snapshot; empty for its top and for other files.
    pub fn directory_inside(&self) -> &str {
        match self {
            Self::Snapshot { directory, .. } => directory,
            Self::InPlace { .. } | Self::Empty => "",
        }
    }
}

/// A wish on a worker's labels: the label is there and, if a value is named, has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Selector {
    /// The label.
    pub key: String,
    /// Its value; any if absent.
    pub value: Option<String>,
}

impl Selector {
    /// Whether a worker with these labels fits.
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

/// What happens when the worker of a running attempt stays away for `lost_after`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// Queue the job again at its old place.
    #[default]
    Rerun,
    /// Keep waiting for that worker.
    Wait,
    /// End the job as `lost`.
    Fail,
}

/// What happens when output comes faster than it can be carried, or more than may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPolicy {
    /// The process waits at its pipe.
    #[default]
    Block,
    /// The process runs on; head and tail are kept, the middle becomes a counted gap.
    KeepEnds,
}

/// How much of a result is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verbosity {
    /// What explains a failure.
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
    /// Lines and characters of text that an answer may have.
    pub const fn budget(self) -> (usize, usize) {
        match self {
            Self::Minimal => (100, 5_000),
            Self::Normal => (800, 40_000),
            Self::Full => (4_000, 200_000),
        }
    }

    /// `minimal`, `normal` or `full`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

/// Why the submitter runs the command. It decides what the answer to a passed job shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The output is the result: a passed job shows it unaltered.
    #[default]
    Command,
    /// The test counts are the result: a passed job is one line.
    Tests,
    /// Success is the result: a passed job is one line.
    Build,
}

impl Purpose {
    /// Whether this is [`Purpose::Command`]; serde leaves it out of a spec then.
    pub const fn is_command(&self) -> bool {
        matches!(self, Self::Command)
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
                format!("`{other}` is none; valid are minimal, normal (standard), full (verbose)"),
            )),
        }
    }
}

/// A reusable output filter, as it travels in a job: the definition, so that a later change of the file changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateSpec {
    /// As it was asked for.
    pub name: String,
    /// For a person.
    #[serde(default)]
    pub description: String,
    /// Lines that match are shown.
    #[serde(default)]
    pub include_regex: Option<String>,
    /// Lines that match are not shown, even if they are included.
    #[serde(default)]
    pub exclude_regex: Option<String>,
    /// Lines before each included one.
    #[serde(default)]
    pub context_before: u32,
    /// Lines after each included one.
    #[serde(default)]
    pub context_after: u32,
    /// Paragraphs from the end that are shown whatever they match.
    #[serde(default)]
    pub tail_paragraphs: Option<u32>,
    /// Other values for a job that passed.
    #[serde(default)]
    pub on_success: Option<Box<TemplateSpec>>,
}

/// Everything that was asked for. Defaults are those of [`JobSpec::new`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// What is executed.
    pub command: Command,
    /// On which files.
    pub source: Source,
    /// What the history of this command belongs to: the project's root or name; empty when unknown.
    #[serde(default)]
    pub project: String,
    /// Variables beside those of the worker; for a job in place, the submitter's whole environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Which of them were asked for with this job, for a job in place: the others are merely what is around its submitter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_env: Vec<String>,
    /// Names of secrets; their values travel beside the spec and are never stored.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Which workers will do.
    #[serde(default)]
    pub selectors: Vec<Selector>,
    /// Counted resources that the attempt takes from its worker.
    #[serde(default)]
    pub resources: BTreeMap<String, u32>,
    /// Among jobs of the same submitter, higher goes first.
    #[serde(default)]
    pub priority: i32,
    /// At most one job of a group runs at a time.
    #[serde(default)]
    pub concurrency_group: Option<String>,
    /// Longest run.
    #[serde(default, with = "duration::option")]
    pub timeout: Option<Duration>,
    /// Nobody chose the longest run: the pool's own limit counts where that is shorter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timeout_is_default: bool,
    /// Longest silence of both streams.
    #[serde(default, with = "duration::option")]
    pub idle_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    #[serde(default, with = "duration::option")]
    pub grace: Option<Duration>,
    /// When the worker stays away.
    #[serde(default)]
    pub on_lost: OnLost,
    /// How long to wait for a worker nobody has seen yet.
    #[serde(default, with = "duration::option")]
    pub wait_for_worker: Option<Duration>,
    /// Further attempts after an infrastructure failure.
    #[serde(default)]
    pub retries: u32,
    /// When output comes too fast.
    #[serde(default)]
    pub output_policy: OutputPolicy,
    /// Longest log in bytes; beyond that head and tail are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes_max: Option<u64>,
    /// How much of the result the submitter wants.
    #[serde(default)]
    pub verbosity: Verbosity,
    /// Why the command runs.
    #[serde(default, skip_serializing_if = "Purpose::is_command")]
    pub purpose: Purpose,
    /// The filter that the submitter chose.
    #[serde(default)]
    pub template: Option<TemplateSpec>,
    /// Test reports and result bundles: paths or globs, relative to the command's directory.
    #[serde(default)]
    pub reports: Vec<String>,
    /// Files to bring back: globs, relative to the command's directory.
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// Build products of earlier jobs are removed first.
    #[serde(default)]
    pub clean: bool,
    /// The build that this job is part of.
    #[serde(default)]
    pub build: Option<BuildId>,
    /// Why it runs on another pool than the one that was asked for, where its submitter allowed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The trace that its submitter asked in, as W3C `traceparent` has it: for the logs of coordinator and worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl JobSpec {
    /// A spec with defaults.
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
            build: None,
            fallback: None,
            trace: None,
        }
    }
}
