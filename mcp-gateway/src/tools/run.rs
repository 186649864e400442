//! Runs a command as a job: the common part of `run_command`, `run_tests` and `build`.

mod submission;

use super::arguments::{ArgumentError, Arguments};
use super::call::{Call, Reply, all, build_answer, view};
use super::{ToolError, share};
use crate::pictures;
use crate::render::{self, Answer, Extras};
use buildpool_client::project::{self, ChooseError, Goal, Templates};
use buildpool_client::{Client, ClientError, JobEvent};
use buildpool_protocol::client_link::Progress;
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits;
use buildpool_protocol::report::{JobResult, JobState, Verdict};
use buildpool_protocol::spec::{Command, Purpose, Selector, TemplateSpec, Verbosity, check_artifact};
use buildpool_telemetry::{OpenSpan, SpanKind};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use submission::{Submission, SubmittedJob};
use tokio::task::JoinSet;

/// Limit on the search for names of tests.
const NAMES_WAIT_MAX: Duration = Duration::from_secs(3);

/// Options from the caller.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) directory: PathBuf,
    env: BTreeMap<String, String>,
    pub(super) selectors: Vec<Selector>,
    pub(super) on: Vec<Vec<Selector>>,
    /// `None` if the caller gave no timeout.
    timeout: Option<Duration>,
    verbosity: Verbosity,
    template: Option<TemplateSpec>,
    reports: Vec<String>,
    artifacts: Vec<String>,
    client_request_id: Option<String>,
    /// Pictures among the artifacts are part of the answer.
    show_artifacts: bool,
    /// The group of the project's configuration, of which one job runs at a time.
    concurrency_group: Option<String>,
}

/// The command to run.
pub(super) struct Task {
    pub(super) command: String,
    pub(super) directory: PathBuf,
    pub(super) reports: Vec<String>,
    /// Why this command, where it was chosen.
    pub(super) chosen: Option<String>,
    /// Selects the content of the answer to a passed job.
    pub(super) purpose: Purpose,
    /// The filter of the tests, if there is one.
    pub(super) filter: Option<String>,
    /// The standard input; empty if absent.
    pub(super) stdin: Option<Bytes>,
}

