//! The spans of a job, from its record.
//!
//! Each time is a stored one, and each id is derived from the id of the job. So a restart of the coordinator, another leader
//! or a lost worker changes no span.

use crate::store::{AttemptEnding, AttemptRecord, DoneRecord, JobRecord};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, Purpose};
use buildpool_telemetry::{self as telemetry, Place, Span, SpanKind};

/// Returns the trace that a grant of an attempt carries to its worker. Without a receiver, it is the submitter's trace.
pub(crate) fn trace_of_attempt(spec: &JobSpec, attempt: AttemptId) -> Option<String> {
    if !telemetry::is_on() {
        return spec.trace.clone();
    }
    let place = place(attempt.job, spec);
    Some(place.part(id(attempt.job), &part("attempt", attempt.number)).traceparent())
}

/// Sends the spans of a job that is done.
pub(crate) fn send(record: &JobRecord) {
    if telemetry::is_on() {
        of_job(record).into_iter().for_each(Span::record);
    }
}

/// Returns the spans of a job that is done.
fn of_job(record: &JobRecord) -> Vec<Span> {
    let Some(done) = &record.done else { return Vec::new() };
    let place = place(record.job, &record.spec);
    let mut spans = vec![job(&place, record, done)];
    let mut queued_since = record.created_at_ms;
    for attempt in &record.attempts {
        spans.push(queue(&place, record, attempt.number, queued_since, attempt.granted_at_ms));
        let counts = done.attempt == Some(attempt.number);
        let ended_at_ms = attempt.ended.as_ref().map_or(done.finished_at_ms, |ended| ended.at_ms);
        let below = place.part(id(record.job), &part("attempt", attempt.number));
        spans.push(task(&below, record, attempt, counts.then_some(done), ended_at_ms));
        if counts {
            spans.extend(ending(&below, record.job, attempt.number, done));
        }
        queued_since = ended_at_ms;
    }
    if done.attempt.is_none() {
        let number = record.attempts.last().map_or(1, |attempt| attempt.number + 1);
        spans.push(queue(&place, record, number, queued_since, done.finished_at_ms));
    }
    spans
}

fn id(job: JobId) -> [u8; 16] {
    *job.as_uuid().as_bytes()
}

fn part(name: &str, attempt: u32) -> String {
    format!("{name} {attempt}")
}

fn place(job: JobId, spec: &JobSpec) -> Place {
    Place::of_job(spec.trace.as_deref(), id(job), "job")
}

/// The run of a pipeline, by the semantic conventions for CI/CD.
fn job(place: &Place, record: &JobRecord, done: &DoneRecord) -> Span {
    let spec = &record.spec;
    let action = if spec.purpose == Purpose::Build { "BUILD" } else { "RUN" };
    let project = spec.project.rsplit('/').next().filter(|name| !name.is_empty());
    let name = project.map_or_else(|| action.to_owned(), |project| format!("{action} {project}"));
    let span = Span::new(place, name, record.created_at_ms, done.finished_at_ms)
        .kind(SpanKind::Server)
        .with("cicd.pipeline.run.id", record.job.to_string())
        .with_some("cicd.pipeline.name", project.map(str::to_owned))
        .with("cicd.pipeline.action.name", action)
        .with("cicd.pipeline.result", result(done.verdict))
        .with("user.name", record.submitter.clone())
        .with("process.command_line", spec.command.to_string())
        .with_some("buildpool.build.id", spec.build.map(|build| build.request_id()))
        .with("buildpool.verdict", done.verdict.name())
        .with("buildpool.attempts", record.attempts.len() as i64);
    failed(span, done)
}

fn queue(place: &Place, record: &JobRecord, number: u32, from_ms: i64, to_ms: i64) -> Span {
    Span::new(&place.part(id(record.job), &part("queue", number)), "queue", from_ms, to_ms)
        .with("cicd.pipeline.run.id", record.job.to_string())
        .with("cicd.pipeline.run.state", "pending")
        .with("buildpool.attempt", i64::from(number))
}

/// The run of a task, by the semantic conventions for CI/CD.
fn task(
    place: &Place,
    record: &JobRecord,
    attempt: &AttemptRecord,
    done: Option<&DoneRecord>,
    ended_at_ms: i64,
) -> Span {
    let name = part("attempt", attempt.number);
    let kind = match record.spec.purpose {
        Purpose::Command => None,
        Purpose::Tests => Some("test"),
        Purpose::Build => Some("build"),
    };
    let span = Span::new(place, name.clone(), attempt.granted_at_ms, ended_at_ms)
        .with("cicd.pipeline.run.id", record.job.to_string())
        .with("cicd.pipeline.task.name", name)
        .with("cicd.pipeline.task.run.id", format!("{}.{}", record.job, attempt.number))
        .with_some("cicd.pipeline.task.type", kind)
        .with("cicd.pipeline.task.run.result", done.map_or("error", |done| result(done.verdict)))
        .with("cicd.worker.id", attempt.worker.to_string())
        .with("cicd.worker.name", attempt.worker_name.clone());
    match (done, attempt.ended.as_ref().map(|ended| &ended.how)) {
        (Some(done), _) => failed(span, done),
        (None, Some(how)) => span.failed(word(how), how.reason().unwrap_or_default()),
        (None, None) => span.failed("lost", "the job ended without this attempt"),
    }
}

