//! Events about jobs and workers, from the records that change.

use crate::app_state::rfc3339;
use crate::store::{EventKind, JobRecord, NewEvent, Record, WorkerRecord, members};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::report::JobState;
use buildpool_protocol::spec::Source;
use serde_json::json;

/// Maximum length of a command in an event, in characters.
const COMMAND_CHARS_MAX: usize = 200;

/// Returns the event of a job's new state.
pub(super) fn job(job: &JobRecord, state: JobState, at_ms: i64) -> Record {
    let done = job.done.as_ref();
    let attempt = job.attempts.last();
    let (project, commit) = match &job.spec.source {
        Source::Snapshot { project, head, .. } => (Some(project), head.as_ref()),
        Source::InPlace { .. } | Source::Empty => (None, None),
    };
    let command: String = job.spec.command.to_string().chars().take(COMMAND_CHARS_MAX).collect();
    let facts = json!({
        "job_id": job.job,
        "state": state,
        "command": command,
        "submitter": job.submitter,
        "attempt": attempt.map(|attempt| attempt.number),
        "worker": attempt.map(|attempt| &attempt.worker_name),
        "request_id": job.spec.build.map(|build| build.request_id()),
        "project": project,
        "commit": commit,
        "verdict": done.map(|done| done.verdict),
        "exit_code": done.and_then(|done| done.exit_code),
        "duration_secs": done.and_then(|done| done.duration_ms).map(|ms| ms as f64 / 1_000.0),
        "headline": done.and_then(|done| done.headline.as_ref()),
    });
    let submitter = Some(job.submitter.clone());
    Record::Event(Box::new(NewEvent { kind: EventKind::JobState, submitter, at_ms, facts: members(facts) }))
}

/// Returns true for the event that this job waits again after an attempt.
pub(super) fn is_queued_again(record: &Record, job: JobId) -> bool {
    let Record::Event(event) = record else { return false };
    event.kind == EventKind::JobState
        && event.facts.get("state") == Some(&json!(JobState::Queued))
        && event.facts.contains_key("attempt")
        && event.facts.get("job_id") == Some(&json!(job))
}

/// Flags of a worker whose change is an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flags {
    pub(super) draining: bool,
    pub(super) lost: bool,
}

/// Returns the events of a worker's change. `before` is `None` for a new worker.
pub(super) fn worker(before: Option<Flags>, worker: &WorkerRecord, at_ms: i64) -> Vec<Record> {
    let is_joined = before.is_none_or(|before| before.lost) && !worker.lost;
    let is_lost = before.is_some_and(|before| !before.lost) && worker.lost;
    let is_drained = before.is_some_and(|before| !before.draining) && worker.draining;
    let kinds = [
        (EventKind::WorkerJoined, is_joined),
        (EventKind::WorkerLost, is_lost),
        (EventKind::WorkerDrained, is_drained),
    ];
    let event = |kind| {
        let facts = json!({
            "name": worker.name,
            "worker_id": worker.worker,
            "labels": worker.labels,
            "last_seen": rfc3339(worker.last_seen_ms),
        });
        Record::Event(Box::new(NewEvent { kind, submitter: None, at_ms, facts: members(facts) }))
    };
    kinds.into_iter().filter(|(_, is_new)| *is_new).map(|(kind, _)| event(kind)).collect()
}
