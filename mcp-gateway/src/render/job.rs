//! The answer about one job.

use super::cut;
use super::text;
use super::{Answer, Budget, Link, UNTRUSTED, prune};
use crate::resources;
use buildpool_protocol::report::{ArtifactEntry, Finding, JobResult, JobState, KnownFrom, Verdict};
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
pub(crate) fn job(result: JobResult, extras: &Extras, budget: &Budget) -> Answer {
    // As the job named them: a cleaned name would lead nowhere.
    let artifacts: Vec<ArtifactEntry> = result.artifacts.iter().take(LINKS_MAX).cloned().collect();
    let mut result = cleaned(result);
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
    if result.success {
        return next;
    }
    if result.verdict == Some(Verdict::Rejected) {
        next.push(call("worker_status", &json!({})));
        if !result.labels.is_empty() {
            let labels = short(&result.labels.join(", "));
            next.push(format!("the same call with `labels` that a worker has; asked for: {labels}"));
        }
    }
    if let Some(finding) = result.tier_1_findings.first() {
        next.push(call("get_finding_details", &json!({"job_id": id, "finding_id": finding.id})));
    }
    // A job that no worker ever had has no log.
    if result.verdict != Some(Verdict::Rejected) {
        next.push(call("get_job_logs", &json!({"job_id": id, "stream": "interleaved", "tail": 100})));
    }
    next
}

fn structured(result: &JobResult, extras: &Extras) -> Value {
    let mut value = prune(serde_json::to_value(result).unwrap_or_default());
    let Value::Object(map) = &mut value else { return value };
    // It decides how much is told, and is told by that.
    map.remove("verbosity");
    if result.connected || result.state == JobState::Done || result.state == JobState::Queued {
        map.remove("connected");
    } else {
        map.insert("connected".to_owned(), Value::Bool(false));
    }
    if !result.process_state.signaled {
        map.remove("process_state");
    }
    if map.get("crash_type").is_some_and(|crash| crash == "none") {
        map.remove("crash_type");
    }
    if result.warnings.count == 0 {
        map.remove("warnings");
    }
    for list in ["tier_1_findings", "other_findings"] {
        if let Some(Value::Array(findings)) = map.get_mut(list) {
            findings
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|finding| slim(finding, &result.job_id));
        }
    }
    // Always there, also when they say nothing: the listing promises them.
    map.insert("job_id".to_owned(), json!(result.job_id));
    map.insert("verdict".to_owned(), json!(result.verdict));
    map.insert("next".to_owned(), json!(result.next));
    if result.state == JobState::Done {
        map.insert("success".to_owned(), json!(result.success));
    }
    add_extras(map, extras);
    let untrusted = untrusted_fields(result);
    if !untrusted.is_empty() {
        map.insert("untrusted".to_owned(), json!(format!("{} {UNTRUSTED}", untrusted.join(", "))));
    }
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

/// The fields that hold what the job wrote.
pub(super) fn untrusted_fields(result: &JobResult) -> Vec<&'static str> {
    [
        ("cause", result.cause.as_ref().is_some_and(|cause| cause.known_from != KnownFrom::Pool)),
        ("tests.source", result.tests.as_ref().is_some_and(|tests| !tests.source.is_empty())),
        ("tier_1_findings", !result.tier_1_findings.is_empty()),
        ("other_findings", !result.other_findings.is_empty()),
        ("warnings", !result.warnings.shown.is_empty()),
        ("notes", !result.notes.is_empty()),
        ("crash_reports", !result.crash_reports.is_empty()),
        ("stderr", is_some(&result.stderr)),
        ("stdout", is_some(&result.stdout)),
        ("filtered_output", is_some(&result.filtered_output)),
        ("survivors", !result.survivors.is_empty()),
        ("artifacts", !result.artifacts.is_empty()),
    ]
    .into_iter()
    .filter_map(|(name, is_there)| is_there.then_some(name))
    .collect()
}

fn is_some(text: &Option<String>) -> bool {
    text.as_deref().is_some_and(|text| !text.is_empty())
}

/// The result with harmless text in all places.
fn cleaned(mut result: JobResult) -> JobResult {
    let line = |text: &mut String| *text = one_line(text);
    let block = |text: &mut Option<String>| {
        *text = text.take().map(|text| printable(&text).trim_end().to_owned());
    };
    line(&mut result.command);
    line(&mut result.directory);
    for secs in [&mut result.duration_secs, &mut result.queued_secs].into_iter().flatten() {
        *secs = (*secs * 100.0).round() / 100.0;
    }
    result.worker.iter_mut().chain(&mut result.submitter).chain(&mut result.labels).for_each(line);
    if let Some(cause) = &mut result.cause {
        line(&mut cause.text);
    }
    if let Some(waiting) = &mut result.waiting {
        line(&mut waiting.reason);
    }
    if let Some(tests) = &mut result.tests {
        line(&mut tests.source);
    }
    result.tier_1_findings.iter_mut().for_each(clean_finding);
    for finding in &mut result.other_findings {
        line(&mut finding.id);
        line(&mut finding.message);
    }
    result.warnings.shown.iter_mut().for_each(line);
    result.notes.iter_mut().for_each(line);
    for earlier in &mut result.earlier_attempts {
        line(&mut earlier.worker);
        line(&mut earlier.reason);
    }
    for report in &mut result.crash_reports {
        line(&mut report.process_name);
        line(&mut report.file_path);
        report.top_frames.iter_mut().for_each(line);
        let texts =
            [&mut report.process_path, &mut report.exception_type, &mut report.signal, &mut report.message];
        texts.into_iter().flatten().for_each(line);
        if let Some(termination) = &mut report.termination {
            [&mut termination.namespace, &mut termination.indicator].into_iter().flatten().for_each(line);
        }
    }
    block(&mut result.stderr);
    block(&mut result.stdout);
    block(&mut result.filtered_output);
    result.survivors.iter_mut().for_each(|survivor| line(&mut survivor.command));
    result.gaps.iter_mut().for_each(|gap| line(&mut gap.reason));
    result.artifacts.iter_mut().for_each(|artifact| line(&mut artifact.path));
    if let Some(snapshot) = &mut result.snapshot {
        let files = snapshot.kept_back.iter_mut().chain(&mut snapshot.changed_meanwhile);
        files.chain(&mut snapshot.notes).for_each(line);
    }
    result
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
