//! The answer about one job.

use super::cut;
use super::text;
use super::{Answer, Budget, Link};
use crate::resources;
use buildpool_protocol::report::{ArtifactEntry, Finding, JobResult, JobState, Verdict};
use buildpool_protocol::shown::{one_line, printable};
use serde_json::{Map, Value, json};

/// What the gateway adds to the pool's answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Extras {
    /// The command that was chosen and why, for `run_tests` and `build`.
    pub(crate) chosen: Option<String>,
    /// An earlier call's job: an equal one's, or that of the same `client_request_id`.
    pub(crate) reattached: bool,
    /// Whether it is that because of the `client_request_id`.
    pub(crate) by_request_id: bool,
    /// Another thing worth knowing.
    pub(crate) note: Option<String>,
    /// Whether its end was asked for just now.
    pub(crate) cancelling: bool,
    /// Whether what is asked for seldom is told as well: times, submitter, usage.
    pub(crate) details: bool,
    /// Whether a person on a terminal asks, whose next calls are command lines.
    pub(crate) on_terminal: bool,
    /// How long the next call may wait, in seconds.
    pub(crate) wait_secs: u64,
}

/// Links in one answer: each costs the reader some hundred bytes, and the answer itself lists them all.
const LINKS_MAX: usize = 8;
/// Bytes of a link beside its address and name, as it goes over the wire.
const LINK_FRAME_BYTES: usize = 80;

/// Bytes that a sentence shows of what a caller wrote: a command, labels.
const QUOTED_BYTES: usize = 200;

/// Bytes that the reason for a choice has.
const REASON_BYTES: usize = 480;

/// The beginning of a text, to be quoted in a sentence.
pub(crate) fn short(text: &str) -> String {
    beginning(text, QUOTED_BYTES)
}

/// What was chosen and why, short enough for every answer.
pub(crate) fn reason(text: &str) -> String {
    beginning(text, REASON_BYTES)
}

fn beginning(text: &str, most: usize) -> String {
    let line = one_line(text);
    let end = line.floor_char_boundary(most.min(line.len()));
    if end < line.len() { format!("{}…", &line[..end]) } else { line }
}

/// That a `client_request_id` led to the job of another command than was asked for.
pub(crate) fn other_command(of_job: &str, asked: &str) -> String {
    format!(
        "the command differs: this client_request_id belongs to the job of `{}`; `{}` was not run, which takes a \
         client_request_id of its own",
        short(of_job),
        short(asked)
    )
}

/// That files came while a job ran to which an equal call attaches.
pub(crate) fn files_came(files: &[String]) -> String {
    format!(
        "files came since this job was submitted: {}; if they are not its own output, its answer is not about them: call \
         again when it is over",
        short(&files.join(", "))
    )
}

/// A tool call in the words that an agent can use as they are.
pub(crate) fn call(tool: &str, arguments: &Value) -> String {
    format!("{tool} {arguments}")
}

/// Both forms of the answer about a job, within the budget.
pub(crate) fn job(mut result: JobResult, extras: &Extras, budget: &Budget) -> Answer {
    // As the job named them: an escaped name would lead nowhere.
    let artifacts: Vec<ArtifactEntry> = result.artifacts.iter().take(LINKS_MAX).cloned().collect();
    for secs in [&mut result.duration_secs, &mut result.queued_secs].into_iter().flatten() {
        *secs = (*secs * 100.0).round() / 100.0;
    }
    // Before details go: the labels are among them.
    let next = next(&result, extras);
    if !extras.details {
        cut::drop_details(&mut result);
    }
    result.next = next;
    for omission in &mut result.omitted {
        // As a command line; here it is a call.
        omission.get.clear();
    }
    let mut answer = cut::fit(result, extras, budget);
    add_links(&mut answer, &artifacts, budget);
    answer
}

