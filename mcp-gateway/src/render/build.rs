//! Answer about a build: the jobs of one request as one manifest, with findings ranked across them.

use super::job::{Extras, call, clean_finding};
use super::{Answer, Budget, prune, text};
use buildpool_digest::TextPage as Page;
use buildpool_digest::manifest::{self, JobFindings, Ranked};
use buildpool_protocol::Finding;
use buildpool_protocol::report::{FindingSummary, JobResult, JobState, Omission, Verdict, Waiting};
use buildpool_protocol::shown::{counted, one_line};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Content of an answer about a build.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BuildAnswer {
    /// Id to query the build again. `None` if the jobs belong to several earlier calls.
    pub(crate) request_id: Option<String>,
    /// URL of the build on the coordinator's web page. `None` if there is no such build.
    pub(crate) url: Option<String>,
    /// Time of this answer, in RFC 3339.
    pub(crate) timestamp: String,
    /// The jobs, in the order of the request.
    pub(crate) jobs: Vec<JobResult>,
}

impl BuildAnswer {
    fn is_done(&self) -> bool {
        self.jobs.iter().all(|job| job.state == JobState::Done)
    }

    /// Returns the jobs with a bad verdict. A cancelled job does not count as failed.
    fn failed(&self) -> impl Iterator<Item = &JobResult> {
        let is_bad = |verdict| !matches!(verdict, Verdict::Passed | Verdict::Cancelled);
        self.jobs.iter().filter(move |job| job.state == JobState::Done && job.verdict.is_some_and(is_bad))
    }

    fn cancelled(&self) -> usize {
        self.jobs.iter().filter(|job| job.verdict == Some(Verdict::Cancelled)).count()
    }

    /// Returns the worst verdict of the jobs, or `None` while one of them is unfinished.
    fn verdict(&self) -> Option<Verdict> {
        if !self.is_done() {
            return None;
        }
        manifest::worst(self.jobs.iter().filter_map(|job| job.verdict))
    }

    /// Returns true if jobs were cancelled and no job failed by itself.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.status() == "cancelled"
    }

    pub(super) fn status(&self) -> &'static str {
        if self.failed().next().is_some() {
            "failed"
        } else if self.is_done() && self.cancelled() > 0 {
            "cancelled"
        } else if self.is_done() {
            "passed"
        } else {
            "running"
        }
    }
}

/// The shown part of a manifest.
struct Shown {
    ranked: Ranked,
    /// Number of omitted findings.
    findings_left: usize,
    /// Number of warnings that the jobs' own answers omit.
    warnings_left: usize,
    /// Omitted context lines of the shown findings.
    context_left: usize,
    /// Omitted bytes of messages, places and names.
    bytes_left: usize,
    /// Omitted parts of the chosen command and the note.
    extras_left: usize,
    /// Indices of the jobs with their own line.
    jobs: BTreeSet<usize>,
    /// Whether these lines contain labels and worker.
    with_details: bool,
    extras: Extras,
    /// Whether the same call with another verbosity would not return more.
    is_largest: bool,
}

/// Renders both forms of the answer about a build, within the budget.
pub(crate) fn build(answer: &BuildAnswer, extras: &Extras, budget: &Budget) -> Answer {
    let mut shown = Shown {
        ranked: rank(&answer.jobs),
        findings_left: left_by_jobs(&answer.jobs, &["tier_1_findings", "other_findings"]),
        warnings_left: left_by_jobs(&answer.jobs, &["warnings"]),
        context_left: 0,
        bytes_left: 0,
        extras_left: 0,
        jobs: (0..answer.jobs.len()).collect(),
        with_details: true,
        extras: extras.clone(),
        is_largest: budget.is_largest(),
    };
    loop {
        let rendered = assemble(answer, &shown);
        let excess = budget.excess(&rendered);
        if excess == 0 || !cut(answer, &mut shown, excess) {
            return rendered;
        }
    }
}

