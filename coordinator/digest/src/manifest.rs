//! Manifest of a build with several jobs. It ranks findings across the jobs and adds up their
//! recurrence.

use crate::digest::Digest;
use buildpool_protocol::limits::TIER_1_FINDINGS_MAX;
use buildpool_protocol::report::{Finding, FindingSummary, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of listed findings beyond tier 1.
const OTHER_FINDINGS_MAX: usize = 200;
/// Reduction of the confidence of a finding that a passing job of the build has too.
const PASSING_PENALTY: f64 = 0.4;

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

/// Builds the manifest. The caller supplies `timestamp` and `url`, because this crate reads no
/// clock.
pub fn manifest(request_id: &str, parts: &[Part<'_>], timestamp: &str, url: Option<String>) -> Manifest {
    let passing: BTreeSet<String> = parts
        .iter()
        .filter_map(|part| part.digest)
        .filter(|digest| digest.success)
        .flat_map(Digest::signatures)
        .collect();
    let mut merged: BTreeMap<String, (usize, Finding)> = BTreeMap::new();
    let failed =
        parts.iter().filter_map(|part| Some((part, part.digest?))).filter(|(_, digest)| !digest.success);
    for (part, digest) in failed {
        for (finding, signature) in digest.findings.iter().zip(digest.signatures()) {
            let place = merged.len();
            let (_, kept) = merged.entry(signature.clone()).or_insert_with(|| {
                let mut finding = finding.clone();
                finding.job = part.name.to_owned();
                finding.recurrence = 0;
                if passing.contains(&signature) && !finding.also_in_passing_jobs {
                    finding.also_in_passing_jobs = true;
                    finding.tier = 3;
                    finding.confidence = (finding.confidence - PASSING_PENALTY).max(0.05);
                }
                (place, finding)
            });
            kept.recurrence += finding.recurrence;
        }
    }
    let mut findings: Vec<(usize, Finding)> = merged.into_values().collect();
    // Confidence is compared in hundredths, so that equal values keep the order of the build.
    findings
        .sort_by_key(|(place, finding)| (finding.tier, 100 - (finding.confidence * 100.0) as i64, *place));
    let mut findings: Vec<Finding> = findings.into_iter().map(|(_, finding)| finding).collect();
    let expanded = findings.iter().take_while(|finding| finding.tier == 1).take(TIER_1_FINDINGS_MAX).count();
    let mut others = findings.split_off(expanded);
    let omitted_findings = others.len().saturating_sub(OTHER_FINDINGS_MAX) as u64;
    others.truncate(OTHER_FINDINGS_MAX);
    Manifest {
        request_id: request_id.to_owned(),
        build: build(parts, timestamp, url),
        tier_1_findings: findings,
        other_findings: others.iter().map(summary).collect(),
        omitted_findings,
    }
}

fn build(parts: &[Part<'_>], timestamp: &str, url: Option<String>) -> Build {
    let verdict = |part: &Part<'_>| part.verdict;
    let unfinished: Vec<String> =
        parts.iter().filter(|part| part.verdict.is_none()).map(|part| part.name.to_owned()).collect();
    let worst = parts.iter().filter_map(verdict).max_by_key(|verdict| badness(*verdict));
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
