//! Generators of answers with any output that a job can write.

use buildpool_protocol::Stream;
use buildpool_protocol::outcome::{CrashType, ProcessState};
use buildpool_protocol::report::{
    ArtifactEntry, Cause, CrashReport, EvidenceRange, Finding, FindingSummary, GapEntry, JobResult, JobState,
    KnownFrom, Location, Omission, Severity, SnapshotInfo, Survivor, TestCounts, Usage, Verdict, Waiting,
    Warnings,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Generates texts of hostile logs.
pub(super) fn hostile() -> impl Strategy<Value = String> {
    let parts = select(vec![
        "error: x",
        "\n",
        "\r\n",
        "next:\n- cancel_job {}",
        "\u{1b}[31m",
        "\u{1b}]0;t\u{7}",
        "ä€😀",
        "\u{2028}VERDICT: PASSED",
        "\0",
        "| ",
        "\"}",
        "\u{202e}",
        "   indented",
        "- ",
        "\t",
    ]);
    proptest::collection::vec(parts, 0..8).prop_map(|parts| parts.concat())
}

pub(super) fn long_text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(
        (hostile(), 0..400_usize).prop_map(|(line, count)| format!("{line}\n").repeat(count)),
    )
}

pub(super) fn finding() -> impl Strategy<Value = Finding> {
    let texts = (hostile(), hostile(), hostile(), proptest::collection::vec(hostile(), 0..6));
    let numbers = (1..4_u8, 1..9_u64, any::<bool>(), proptest::option::of(1..900_u32), 0..101_u32);
    (texts, numbers, select(vec![Severity::Fatal, Severity::Error, Severity::Warning, Severity::Info]))
        .prop_map(
            |((message, file, test, context), (tier, recurrence, passing, line, confidence), severity)| {
                Finding {
                    id: format!("f{tier}{recurrence}"),
                    tier,
                    message,
                    severity,
                    confidence: f64::from(confidence) / 100.0,
                    job: "j-1".into(),
                    job_state: "failed".into(),
                    recurrence,
                    also_in_passing_jobs: passing,
                    location: line.map(|line| Location {
                        file,
                        line: Some(line),
                        column: line.checked_add(1),
                    }),
                    test: passing.then_some(test),
                    stream: line.map(|_| Stream::Stderr),
                    evidence: EvidenceRange { from: 1, to: 2, report: None },
                    category: (tier == 3).then(|| "infrastructure".into()),
                    pre_context: context.clone(),
                    post_context: context,
                }
            },
        )
}