/// Returns how many entries the jobs' own answers omit, before any cut here. An entry that several
/// jobs omit counts once for each job, because the omitted entries can't be compared.
fn left_by_jobs(jobs: &[JobResult], parts: &[&str]) -> usize {
    let cuts = jobs.iter().flat_map(|job| &job.omitted).filter(|cut| parts.contains(&cut.what.as_str()));
    cuts.map(|cut| usize::try_from(cut.lines).unwrap_or(usize::MAX)).fold(0, usize::saturating_add)
}

/// The list entry of a finding in a manifest.
pub(crate) struct Listed {
    /// Id of the job that the entry refers to.
    pub(crate) job: String,
    /// Tier among the findings of all jobs.
    pub(crate) tier: u8,
    /// Confidence among the findings of all jobs.
    pub(crate) confidence: f64,
    /// Occurrences in all jobs; `None` for a summary, which has no count.
    pub(crate) recurrence: Option<u64>,
    /// Whether passing jobs of the build have the finding too.
    pub(crate) also_in_passing_jobs: bool,
}

/// Returns the list entry of the finding with this id, before any cut.
pub(crate) fn listed(answer: &BuildAnswer, id: &str) -> Option<Listed> {
    let Ranked { tier_1, others, passing } = rank(&answer.jobs);
    let also_in_passing_jobs = passing.contains(id);
    let tier_1 = tier_1.into_iter().find(|finding| finding.id == id).map(|finding| Listed {
        job: finding.job,
        tier: finding.tier,
        confidence: finding.confidence,
        recurrence: Some(finding.recurrence),
        also_in_passing_jobs: finding.also_in_passing_jobs,
    });
    tier_1.or_else(|| {
        let FindingSummary { job, tier, confidence, .. } =
            others.into_iter().find(|finding| finding.id == id)?;
        Some(Listed { job, tier, confidence, recurrence: None, also_in_passing_jobs })
    })
}

/// Ranks the findings of all jobs, with escaped texts.
fn rank(jobs: &[JobResult]) -> Ranked {
    manifest::rank(jobs.iter().map(|job| {
        let escaped = |finding: &Finding| {
            let mut finding = finding.clone();
            clean_finding(&mut finding);
            finding
        };
        let line = |finding: &FindingSummary| FindingSummary {
            message: one_line(&finding.message),
            ..finding.clone()
        };
        JobFindings {
            job: job.job_id.clone(),
            passed: job.success,
            findings: job.tier_1_findings.iter().map(escaped).collect(),
            summaries: job.other_findings.iter().map(line).collect(),
        }
    }))
}

/// Bytes of a message, a path or a test name that remain in the last steps.
const SHORT_BYTES: usize = 240;

/// Removes the least important part. The first failed job and its first finding are never removed.
/// Returns false if there is nothing left to remove.
fn cut(answer: &BuildAnswer, shown: &mut Shown, excess: usize) -> bool {
    let Shown { ranked, findings_left, .. } = shown;
    if !ranked.others.is_empty() {
        *findings_left += take_end(&mut ranked.others, excess, |finding| finding.message.len());
        return true;
    }
    // Remove the contexts of half of the findings that have one, starting with the last.
    let has_context =
        |finding: &&mut Finding| !finding.pre_context.is_empty() || !finding.post_context.is_empty();
    let with_context = ranked.tier_1.iter_mut().filter(has_context).count();
    if with_context > 0 {
        for finding in ranked.tier_1.iter_mut().filter(has_context).skip(with_context / 2) {
            shown.context_left +=
                finding.pre_context.drain(..).count() + finding.post_context.drain(..).count();
        }
        return true;
    }
    let gone: usize = ranked.tier_1.iter_mut().map(|finding| shorten(finding, 2 * SHORT_BYTES)).sum();
    shown.bytes_left += gone;
    if gone > 0 {
        return true;
    }
    if std::mem::take(&mut shown.with_details) {
        return true;
    }
    let weighty = shown.jobs.iter().filter(|index| weight(&answer.jobs[**index]) < DULL).count();
    let (jobs, findings) = (shown.jobs.len(), ranked.tier_1.len());
    let is_jobs_turn = weighty < jobs || (findings <= FEW && jobs > FEW) || findings <= 1;
    if jobs > 1 && is_jobs_turn {
        let mut by_weight: Vec<usize> = shown.jobs.iter().copied().collect();
        by_weight.sort_by_key(|index| (weight(&answer.jobs[*index]), *index));
        let least = if weighty < jobs { weighty.max(1) } else { 1 };
        by_weight.truncate((jobs - jobs.div_ceil(8)).max(least));
        shown.jobs = by_weight.into_iter().collect();
        return true;
    }
    if findings > 1 {
        *findings_left += ranked.tier_1.drain((findings - findings.div_ceil(8)).max(1)..).count();
        return true;
    }
    let extras = [shown.extras.chosen.take(), shown.extras.note.take()].into_iter().flatten().count();
    shown.extras_left += extras;
    let gone: usize = if extras > 0 {
        0
    } else {
        ranked.tier_1.iter_mut().map(|finding| shorten(finding, SHORT_BYTES)).sum()
    };
    shown.bytes_left += gone;
    extras > 0 || gone > 0
}

