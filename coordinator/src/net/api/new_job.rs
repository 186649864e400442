//! The body of a submit.

use super::Caller;
use super::forms::{Argv, Glob, LabelText, Name, ShellText, SnapshotText};
use super::problem::Problem;
use buildpool_protocol::client_link::{Secret, SubmitMessage};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::{
    Command, JobSpec, Network, OnLost, Purpose, Selector, Source, Verbosity, check_given_variable,
};
use buildpool_protocol::transfer::{Manifest, ObjectId};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use utoipa::ToSchema;
use uuid::Uuid;

/// A command: a text for `sh -c`, or a list of arguments for no shell.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Arguments {
    /// A text for `sh -c`.
    #[schema(value_type = ShellText)]
    Shell(String),
    /// The program and its arguments.
    #[schema(value_type = Argv)]
    Argv(Vec<String>),
}

/// Deserializes a command. The derived form does not state what is valid.
fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arguments, D::Error> {
    deserializer.deserialize_any(ArgumentsVisitor)
}

struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Arguments;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text for `sh -c`, or a list of texts: the program and its arguments")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Arguments, E> {
        Ok(Arguments::Shell(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Arguments, A::Error> {
        let mut argv = Vec::new();
        while let Some(argument) = list.next_element()? {
            argv.push(argument);
        }
        Ok(Arguments::Argv(argv))
    }
}

/// A job to run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewJob {
    /// The command.
    #[serde(deserialize_with = "command")]
    command: Arguments,
    /// Id of a snapshot that this token's class has uploaded, as `snapshot.id` of an earlier job. Without it, the job runs
    /// in an empty directory.
    #[serde(default)]
    #[schema(value_type = Option<SnapshotText>)]
    snapshot: Option<String>,
    /// The command's directory inside the snapshot, relative to its top.
    #[serde(default)]
    cwd: String,
    /// Standard input of the command, at most 1 MiB. Without it, standard input is empty.
    #[serde(default)]
    #[schema(max_length = 1_048_576)]
    pub(super) stdin: Option<String>,
    /// Variables of the command.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Variables whose values are never stored and are hidden in the log.
    #[serde(default)]
    secrets: BTreeMap<String, String>,
    /// Labels that the worker needs: `KEY`, or `KEY=VALUE`.
    #[serde(default)]
    #[schema(value_type = Vec<LabelText>, max_items = 64)]
    labels: Vec<String>,
    /// Units of resources that the job takes from its worker.
    #[serde(default)]
    resources: BTreeMap<String, u32>,
    /// Priority among the jobs of this token. Higher values run first.
    #[serde(default)]
    priority: i32,
    /// Only one job of a group runs at a time.
    #[serde(default)]
    #[schema(value_type = Option<Name>)]
    concurrency_group: Option<String>,
    /// Limit on the run time, in seconds.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 604_800)]
    timeout_secs: Option<u32>,
    /// Limit on the time without output, in seconds.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 604_800)]
    idle_timeout_secs: Option<u32>,
    /// Time from SIGTERM to SIGKILL, in seconds.
    #[serde(default)]
    #[schema(maximum = 3_600)]
    grace_secs: Option<u32>,
    /// Action if the worker is lost.
    #[serde(default)]
    on_lost: OnLost,
    /// Time to wait for a suitable worker that has never connected, in seconds.
    #[serde(default)]
    wait_for_worker_secs: Option<u32>,
    /// Amount of detail in the result.
    #[serde(default)]
    verbosity: Verbosity,
    /// Purpose of the command: it decides what the result of a passed job shows.
    #[serde(default)]
    purpose: Purpose,
    /// Test reports and result bundles: paths or globs, relative to the command's directory.
    #[serde(default)]
    #[schema(value_type = Vec<Glob>, max_items = 64)]
    reports: Vec<String>,
    /// Artifacts: globs, relative to the command's directory.
    #[serde(default)]
    #[schema(value_type = Vec<Glob>, max_items = 64)]
    artifacts: Vec<String>,
    /// Whether to remove build products of earlier jobs first.
    #[serde(default)]
    clean: bool,
    /// Networks that the job can use.
    #[serde(default)]
    network: Network,
    /// Puts the trace of the job into its environment, as `TRACEPARENT`.
    #[serde(default)]
    trace_env: bool,
}

