//! The spans of an attempt on its worker. They are below the trace of the grant.
//!
//! Process and setup have the times of the outcome, which is on disk. So a restart of the daemon changes no span. The
//! preparation has no times on disk, because an attempt that is being prepared does not survive its daemon.

use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::{Ending, Outcome, StartFailure};
use buildpool_protocol::spec::{Command, JobSpec, Source};
use buildpool_telemetry::{self as telemetry, Place, Span};

/// Returns the trace for the environment of the command, if its submitter requested it. Spans of the command are below the
/// span of its process.
pub(super) fn trace_of_process(spec: &JobSpec, attempt: AttemptId) -> Option<String> {
    match (spec.trace_env, telemetry::is_on()) {
        (false, _) => None,
        (true, true) => Some(place(spec, attempt, "process").traceparent()),
        (true, false) => spec.trace.clone(),
    }
}

/// Sends the span of a preparation that has ended.
pub(super) fn prepared(
    spec: &JobSpec,
    attempt: AttemptId,
    from_ms: i64,
    to_ms: i64,
    failure: Option<&StartFailure>,
) {
    if !telemetry::is_on() {
        return;
    }
    let (name, snapshot) = match &spec.source {
        Source::Snapshot { id, .. } => ("fetch snapshot", Some(id.clone())),
        Source::InPlace { .. } | Source::Empty => ("prepare", None),
    };
    let span = Span::new(&place(spec, attempt, "prepare"), name, from_ms, to_ms)
        .with_some("buildpool.snapshot.id", snapshot);
    match failure {
        None => span.record(),
        Some(failure) => not_started(span, failure).record(),
    }
}

/// Sends the spans of an attempt whose outcome is complete.
pub(super) fn concluded(spec: &JobSpec, attempt: AttemptId, outcome: &Outcome, now_ms: i64) {
    let Some(started_at_ms) = outcome.started_at_ms.filter(|_| telemetry::is_on()) else { return };
    let ended_at_ms = outcome.finished_at_ms;
    let setup = outcome.setup.as_ref();
    if let Some(setup) = setup {
        // If it failed, the command did not run, and the times are those of the setup.
        let took_ms = i64::try_from(setup.duration.as_millis()).unwrap_or(i64::MAX);
        let (from_ms, to_ms) = match setup.passed() {
            true => (started_at_ms.saturating_sub(took_ms), started_at_ms),
            false => (started_at_ms, ended_at_ms),
        };
        let span = Span::new(&place(spec, attempt, "setup"), "setup", from_ms, to_ms)
            .with("process.command_line", setup.command.clone());
        ended(span, &setup.ending).record();
    }
    if setup.is_none_or(|setup| setup.passed()) {
        let program = match &spec.command {
            Command::Shell(_) => "sh",
            Command::Argv(argv) => argv.first().map_or("", |program| program.as_str()),
        };
        let span = Span::new(&place(spec, attempt, "process"), "process", started_at_ms, ended_at_ms)
            .with("process.command_line", spec.command.to_string())
            .with("process.executable.name", program.rsplit('/').next().unwrap_or(program).to_owned());
        ended(span, &outcome.ending).record();
    }
    Span::new(&place(spec, attempt, "evidence"), "collect evidence", ended_at_ms, now_ms)
        .with("buildpool.artifacts", outcome.artifacts.len() as i64)
        .record();
}

fn ended(span: Span, ending: &Ending) -> Span {
    match ending {
        Ending::Exited { code: 0 } => span.with("process.exit.code", 0),
        Ending::Exited { code } => span
            .with("process.exit.code", i64::from(*code))
            .failed(code.to_string(), format!("exit code {code}")),
        Ending::Signaled { name, .. } => span.failed(name.clone(), format!("killed by {name}")),
        Ending::NotStarted(failure) => not_started(span, failure),
        Ending::Unobserved { reason } => span.failed("unobserved", reason.clone()),
    }
}

fn not_started(span: Span, failure: &StartFailure) -> Span {
    match failure {
        StartFailure::NotFound { program } => span.failed("not_found", program.clone()),
        StartFailure::NotExecutable { reason, .. } => span.failed("not_executable", reason.clone()),
        StartFailure::Directory { reason, .. } => span.failed("directory", reason.clone()),
        StartFailure::Workspace { reason } => span.failed("workspace", reason.clone()),
        StartFailure::Resources { reason } => span.failed("resources", reason.clone()),
    }
}

fn place(spec: &JobSpec, attempt: AttemptId, part: &str) -> Place {
    let job = *attempt.job.as_uuid().as_bytes();
    Place::of_job(spec.trace.as_deref(), job, &format!("{part} {}", attempt.number))
}
