//! Manifest of a build with several jobs. It ranks findings across the jobs and adds up their
//! recurrence.

use crate::digest::Digest;
use buildpool_protocol::limits::TIER_1_FINDINGS_MAX;
use buildpool_protocol::report::{Finding, FindingSummary, Verdict};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of listed findings beyond tier 1.
const OTHER_FINDINGS_MAX: usize = 200;
/// Reduction of the confidence of a finding that a passing job of the build has too.
const PASSING_PENALTY: f64 = 0.4;
/// Minimum confidence of a finding.
const CONFIDENCE_MIN: f64 = 0.05;

/// Answer for a build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Manifest {
    /// Id of the build, as accepted by `get_finding_details`.
    pub request_id: String,
    /// Status of the build.
    pub build: Build,
    /// Likely causes across all jobs, in full.
    pub tier_1_findings: Vec<Finding>,
    /// Other findings, one line each.
    pub other_findings: Vec<FindingSummary>,
    /// Number of findings that are not listed.
    pub omitted_findings: u64,
}

/// Status of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Build {
    /// `running` until all jobs are done, then `passed` or the worst of their verdicts.
    pub status: String,
    /// Jobs that did not pass, by name, in the order of the build.
    pub failed_jobs: Vec<String>,
    /// Number of jobs that passed.
    pub passed_jobs_count: u64,
    /// Jobs that are not done yet, by name.
    pub unfinished_jobs: Vec<String>,
    /// Time of the last job's end, or of the request, in RFC 3339.
    pub timestamp: String,
    /// Address of the build's web page, if the coordinator has one.
    pub url: Option<String>,
}

/// One job of a build.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Name of the job, unique in the build.
    pub name: &'a str,
    /// Verdict of the job, if it is done.
    pub verdict: Option<Verdict>,
    /// Digest of the job, if it is done and has run.
    pub digest: Option<&'a Digest>,
}

/// Rank of a verdict for the build's status. A greater rank is worse.
const fn badness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Crashed => 7,
        Verdict::Failed => 6,
        Verdict::TimedOut => 5,
        Verdict::Inconclusive => 4,
        Verdict::Lost => 3,
        Verdict::Rejected => 2,
        Verdict::Cancelled => 1,
        Verdict::Passed => 0,
    }
}

/// Findings of one job of a build.
#[derive(Clone, Debug, Default)]
pub struct JobFindings {
    /// Name of the job.
    pub job: String,
    /// Whether the job passed.
    pub passed: bool,
    /// Findings in full.
    pub findings: Vec<Finding>,
    /// Findings of which only one line is known.
    pub summaries: Vec<FindingSummary>,
}

/// Findings of all jobs of a build, in order of likelihood.
#[derive(Clone, Debug, Default)]
pub struct Ranked {
    /// Likely causes in full, at most 15.
    pub tier_1: Vec<Finding>,
    /// The other findings.
    pub others: Vec<FindingSummary>,
    /// Ids of findings that passing jobs have too.
    pub passing: BTreeSet<String>,
}

/// Ranks the findings of all jobs of a build. A finding of several jobs has one entry, with the sum of its
/// occurrences. A finding that a passing job has too is not a likely cause. Ids are equal in all jobs, because they
/// are derived from message and place.
pub fn rank(jobs: impl IntoIterator<Item = JobFindings>) -> Ranked {
    let (passed, failed): (Vec<JobFindings>, Vec<JobFindings>) = jobs.into_iter().partition(|job| job.passed);
    let passing: BTreeSet<String> = passed
        .iter()
        .flat_map(|job| {
            let findings = job.findings.iter().map(|finding| finding.id.clone());
            findings.chain(job.summaries.iter().map(|finding| finding.id.clone()))
        })
        .collect();
    let mut merged: Vec<Finding> = Vec::new();
    let mut summaries: Vec<FindingSummary> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for job in failed {
        for finding in job.findings {
            if let Some(place) = places.get(&finding.id) {
                merged[*place].recurrence += finding.recurrence;
                continue;
            }
            places.insert(finding.id.clone(), merged.len());
            merged.push(Finding { job: job.job.clone(), ..finding });
        }
        summaries.extend(job.summaries);
    }
    for finding in merged.iter_mut().filter(|finding| passing.contains(&finding.id)) {
        finding.also_in_passing_jobs = true;
        (finding.tier, finding.confidence) = less_likely(finding.tier, finding.confidence);
    }
    for finding in summaries.iter_mut().filter(|finding| passing.contains(&finding.id)) {
        (finding.tier, finding.confidence) = less_likely(finding.tier, finding.confidence);
    }
    merged.sort_by_key(|finding| {
        let likelihood = (finding.confidence * 100.0).round() as i64;
        (finding.tier, finding.severity, Reverse(finding.recurrence), Reverse(likelihood))
    });
    let expanded = merged.iter().take_while(|finding| finding.tier == 1).take(TIER_1_FINDINGS_MAX).count();
    let mut others: Vec<FindingSummary> = merged.split_off(expanded).iter().map(summary).collect();
    let of_passed = passed.into_iter().flat_map(|job| {
        let findings: Vec<FindingSummary> = job
            .findings
            .into_iter()
            .map(|finding| summary(&Finding { job: job.job.clone(), ..finding }))
            .collect();
        findings.into_iter().chain(job.summaries)
    });
    let mut ids: BTreeSet<String> = places.into_keys().collect();
    let mut lines: BTreeSet<(u8, String)> =
        others.iter().map(|known| (known.tier, known.message.clone())).collect();
    for finding in summaries.into_iter().chain(of_passed) {
        let is_new_line = lines.insert((finding.tier, finding.message.clone()));
        if ids.insert(finding.id.clone()) && is_new_line {
            others.push(finding);
        }
    }
    others.sort_by_key(|finding| (finding.tier, finding.severity));
    Ranked { tier_1: merged, others, passing }
}

