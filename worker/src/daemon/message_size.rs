//! Makes an outcome fit into one message. Its parts have limits of their own, and this module
//! limits the total. A message over the limit would close each connection, and the job would never
//! end.

use buildpool_protocol::evidence::Evidence;
use buildpool_protocol::frame::encoded_length;
use buildpool_protocol::ids::Lease;
use buildpool_protocol::limiter;
use buildpool_protocol::limits::CONTROL_MESSAGE_BYTES_MAX;
use buildpool_protocol::outcome::Outcome;
use buildpool_protocol::shown::counted;
use buildpool_protocol::worker_link::FromWorker;

/// Number of notes kept if an outcome is too long.
const NOTES_KEPT: usize = 20;
/// Limit on each of these notes, in bytes.
const NOTE_BYTES_KEPT: usize = 1 << 10;

/// Number of reports with kept counts.
const REPORTS_KEPT: usize = 100;
/// Limit on the name of the one unfinished test kept for each report, in bytes.
const UNFINISHED_BYTES_KEPT: usize = 256;

/// Returns a `complete` message within the size limit. If the outcome is too long, notes, artifacts
/// and evidence are dropped in this order, and a note reports it.
pub(super) fn complete(lease: Lease, mut outcome: Box<Outcome>) -> FromWorker {
    for leave_out in [notes, artifacts, evidence] {
        // Reserve space for the rest of the message.
        if encoded_length(&outcome) + 1024 <= CONTROL_MESSAGE_BYTES_MAX {
            break;
        }
        leave_out(&mut outcome);
    }
    let mut message = FromWorker::Complete { lease, outcome };
    shorten(&mut message);
    message
}

/// Shortens texts and lists to the limits that the coordinator checks.
pub(super) fn shorten(message: &mut FromWorker) {
    if let Err(error) = limiter::shorten(message) {
        // A name cannot be shortened. The coordinator refuses this worker with the same reason.
        tracing::warn!(%error, "the coordinator will refuse a message of this worker");
    }
}

fn notes(outcome: &mut Outcome) {
    let notes = &mut outcome.evidence.notes;
    let before = notes.len();
    notes.truncate(NOTES_KEPT);
    for note in notes.iter_mut() {
        note.truncate(note.floor_char_boundary(NOTE_BYTES_KEPT));
    }
    notes.push(format!(
        "the result was too long for one message: of {before} notes the first {NOTES_KEPT} were kept"
    ));
}

fn artifacts(outcome: &mut Outcome) {
    let count = std::mem::take(&mut outcome.artifacts).len();
    let text =
        format!("the result was too long for one message, without {}", counted(count as u64, "artifact"));
    outcome.evidence.notes.push(text);
}

fn evidence(outcome: &mut Outcome) {
    let left_out = outcome.evidence.failures_beyond(REPORTS_KEPT, 0);
    let crashes = outcome.evidence.crash_reports.len() as u64;
    let crashes =
        (crashes > 0).then(|| format!("{} did not fit into the result", counted(crashes, "crash report")));
    let Evidence { mut test_reports, memory, mut notes, unread, .. } = std::mem::take(&mut outcome.evidence);
    // The missing part may contradict a success.
    let unread = unread.or(left_out).or(crashes);
    // The verdict depends on the counts, and on whether a test did not end.
    for report in &mut test_reports {
        report.cases_omitted += std::mem::take(&mut report.cases).len() as u64;
        report.unfinished.truncate(1);
        for name in &mut report.unfinished {
            name.truncate(name.floor_char_boundary(UNFINISHED_BYTES_KEPT));
        }
        report.passed_tests.clear();
    }
    test_reports.truncate(REPORTS_KEPT);
    notes.push("the result was too long for one message: of reports only the counts were kept".to_owned());
    outcome.evidence = Evidence { test_reports, memory, notes, unread, ..Evidence::default() };
}

#[cfg(test)]
mod tests {
    use super::complete;
    use buildpool_protocol::evidence::{Evidence, TestCase, TestReport};
    use buildpool_protocol::frame::{decode_control, encode_control};
    use buildpool_protocol::ids::{AttemptId, JobId, Lease};
    use buildpool_protocol::outcome::{Ending, Outcome, Seal};
    use buildpool_protocol::report::{ArtifactEntry, CrashReport, Survivor};
    use buildpool_protocol::worker_link::FromWorker;
    use std::time::Duration;

    fn outcome() -> Outcome {
        let seal = Seal { length: 0, blake3: "0".repeat(64) };
        Outcome {
            started_at_ms: Some(1),
            duration: Duration::from_millis(1),
            ..Outcome::new(Ending::Exited { code: 0 }, 2, [seal.clone(), seal])
        }
    }