/// From this weight on, a job's line has little information.
const DULL: u8 = 2;
/// Number of findings and of jobs that are kept until the other kind has been cut.
const FEW: usize = 5;

/// Returns the sort weight of a job: failed jobs first, then unfinished ones, then the others.
fn weight(job: &JobResult) -> u8 {
    match (job.state, job.verdict) {
        (JobState::Done, Some(Verdict::Passed)) => 3,
        (JobState::Done, Some(Verdict::Cancelled)) => 2,
        (JobState::Done, _) => 0,
        _ => 1,
    }
}

/// Removes entries from the end, about half of the excess at a time. Returns their number.
fn take_end<T>(list: &mut Vec<T>, excess: usize, size: impl Fn(&T) -> usize) -> usize {
    let before = list.len();
    let mut freed = 0;
    while let Some(gone) = list.pop() {
        freed += size(&gone);
        if freed >= excess / 2 {
            break;
        }
    }
    before - list.len()
}

/// Shortens the texts of a finding. Returns the number of removed bytes.
fn shorten(finding: &mut Finding, most: usize) -> usize {
    let place = finding.location.as_mut().map(|location| &mut location.file);
    let texts = [Some(&mut finding.message), place, finding.test.as_mut(), finding.category.as_mut()];
    texts.into_iter().flatten().map(|text| super::cut::shorten(text, most)).sum()
}

/// Returns the next commands for a user on a terminal.
fn next_commands(answer: &BuildAnswer) -> Vec<String> {
    if !answer.is_done() {
        let first = answer.jobs.first().map(|job| job.job_id.clone());
        let id = answer.request_id.clone().or(first).unwrap_or_default();
        return vec![format!("buildpool job {id} --wait 10m")];
    }
    let shown = |job: &JobResult| format!("buildpool job {} --verbosity normal", job.job_id);
    answer.failed().take(3).map(shown).collect()
}

fn next(answer: &BuildAnswer, extras: &Extras) -> Vec<String> {
    if extras.on_terminal {
        return next_commands(answer);
    }
    if !answer.is_done() {
        let again = |id: &str| call("get_job", &json!({"job_id": id, "wait_secs": extras.wait_secs}));
        if let Some(build) = &answer.request_id {
            return vec![again(build)];
        }
        let unfinished = answer.jobs.iter().filter(|job| job.state != JobState::Done);
        return unfinished.take(3).map(|job| again(&job.job_id)).collect();
    }
    answer
        .failed()
        .take(3)
        .map(|job| call("get_job", &json!({"job_id": job.job_id, "verbosity": "normal"})))
        .collect()
}