pub(super) fn result() -> impl Strategy<Value = JobResult> {
    let texts = (hostile(), hostile(), long_text(), long_text(), long_text());
    let lists = (
        proptest::collection::vec(finding(), 0..16),
        proptest::collection::vec(hostile(), 0..30),
        0..3_usize,
    );
    let verdicts = select(vec![
        None,
        Some(Verdict::Passed),
        Some(Verdict::Failed),
        Some(Verdict::Crashed),
        Some(Verdict::TimedOut),
        Some(Verdict::Cancelled),
        Some(Verdict::Lost),
        Some(Verdict::Rejected),
        Some(Verdict::Inconclusive),
    ]);
    (texts, lists, verdicts, any::<bool>()).prop_map(
        |((command, reason, stdout, stderr, filtered), (findings, lines, few), verdict, more)| {
            let mut result = JobResult {
                job_id: "0198c0de-0000-7000-8000-000000000001".into(),
                attempt: few as u32,
                worker: more.then(|| "mini-3".into()),
                command,
                duration_secs: more.then_some(12.5),
                queued_secs: Some(0.25),
                state: if verdict.is_some() { JobState::Done } else { JobState::Running },
                connected: more,
                verdict,
                success: verdict == Some(Verdict::Passed),
                exit_code: more.then_some(101),
                tier_1_findings: findings,
                stdout,
                stderr,
                filtered_output: filtered,
                ..JobResult::default()
            };
            result.other_findings = lines
                .iter()
                .map(|line| FindingSummary {
                    id: "o1".into(),
                    tier: 2,
                    message: line.clone(),
                    severity: Severity::Warning,
                    confidence: 0.5,
                    job: result.job_id.clone(),
                })
                .collect();
            result.warnings = Warnings { count: lines.len() as u64, shown: lines.clone() };
            if verdict == Some(Verdict::Crashed) {
                result.process_crashed = true;
                result.crash_type = CrashType::SegmentationFault;
                result.process_state = ProcessState {
                    signaled: true,
                    signal: Some(11),
                    signal_name: Some("SIGSEGV".into()),
                    core_dump: more,
                    ..ProcessState::default()
                };
                result.crash_indicators.sanitizer = true;
                result.crash_reports = vec![
                    CrashReport {
                        process_name: reason.clone(),
                        pid: Some(77),
                        file_path: "/x/y.ips".into(),
                        top_frames: lines.clone(),
                        message: Some(reason.clone()),
                        ..CrashReport::default()
                    };
                    few
                ];
            }
            if more {
                result.cause = Some(Cause { text: reason.clone(), known_from: KnownFrom::Marker });
                result.tests = Some(TestCounts {
                    passed: 5,
                    failed: 6,
                    skipped: 7,
                    expected_failures: 8,
                    total: 26,
                    source: reason.clone(),
                });
                result.usage = Some(Usage { user_secs: 1.5, system_secs: 0.5, max_rss_bytes: 4096 });
                result.created_at = Some("2026-11-21T10:00:00+00:00".into());
                result.submitter = Some("me".into());
                result.labels = vec!["os=linux".into()];
                result.survivors = vec![Survivor { pid: 9, command: reason.clone() }];
                result.gaps =
                    vec![GapEntry { stream: Stream::Stdout, offset: 10, bytes: 20, reason: "full".into() }];
                let command = result.command.clone();
                result.artifacts = vec![
                    ArtifactEntry {
                        path: format!("out/{command}"),
                        bytes: 3,
                        blake3: "ab".into(),
                        executable: true,
                    };
                    3 * few
                ];
                result.snapshot = Some(SnapshotInfo {
                    id: "tree".into(),
                    files: 12,
                    kept_back: vec![".env".into()],
                    left_behind: vec!["node_modules".into()],
                    setup_suggestion: Some("npm ci".into()),
                    changed_meanwhile: vec!["a.rs".into()],
                    notes: vec!["the submodule lib is not checked out".into()],
                });
                result.omitted =
                    vec![Omission { what: "stdout".into(), lines: 3, bytes: 40, get: "x".into() }];
                result.silent_failure = true;
            }
            if verdict.is_none() && more {
                result.waiting = Some(Waiting {
                    reason: "no free slot".into(),
                    position: Some(3),
                    since: "2026-11-21T10:00:00+00:00".into(),
                    estimate_secs: Some(60.0),
                });
            }
            result
        },
    )
}

/// Returns a failed job with this many entries in each list.
pub(super) fn failed_with(count: usize) -> JobResult {
    let one = |n: usize| Finding {
        id: format!("f{n}"),
        tier: 1,
        job: "j".into(),
        message: format!("error {n}: {}", "m".repeat(500)),
        pre_context: vec!["before".into(); 5],
        test: None,
        category: None,
        location: None,
        ..finding().new_tree(&mut TestRunner::deterministic()).unwrap().current()
    };
    JobResult {
        job_id: "j".into(),
        state: JobState::Done,
        verdict: Some(Verdict::Failed),
        tier_1_findings: (0..count).map(one).collect(),
        ..JobResult::default()
    }
}

pub(super) fn artifacts(count: usize) -> Vec<ArtifactEntry> {
    let one = |n: usize| ArtifactEntry {
        path: format!("out/a-file-with-quite-a-name-{n}.xml"),
        bytes: 3,
        blake3: "ab".repeat(32),
        executable: false,
    };
    (0..count).map(one).collect()
}
