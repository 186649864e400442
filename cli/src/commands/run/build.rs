//! Several jobs of one call: one command on several label sets, several commands, or both. All use
//! one tree and give one answer.

use super::input;
use super::watch::terminated;
use crate::arguments::{LabelSet, OutputForm, RunArguments};
use crate::commands::waiting::Waiting;
use crate::exit;
use crate::failure::{Failure, INTERRUPTED, POOL, USAGE};
use crate::terminal;
use buildpool_client::{Client, ClientError, JobEvent, JobEvents, StdinWriter, new_job_id};
use buildpool_gateway::builds;
use buildpool_protocol::client_link::{Secret, SubmitMessage};
use buildpool_protocol::ids::BuildId;
use buildpool_protocol::limits::BUILD_JOBS_MAX;
use buildpool_protocol::report::{JobResult, SnapshotInfo, Verdict};
use buildpool_protocol::spec::{Command, JobSpec};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};

/// Separator between commands.
const SEPARATOR: &str = ":::";

/// The jobs of a submitted build.
pub(super) struct Build {
    client: Client,
    id: BuildId,
    jobs: Vec<(String, JobEvents)>,
    /// The standard inputs on their way to the jobs.
    inputs: Vec<JoinHandle<()>>,
}

impl Build {
    /// Submits all jobs. If one of them is refused, the earlier ones are cancelled.
    ///
    /// # Errors
    /// If the commands or labels are invalid, or the pool refuses a job.
    pub(super) async fn submit(
        client: Client,
        arguments: &RunArguments,
        spec: JobSpec,
        secrets: BTreeMap<String, Secret>,
        snapshot: Option<SnapshotInfo>,
    ) -> Result<Self, Failure> {
        let mut build = Self { client, id: builds::new_id(), jobs: Vec::new(), inputs: Vec::new() };
        let mut writers = Vec::new();
        for spec in specs(arguments, &spec, build.id)? {
            // The waiting reason of the first job is printed for all jobs.
            let progress = build.jobs.is_empty() && !arguments.detach && arguments.output != OutputForm::Json;
            let submit = SubmitMessage {
                job: new_job_id(),
                spec,
                client_request_id: None,
                attach: false,
                secrets: secrets.clone(),
                snapshot: snapshot.clone(),
                wait: !arguments.detach,
                follow: false,
                progress,
            };
            match accepted(&build.client, submit).await {
                Ok((job, events, writer)) => {
                    build.jobs.push((job, events));
                    writers.extend(writer);
                }
                Err(error) => {
                    build.cancel("another job of its build was refused").await;
                    return Err(error.into());
                }
            }
        }
        if !writers.is_empty() {
            build.inputs = input::forward_to_each(writers);
        }
        Ok(build)
    }

    /// Waits for the end of all jobs and prints the manifest. Returns the exit code of a rejected
    /// job, else of the first job without success.
    ///
    /// # Errors
    /// If the pool is not reachable any more.
    pub(super) async fn finish(mut self, arguments: &RunArguments) -> Result<ExitCode, Failure> {
        if arguments.detach {
            for input in std::mem::take(&mut self.inputs) {
                // It ends by itself; a failure of the task would be a bug that costs the job its input.
                let _ended = input.await;
            }
            terminal::print(&format!("{}\n", builds::name(self.id)))?;
            return Ok(ExitCode::SUCCESS);
        }
        let results = self.wait().await?;
        let manifest = builds::manifest(&self.client, self.id, arguments.verbosity, None).await?;
        match arguments.output {
            OutputForm::Json => terminal::print_json(&manifest.structured)?,
            OutputForm::Stream | OutputForm::Digest => {
                terminal::print(&format!("{}\n", manifest.text.trim_end()))?;
            }
        }
        let rejected = results.iter().find(|result| result.verdict == Some(Verdict::Rejected));
        let bad = rejected.or_else(|| results.iter().find(|result| !result.success));
        Ok(bad.map_or(ExitCode::SUCCESS, |result| ExitCode::from(exit::code(result))))
    }