fn assemble(answer: &BuildAnswer, shown: &Shown) -> Answer {
    let Shown { ranked, extras, .. } = shown;
    let next = next(answer, extras);
    let listed: Vec<&JobResult> = shown.jobs.iter().map(|index| &answer.jobs[*index]).collect();
    let failed: Vec<&str> = answer.failed().map(|job| job.job_id.as_str()).collect();
    let is_listed = |id: &&&str| listed.iter().any(|job| job.job_id == ***id);
    let cancelled = answer.cancelled();
    let passed = answer.jobs.iter().filter(|job| job.success).count();
    let first = answer.failed().next().or(answer.jobs.first());
    let (first, exit_code) = (first.map(|job| job.job_id.as_str()), first.and_then(|job| job.exit_code));
    let state = if answer.is_done() { "done" } else { "running" };
    let names_commands = answer.jobs.iter().any(|job| job.command != answer.jobs[0].command);
    let jobs: Vec<Value> =
        listed.iter().map(|job| job_line(job, shown.with_details, names_commands)).collect();
    let mut structured = json!({
        "build": {
            "status": answer.status(),
            "failed_jobs": failed.iter().filter(is_listed).collect::<Vec<_>>(),
            "passed_jobs_count": passed,
            "timestamp": answer.timestamp,
        },
        "jobs": jobs,
        "tier_1_findings": ranked.tier_1.iter().map(|f| prune(serde_json::to_value(f).unwrap_or_default())).collect::<Vec<_>>(),
        "other_findings": ranked.others,
        "job_id": first,
        "state": state,
        "verdict": answer.verdict(),
        "exit_code": exit_code,
    });
    let mut page = Page::default();
    let verdict = answer.verdict().map_or("none yet", Verdict::name);
    let ended = if cancelled > 0 { format!(", {cancelled} cancelled") } else { String::new() };
    page.line(format_args!(
        "BUILD {}: {} failed, {passed} passed{ended}, of {}; state {state}, verdict {verdict}",
        answer.status().to_uppercase(),
        failed.len(),
        counted(answer.jobs.len() as u64, "job")
    ));
    let name = answer.request_id.as_deref().unwrap_or("of several calls, listed by its jobs");
    page.line(format_args!("build {name}, at {}", answer.timestamp));
    if let Some(build) = &answer.request_id {
        structured["request_id"] = json!(build);
    }
    if let Some(url) = &answer.url {
        structured["build"]["url"] = json!(url);
        page.line(format_args!("in a browser: {url}"));
    }
    if extras.reattached {
        structured["reattached"] = json!(true);
        page.line(format_args!("reattached: jobs of an earlier {} are among these", text::earlier(extras)));
    }
    if let Some(chosen) = &extras.chosen {
        structured["chosen"] = json!(chosen);
        page.line(format_args!("chosen: {chosen}"));
    }
    if let Some(note) = &extras.note {
        structured["note"] = json!(note);
        page.line(format_args!("note: {note}"));
    }
    for job in &listed {
        page.line(job_text(job, shown.with_details, names_commands));
        if let Some(cause) = cause(job).filter(|_| shown.with_details) {
            page.quote(&cause);
        }
    }
    for finding in &ranked.tier_1 {
        page.finding(&Finding { job: short_ids(&finding.job, answer), ..finding.clone() }, "");
    }
    for finding in &ranked.others {
        page.finding_line(&FindingSummary { job: short_ids(&finding.job, answer), ..finding.clone() }, "");
    }
    let omitted = omitted(answer, shown);
    if !omitted.is_empty() {
        let short = |cut: &Omission| Omission { get: short_ids(&cut.get, answer), ..cut.clone() };
        page.omitted(&omitted.iter().map(short).collect::<Vec<_>>());
        structured["omitted"] = prune(json!(omitted));
    }
    if !next.is_empty() {
        structured["next"] = json!(next);
        page.next(&next.iter().map(|call| short_ids(call, answer)).collect::<Vec<_>>());
    }
    Answer::new(structured, page.done().trim_end().to_owned())
}

/// Returns an id, a command or a call with the short ids of the build's jobs, for a text.
fn short_ids(command: &str, answer: &BuildAnswer) -> String {
    answer.jobs.iter().fold(command.to_owned(), |text, job| text.replace(&job.job_id, job.shown_id()))
}

