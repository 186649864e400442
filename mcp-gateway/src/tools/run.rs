//! Running something: what the three tools share.

use super::arguments::{ArgumentError, Arguments};
use super::call::{Call, Reply, all, build_answer, build_name, manifest_of, view};
use super::{ToolError, source};
use crate::client::{Client, ClientError, JobEvent, JobEvents, new_job_id};
use crate::project::{self, ChooseError, Goal};
use crate::render::{self, Extras};
use buildpool_protocol::client_link::{Progress, SubmitMessage};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits;
use buildpool_protocol::report::{JobResult, JobState, SnapshotInfo};
use buildpool_protocol::spec::{Command, JobSpec, Selector, TemplateSpec, Verbosity, check_artifact};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Longest run without a choice by the caller, in seconds.
const TIMEOUT_SECS: u64 = 3_600;

/// What the caller chose.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) directory: PathBuf,
    env: BTreeMap<String, String>,
    selectors: Vec<Selector>,
    on: Vec<Vec<Selector>>,
    timeout: Duration,
    verbosity: Verbosity,
    template: Option<TemplateSpec>,
    reports: Vec<String>,
    artifacts: Vec<String>,
    wait_secs: Option<u64>,
    client_request_id: Option<String>,
}

/// What is to be run.
pub(super) struct Task {
    pub(super) command: String,
    pub(super) directory: PathBuf,
    pub(super) reports: Vec<String>,
    /// Of which one job runs at a time.
    pub(super) concurrency_group: Option<String>,
    /// Why this command, where it was chosen.
    pub(super) chosen: Option<String>,
}

impl Task {
    /// The command that was given, else the one that is chosen for the directory.
    pub(super) fn of(
        call: &Call,
        options: &Options,
        command: Option<String>,
        goal: Goal<'_>,
    ) -> Result<Self, ToolError> {
        let configuration = call.project.configuration_of(&options.directory);
        let group = configuration.concurrency_group().map_err(ChooseError::Configuration)?;
        let concurrency_group = group.map(str::to_owned);
        if let Some(command) = command {
            let directory = options.directory.clone();
            return Ok(Self { command, directory, reports: Vec::new(), concurrency_group, chosen: None });
        }
        let chosen = project::choose(&configuration, &options.directory, goal)?;
        let why = format!("{}, because {}", chosen.command, chosen.because);
        Ok(Self {
            command: chosen.command,
            directory: chosen.directory,
            reports: chosen.reports,
            concurrency_group,
            chosen: Some(render::one_line(&why)),
        })
    }
}

impl Options {
    /// Takes all that the three tools share; nothing may be left over.
    pub(super) fn take(mut arguments: Arguments, call: &Call) -> Result<Self, ToolError> {
        let cwd = arguments.text("cwd")?;
        let labels = arguments.texts("labels")?;
        let on = arguments.lists_of_texts("on")?;
        if on.len() > limits::BUILD_JOBS_MAX {
            let reason = format!("has {} label sets; at most {} are valid", on.len(), limits::BUILD_JOBS_MAX);
            return Err(arguments.wrong("on", reason).into());
        }
        let artifacts = arguments.texts("artifacts")?;
        if let Some(error) = artifacts.iter().find_map(|pattern| check_artifact(pattern).err()) {
            return Err(arguments.wrong("artifacts", error.reason).into());
        }
        let longest = limits::TIMEOUT_MAX.as_secs();
        let template = arguments.text("template")?;
        let options = Self {
            directory: call.project.directory_of(cwd.as_deref())?,
            env: arguments.variables("env")?,
            selectors: selectors(&arguments, "labels", &labels)?,
            on: on.iter().map(|set| selectors(&arguments, "on", set)).collect::<Result<_, _>>()?,
            timeout: Duration::from_secs(
                arguments.number("timeout_secs", 1, longest)?.unwrap_or(TIMEOUT_SECS),
            ),
            verbosity: arguments.word("verbosity")?.unwrap_or_default(),
            template: named_template(&arguments, call, template)?,
            reports: arguments.texts("reports")?,
            artifacts,
            wait_secs: arguments.number("wait_secs", 0, longest)?,
            client_request_id: arguments.text("client_request_id")?,
        };
        arguments.finish()?;
        Ok(options)
    }
}

