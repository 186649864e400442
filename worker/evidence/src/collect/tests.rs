//! Tests of the limit on the evidence of one attempt.

use super::{Context, EVIDENCE_BYTES_MAX, Ending, Evidence, ISSUES_MAX, TestReport, bounded, collect};
use buildpool_protocol::evidence::ReportIssue;
use buildpool_protocol::report::Severity;
use std::path::Path;

fn limited(test_reports: Vec<TestReport>, issues: Vec<ReportIssue>) -> Evidence {
    let evidence = bounded(Evidence { test_reports, issues, ..Evidence::default() });
    assert!(serde_json::to_vec(&evidence).expect("JSON").len() <= EVIDENCE_BYTES_MAX);
    evidence
}

#[test]
fn failures_that_exceed_the_size_limit_are_kept_or_count_as_unread() {
    let passed = TestReport { path: "p".repeat(1_000), passed: 1, ..TestReport::default() };
    let with_last = |last: TestReport| limited([vec![passed.clone(); 2_000], vec![last]].concat(), vec![]);
    let green = with_last(passed.clone());
    assert!(green.test_reports.len() < 2_000, "the list was shortened");
    assert_eq!(green.unread, None, "nothing that matters is missing");
    let hung = TestReport { unfinished: vec!["hangs".into()], ..passed.clone() };
    for last in [TestReport { failed: 1, ..passed.clone() }, hung.clone()] {
        let unread = with_last(last).unread.expect("a failure is missing");
        assert!(unread.contains("of 2001 test reports"), "{unread}");
    }
    // A kept report keeps its unfinished test.
    let first = limited([vec![hung], vec![passed.clone(); 2_000]].concat(), vec![]);
    assert_eq!((first.test_reports[0].unfinished.len(), first.unread), (1, None));
}

#[test]
fn the_most_severe_problems_are_kept() {
    let issue = |severity, bytes| ReportIssue {
        path: "x".into(),
        severity,
        message: "m".repeat(bytes),
        location: None,
        category: None,
        advice: None,
    };
    for bytes in [10, 4_000] {
        let warnings = vec![issue(Severity::Warning, bytes); ISSUES_MAX];
        let last = limited(vec![], [warnings, vec![issue(Severity::Error, bytes)]].concat());
        assert_eq!((last.issues[0].severity, last.unread), (Severity::Error, None), "{bytes}");
        let unread = limited(vec![], vec![issue(Severity::Error, bytes); ISSUES_MAX + 1]).unread;
        assert!(unread.expect("an error is missing").contains("of 401 problems"), "{bytes}");
    }
}

#[test]
fn a_success_without_requested_reports_has_no_sources() {
    let (directory, command) = (Path::new("/nowhere"), ["true".to_owned()]);
    let exited = |code| Ending::Exited { code };
    let (passed, failed) = (exited(0), exited(1));
    let context = |ending| Context::new(directory, &command, ending);
    assert!(context(&passed).has_no_sources());
    assert_eq!(collect(&context(&passed)), Evidence::default());
    let bundled = ["xcodebuild".to_owned(), "-resultBundlePath".to_owned(), "r.xcresult".to_owned()];
    let patterns = ["r.xml".to_owned()];
    for with_sources in [
        context(&failed),
        Context { report_patterns: &patterns, ..context(&passed) },
        Context { result_bundle: Some("r.xcresult".into()), ..context(&passed) },
        Context { memory_exclusive: true, ..context(&passed) },
        Context { crash_directories: vec!["/nowhere".into()], ..context(&passed) },
        Context::new(directory, &bundled, &passed),
    ] {
        assert!(!with_sources.has_no_sources(), "{with_sources:?}");
    }
}