impl NewJob {
    /// Returns the message that submits this job.
    ///
    /// # Errors
    /// A label that is not valid, or a snapshot that is not stored.
    pub(super) async fn message(
        self,
        caller: &Caller,
        key: Option<String>,
        trace: Option<String>,
    ) -> Result<SubmitMessage, Problem> {
        let command = match self.command {
            Arguments::Shell(text) if text.is_empty() => {
                return Err(Problem::invalid("command: is empty; give a text for `sh -c`".to_owned()));
            }
            Arguments::Shell(text) => Command::Shell(text),
            Arguments::Argv(argv) => Command::Argv(argv),
        };
        for name in self.env.keys() {
            check_given_variable("env", name).map_err(|error| unusable(error.to_string()))?;
        }
        let source = match self.snapshot {
            Some(id) => snapshot(caller, &id, self.cwd).await?,
            None if self.cwd.is_empty() => Source::Empty,
            None => return Err(unusable("cwd: valid only with `snapshot`".to_owned())),
        };
        let selectors = self.labels.iter().map(|label| label.parse::<Selector>()).collect::<Result<_, _>>();
        let secs = |secs: Option<u32>| secs.map(|secs| Duration::from_secs(secs.into()));
        let project = match &source {
            Source::Snapshot { project, .. } => project.clone(),
            Source::InPlace { .. } | Source::Empty => String::new(),
        };
        let spec = JobSpec {
            project,
            env: self.env,
            secrets: self.secrets.keys().cloned().collect(),
            selectors: selectors.map_err(|error| unusable(error.to_string()))?,
            resources: self.resources,
            priority: self.priority,
            concurrency_group: self.concurrency_group,
            timeout: secs(self.timeout_secs),
            idle_timeout: secs(self.idle_timeout_secs),
            grace: secs(self.grace_secs),
            on_lost: self.on_lost,
            wait_for_worker: secs(self.wait_for_worker_secs),
            verbosity: self.verbosity,
            purpose: self.purpose,
            reports: self.reports,
            artifacts: self.artifacts,
            clean: self.clean,
            network: self.network,
            trace,
            trace_env: self.trace_env,
            ..JobSpec::new(command, source)
        };
        Ok(SubmitMessage {
            job: JobId::from_uuid(Uuid::now_v7()),
            spec,
            client_request_id: key,
            attach: false,
            secrets: self.secrets.into_iter().map(|(name, value)| (name, Secret(value))).collect(),
            snapshot: None,
            wait: false,
            follow: false,
            progress: false,
        })
    }
}

fn unusable(text: String) -> Problem {
    Problem::unusable(LinkError::new(ErrorCode::Invalid, text))
}

/// Returns the stored snapshot with this id as the source of a job.
async fn snapshot(caller: &Caller, id: &str, directory: String) -> Result<Source, Problem> {
    let tree: ObjectId = id
        .parse()
        .map_err(|error| Problem::invalid(format!("snapshot: `{}`: {error}", id.escape_debug())))?;
    let store = caller.shared.transfers.of_class(&caller.shared.trust.class_for(&caller.principal));
    let found = tokio::task::spawn_blocking(move || store.find(&tree)).await.unwrap_or_default();
    let Some(Manifest { project, tree, head, .. }) = found else {
        let text =
            format!("snapshot: {id} is not stored for this token; upload it by `buildpool run --detach`");
        return Err(unusable(text));
    };
    let head = head.map(|head| head.commit.to_string());
    Ok(Source::Snapshot { id: tree.to_string(), project, directory, head, manifest: None })
}
