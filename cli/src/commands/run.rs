//! `buildpool run`: the spec is made here, the job is watched in [`watch`].

mod build;
mod input;
mod spec;
mod watch;

use crate::arguments::{Fallback, OutputForm, RunArguments};
use crate::failure::{Failure, POOL};
use crate::settings;
use crate::terminal;
use buildpool_client::snapshot::{Options, Snapshot, take_and_deliver};
use buildpool_client::{Client, ClientError, JobEvent, JobEvents, Target, chain, new_job_id};
use buildpool_protocol::client_link::{SubmitMessage, View};
use buildpool_protocol::limits::TEXT_BYTES_MAX;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::is_trace_context;
use buildpool_protocol::stdin::Stdin;
use buildpool_telemetry::{ENVIRONMENT_VARIABLE, OpenSpan, SpanKind};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Every failure in here is the pool's, not the command's.
pub(crate) fn run(arguments: RunArguments) -> Result<ExitCode, Failure> {
    let _traces = super::trace("buildpool-cli");
    super::block_on(traced(arguments)).map_err(Failure::of_run)
}

async fn traced(arguments: RunArguments) -> Result<ExitCode, Failure> {
    let inherited = std::env::var(ENVIRONMENT_VARIABLE).ok().filter(|trace| is_trace_context(trace));
    let mut span = OpenSpan::begin("buildpool run", SpanKind::Internal, inherited.as_deref());
    span.set("process.command_line", arguments.command.join(" "));
    let trace = span.traceparent();
    let ended = submit(arguments, trace).await;
    if let Err(failure) = &ended {
        span.fail("pool", failure.message());
    }
    ended
}

async fn submit(arguments: RunArguments, trace: Option<String>) -> Result<ExitCode, Failure> {
    let requested = spec::RunRequest::from_arguments(&arguments)?;
    let (client, fallback) = reach(&arguments).await?;
    let snapshot = match requested.snapshot(&arguments, client.pool().local) {
        Some(options) => Some(bring(&client, options, trace.as_deref()).await?),
        None => {
            // A snapshot has them in its own notes.
            requested.configuration_notes.iter().for_each(|note| terminal::warn(note));
            None
        }
    };
    let (mut spec, secrets) = requested.into_spec(&arguments, snapshot.as_deref())?;
    spec.fallback = fallback;
    spec.trace.clone_from(&trace);
    let has_input = !arguments.no_stdin && terminal::has_input();
    if !arguments.no_stdin && terminal::has_directory_as_input() {
        terminal::warn(
            "standard input is a directory, which can't be read: the job reads an empty one; give it a file or a pipe",
        );
    }
    if has_input && client.pool().stdin {
        spec.stdin = Some(Stdin::default());
    } else if has_input {
        terminal::warn("this coordinator is older and takes no standard input: the job reads an empty one");
    }
    if arguments.several || !arguments.on.is_empty() {
        let info = snapshot.map(|snapshot| snapshot.info());
        return build::Build::submit(client, &arguments, spec, secrets, info).await?.finish(&arguments).await;
    }
    let submitting = OpenSpan::begin("submit", SpanKind::Client, trace.as_deref());
    spec.trace = submitting.traceparent();
    let streams = arguments.output == OutputForm::Stream;
    let on_terminal = io::stderr().is_terminal();
    let submit = SubmitMessage {
        job: new_job_id(),
        spec,
        client_request_id: None,
        attach: false,
        secrets,
        snapshot: snapshot.map(|snapshot| snapshot.info()),
        wait: !arguments.detach,
        follow: streams && !arguments.detach,
        // On a terminal for its line, elsewhere for the word on why it waits.
        progress: !arguments.detach && (on_terminal || arguments.output != OutputForm::Json),
    };
    if arguments.detach {
        return detach(&client, submit, submitting).await;
    }
    let traced = watch::Traced { submitting: Some(submitting), trace };
    watch::Watch::start(client, submit, traced, arguments.output, on_terminal).await?.finish().await
}

/// Returns the requested pool. If it can't be reached and `--fallback local` is set, returns the local pool and the reason.
async fn reach(arguments: &RunArguments) -> Result<(Client, Option<String>), Failure> {
    let target = settings::target(&arguments.pool)?;
    match (Client::connect(target, settings::CLIENT).await, arguments.fallback) {
        (Err(error @ ClientError::Unreachable { .. }), Some(Fallback::Local)) => {
            let reason =
                format!("{}; ran on this machine's own pool instead (--fallback local)", chain(&error));
            terminal::warn(&reason);
            let own = Client::connect(Target::Local(settings::local()?), settings::CLIENT).await?;
            let end = reason.floor_char_boundary(TEXT_BYTES_MAX);
            Ok((own, Some(reason[..end].to_owned())))
        }
        (connected, _) => Ok((connected?, None)),
    }
}

/// Takes a snapshot, sends the objects that the pool lacks, and prints a note on omitted files.
async fn bring(client: &Client, options: Options, trace: Option<&str>) -> Result<Arc<Snapshot>, Failure> {
    let _span = OpenSpan::begin("take snapshot", SpanKind::Internal, trace);
    let snapshot =
        take_and_deliver(client, options).await.map_err(|error| Failure::from_error(POOL, &error))?;
    for warning in snapshot.warnings() {
        terminal::warn(&warning);
    }
    Ok(snapshot)
}

/// Submits, and begins to send standard input where the job reads it.
async fn start(
    client: &Client,
    submit: SubmitMessage,
) -> Result<(JobEvents, Option<JoinHandle<()>>), ClientError> {
    if submit.spec.stdin.is_none() {
        return Ok((client.submit(submit).await?, None));
    }
    let (events, writer) = client.submit_with_stdin(submit).await?;
    Ok((events, Some(input::forward(writer))))
}

/// Prints the job's id, and leaves the job to the pool.
async fn detach(
    client: &Client,
    submit: SubmitMessage,
    mut submitting: OpenSpan,
) -> Result<ExitCode, Failure> {
    let (mut events, feeding) = start(client, submit).await?;
    match events.next().await {
        Some(JobEvent::Accepted { job, .. }) => {
            submitting.set("cicd.pipeline.run.id", job.to_string());
            drop(submitting);
            let now = client.job(&job.to_string(), View::default(), Duration::ZERO).await?;
            if now.verdict == Some(Verdict::Rejected) {
                let why = now.cause.map_or_else(|| "it can't be run".to_owned(), |cause| cause.text);
                return Err(Failure::new(POOL, format!("job {job} was rejected: {why}")));
            }
            terminal::print(&format!("{job}\n"))?;
            if let Some(feeding) = feeding {
                // It ends by itself; a failure of the task would be a bug that costs the job its input.
                let _ended = feeding.await;
            }
            Ok(ExitCode::SUCCESS)
        }
        Some(JobEvent::Failed(error)) => Err(error.into()),
        Some(_) | None => Err(Failure::new(POOL, "the pool did not confirm that it accepted the job")),
    }
}
