//! The answer about a build: several jobs of one request as one manifest, findings ranked across them.

use super::clean::one_line;
use super::job::{Extras, call, clean_finding};
use super::text::Page;
use super::{Answer, Budget, UNTRUSTED, prune, text};
use buildpool_protocol::Finding;
use buildpool_protocol::report::{FindingSummary, JobResult, JobState, Verdict};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// What is known of a build.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BuildAnswer {
    /// Gets it again.
    pub(crate) request_id: String,
    /// Whether that works: jobs of an earlier call belong to that call's build.
    pub(crate) has_own_id: bool,
    /// RFC 3339: of this answer.
    pub(crate) timestamp: String,
    /// In the order in which they were asked for.
    pub(crate) jobs: Vec<JobResult>,
}

impl BuildAnswer {
    fn is_done(&self) -> bool {
        self.jobs.iter().all(|job| job.state == JobState::Done)
    }

    fn failed(&self) -> impl Iterator<Item = &JobResult> {
        self.jobs.iter().filter(|job| job.state == JobState::Done && !job.success)
    }

    /// The worst of its jobs; none while one of them goes on.
    fn verdict(&self) -> Option<Verdict> {
        if !self.is_done() {
            return None;
        }
        let rank = |job: &&JobResult| match job.verdict {
            Some(Verdict::Crashed) => 7,
            Some(Verdict::Failed) => 6,
            Some(Verdict::TimedOut) => 5,
            Some(Verdict::Lost) => 4,
            Some(Verdict::Rejected) => 3,
            Some(Verdict::Inconclusive) => 2,
            Some(Verdict::Cancelled) => 1,
            Some(Verdict::Passed) | None => 0,
        };
        self.jobs.iter().max_by_key(rank).and_then(|job| job.verdict)
    }

    fn status(&self) -> &'static str {
        if self.failed().next().is_some() {
            "failed"
        } else if self.is_done() {
            "passed"
        } else {
            "running"
        }
    }
}

/// Findings over all jobs, as far as they are shown.
#[derive(Clone, Default)]
struct Ranked {
    tier_1: Vec<Finding>,
    others: Vec<FindingSummary>,
    omitted: usize,
}

/// Both forms of the answer about a build, within the budget.
pub(crate) fn build(answer: &BuildAnswer, extras: &Extras, budget: &Budget) -> Answer {
    let mut ranked = rank(&answer.jobs);
    loop {
        let rendered = assemble(answer, &ranked, extras);
        let excess = budget.excess(&rendered);
        if excess == 0 || !cut(&mut ranked, excess) {
            return rendered;
        }
    }
}

/// How a manifest lists a finding.
pub(crate) struct Listed {
    /// The job that it names.
    pub(crate) job: String,
    /// Over all jobs; none for a summary, which does not say it.
    pub(crate) recurrence: Option<u64>,
    /// Whether passing jobs of the build have it too.
    pub(crate) also_in_passing_jobs: bool,
}

/// The finding of this id as the manifest lists it, before anything is cut.
pub(crate) fn listed(answer: &BuildAnswer, id: &str) -> Option<Listed> {
    let ranked = rank(&answer.jobs);
    let tier_1 = ranked.tier_1.into_iter().find(|finding| finding.id == id).map(|finding| Listed {
        job: finding.job,
        recurrence: Some(finding.recurrence),
        also_in_passing_jobs: finding.also_in_passing_jobs,
    });
    tier_1.or_else(|| {
        let other = ranked.others.into_iter().find(|finding| finding.id == id)?;
        Some(Listed { job: other.job, recurrence: None, also_in_passing_jobs: false })
    })
}

/// One finding a message and place; how often it was seen is counted over the jobs.
fn rank(jobs: &[JobResult]) -> Ranked {
    let mut tier_1: Vec<Finding> = Vec::new();
    for finding in jobs.iter().flat_map(|job| &job.tier_1_findings) {
        let mut finding = finding.clone();
        clean_finding(&mut finding);
        match tier_1.iter_mut().find(|known| is_same(known, &finding)) {
            Some(known) => known.recurrence += finding.recurrence,
            None => tier_1.push(finding),
        }
    }
    let passing: Vec<&Finding> =
        jobs.iter().filter(|job| job.success).flat_map(|job| &job.tier_1_findings).collect();
    for finding in &mut tier_1 {
        finding.also_in_passing_jobs |= passing.iter().any(|other| is_same(other, finding));
    }
    tier_1.sort_by_key(|finding| {
        (finding.tier, finding.also_in_passing_jobs, finding.severity, Reverse(finding.recurrence))
    });
    let mut others: Vec<FindingSummary> = Vec::new();
    for finding in jobs.iter().flat_map(|job| &job.other_findings) {
        let finding = FindingSummary { message: one_line(&finding.message), ..finding.clone() };
        if !others.iter().any(|known| known.message == finding.message && known.tier == finding.tier) {
            others.push(finding);
        }
    }
    others.sort_by_key(|finding| (finding.tier, finding.severity));
    Ranked { tier_1, others, omitted: 0 }
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    one.message == other.message && one.location == other.location && one.test == other.test
}