/// From the end of the process to the result.
fn ending(attempt: &Place, job: JobId, number: u32, done: &DoneRecord) -> Vec<Span> {
    let Some(sealed_at_ms) = done.sealed_at_ms else { return Vec::new() };
    let place = |name| attempt.part(id(job), &part(name, number));
    let mut spans = vec![Span::new(&place("digest"), "digest", sealed_at_ms, done.finished_at_ms)];
    if let Some(outcome) = &done.outcome {
        let seal = Span::new(&place("seal"), "seal log", outcome.finished_at_ms, sealed_at_ms);
        spans.push(seal.with("buildpool.log.bytes", i64::try_from(outcome.log_length).unwrap_or(i64::MAX)));
    }
    spans
}

fn failed(span: Span, done: &DoneRecord) -> Span {
    if done.verdict == Verdict::Passed {
        return span;
    }
    let kind = match done.crash_type {
        CrashType::None | CrashType::Unknown => done.verdict.name(),
        known => known.name(),
    };
    span.failed(kind, done.cause.as_ref().map(|cause| cause.text.clone()).unwrap_or_default())
}

/// The value of `cicd.pipeline.result`. `error` is a failure of the pool, not of the command.
const fn result(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "success",
        Verdict::Failed | Verdict::Crashed | Verdict::Inconclusive => "failure",
        Verdict::TimedOut => "timeout",
        Verdict::Cancelled => "cancellation",
        Verdict::Lost | Verdict::Rejected => "error",
    }
}

const fn word(how: &AttemptEnding) -> &'static str {
    match how {
        AttemptEnding::Completed => "unused",
        AttemptEnding::Lost { .. } => "lost",
        AttemptEnding::Declined { .. } => "declined",
        AttemptEnding::Retried { .. } => "retried",
        AttemptEnding::Withdrawn => "withdrawn",
    }
}

#[cfg(test)]
mod tests {
    use super::of_job;
    use crate::store::{AttemptEnd, AttemptEnding, AttemptRecord, DoneRecord, JobRecord};
    use buildpool_protocol::ids::{JobId, WorkerId};
    use buildpool_protocol::outcome::CrashType;
    use buildpool_protocol::report::Verdict;
    use buildpool_protocol::spec::{Command, JobSpec, Source};
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;
    use uuid::Uuid;

    fn attempt(number: u32, granted_at_ms: i64, ended: Option<(i64, AttemptEnding)>) -> AttemptRecord {
        AttemptRecord {
            number,
            epoch: number.into(),
            worker: WorkerId::from_uuid(Uuid::nil()),
            worker_name: "mini".into(),
            granted_at_ms,
            started_at_ms: None,
            ended: ended.map(|(at_ms, how)| AttemptEnd { at_ms, how, log_length: 0 }),
            lost_after_ms: None,
            boot: None,
        }
    }

    fn shown(record: &JobRecord) -> Vec<(String, u128, u128)> {
        let ms = |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).expect("later").as_millis();
        let spans = of_job(record);
        let shown = spans.iter().map(|span| (span.name().to_owned(), ms(span.times().0), ms(span.times().1)));
        shown.collect()
    }

    #[test]
    fn a_job_waits_again_after_a_lost_attempt_and_its_spans_cover_its_whole_time() {
        let lost = AttemptEnding::Lost { reason: "its worker is gone".into() };
        let mut record = JobRecord {
            job: JobId::from_uuid(Uuid::now_v7()),
            spec: Arc::new(JobSpec::new(Command::Shell("true".into()), Source::Empty)),
            submitter: "ada".into(),
            principal: "ada".into(),
            token: None,
            client_request_id: None,
            created_at_ms: 10,
            attempts: vec![attempt(1, 20, Some((50, lost))), attempt(2, 70, None)],
            cancel: None,
            snapshot: None,
            done: Some(DoneRecord {
                finished_at_ms: 100,
                sealed_at_ms: Some(90),
                attempt: Some(2),
                verdict: Verdict::Passed,
                exit_code: Some(0),
                crash_type: CrashType::None,
                cause: None,
                outcome: None,
                duration_ms: None,
                tests: None,
                headline: None,
            }),
        };
        let span = |name: &str, from, to| (name.to_owned(), from, to);
        let expected = [
            span("RUN", 10, 100),
            span("queue", 10, 20),
            span("attempt 1", 20, 50),
            span("queue", 50, 70),
            span("attempt 2", 70, 100),
            span("digest", 90, 100),
        ];
        assert_eq!(shown(&record), expected);
        let done = record.done.as_mut().expect("it is done");
        (done.attempt, done.sealed_at_ms) = (None, None);
        record.attempts.pop();
        let expected =
            [span("RUN", 10, 100), span("queue", 10, 20), span("attempt 1", 20, 50), span("queue", 50, 100)];
        assert_eq!(shown(&record), expected);
    }
}
