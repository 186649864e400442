//! Cuts an answer down to its budget. Ends of lists are cut first; the verdict and the first
//! failure are never cut. Each cut is counted, and names the call that returns the omitted part.

use super::job::{Extras, assemble, call};
use super::{Answer, Budget};
use buildpool_protocol::report::{EARLIER_OUTPUT, JobResult, Omission};
use serde_json::json;

/// Limit on rounds. Each round removes something.
const ROUNDS_MAX: usize = 400;
/// Characters of a message, a command or a cause that remain in the last steps.
const SHORT_CHARS: usize = 240;
/// List entries that are kept until texts have been shortened.
const FEW: usize = 4;
/// Bytes of a text that are kept until lists are empty. The last lines often explain the failure of
/// an unrecognized tool.
const LAST_BYTES: usize = 1_000;
/// Name of the omission if only the verdict is left.
const EVERYTHING: &str = "everything else";
/// Name of the omission for the text before compression.
const ORIGINAL: &str = "original";
/// Suffix of a truncated text.
const MARK: &str = "…";

/// Returns the call that returns the omitted part of a field, or an empty string if there is no
/// such call. `is_largest` means that another verbosity would give the same answer.
pub(super) fn call_for(part: &str, job: &str, is_largest: bool) -> String {
    match part {
        "stdout" | "stderr" => call("get_job_logs", &json!({"job_id": job, "stream": part})),
        "filtered_output" | ORIGINAL | EARLIER_OUTPUT => {
            call("get_job_logs", &json!({"job_id": job, "stream": "interleaved"}))
        }
        _ if !is_largest => call("get_job", &json!({"job_id": job, "verbosity": "full"})),
        "tier_1_findings" | "other_findings" | "failed_tests" | "warnings" | EVERYTHING => {
            call("get_job_logs", &json!({"job_id": job, "stream": "interleaved", "offset": 0}))
        }
        "artifacts" => format!("a person has them by `buildpool artifacts {job} -o DIR`"),
        _ => String::new(),
    }
}

/// Cuts until the text fits, then further until the structured content fits, which has fields in addition to each text. So the
/// text holds all that the structured content holds.
pub(super) fn fit(mut result: JobResult, extras: &Extras, budget: &Budget) -> Answer {
    let whole = budget.of_complete_log();
    let budget = if result.complete_log { &whole } else { budget };
    let mut text = None;
    let mut steps = STEPS.iter();
    let mut step = steps.next();
    for _ in 0..ROUNDS_MAX {
        name_calls(&mut result, budget);
        let mut answer = assemble(&result, extras);
        if text.is_none() && budget.excess_of_text(&answer) == 0 {
            text = Some(answer.text.clone());
        }
        let excess = match &text {
            None => budget.excess_of_text(&answer),
            Some(_) => budget.excess_of_structured(&answer),
        };
        if let Some(text) = text.take_if(|_| excess == 0) {
            answer.text = text;
            return answer;
        }
        while let Some(cut) = step {
            if cut(&mut result, excess) {
                break;
            }
            step = steps.next();
        }
        if step.is_none() {
            break;
        }
    }
    let mut rest = skeleton(&result);
    name_calls(&mut rest, budget);
    let answer = assemble(&rest, &Extras { wait_secs: extras.wait_secs, ..Extras::default() });
    Answer { text: text.unwrap_or(answer.text), ..answer }
}