    /// Returns the message as the coordinator decodes it.
    fn sent(outcome: Outcome) -> Outcome {
        let lease = Lease {
            attempt: AttemptId { job: JobId::from_uuid(uuid::Uuid::from_u128(1)), number: 1 },
            epoch: 1,
        };
        let text = encode_control(&complete(lease, Box::new(outcome)));
        match decode_control(&text).expect("a message that is taken") {
            FromWorker::Complete { outcome, .. } => *outcome,
            other => panic!("{other:?}"),
        }
    }

    fn artifacts(count: usize, path_bytes: usize) -> Vec<ArtifactEntry> {
        let entry = |number| ArtifactEntry {
            path: format!("{number:0>path_bytes$}"),
            bytes: 1,
            blake3: "0".repeat(64),
            executable: false,
        };
        (0..count).map(entry).collect()
    }

    #[test]
    fn an_end_is_shortened_to_what_the_coordinator_takes() {
        let long = "\u{e4}".repeat(1 << 20);
        let survivor = Survivor { pid: 1, command: long.clone() };
        let evidence = Evidence { notes: vec![long.clone()], ..Evidence::default() };
        let said = sent(Outcome {
            ending: Ending::Unobserved { reason: long },
            finished_at_ms: i64::MAX,
            duration: Duration::MAX,
            log_length: u64::MAX,
            survivors: vec![survivor],
            evidence,
            ..outcome()
        });
        assert!(said.survivors[0].command.len() <= 1024 && said.evidence.notes[0].len() <= 16 << 10);
        assert_eq!(said.finished_at_ms, 253_402_300_799_999);
    }

    #[test]
    fn an_end_that_would_be_too_long_for_a_message_is_said_without_what_matters_least() {
        let whole = Outcome { artifacts: artifacts(10, 100), ..outcome() };
        assert_eq!(sent(whole.clone()), whole);

        let notes = vec!["\u{1}".repeat(4_000); 400];
        let with_notes = Evidence { notes: notes.clone(), ..Evidence::default() };
        let without_notes =
            sent(Outcome { evidence: with_notes, artifacts: artifacts(10, 100), ..outcome() });
        assert_eq!((without_notes.artifacts.len(), without_notes.evidence.notes.len()), (10, 21));

        let without_artifacts = sent(Outcome { artifacts: artifacts(5_000, 810), ..outcome() });
        assert!(without_artifacts.artifacts.is_empty());
        let said = without_artifacts.evidence.notes.join("\n");
        assert!(said.contains("without 5,000 artifacts"), "{said}");

        let case = TestCase { name: "\u{1}".repeat(1_000), ..TestCase::default() };
        let report = TestReport { failed: 3, cases: vec![case; 1_000], ..TestReport::default() };
        let evidence = Evidence { test_reports: vec![report], notes, ..Evidence::default() };
        let counted = sent(Outcome { evidence, artifacts: artifacts(5_000, 810), ..outcome() });
        let report = &counted.evidence.test_reports[0];
        assert_eq!((report.failed, report.cases_omitted, report.cases.len()), (3, 1_000, 0));
        assert_eq!(counted.evidence.unread, None, "the counts have the failures");
    }

    #[test]
    fn a_report_keeps_one_unfinished_test() {
        let unfinished = vec!["\u{e4}".repeat(500); 200];
        let report = TestReport { passed: 1, unfinished, ..TestReport::default() };
        let evidence = Evidence { test_reports: vec![report; 100], ..Evidence::default() };
        let kept = sent(Outcome { evidence, ..outcome() }).evidence;
        let names: Vec<_> = kept.test_reports.iter().map(|report| report.unfinished.concat()).collect();
        assert_eq!(names, vec!["\u{e4}".repeat(128); 100]);
    }

    #[test]
    fn failures_that_are_left_out_count_as_unread() {
        let long = || vec!["\u{1}".repeat(4_000); 400];
        let passed = TestReport { passed: 1, ..TestReport::default() };
        let failed = TestReport { failed: 1, ..TestReport::default() };
        let reports = |last: &TestReport| [vec![passed.clone(); 100], vec![last.clone()]].concat();
        let case = TestCase { name: "\u{1}".repeat(1_000), ..TestCase::default() };
        let large = TestReport { cases: vec![case; 1_000], ..TestReport::default() };
        let unread = |last: &TestReport, crash_reports: Vec<CrashReport>| {
            let mut test_reports = reports(last);
            test_reports[0] = large.clone();
            let evidence = Evidence { test_reports, crash_reports, notes: long(), ..Evidence::default() };
            sent(Outcome { evidence, ..outcome() }).evidence.unread
        };
        assert_eq!(unread(&passed, Vec::new()), None);
        let reason = unread(&failed, Vec::new()).expect("a failure is missing");
        assert!(reason.contains("101 test reports") && reason.contains("first 100"), "{reason}");
        let reason =
            unread(&passed, vec![CrashReport { process_name: "a".into(), ..CrashReport::default() }])
                .expect("a crash is missing");
        assert!(reason.contains("1 crash report"), "{reason}");
    }
}