/// The template of this name, for the place where the command runs.
pub(super) fn named_template(
    arguments: &Arguments,
    call: &Call,
    name: Option<String>,
) -> Result<Option<TemplateSpec>, ArgumentError> {
    let Some(name) = name else { return Ok(None) };
    let templates = call.project.templates();
    match templates.get(&name) {
        Some(template) => Ok(Some(template.clone())),
        None => {
            let mut reason = format!("{name:?} is unknown; valid are {}", templates.names().join(", "));
            if let Some(problem) = templates.problem_of(&name) {
                reason = format!("{name:?} can't be used: {problem}");
            }
            Err(arguments.wrong("template", reason))
        }
    }
}

fn selectors(arguments: &Arguments, field: &str, texts: &[String]) -> Result<Vec<Selector>, ArgumentError> {
    let read =
        |text: &String| text.parse::<Selector>().map_err(|error| arguments.wrong(field, error.to_string()));
    texts.iter().map(read).collect()
}

/// Submits and waits as long as the client can.
pub(super) async fn run(call: &Call, options: Options, task: Task) -> Result<Reply, ToolError> {
    let client = call.client().await?;
    let source = source::of(&client, &task.directory).await?;
    let mut spec = JobSpec::new(Command::Shell(task.command), source.source);
    spec.project = source.project;
    spec.env = if source.in_place {
        spec.given_env = options.env.keys().cloned().collect();
        source::environment(&task.directory, &options.env)
    } else {
        options.env.clone()
    };
    spec.selectors = options.selectors.clone();
    spec.concurrency_group = task.concurrency_group;
    spec.timeout = Some(options.timeout);
    spec.verbosity = options.verbosity;
    spec.template = options.template.clone();
    spec.reports = if options.reports.is_empty() { task.reports } else { options.reports.clone() };
    spec.artifacts = options.artifacts.clone();
    spec.trace.clone_from(&call.trace);
    spec.check()?;
    let wait = call.wait_of(options.wait_secs, call.wait);
    let wait = call.task_after.map_or(wait, |after| after.min(wait));
    let deadline = Instant::now() + wait;
    let extras = Extras { chosen: task.chosen, ..call.extras(options.verbosity) };
    let running =
        Running { client, call, options, deadline, extras, snapshot: source.info, directory: task.directory };
    tokio::select! {
        reply = running.to_the_end(spec) => reply,
        () = call.progress.run() => unreachable_report(),
    }
}

/// Progress is reported until the call is answered, never instead of it.
fn unreachable_report() -> Result<Reply, ToolError> {
    Err(ToolError::Cancelled { job: None })
}

struct Running<'a> {
    client: Client,
    call: &'a Call,
    options: Options,
    deadline: Instant,
    extras: Extras,
    snapshot: Option<SnapshotInfo>,
    directory: PathBuf,
}

/// How a submitted job stands when the wait is over.
struct Stand {
    job: String,
    reattached: bool,
    is_done: bool,
}

