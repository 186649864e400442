//! What files say, held against the log and the exit code.

use buildpool_digest::{Digest, Digester, Facts, Options};
use buildpool_protocol::evidence::{Evidence, ReportIssue, TestCase, TestReport, TestStatus};
use buildpool_protocol::outcome::{CrashType, Ending};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashReport, KnownFrom, Location, Severity, Verdict};

fn digest(log: &str, code: Option<i32>, evidence: Evidence) -> Digest {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, log.as_bytes());
    let ending = code.map(|code| Ending::Exited { code });
    digester.finish(&Facts { ending, evidence, ..Facts::default() })
}

fn junit(path: &str, passed: u64, failed: &[(&str, &str)]) -> TestReport {
    let case = |(name, message): &(&str, &str)| TestCase {
        name: (*name).to_owned(),
        status: TestStatus::Failed,
        messages: vec![(*message).to_owned()],
        location: Some(Location { file: format!("{name}.py"), line: Some(3), column: None }),
        ..TestCase::default()
    };
    TestReport {
        path: path.to_owned(),
        format: "junit".to_owned(),
        passed,
        failed: failed.len() as u64,
        cases: failed.iter().map(case).collect(),
        ..TestReport::default()
    }
}

fn of(reports: Vec<TestReport>) -> Evidence {
    Evidence { test_reports: reports, ..Evidence::default() }
}

#[test]
fn tests_of_a_superseded_report_are_not_unfinished() {
    let cut = TestReport {
        unfinished: vec!["c".into(), "d".into()],
        superseded_by: Some("q2.tap".into()),
        ..junit("q1.tap", 2, &[])
    };
    let found = digest("", Some(0), of(vec![junit("q2.tap", 4, &[]), cut]));
    assert_eq!(found.verdict, Verdict::Passed, "{}", found.explain());
}

#[test]
fn a_test_that_log_and_report_call_unfinished_is_one() {
    let report = TestReport { unfinished: vec!["m/a.TestZ".into()], ..junit("o.json", 1, &[]) };
    let found = digest("=== RUN   TestZ\n", Some(1), of(vec![report]));
    assert!(found.explain().contains("never ended: 1"), "{}", found.explain());
}

#[test]
fn a_problem_in_a_report_speaks_against_a_good_end() {
    let issue = |category: Option<&str>| ReportIssue {
        path: "r.xcresult".into(),
        severity: Severity::Error,
        message: "Cannot find 'x' in scope".into(),
        location: None,
        category: category.map(str::to_owned),
        advice: None,
    };
    let log = "** BUILD SUCCEEDED **\n";
    let evidence = Evidence { issues: vec![issue(None)], ..Evidence::default() };
    let found = digest(log, Some(0), evidence);
    assert_eq!((found.verdict, found.silent_failure), (Verdict::Failed, true), "{}", found.explain());
    assert_eq!(found.explanation.rule, "zero_report_problem");
    let cause = found.cause.expect("there is a cause");
    assert_eq!(cause.known_from, KnownFrom::Report);
    assert!(cause.text.contains("Cannot find 'x' in scope"), "{}", cause.text);
    let evidence = Evidence { issues: vec![issue(Some("infrastructure"))], ..Evidence::default() };
    assert_eq!(digest(log, Some(0), evidence).verdict, Verdict::Inconclusive);
    let warning = ReportIssue { severity: Severity::Warning, ..issue(None) };
    let evidence = Evidence { issues: vec![warning], ..Evidence::default() };
    assert_eq!(digest(log, Some(0), evidence).verdict, Verdict::Passed);
}

#[test]
fn a_crash_report_of_the_job_is_a_death_by_itself() {
    let crash = CrashReport {
        process_name: "App".into(),
        signal: Some("SIGTRAP".into()),
        matched_by: Some("pid".into()),
        ..CrashReport::default()
    };
    let evidence = Evidence { crash_reports: vec![crash], ..Evidence::default() };
    for code in [None, Some(0), Some(65)] {
        let found = digest("** TEST SUCCEEDED **\n", code, evidence.clone());
        assert_eq!((found.verdict, found.crash_type), (Verdict::Crashed, CrashType::Trap), "{code:?}");
        assert_eq!(found.silent_failure, code == Some(0), "{code:?}");
        let cause = found.cause.expect("there is a cause");
        assert_eq!(cause.known_from, KnownFrom::CrashReport);
        assert_eq!(cause.text, "`App` crashed with SIGTRAP.");
    }
}

const CARGO: &str = "running 2 tests\ntest tests::a ... ok\ntest tests::b ... FAILED\n\nfailures:\n\n---- tests::b stdout ----\nthread 'tests::b' panicked at src/lib.rs:9:5:\nno\n\n\nfailures:\n    tests::b\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\nerror: test failed, to rerun pass `--lib`\n";

#[test]
fn a_report_makes_no_crash_of_a_panic_in_a_test() {
    for reports in [vec![], vec![junit("j.xml", 1, &[("tests::b", "no")])], vec![junit("jest.xml", 5, &[])]] {
        let found = digest(CARGO, Some(101), of(reports));
        assert_eq!((found.verdict, found.crash_type), (Verdict::Failed, CrashType::TestFailure));
    }
}

#[test]
fn failed_tests_of_one_name_are_each_told() {
    let log = "FAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed, 1 passed in 0.01s\n";
    let failed = [("tests.test_a.test_x", "assert 1 == 2"), ("tests.test_b.test_x", "assert 'p' == 'q'")];
    let found = digest(log, Some(1), of(vec![junit("j.xml", 0, &failed)]));
    let told: Vec<_> = found.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(told.iter().filter(|message| message.contains("assert 1 == 2")).count(), 1, "{told:?}");
    assert!(told.contains(&"assert 'p' == 'q'"), "{told:?}");
    let place = |text: &str| {
        let found = found.findings.iter().find(|finding| finding.message.contains(text));
        found.and_then(|finding| finding.location.clone()).map(|location| location.file)
    };
    assert_eq!(place("'q'").as_deref(), Some("tests.test_b.test_x.py"));
}

#[test]
fn what_the_log_leaves_out_of_a_failure_comes_from_the_report() {
    let log = "        FAIL [   0.005s] a tests::it_works\n     Summary [   0.010s] 2 tests run: 1 passed, 1 failed, 0 skipped\nerror: test run failed\n";
    let failed =
        [("a.tests::it_works", "thread 'tests::it_works' panicked at a/src/lib.rs:6:9:\nno such luck")];
    let found = digest(log, Some(100), of(vec![junit("junit.xml", 1, &failed)]));
    let told = found.findings.iter().find(|finding| finding.message.contains("no such luck"));
    let told = told.unwrap_or_else(|| panic!("{:?}", found.findings));
    assert_eq!(told.location.as_ref().and_then(|place| place.line), Some(3));
}
