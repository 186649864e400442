//! Answer about one job.

use super::cut;
use super::text;
use super::{Answer, Budget, Link};
use crate::resources;
use buildpool_digest::missed;
use buildpool_protocol::report::{ArtifactEntry, Finding, JobResult, JobState, Verdict};
use buildpool_protocol::shown::{one_line, printable};
use buildpool_protocol::spec::Verbosity;
use serde_json::{Map, Value, json};

/// Facts that the gateway adds to the pool's answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Extras {
    /// The chosen command and the reason, for `run_tests` and `build`.
    pub(crate) chosen: Option<String>,
    /// Whether this is the job of an earlier call: an equal one, or one with the same
    /// `client_request_id`.
    pub(crate) reattached: bool,
    /// Whether the match is by `client_request_id`.
    pub(crate) by_request_id: bool,
    /// An additional note.
    pub(crate) note: Option<String>,
    /// Whether the note states that no test matches the filter.
    pub(crate) no_test_matches: bool,
    /// The call that runs tests instead, if no test matches the filter.
    pub(crate) other_tests: Option<String>,
    /// Whether the pool has one worker, the local one.
    pub(crate) one_worker: bool,
    /// Whether a cancel was just requested.
    pub(crate) cancelling: bool,
    /// Whether rarely needed details are included: times, submitter, usage.
    pub(crate) details: bool,
    /// Whether the reader is on a terminal, so that next calls are command lines.
    pub(crate) on_terminal: bool,
    /// Maximum wait of the suggested next call, in seconds.
    pub(crate) wait_secs: u64,
}

/// Limit on links in one answer. Each costs some hundred bytes, and the answer itself lists all
/// files.
const LINKS_MAX: usize = 8;
/// Encoded bytes of a link without its address and name.
const LINK_FRAME_BYTES: usize = 80;

/// Limit on quoted text of a caller (a command, labels), in bytes.
const QUOTED_BYTES: usize = 200;

/// Limit on the reason for a choice, in bytes.
const REASON_BYTES: usize = 480;

/// Returns the beginning of a text, for quoting in a sentence.
pub(crate) fn short(text: &str) -> String {
    beginning(text, QUOTED_BYTES)
}

/// Returns the beginning of the choice and its reason, for an answer.
pub(crate) fn reason(text: &str) -> String {
    beginning(text, REASON_BYTES)
}

fn beginning(text: &str, most: usize) -> String {
    let line = one_line(text);
    let end = line.floor_char_boundary(most.min(line.len()));
    if end < line.len() { format!("{}…", &line[..end]) } else { line }
}

/// Returns the note that a filter matched no test, after another note if there is one.
pub(crate) fn no_such_test(filter: &str, names: &[String], other: Option<String>) -> String {
    let names = match names {
        [] => "; no similar name in the sources".to_owned(),
        // The suggested call has the name.
        [_] => String::new(),
        names => format!("; similar: {}", names.join(", ")),
    };
    let note = format!("no test matches `{}`{}", short(filter), beginning(&names, REASON_BYTES));
    other.map_or_else(|| note.clone(), |other| format!("{other}; {note}"))
}

/// Returns the note that a `client_request_id` belongs to a job with another command.
pub(crate) fn other_command(of_job: &str, requested: &str) -> String {
    format!(
        "the command differs: this client_request_id belongs to the job of `{}`; `{}` was not run, which takes a \
         client_request_id of its own",
        short(of_job),
        short(requested)
    )
}

/// Returns the note that new files appeared while a job ran to which an equal call attaches.
pub(crate) fn new_files_note(files: &[String]) -> String {
    format!(
        "files came since this job was submitted: {}; if they are not its own output, its answer is not about them: call \
         again when it is over",
        short(&files.join(", "))
    )
}

/// Formats a tool call in a form that an agent can use directly.
pub(crate) fn call(tool: &str, arguments: &Value) -> String {
    format!("{tool} {arguments}")
}

/// Renders both forms of the answer about a job, within the budget.
pub(crate) fn job(mut result: JobResult, extras: &Extras, budget: &Budget) -> Answer {
    // Keep the original names: an escaped name would give a wrong link.
    let artifacts: Vec<ArtifactEntry> = result.artifacts.iter().take(LINKS_MAX).cloned().collect();
    for secs in [&mut result.duration_secs, &mut result.queued_secs].into_iter().flatten() {
        *secs = (*secs * 100.0).round() / 100.0;
    }
    // Before details are removed, because the labels are among them.
    let next = next(&result, extras);
    if !extras.details {
        cut::drop_details(&mut result);
    }
    result.next = next;
    for omission in &mut result.omitted {
        // The pool suggests a command line; the gateway replaces it by a call.
        omission.get.clear();
    }
    let mut answer = cut::fit(result, extras, budget);
    add_links(&mut answer, &artifacts, budget);
    answer
}

/// Adds links to the listed artifacts, as far as the budget allows.
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

/// Renders both forms, without a budget.
pub(super) fn assemble(result: &JobResult, extras: &Extras) -> Answer {
    Answer::new(structured(result, extras), text::job(result, extras))
}

/// Returns at most three suggested next calls.
fn next(result: &JobResult, extras: &Extras) -> Vec<String> {
    let id = &result.job_id;
    let mut next = Vec::new();
    if result.state != JobState::Done {
        next.push(call("get_job", &json!({"job_id": id, "wait_secs": extras.wait_secs})));
        if !extras.cancelling {
            next.push(call("cancel_job", &json!({"job_id": id})));
        }
        return next;
    }
    next.extend(extras.other_tests.clone());
    if let Some(install) = missed(result).and_then(|missed| missed.install) {
        let mut arguments = json!({"command": format!("{install} && {}", result.command)});
        if !result.directory.is_empty() {
            arguments["cwd"] = json!(result.directory);
        }
        next.push(call("run_command", &arguments));
    }
    if let Some(setup) = result.setup.as_ref().filter(|setup| setup.log.is_some()) {
        let shown = setup.log.as_ref().map_or(0, String::len) as u64;
        if shown < setup.log_bytes && result.verbosity != Some(Verbosity::Full) {
            next.push(call("get_job", &json!({"job_id": id, "verbosity": "full"})));
        }
        return next;
    }
    if result.success || result.complete_log {
        return next;
    }
    if result.verdict == Some(Verdict::Rejected) {
        next.push(call("worker_status", &json!({})));
        // A job that was never on a worker has no log.
        return next;
    }
    // Each cut in `omitted` contains its own call.
    if result.omitted.is_empty() {
        next.push(call("get_job_logs", &json!({"job_id": id, "stream": "interleaved", "tail": 100})));
    }
    next
}

fn structured(result: &JobResult, extras: &Extras) -> Value {
    let mut value = result.to_json();
    let Value::Object(map) = &mut value else { return value };
    // The verbosity is visible from the amount of content.
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

/// Removes fields that a listed finding does not need. `get_finding_details` returns them.
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

/// Escapes the texts of a finding.
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