impl Running<'_> {
    async fn to_the_end(&self, spec: JobSpec) -> Result<Reply, ToolError> {
        if self.options.on.is_empty() { self.one(spec).await } else { self.several(spec).await }
    }

    async fn one(&self, spec: JobSpec) -> Result<Reply, ToolError> {
        let asked = spec.command.to_string();
        let stand = self.submit(0, spec, self.options.client_request_id.clone()).await?;
        if !stand.is_done && self.call.task_after.is_some() {
            return Ok(Reply::Task(stand.job));
        }
        let result = self.result(&stand.job).await?;
        let extras = self.extras_of(stand.reattached, &asked, std::slice::from_ref(&result));
        let budget = self.call.budget(self.options.verbosity);
        Ok(Reply::Answer(render::job(result, &extras, &budget)))
    }

    async fn several(&self, spec: JobSpec) -> Result<Reply, ToolError> {
        let build = BuildId::from_uuid(uuid::Uuid::now_v7());
        let submits = self.options.on.iter().enumerate().map(|(index, set)| {
            let mut spec = spec.clone();
            spec.build = Some(build);
            spec.selectors.extend(set.iter().cloned());
            let request = self.options.client_request_id.as_ref().map(|text| format!("{text}#{index}"));
            self.submit(index, spec, request)
        });
        let mut stands = Vec::new();
        for stand in all(submits).await {
            stands.push(stand?);
        }
        if self.call.task_after.is_some() && stands.iter().any(|stand| !stand.is_done) {
            return Ok(Reply::Task(build_name(build)));
        }
        let mut results = Vec::new();
        for stand in &stands {
            results.push(self.result(&stand.job).await?);
        }
        let reattached = stands.iter().any(|stand| stand.reattached);
        let extras = self.extras_of(reattached, &spec.command.to_string(), &results);
        let budget = self.call.budget(self.options.verbosity);
        // Jobs of an earlier call carry the number of that call's build.
        let answer = if reattached {
            let mut answer = build_answer(build, results);
            answer.has_own_id = false;
            answer
        } else {
            manifest_of(&self.client, build, &self.view()).await?
        };
        Ok(Reply::Answer(render::build(&answer, &extras, &budget)))
    }

    /// A `client_request_id` is the same job whatever is asked for with it, so a command that did not run is named.
    fn extras_of(&self, reattached: bool, asked: &str, results: &[JobResult]) -> Extras {
        let mut extras = self.extras.clone();
        extras.reattached = reattached;
        extras.by_request_id = reattached && self.options.client_request_id.is_some();
        if extras.by_request_id
            && let Some(other) = results.iter().find(|result| result.command != asked)
        {
            extras.note = Some(render::other_command(&other.command, asked));
        }
        extras
    }

    fn view(&self) -> buildpool_protocol::client_link::View {
        let budget = self.call.budget(self.options.verbosity);
        view(Some(self.options.verbosity), self.options.template.clone(), &budget)
    }

    async fn result(&self, job: &str) -> Result<JobResult, ToolError> {
        self.client
            .job(job, self.view(), Duration::ZERO)
            .await
            .map_err(|error| ToolError::Pool { error, job: Some(job.to_owned()) })
    }

    /// Submits and waits for the end or the deadline. Not to hear the end is not to take the answer: an equal call
    /// attaches to the same job, unless files have changed under it.
    async fn submit(&self, index: usize, spec: JobSpec, request: Option<String>) -> Result<Stand, ToolError> {
        // Two equal jobs of one build are meant as two.
        let on = &self.options.on;
        let is_repeated = on.get(index).is_some_and(|set| on[..index].contains(set));
        let mut attach = request.is_none() && !is_repeated;
        loop {
            let submit = SubmitMessage {
                job: new_job_id(),
                spec: spec.clone(),
                client_request_id: request.clone(),
                attach,
                secrets: BTreeMap::new(),
                snapshot: self.snapshot.clone(),
                wait: true,
                follow: false,
                progress: true,
            };
            let mut events = self.client.submit(submit).await?;
            let (job, reattached) = accepted(&mut events).await?;
            if reattached && attach && self.is_stale(&job).await? {
                attach = false;
                continue;
            }
            self.call.submitted.add(&job);
            let is_done = self.wait(index, &mut events, &job).await?;
            return Ok(Stand { job, reattached, is_done });
        }
    }

    /// Whether files of the project are newer than a job that ran, or runs, on them as they are.
    async fn is_stale(&self, job: &str) -> Result<bool, ToolError> {
        if self.snapshot.is_some() {
            return Ok(false);
        }
        let result = self.result(job).await?;
        Ok(source::changed_since(&self.directory, result.created_at.as_deref()).await)
    }

    /// Until the job is done (true) or the time is over.
    async fn wait(&self, index: usize, events: &mut JobEvents, job: &str) -> Result<bool, ToolError> {
        loop {
            let Ok(event) = tokio::time::timeout_at(self.deadline, events.next()).await else {
                return Ok(false);
            };
            match event {
                Some(JobEvent::Progress(progress)) => self.call.progress.tell(index, progress),
                Some(JobEvent::Complete(_)) => {
                    let progress = Progress { state: JobState::Done, connected: true, ..Progress::default() };
                    self.call.progress.tell(index, progress);
                    return Ok(true);
                }
                Some(JobEvent::Failed(error)) => {
                    return Err(ToolError::Pool { error, job: Some(job.to_owned()) });
                }
                None => {
                    return Err(ToolError::Pool { error: ClientError::Closed, job: Some(job.to_owned()) });
                }
                Some(
                    JobEvent::Accepted { .. }
                    | JobEvent::Attempt(_)
                    | JobEvent::Output(_)
                    | JobEvent::End(_)
                    | JobEvent::OutputLost(_),
                ) => {}
            }
        }
    }
}

/// The first thing that is said to a submit: as which job it is on disk.
async fn accepted(events: &mut JobEvents) -> Result<(String, bool), ToolError> {
    loop {
        match events.next().await {
            Some(JobEvent::Accepted { job, reattached }) => return Ok((job.to_string(), reattached)),
            Some(JobEvent::Failed(error)) => return Err(error.into()),
            Some(_) => {}
            None => return Err(ClientError::Closed.into()),
        }
    }
}