/// Returns tier and confidence of a finding that passing jobs have too. A finding of tier 3 has lost its confidence
/// already.
fn less_likely(tier: u8, confidence: f64) -> (u8, f64) {
    if tier >= 3 {
        return (tier, confidence);
    }
    let confidence = (confidence - PASSING_PENALTY).max(CONFIDENCE_MIN);
    (3, (confidence * 100.0).round() / 100.0)
}

/// Returns the worst of some verdicts.
pub fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Option<Verdict> {
    verdicts.into_iter().max_by_key(|verdict| badness(*verdict))
}

/// Builds the manifest. The caller supplies `timestamp` and `url`, because this crate reads no
/// clock.
pub fn manifest(request_id: &str, parts: &[Part<'_>], timestamp: &str, url: Option<String>) -> Manifest {
    let ran = parts.iter().filter_map(|part| Some((part, part.digest?)));
    let ranked = rank(ran.map(|(part, digest)| JobFindings {
        job: part.name.to_owned(),
        passed: digest.success,
        findings: digest.findings.clone(),
        summaries: Vec::new(),
    }));
    let Ranked { tier_1, mut others, .. } = ranked;
    let omitted_findings = others.len().saturating_sub(OTHER_FINDINGS_MAX) as u64;
    others.truncate(OTHER_FINDINGS_MAX);
    Manifest {
        request_id: request_id.to_owned(),
        build: build(parts, timestamp, url),
        tier_1_findings: tier_1,
        other_findings: others,
        omitted_findings,
    }
}

fn build(parts: &[Part<'_>], timestamp: &str, url: Option<String>) -> Build {
    let verdict = |part: &Part<'_>| part.verdict;
    let unfinished: Vec<String> =
        parts.iter().filter(|part| part.verdict.is_none()).map(|part| part.name.to_owned()).collect();
    let worst = worst(parts.iter().filter_map(verdict));
    let status = match worst {
        _ if !unfinished.is_empty() => "running".to_owned(),
        Some(verdict) => verdict.name().to_owned(),
        None => Verdict::Inconclusive.name().to_owned(),
    };
    Build {
        status,
        failed_jobs: parts
            .iter()
            .filter(|part| verdict(part).is_some_and(|verdict| verdict != Verdict::Passed))
            .map(|part| part.name.to_owned())
            .collect(),
        passed_jobs_count: parts.iter().filter(|part| verdict(part) == Some(Verdict::Passed)).count() as u64,
        unfinished_jobs: unfinished,
        timestamp: timestamp.to_owned(),
        url,
    }
}

fn summary(finding: &Finding) -> FindingSummary {
    let first = finding.message.lines().next().unwrap_or_default();
    FindingSummary {
        id: finding.id.clone(),
        tier: finding.tier,
        message: crate::text::clip_chars(first, 300).into_owned(),
        severity: finding.severity,
        confidence: finding.confidence,
        job: finding.job.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Digester, Facts, Options};
    use buildpool_protocol::outcome::Ending;
    use buildpool_protocol::output::Stream;

    fn digest(log: &str, code: i32) -> Digest {
        let mut digester = Digester::new(Options::default());
        digester.push(Stream::Stdout, log.as_bytes());
        digester.finish(&Facts { ending: Some(Ending::Exited { code }), ..Facts::default() })
    }

    fn done<'a>((name, digest): (&'a str, &'a Digest)) -> Part<'a> {
        Part { name, verdict: Some(digest.verdict), digest: Some(digest) }
    }

    #[test]
    fn a_job_that_never_ran_is_over() {
        let rejected = Part { name: "a", verdict: Some(Verdict::Rejected), digest: None };
        let made = manifest("r", &[rejected], "", None);
        assert_eq!(
            (made.build.status.as_str(), &*made.build.failed_jobs),
            ("rejected", &["a".to_owned()][..])
        );
        assert!(made.build.unfinished_jobs.is_empty());
    }

    #[test]
    fn findings_are_ranked_across_jobs_and_counted_over_them() {
        let shared = "src/a.c:3:4: error: no such thing\n";
        let one = digest(shared, 1);
        let two = digest(&format!("{shared}src/b.c:1:1: error: only here [nullPointer]\n"), 1);
        let good = digest("src/b.c:1:1: error: only here [nullPointer]\n", 0);
        let parts = [("mac", &one), ("linux", &two), ("docs", &good)].map(done);
        let made = manifest("req-1", &parts, "2026-11-21T10:00:00Z", None);
        assert_eq!(made.build.status, "failed");
        assert_eq!(made.build.failed_jobs, ["mac", "linux"]);
        assert_eq!(made.build.passed_jobs_count, 1);
        assert_eq!(made.tier_1_findings.len(), 1);
        assert_eq!(made.tier_1_findings[0].recurrence, 2);
        assert_eq!(made.tier_1_findings[0].job, "mac");
        assert_eq!(made.other_findings.len(), 1);
        assert_eq!(made.other_findings[0].tier, 3);
    }

    #[test]
    fn a_build_runs_until_its_last_job_is_done() {
        let good = digest("", 0);
        let parts = [done(("a", &good)), Part { name: "b", verdict: None, digest: None }];
        let made = manifest("r", &parts, "", None);
        assert_eq!(made.build.status, "running");
        assert_eq!(made.build.unfinished_jobs, ["b"]);
        assert_eq!(manifest("r", &parts[..1], "", None).build.status, "passed");
    }
}