/// Links to the artifacts that the answer lists, to as many as there is room for.
fn add_links(answer: &mut Answer, artifacts: &[ArtifactEntry], budget: &Budget) {
    let job = answer.structured["job_id"].as_str().unwrap_or_default().to_owned();
    let listed = answer.structured["artifacts"].as_array().map_or(0, Vec::len);
    let mut room = budget.room_beside(answer);
    for artifact in artifacts.iter().take(listed) {
        let link = Link {
            address: resources::address(&job, &artifact.path),
            name: one_line(artifact.path.rsplit('/').next().unwrap_or(&artifact.path)),
            bytes: artifact.bytes,
        };
        let size = LINK_FRAME_BYTES + link.address.len() + json!(link.name).to_string().len();
        if size > room {
            return;
        }
        room -= size;
        answer.links.push(link);
    }
}

/// Both forms, whatever their length.
pub(super) fn assemble(result: &JobResult, extras: &Extras) -> Answer {
    Answer::new(structured(result, extras), text::job(result, extras))
}

/// At most three calls worth making.
fn next(result: &JobResult, extras: &Extras) -> Vec<String> {
    let id = &result.job_id;
    let mut next = Vec::new();
    if result.state != JobState::Done {
        next.push(call("get_job", &json!({"job_id": id, "wait_secs": extras.wait_secs})));
        next.push(call("get_job_logs", &json!({"job_id": id, "tail": 50})));
        if !extras.cancelling {
            next.push(call("cancel_job", &json!({"job_id": id})));
        }
        return next;
    }
    if result.success || result.complete_log {
        return next;
    }
    if result.verdict == Some(Verdict::Rejected) {
        next.push(call("worker_status", &json!({})));
        if !result.labels.is_empty() {
            let labels = short(&result.labels.join(", "));
            next.push(format!("the same call with `labels` that a worker has; asked for: {labels}"));
        }
        // A job that no worker ever had has no log.
        return next;
    }
    // A cut names its own call in `omitted`.
    if result.omitted.is_empty() {
        next.push(call("get_job_logs", &json!({"job_id": id, "stream": "interleaved", "tail": 100})));
    }
    next
}

fn structured(result: &JobResult, extras: &Extras) -> Value {
    let mut value = result.to_json();
    let Value::Object(map) = &mut value else { return value };
    // It decides how much is shown, and the answer shows that.
    map.remove("verbosity");
    if result.connected || result.state == JobState::Queued {
        map.remove("connected");
    }
    if !result.process_state.signaled {
        map.remove("process_state");
    }
    for list in ["tier_1_findings", "other_findings"] {
        if let Some(Value::Array(findings)) = map.get_mut(list) {
            findings
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|finding| slim(finding, &result.job_id));
        }
    }
    add_extras(map, extras);
    value
}

fn add_extras(map: &mut Map<String, Value>, extras: &Extras) {
    if let Some(chosen) = &extras.chosen {
        map.insert("chosen".to_owned(), json!(chosen));
    }
    if extras.reattached {
        map.insert("reattached".to_owned(), json!(true));
    }
    if let Some(note) = &extras.note {
        map.insert("note".to_owned(), json!(note));
    }
}

/// What a listed finding does not need: `get_finding_details` has it.
fn slim(finding: &mut Map<String, Value>, job: &str) {
    finding.remove("job_state");
    finding.remove("evidence");
    if finding.get("job").is_some_and(|of| of == job) {
        finding.remove("job");
    }
    if finding.get("recurrence").is_some_and(|count| *count == json!(1)) {
        finding.remove("recurrence");
    }
}

/// A finding with harmless text.
pub(super) fn clean_finding(finding: &mut Finding) {
    finding.id = one_line(&finding.id);
    finding.message = printable(&finding.message).trim_end().to_owned();
    if let Some(location) = &mut finding.location {
        location.file = one_line(&location.file);
    }
    finding.evidence.report.iter_mut().for_each(|report| *report = one_line(report));
    finding.test.iter_mut().for_each(|test| *test = one_line(test));
    finding.category.iter_mut().for_each(|category| *category = one_line(category));
    let lines = finding.pre_context.iter_mut().chain(&mut finding.post_context);
    lines.for_each(|line| *line = printable(line).trim_end().replace('\n', " ⏎ "));
}