/// Adds the call that returns it to each omission.
fn name_calls(result: &mut JobResult, budget: &Budget) {
    // One call returns both streams.
    let is_of_log = |omission: &&Omission| matches!(omission.what.as_str(), "stdout" | "stderr" | ORIGINAL);
    let is_one_call = result.omitted.iter().filter(is_of_log).count() > 1;
    // Without a start, the call returns the end of a long log, which a shown stream has already.
    let shown = [("stdout", result.stdout.is_some()), ("stderr", result.stderr.is_some())];
    let is_shown =
        |part: &str| shown.iter().any(|(name, is_shown)| *is_shown && (is_one_call || *name == part));
    for omission in &mut result.omitted {
        if is_of_log(&&*omission) && is_shown(&omission.what) {
            let stream = if is_one_call { "interleaved" } else { &omission.what };
            omission.get =
                call("get_job_logs", &json!({"job_id": result.job_id, "stream": stream, "offset": 0}));
        } else if is_one_call && is_of_log(&&*omission) {
            omission.get = call_for(ORIGINAL, &result.job_id, budget.is_largest());
        } else if omission.get.is_empty() {
            omission.get = call_for(&omission.what, &result.job_id, budget.is_largest());
        }
    }
}

/// A cutting step for an excess in characters. Returns false if there is nothing left to cut.
type Step = fn(&mut JobResult, usize) -> bool;

/// The steps, in the order of their use.
const STEPS: [Step; 22] = [
    |result, _| halve_lists(result, FEW),
    |result, _| drop_details(result),
    // With a complete log, findings only point into it.
    |result, _| result.complete_log && halve_other_findings(result),
    |result, _| result.complete_log && drop_last_finding(result),
    |result, excess| shorten_text(result, excess, LAST_BYTES, "stdout"),
    |result, excess| shorten_text(result, excess, LAST_BYTES, "stderr"),
    |result, excess| shorten_text(result, excess, LAST_BYTES, "filtered_output"),
    |result, excess| shorten_setup_log(result, excess),
    |result, _| halve(&mut result.last_lines) > 0,
    |result, _| halve_artifacts(result, 0),
    |result, excess| shorten_text(result, excess, 0, "stdout"),
    |result, excess| shorten_text(result, excess, 0, "stderr"),
    |result, excess| shorten_text(result, excess, 0, "filtered_output"),
    |result, _| halve_warnings(result),
    |result, _| halve_other_findings(result),
    |result, _| drop_last_context(result),
    |result, _| shorten_last_message(result, 4 * SHORT_CHARS),
    |result, _| halve_crash_reports(result),
    |result, _| halve_lists(result, 0),
    |result, _| drop_last_finding(result),
    |result, _| shorten_lines(result),
    |result, _| shorten_last_message(result, SHORT_CHARS),
];

fn omit(result: &mut JobResult, part: &str, lines: usize, bytes: usize) {
    let (lines, bytes) = (lines as u64, bytes as u64);
    match result.omitted.iter_mut().find(|omission| omission.what == part) {
        Some(omission) => {
            omission.lines += lines;
            omission.bytes += bytes;
        }
        None => result.omitted.push(Omission { what: part.to_owned(), lines, bytes, get: String::new() }),
    }
}

/// Records an omission within one finding. The finding's own call returns all of it.
fn omit_of_finding(result: &mut JobResult, id: &str, part: &str, lines: usize, bytes: usize) {
    omit(result, part, lines, bytes);
    let get = call("get_finding_details", &json!({"job_id": result.job_id, "finding_id": id}));
    result.omitted.iter_mut().filter(|cut| cut.what == part).for_each(|cut| cut.get.clone_from(&get));
}

/// Removes the beginning of a text that has more than `least` bytes. Keeps the last lines, about
/// half of the text or more.
fn shorten_text(result: &mut JobResult, excess: usize, least: usize, part: &'static str) -> bool {
    let field = match part {
        "stdout" => &mut result.stdout,
        "stderr" => &mut result.stderr,
        _ => &mut result.filtered_output,
    };
    if field.as_ref().is_none_or(|text| text.len() <= least) {
        return false;
    }
    let text = field.take().unwrap_or_default();
    let keep = text.len() - excess.clamp(text.len() / 8, text.len().div_ceil(2));
    let from = text.ceil_char_boundary(text.len() - keep);
    let from = text[from..].find('\n').map_or(text.len(), |at| from + at + 1);
    let (gone, kept) = text.split_at(from);
    let (lines, bytes) = (gone.lines().count(), gone.len());
    if !kept.is_empty() {
        *field = Some(kept.to_owned());
    }
    omit(result, part, lines, bytes);
    true
}