impl Task {
    /// The command that was given, else the one that is chosen for the directory.
    pub(super) async fn of(
        call: &Call,
        options: &Options,
        command: Option<String>,
        goal: Goal<'_>,
    ) -> Result<Self, ToolError> {
        let configuration = call.project.configuration_of(&options.directory);
        let top = call.project.top_of(&options.directory);
        let purpose = match goal {
            Goal::Test { .. } => Purpose::Tests,
            Goal::Build { .. } => Purpose::Build,
        };
        let filter = match goal {
            Goal::Test { filter } => filter.map(str::to_owned),
            Goal::Build { .. } => None,
        };
        if let Some(command) = command {
            let (directory, reports) = (options.directory.clone(), Vec::new());
            return Ok(Self { command, directory, reports, chosen: None, purpose, filter, stdin: None });
        }
        let processors = share::of(call, options).await;
        let chosen = project::choose(&configuration, &options.directory, &top, goal, processors)?;
        let why = format!("{}, because {}", chosen.command, chosen.because);
        Ok(Self {
            command: chosen.command,
            directory: chosen.directory,
            reports: chosen.reports,
            chosen: Some(render::reason(&why)),
            purpose,
            filter,
            stdin: None,
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
        // The call's deadline is made of it.
        arguments.number("wait_secs", 0, longest)?;
        let template = arguments.text("template")?;
        let directory = call.project.directory_of(cwd.as_deref())?;
        let template = named_template(&arguments, &call.project.templates_of(&directory), template)?;
        let configuration = call.project.configuration_of(&directory);
        let group = configuration.concurrency_group_of(&call.project.top_of(&directory));
        let concurrency_group = group.map_err(ChooseError::Configuration)?.map(str::to_owned);
        let options = Self {
            directory,
            env: arguments.variables("env")?,
            selectors: selectors(&arguments, "labels", &labels)?,
            on: on.iter().map(|set| selectors(&arguments, "on", set)).collect::<Result<_, _>>()?,
            timeout: arguments.number("timeout_secs", 1, longest)?.map(Duration::from_secs),
            verbosity: arguments.word("verbosity")?.unwrap_or_default(),
            template,
            reports: arguments.texts("reports")?,
            artifacts,
            client_request_id: arguments.text("client_request_id")?,
            show_artifacts: arguments.flag("show_artifacts")?,
            concurrency_group,
        };
        arguments.finish()?;
        Ok(options)
    }
}

/// The template of this name, of those that hold where the command runs.
pub(super) fn named_template(
    arguments: &Arguments,
    templates: &Templates,
    name: Option<String>,
) -> Result<Option<TemplateSpec>, ArgumentError> {
    let Some(name) = name else { return Ok(None) };
    match templates.get(&name) {
        Some(template) => Ok(Some(template.clone())),
        None => {
            let mut reason = format!("{name:?} is unknown; valid are {}", templates.names().join(", "));
            if let Some(problem) = templates.problem_of(&name) {
                reason = format!("{name:?} can't be used: {problem}");
            }
            // The author of the file must not control this answer.
            let reason = render::reason(&reason);
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
    let options = Arc::new(options);
    let extras = Extras { chosen: task.chosen.clone(), ..call.extras(options.verbosity) };
    let requested = Command::Shell(task.command.clone()).to_string();
    let selection = task.filter.clone().map(|filter| (task.directory.clone(), filter));
    let start = Submission {
        pool: call.pool.clone(),
        progress: call.progress.clone(),
        submitted: call.submitted.clone(),
        trace: call.trace.clone(),
        options: options.clone(),
        task,
    };
    // A submit that is in progress at the deadline continues without this call, and an equal call finds its job.
    let mut starting = JoinSet::new();
    starting.spawn(start.run());
    let Ok(started) = tokio::time::timeout_at(call.answer_by, starting.join_next()).await else {
        starting.detach_all();
        return Err(ToolError::Starting);
    };
    let started = started.and_then(Result::ok).unwrap_or(Err(ClientError::Closed.into()))?;
    WaitingCall { client: started.client, call, options, extras, requested, selection }
        .to_the_end(started.jobs, started.build)
        .await
}

/// Returns true if a test run ended without a test.
fn ran_no_test(result: &JobResult) -> bool {
    let ran = result.tests.as_ref().map_or(0, |tests| tests.total - tests.skipped);
    result.verdict == Some(Verdict::Inconclusive) && ran == 0
}

/// Returns the names of the project's tests that are similar to a filter. Returns an empty list if the
/// search takes too long.
async fn similar_names(directory: PathBuf, filter: String) -> Vec<String> {
    let search = tokio::task::spawn_blocking(move || project::similar(&directory, &filter));
    tokio::time::timeout(NAMES_WAIT_MAX, search).await.ok().and_then(Result::ok).unwrap_or_default()
}

struct WaitingCall<'a> {
    client: Client,
    call: &'a Call,
    options: Arc<Options>,
    extras: Extras,
    requested: String,
    /// The directory and the filter of a test run with a filter.
    selection: Option<(PathBuf, String)>,
}

impl WaitingCall<'_> {
    async fn to_the_end(
        &self,
        mut jobs: Vec<SubmittedJob>,
        build: Option<BuildId>,
    ) -> Result<Reply, ToolError> {
        let waits = jobs.iter_mut().enumerate().map(|(index, job)| self.wait(index, job));
        let is_done =
            all(waits).await.into_iter().collect::<Result<Vec<bool>, _>>()?.into_iter().all(|done| done);
        let is_one = self.options.on.is_empty();
        let name =
            if is_one { jobs.first().map(|job| job.id.clone()) } else { build.map(BuildId::request_id) };
        if let (false, Some(_), Some(name)) = (is_done, self.call.task_after, name) {
            let extras = self.extras_of(&jobs);
            return Ok(Reply::Task(name, Box::new(extras)));
        }
        let _answering = OpenSpan::begin("answer", SpanKind::Internal, self.call.trace.as_deref());
        let results = all(jobs.iter().enumerate().map(|(index, job)| self.result(index, job))).await;
        let mut results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut extras = self.extras_of(&jobs);
        if let (Some((directory, filter)), [result]) = (&self.selection, results.as_slice())
            && ran_no_test(result)
        {
            let names = similar_names(directory.clone(), filter.clone()).await;
            extras.note = Some(render::no_such_test(filter, &names, extras.note.take()));
            extras.no_test_matches = true;
            extras.other_tests = Some(self.other_tests(names.first()));
        }
        let budget = self.call.budget(self.options.verbosity);
        let pictures = match self.options.show_artifacts {
            true => pictures::of(&self.client, &results, self.call.answer_by).await,
            false => Vec::new(),
        };
        let answer = match results.pop() {
            Some(result) if is_one => render::job(result, &extras, &budget),
            last => {
                results.extend(last);
                render::build(&build_answer(&self.client, build, results), &extras, &budget)
            }
        };
        Ok(Reply::Answer(Answer { pictures, ..answer }))
    }

    /// Returns the call that runs the test with the most similar name, or all tests.
    fn other_tests(&self, name: Option<&String>) -> String {
        let mut arguments = serde_json::Map::new();
        arguments.extend(name.map(|name| ("filter".to_owned(), name.as_str().into())));
        let directory = &self.options.directory;
        if self.call.project.directory_of(None).is_ok_and(|project| project != *directory) {
            arguments.insert("cwd".to_owned(), directory.display().to_string().into());
        }
        render::call("run_tests", &arguments.into())
    }

    /// A `client_request_id` selects the same job even for another command, so the note names the command that did not run.
    fn extras_of(&self, jobs: &[SubmittedJob]) -> Extras {
        let mut earlier = jobs.iter().filter_map(|job| job.reattached.as_ref()).peekable();
        let mut extras = self.extras.clone();
        extras.reattached = earlier.peek().is_some();
        extras.by_request_id = extras.reattached && self.options.client_request_id.is_some();
        if extras.by_request_id
            && let Some(other) = earlier.find(|command| **command != self.requested)
        {
            extras.note = Some(render::other_command(other, &self.requested));
        } else if let Some(job) = jobs.iter().find(|job| !job.new_files.is_empty()) {
            extras.note = Some(render::new_files_note(&job.new_files));
        }
        extras
    }

    /// Returns the answer about a job. If the pool does not answer in time, returns the last known state.
    async fn result(&self, index: usize, job: &SubmittedJob) -> Result<JobResult, ToolError> {
        let budget = self.call.budget(self.options.verbosity);
        let view = view(Some(self.options.verbosity), self.options.template.clone(), &budget);
        let requested = self.client.job(&job.id, view, Duration::ZERO);
        match tokio::time::timeout_at(self.call.answer_by, requested).await {
            Ok(result) => result.map_err(|error| ToolError::Pool { error, job: Some(job.id.clone()) }),
            Err(_) => Ok(self.last_known_result(index, job)),
        }
    }

    fn last_known_result(&self, index: usize, job: &SubmittedJob) -> JobResult {
        let last = self.call.progress.last(index);
        // Only the pool reports how a job ended.
        let state = if last.state == JobState::Done { JobState::Sealing } else { last.state };
        JobResult {
            job_id: job.id.clone(),
            command: self.requested.clone(),
            state,
            worker: last.worker,
            waiting: last.waiting,
            notes: vec![
                "the pool did not answer in time: this is the last known state of the job".to_owned(),
            ],
            ..JobResult::default()
        }
    }

    /// Waits until the job is done (true) or the deadline has passed. At the deadline the result counts as not delivered,
    /// so an identical call attaches to the same job, unless files have changed.
    async fn wait(&self, index: usize, job: &mut SubmittedJob) -> Result<bool, ToolError> {
        let error = |error: ClientError, job: &str| Err(ToolError::Pool { error, job: Some(job.to_owned()) });
        loop {
            let Ok(event) = tokio::time::timeout_at(self.call.deadline, job.events.next()).await else {
                return Ok(false);
            };
            match event {
                Some(JobEvent::Progress(progress)) => self.call.progress.record(index, progress),
                Some(JobEvent::Complete(_)) => {
                    let progress = Progress { state: JobState::Done, connected: true, ..Progress::default() };
                    self.call.progress.record(index, progress);
                    return Ok(true);
                }
                Some(JobEvent::Failed(failed)) => return error(failed, &job.id),
                None => return error(ClientError::Closed, &job.id),
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