/// Returns the omissions, each with the call that returns the omitted part.
fn omitted(answer: &BuildAnswer, shown: &Shown) -> Vec<Omission> {
    let full = match (&answer.request_id, shown.extras.on_terminal) {
        (Some(build), true) => format!("buildpool job {build} --verbosity full"),
        (Some(build), false) => call("get_job", &json!({"job_id": build, "verbosity": "full"})),
        (None, true) => "buildpool job ID --verbosity full".to_owned(),
        (None, false) => "get_job of each job".to_owned(),
    };
    // If this manifest is the largest possible, a single job's answer still contains more.
    let first = answer.failed().next().or(answer.jobs.first()).filter(|_| shown.is_largest);
    let findings = first.map_or_else(
        || full.clone(),
        |job| match shown.extras.on_terminal {
            true => format!("buildpool job {} --verbosity full", job.job_id),
            false => call("get_job", &json!({"job_id": job.job_id, "verbosity": "full"})),
        },
    );
    let jobs = if shown.is_largest { String::new() } else { full.clone() };
    let details = if shown.with_details { 0 } else { shown.jobs.len() };
    // The call for a single finding always returns all of it.
    let whole = shown.ranked.tier_1.first().map_or_else(
        || full.clone(),
        |finding| match shown.extras.on_terminal {
            true => full.clone(),
            false => call("get_finding_details", &json!({"job_id": finding.job, "finding_id": finding.id})),
        },
    );
    [
        ("findings", shown.findings_left, 0, &findings),
        ("warnings", shown.warnings_left, 0, &findings),
        ("jobs", answer.jobs.len() - shown.jobs.len(), 0, &jobs),
        ("labels and workers of jobs", details, 0, &findings),
        ("context of findings", shown.context_left, 0, &whole),
        ("long messages, places and names of findings", 0, shown.bytes_left, &whole),
        // No other call returns these.
        ("chosen, note", shown.extras_left, 0, &String::new()),
    ]
    .into_iter()
    .filter(|(_, lines, bytes, _)| lines + bytes > 0)
    .map(|(part, lines, bytes, get)| Omission {
        what: part.to_owned(),
        lines: lines as u64,
        bytes: bytes as u64,
        get: get.clone(),
    })
    .collect()
}

/// Returns the cause of a job that did not succeed, in one line.
fn cause(job: &JobResult) -> Option<String> {
    job.cause.as_ref().filter(|_| !job.success).map(|cause| short(&cause.text))
}

/// Returns the command of a job, if the jobs of the build run different commands.
fn command(job: &JobResult, names_commands: bool) -> Option<String> {
    names_commands.then(|| short(&job.command))
}

/// Returns a short line. The job's own answer contains all of it.
fn short(text: &str) -> String {
    let mut line = one_line(text);
    super::cut::shorten(&mut line, SHORT_BYTES / 2);
    line
}

fn job_text(job: &JobResult, with_details: bool, names_commands: bool) -> String {
    let mut text = format!("- job {} {}", job.shown_id(), job.state.name());
    if let Some(verdict) = job.verdict {
        let _ = write!(text, " {}", verdict.name());
    }
    if let Some(code) = job.exit_code {
        let _ = write!(text, ", exit code {code}");
    }
    if let Some(waiting) = &job.waiting {
        let _ = write!(text, ", waiting: {}", short(&waiting.reason));
    }
    if with_details {
        if let Some(command) = command(job, names_commands) {
            let _ = write!(text, ", `{command}`");
        }
        if let Some(worker) = &job.worker {
            let _ = write!(text, ", worker {}", one_line(worker));
        }
        // A job without labels may run anywhere.
        if !job.labels.is_empty() {
            let _ = write!(text, ", labels {}", one_line(&job.labels.join(", ")));
        }
    }
    text
}

fn job_line(job: &JobResult, with_details: bool, names_commands: bool) -> Value {
    let waiting = job.waiting.clone().map(|waiting| Waiting { reason: short(&waiting.reason), ..waiting });
    let mut value = prune(json!({
        "job_id": job.job_id,
        "state": job.state,
        "verdict": job.verdict,
        "exit_code": job.exit_code,
        "waiting": waiting,
    }));
    if with_details {
        let labels: Vec<String> = job.labels.iter().map(|label| one_line(label)).collect();
        let details = prune(json!({
            "command": command(job, names_commands),
            "worker": job.worker.as_deref().map(one_line),
            "labels": labels,
            "cause": cause(job),
        }));
        if let (Value::Object(value), Value::Object(details)) = (&mut value, details) {
            value.extend(details);
        }
    }
    value
}