/// Removes details that agents rarely need.
pub(super) fn drop_details(result: &mut JobResult) -> bool {
    let had = result.usage.is_some() || result.created_at.is_some() || result.started_at.is_some();
    result.usage = None;
    result.created_at = None;
    result.started_at = None;
    result.finished_at = None;
    result.submitter = None;
    had
}

/// Removes the second half of a list, or the only entry.
fn halve<T>(list: &mut Vec<T>) -> usize {
    halve_to(list, 0)
}

/// Removes the second half of a list, but keeps `least` entries.
fn halve_to<T>(list: &mut Vec<T>, least: usize) -> usize {
    let keep = (list.len() / 2).max(least).min(list.len());
    list.drain(keep..).count()
}

fn halve_warnings(result: &mut JobResult) -> bool {
    let gone = halve(&mut result.warnings.shown);
    if gone > 0 {
        omit(result, "warnings", gone, 0);
    }
    gone > 0
}

fn halve_other_findings(result: &mut JobResult) -> bool {
    let gone = halve(&mut result.other_findings);
    if gone > 0 {
        omit(result, "other_findings", gone, 0);
    }
    gone > 0
}

fn halve_crash_reports(result: &mut JobResult) -> bool {
    let mut gone = 0;
    for report in &mut result.crash_reports {
        gone += halve(&mut report.top_frames);
    }
    if gone > 0 {
        omit(result, "crash_reports", gone, 0);
        return true;
    }
    if result.crash_reports.len() < 2 {
        return false;
    }
    let gone = halve(&mut result.crash_reports);
    omit(result, "crash_reports", gone, 0);
    true
}

fn halve_artifacts(result: &mut JobResult, least: usize) -> bool {
    let gone = halve_to(&mut result.artifacts, least);
    if gone > 0 {
        omit(result, "artifacts", gone, 0);
    }
    gone > 0
}

/// Halves the lists of facts other than failures; each keeps `least` entries.
fn halve_lists(result: &mut JobResult, least: usize) -> bool {
    let mut gone = vec![
        ("artifacts", halve_to(&mut result.artifacts, least)),
        ("labels", halve_to(&mut result.labels, least)),
        ("survivors", halve_to(&mut result.survivors, least)),
        ("gaps", halve_to(&mut result.gaps, least)),
        ("notes", halve_to(&mut result.notes, least)),
        ("earlier_attempts", halve_to(&mut result.earlier_attempts, least)),
    ];
    if let Some(snapshot) = &mut result.snapshot {
        let lists = [&mut snapshot.kept_back, &mut snapshot.left_behind, &mut snapshot.changed_meanwhile];
        let files: usize = lists.into_iter().map(|list| halve_to(list, least)).sum();
        gone.push(("snapshot", files + halve_to(&mut snapshot.notes, least)));
    }
    gone.retain(|(_, count)| *count > 0);
    for (part, count) in &gone {
        omit(result, part, *count, 0);
    }
    !gone.is_empty()
}

/// Removes the beginning of a setup's log. Returns false if no log is left.
fn shorten_setup_log(result: &mut JobResult, excess: usize) -> bool {
    let log = result.setup.as_mut().and_then(|setup| setup.log.as_mut());
    let Some(log) = log.filter(|log| !log.is_empty()) else { return false };
    let length = log.len();
    let from = log.ceil_char_boundary(excess.clamp(length / 8 + 1, length.div_ceil(2)).min(length));
    let from = log[from..].find('\n').map_or(length, |at| from + at + 1);
    log.drain(..from);
    true
}

/// Removes the context of the last finding that has context.
fn drop_last_context(result: &mut JobResult) -> bool {
    let has_context = |finding: &&mut buildpool_protocol::Finding| {
        !finding.pre_context.is_empty() || !finding.post_context.is_empty()
    };
    let Some(finding) = result.tier_1_findings.iter_mut().rev().find(has_context) else { return false };
    let lines = finding.pre_context.len() + finding.post_context.len();
    finding.pre_context.clear();
    finding.post_context.clear();
    let id = finding.id.clone();
    omit_of_finding(result, &id, "tier_1_findings context", lines, 0);
    true
}

