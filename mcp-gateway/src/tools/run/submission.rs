//! Takes the snapshot of a call and submits its jobs.

use super::{Options, Task};
use crate::pool::Pool;
use crate::progress::Reporter;
use crate::tools::call::{Submitted, all, jobs_of};
use crate::tools::file_listing::{Since, Tree};
use crate::tools::{ToolError, source};
use buildpool_client::project::Configuration;
use buildpool_client::{Client, ClientError, JobEvent, JobEvents, StdinWriter, new_job_id};
use buildpool_protocol::client_link::{SubmitMessage, View};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::outcome::Seal;
use buildpool_protocol::report::JobState;
use buildpool_protocol::spec::{Command, JobSpec};
use buildpool_protocol::stdin::Stdin;
use buildpool_telemetry::{OpenSpan, SpanKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Longest run without a choice by the caller, in seconds.
const TIMEOUT_SECS: u64 = 3_600;

/// A submitted job.
pub(super) struct SubmittedJob {
    pub(super) id: String,
    /// The build that it is part of.
    pub(super) build: Option<BuildId>,
    /// An earlier call's: the command of that.
    pub(super) reattached: Option<String>,
    /// Files that came since that was submitted.
    pub(super) new_files: Vec<String>,
    pub(super) events: JobEvents,
}

/// The jobs that a call has submitted.
pub(super) struct SubmittedJobs {
    pub(super) client: Client,
    pub(super) jobs: Vec<SubmittedJob>,
    /// For several: the build that has these jobs and no others.
    pub(super) build: Option<BuildId>,
}

/// All that it takes to submit, owned: it may outlive its call.
pub(super) struct Submission {
    pub(super) pool: Arc<Pool>,
    pub(super) progress: Arc<Reporter>,
    pub(super) submitted: Arc<Submitted>,
    pub(super) trace: Option<String>,
    pub(super) options: Arc<Options>,
    pub(super) task: Task,
}

impl Submission {
    pub(super) async fn run(self) -> Result<SubmittedJobs, ToolError> {
        self.progress.stage("reaching the pool");
        let client = self.pool.client().await?;
        self.progress.stage("reading the working tree and sending its changes");
        let taking = OpenSpan::begin("take snapshot", SpanKind::Internal, self.trace.as_deref());
        let source = source::of(&client, &self.task.directory).await?;
        drop(taking);
        // Before the job can write anything.
        let tree = if source.in_place { Tree::around(&self.task.directory).await } else { None };
        self.progress.stage("submitting");
        let spec = self.spec(&source)?;
        let on = &self.options.on;
        if on.is_empty() {
            let request = self.options.client_request_id.clone();
            let job = self.submit(&client, spec, &source, tree.as_ref(), request, true).await?;
            return Ok(SubmittedJobs { client, jobs: vec![job], build: None });
        }
        let build = BuildId::from_uuid(uuid::Uuid::now_v7());
        let submits = on.iter().enumerate().map(|(index, set)| {
            let mut spec = spec.clone();
            spec.build = Some(build);
            spec.selectors.extend(set.iter().cloned());
            let request = self.options.client_request_id.as_ref().map(|text| format!("{text}#{index}"));
            // Two equal jobs of one build are meant as two.
            self.submit(&client, spec, &source, tree.as_ref(), request, !on[..index].contains(set))
        });
        let jobs = all(submits).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let build = build_of(&client, &jobs).await?;
        Ok(SubmittedJobs { client, jobs, build })
    }

    fn spec(&self, source: &source::JobSource) -> Result<JobSpec, ToolError> {
        let (options, task) = (&self.options, &self.task);
        let mut spec = JobSpec::new(Command::Shell(task.command.clone()), source.source.clone());
        spec.project.clone_from(&source.project);
        spec.env = if source.in_place {
            spec.given_env = options.env.keys().cloned().collect();
            source::environment(&task.directory, &options.env)
        } else {
            options.env.clone()
        };
        spec.selectors.clone_from(&options.selectors);
        spec.concurrency_group.clone_from(&options.concurrency_group);
        spec.timeout = Some(options.timeout.unwrap_or(Duration::from_secs(TIMEOUT_SECS)));
        spec.timeout_is_default = options.timeout.is_none();
        spec.verbosity = options.verbosity;
        spec.purpose = task.purpose;
        spec.template.clone_from(&options.template);
        spec.reports.clone_from(if options.reports.is_empty() { &task.reports } else { &options.reports });
        spec.artifacts.clone_from(&options.artifacts);
        spec.setup.clone_from(&source.setup);
        spec.quarantine = Configuration::load(&task.directory).quarantine();
        spec.stdin = task.stdin.as_ref().map(|text| {
            let blake3 = blake3::hash(text).to_hex().to_string();
            Stdin { seal: Some(Seal { length: text.len() as u64, blake3 }) }
        });
        spec.check()?;
        Ok(spec)
    }

    /// Submits; the writer is for the standard input of a job that has one.
    async fn begin(
        &self,
        client: &Client,
        submit: SubmitMessage,
    ) -> Result<(JobEvents, Option<StdinWriter>), ToolError> {
        if submit.spec.stdin.is_none() {
            return Ok((client.submit(submit).await?, None));
        }
        if !client.pool().stdin {
            return Err(ToolError::NoStdin);
        }
        let (events, writer) = client.submit_with_stdin(submit).await?;
        Ok((events, Some(writer)))
    }

    async fn submit(
        &self,
        client: &Client,
        spec: JobSpec,
        source: &source::JobSource,
        tree: Option<&Arc<Tree>>,
        request: Option<String>,
        may_attach: bool,
    ) -> Result<SubmittedJob, ToolError> {
        let mut attach = request.is_none() && may_attach;
        loop {
            let mut submitting = OpenSpan::begin("submit", SpanKind::Client, self.trace.as_deref());
            let submit = SubmitMessage {
                job: new_job_id(),
                spec: JobSpec { trace: submitting.traceparent(), ..spec.clone() },
                client_request_id: request.clone(),
                attach,
                secrets: BTreeMap::new(),
                snapshot: source.info.clone(),
                wait: true,
                follow: false,
                progress: true,
            };
            let (mut events, writer) = self.begin(client, submit).await?;
            let (job, is_earlier) = accepted(&mut events).await?;
            submitting.set("cicd.pipeline.run.id", job.clone());
            submitting.set("buildpool.reattached", is_earlier);
            drop(submitting);
            if let (Some(mut writer), Some(text)) = (writer, &self.task.stdin) {
                // The pool stores all of it at once, whether the command reads it or not.
                writer.write(text.clone()).await;
                writer.finish(None).await;
            }
            let (mut build, mut reattached, mut new_files) = (spec.build, None, Vec::new());
            if is_earlier {
                let earlier = client.job(&job, View::default(), Duration::ZERO).await?;
                // A result for other files is not valid for this call. Files that appear while a job runs may be its own,
                // and a second job would write them too.
                if attach && source.in_place {
                    let (directory, moment) = (&self.task.directory, earlier.created_at.as_deref());
                    match self.pool.listings.since(&job, tree.cloned(), directory, moment).await {
                        Since::Same => {}
                        Since::NewFiles(files) if earlier.state != JobState::Done => new_files = files,
                        Since::NewFiles(_) | Since::Changed => {
                            attach = false;
                            continue;
                        }
                    }
                }
                build = earlier.request_id.as_deref().and_then(BuildId::from_request_id);
                reattached = Some(earlier.command);
            } else if let Some(tree) = tree {
                self.pool.listings.add(&job, tree.listing());
            }
            self.submitted.add(&job);
            return Ok(SubmittedJob { id: job, build, reattached, new_files, events });
        }
    }
}

/// Returns the build that has exactly these jobs: this call's own, or an earlier one.
async fn build_of(client: &Client, jobs: &[SubmittedJob]) -> Result<Option<BuildId>, ToolError> {
    let Some(build) = jobs.first().and_then(|job| job.build) else { return Ok(None) };
    if jobs.iter().any(|job| job.build != Some(build)) {
        return Ok(None);
    }
    if jobs.iter().all(|job| job.reattached.is_none()) {
        return Ok(Some(build));
    }
    let known: BTreeSet<String> = jobs_of(client, build).await?.into_iter().collect();
    let these = jobs.iter().map(|job| job.id.clone()).collect();
    Ok((known == these).then_some(build))
}

/// The answer to a submit: the id of the stored job.
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