fn cut(ranked: &mut Ranked, excess: usize) -> bool {
    if let Some(gone) = ranked.others.pop() {
        let mut freed = gone.message.len();
        ranked.omitted += 1;
        while freed < excess / 2 {
            let Some(gone) = ranked.others.pop() else { break };
            freed += gone.message.len();
            ranked.omitted += 1;
        }
        return true;
    }
    let has_context = |f: &&mut Finding| !f.pre_context.is_empty() || !f.post_context.is_empty();
    if let Some(finding) = ranked.tier_1.iter_mut().rev().find(has_context) {
        finding.pre_context.clear();
        finding.post_context.clear();
        return true;
    }
    if let Some(finding) = ranked.tier_1.iter_mut().rev().find(|finding| finding.message.len() > 300) {
        let keep = finding.message.floor_char_boundary(240);
        finding.message.truncate(keep);
        finding.message.push('…');
        return true;
    }
    if ranked.tier_1.len() > 1 {
        ranked.tier_1.pop();
        ranked.omitted += 1;
        return true;
    }
    false
}

/// The next calls of somebody on a terminal.
fn next_commands(answer: &BuildAnswer) -> Vec<String> {
    if !answer.is_done() {
        return vec![format!("buildpool job {} --wait 10m", answer.request_id)];
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
        if answer.has_own_id {
            return vec![again(&answer.request_id)];
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

fn assemble(answer: &BuildAnswer, ranked: &Ranked, extras: &Extras) -> Answer {
    let next = next(answer, extras);
    let failed: Vec<&str> = answer.failed().map(|job| job.job_id.as_str()).collect();
    let passed = answer.jobs.iter().filter(|job| job.success).count();
    let first = failed.first().copied().or(answer.jobs.first().map(|job| job.job_id.as_str()));
    let state = if answer.is_done() { "done" } else { "running" };
    let jobs: Vec<Value> = answer.jobs.iter().map(job_line).collect();
    let mut structured = json!({
        "request_id": answer.request_id,
        "build": {
            "status": answer.status(),
            "failed_jobs": failed,
            "passed_jobs_count": passed,
            "timestamp": answer.timestamp,
        },
        "jobs": jobs,
        "tier_1_findings": ranked.tier_1.iter().map(|f| prune(serde_json::to_value(f).unwrap_or_default())).collect::<Vec<_>>(),
        "other_findings": ranked.others,
        "job_id": first,
        "state": state,
        "verdict": answer.verdict(),
        "next": next,
    });
    let mut page = Page::default();
    let verdict = answer.verdict().map_or("none yet", Verdict::name);
    page.line(format_args!(
        "BUILD {}: {} failed, {passed} passed, of {} jobs; state {state}, verdict {verdict}",
        answer.status().to_uppercase(),
        failed.len(),
        answer.jobs.len()
    ));
    page.line(format_args!("build {}, at {}", answer.request_id, answer.timestamp));
    if let Some(chosen) = &extras.chosen {
        structured["chosen"] = json!(chosen);
        page.line(format_args!("chosen: {chosen}"));
    }
    if let Some(note) = &extras.note {
        structured["note"] = json!(note);
        page.line(format_args!("note: {note}"));
    }
    for job in &answer.jobs {
        let verdict = job.verdict.map_or("", Verdict::name);
        let code = job.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        let worker =
            job.worker.as_ref().map(|worker| format!(", worker {}", one_line(worker))).unwrap_or_default();
        let labels = one_line(&job.labels.join(", "));
        page.line(format_args!(
            "- job {} {} {verdict}{code}{worker}, labels {labels}",
            job.job_id,
            job.state.name()
        ));
    }
    if !ranked.tier_1.is_empty() || !ranked.others.is_empty() {
        structured["untrusted"] = json!(format!("tier_1_findings, other_findings {UNTRUSTED}"));
        page.line(format_args!(
            "untrusted: tier_1_findings, other_findings {UNTRUSTED}; each such line begins with a bar"
        ));
    }
    for (index, finding) in ranked.tier_1.iter().enumerate() {
        text::finding(&mut page, &format!("{}.", index + 1), finding, "");
    }
    for finding in &ranked.others {
        page.line(format_args!(
            "- {} ({}, tier {}, confidence {}, job {})",
            finding.id,
            text::json_word(&finding.severity),
            finding.tier,
            finding.confidence,
            finding.job
        ));
        page.quote(&finding.message);
    }
    if ranked.omitted > 0 {
        let get = if extras.on_terminal {
            "buildpool job ID --verbosity full"
        } else {
            "get_job of the job, with a higher verbosity"
        };
        structured["omitted"] = json!([{"what": "findings", "lines": ranked.omitted, "get": get}]);
        page.line(format_args!("omitted: {} findings: {get}", ranked.omitted));
    }
    page.list("next:", &next);
    Answer { structured, text: page.done() }
}

fn job_line(job: &JobResult) -> Value {
    let mut value = prune(json!({
        "job_id": job.job_id,
        "state": job.state,
        "verdict": job.verdict,
        "worker": job.worker.as_deref().map(one_line),
        "labels": job.labels.iter().map(|label| one_line(label)).collect::<Vec<_>>(),
    }));
    if let Some(code) = job.exit_code {
        value["exit_code"] = json!(code);
    }
    value
}