fn drop_last_finding(result: &mut JobResult) -> bool {
    if result.tier_1_findings.len() < 2 {
        return false;
    }
    result.tier_1_findings.pop();
    omit(result, "tier_1_findings", 1, 0);
    true
}

/// Shortens the last message that is longer than `most` bytes.
fn shorten_last_message(result: &mut JobResult, most: usize) -> bool {
    let Some(finding) = result.tier_1_findings.iter_mut().rev().find(|finding| finding.message.len() > most)
    else {
        return false;
    };
    let gone = shorten(&mut finding.message, most);
    let id = finding.id.clone();
    omit_of_finding(result, &id, "tier_1_findings messages", 0, gone);
    true
}

/// Shortens single lines that are usually short.
fn shorten_lines(result: &mut JobResult) -> bool {
    let mut gone = shorten(&mut result.command, SHORT_CHARS);
    for finding in &mut result.tier_1_findings {
        gone += finding.test.as_mut().map_or(0, |test| shorten(test, SHORT_CHARS));
        gone += finding.location.as_mut().map_or(0, |location| shorten(&mut location.file, SHORT_CHARS));
    }
    for report in &mut result.crash_reports {
        let texts = [&mut report.process_path, &mut report.message];
        gone += texts.into_iter().flatten().map(|text| shorten(text, SHORT_CHARS)).sum::<usize>();
        gone += shorten(&mut report.file_path, SHORT_CHARS) + shorten(&mut report.process_name, SHORT_CHARS);
    }
    gone += result.cause.as_mut().map_or(0, |cause| shorten(&mut cause.text, 2 * SHORT_CHARS));
    gone += result.waiting.as_mut().map_or(0, |waiting| shorten(&mut waiting.reason, SHORT_CHARS));
    gone += result.tests.as_mut().map_or(0, |tests| shorten(&mut tests.source, SHORT_CHARS));
    if gone > 0 {
        omit(result, "long lines", 0, gone);
    }
    gone > 0
}

/// Truncates a text to `most` bytes. Returns the number of removed bytes.
pub(super) fn shorten(text: &mut String, most: usize) -> usize {
    if text.len() <= most {
        return 0;
    }
    let keep = text.floor_char_boundary(most - MARK.len());
    let gone = text.len() - keep;
    text.truncate(keep);
    text.push_str(MARK);
    gone
}

/// Returns the minimal result, for the case that no other cut suffices.
fn skeleton(result: &JobResult) -> JobResult {
    let mut cause = result.cause.clone();
    if let Some(cause) = &mut cause {
        shorten(&mut cause.text, SHORT_CHARS);
    }
    let mut command = result.command.clone();
    shorten(&mut command, SHORT_CHARS);
    let mut kept = JobResult {
        job_id: result.job_id.clone(),
        attempt: result.attempt,
        state: result.state,
        connected: result.connected,
        verdict: result.verdict,
        success: result.success,
        exit_code: result.exit_code,
        crash_type: result.crash_type,
        next: result.next.clone(),
        command,
        cause,
        ..JobResult::default()
    };
    omit(&mut kept, EVERYTHING, 0, 0);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use buildpool_protocol::report::SetupResult;

    #[test]
    fn a_setup_log_is_cut_to_nothing_and_not_further() {
        let log = Some("one\ntwo\n".to_owned());
        let setup = Some(SetupResult { log, ..SetupResult::default() });
        let mut result = JobResult { setup, ..JobResult::default() };
        let cuts = std::iter::from_fn(|| shorten_setup_log(&mut result, 3).then_some(())).take(10).count();
        assert!((1..10).contains(&cuts), "{cuts} cuts");
        assert_eq!(result.setup.unwrap().log.as_deref(), Some(""));
    }
}