    async fn wait(&mut self) -> Result<Vec<JobResult>, Failure> {
        let mut interrupt = signal(SignalKind::interrupt())
            .map_err(|error| Failure::while_doing(POOL, "Ctrl-C can't be listened for", &error))?;
        let mut terminate = signal(SignalKind::terminate())
            .map_err(|error| Failure::while_doing(POOL, "SIGTERM can't be listened for", &error))?;
        let mut waits = JoinSet::new();
        for (index, (_, mut events)) in std::mem::take(&mut self.jobs).into_iter().enumerate() {
            waits.spawn(async move { (index, ended(&mut events).await) });
        }
        let mut results = BTreeMap::new();
        let mut is_cancelled = false;
        loop {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {
                    let name = builds::name(self.id);
                    if is_cancelled {
                        let text = format!("leaving; the jobs of {name} are being cancelled");
                        return Err(Failure::new(INTERRUPTED, text));
                    }
                    is_cancelled = true;
                    terminal::warn(&format!("cancelling the jobs of {name}; Ctrl-C again leaves without waiting"));
                    self.cancel("Ctrl-C").await;
                }
                _ = terminate.recv() => return Err(terminated(&self.goes_on())),
                done = waits.join_next() => match done {
                    Some(Ok((index, result))) => {
                        let result = result.map_err(|error| Failure::from(error).and(&self.goes_on()))?;
                        // A build can't succeed if one of its jobs can never run, so cancel the
                        // others.
                        if result.verdict == Some(Verdict::Rejected) && !is_cancelled {
                            is_cancelled = true;
                            self.refused(&result).await;
                        }
                        results.insert(index, result);
                    }
                    Some(Err(_)) => return Err(ClientError::Closed.into()),
                    None => return Ok(results.into_values().collect()),
                },
            }
        }
    }

    /// Returns the message that the jobs continue without this client, with commands to find them.
    fn goes_on(&self) -> String {
        let name = builds::name(self.id);
        format!(
            "the jobs of {name} are not affected: `buildpool job {name}` shows them, `buildpool wait {name}` waits for their end"
        )
    }

    /// Prints why the job was rejected, and cancels the other jobs.
    async fn refused(&self, result: &JobResult) {
        for text in exit::warnings(result) {
            terminal::warn(&text);
        }
        self.cancel("another job of its build was rejected").await;
    }

    /// Cancels all jobs of the build. A finished job does not change.
    async fn cancel(&self, reason: &str) {
        let limit = BUILD_JOBS_MAX as u32;
        let Ok(jobs) = self.client.jobs(None, Some(self.id), limit).await else { return };
        for job in jobs {
            drop(self.client.cancel(&job.job_id, reason).await);
        }
    }
}

/// Returns one spec for each command on each label set.
fn specs(arguments: &RunArguments, spec: &JobSpec, build: BuildId) -> Result<Vec<JobSpec>, Failure> {
    let commands: Vec<&[String]> = if arguments.several {
        arguments.command.split(|word| word == SEPARATOR).collect()
    } else {
        vec![&arguments.command]
    };
    if commands.iter().any(|command| command.is_empty()) {
        let text = format!("--several: there is no command on one side of a `{SEPARATOR}`");
        return Err(Failure::new(USAGE, text));
    }
    let everywhere = [LabelSet(Vec::new())];
    let on: &[LabelSet] = if arguments.on.is_empty() { &everywhere } else { &arguments.on };
    let jobs = commands.len() * on.len();
    if jobs > BUILD_JOBS_MAX {
        let text = format!("this build would have {jobs} jobs; at most {BUILD_JOBS_MAX} are valid");
        return Err(Failure::new(USAGE, text));
    }
    let mut specs = Vec::with_capacity(jobs);
    for LabelSet(labels) in on {
        for command in &commands {
            let mut spec = spec.clone();
            spec.build = Some(build);
            spec.command = Command::Argv(command.to_vec());
            spec.selectors.extend(labels.iter().cloned());
            spec.check().map_err(|error| Failure::from_error(USAGE, &error))?;
            specs.push(spec);
        }
    }
    Ok(specs)
}

/// Waits until the job is accepted. Returns its id and its later events.
/// Submits a job, and returns it with the writer of its standard input, if it reads one.
async fn accepted(
    client: &Client,
    submit: SubmitMessage,
) -> Result<(String, JobEvents, Option<StdinWriter>), ClientError> {
    let (mut events, writer) = match submit.spec.stdin {
        None => (client.submit(submit).await?, None),
        Some(_) => {
            let (events, writer) = client.submit_with_stdin(submit).await?;
            (events, Some(writer))
        }
    };
    loop {
        match events.next().await {
            Some(JobEvent::Accepted { job, .. }) => return Ok((job.to_string(), events, writer)),
            Some(JobEvent::Failed(error)) => return Err(error),
            Some(_) => {}
            None => return Err(ClientError::Closed),
        }
    }
}

async fn ended(events: &mut JobEvents) -> Result<JobResult, ClientError> {
    let mut waiting = Waiting::default();
    loop {
        match events.next().await {
            Some(JobEvent::Complete(result)) => return Ok(*result),
            Some(JobEvent::Failed(error)) => return Err(error),
            Some(JobEvent::Progress(progress)) => {
                if let Some(text) = waiting.note(&progress, Instant::now()) {
                    terminal::warn(&text);
                }
            }
            Some(_) => {}
            None => return Err(ClientError::Closed),
        }
    }
}
