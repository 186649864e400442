//! Tests for several files of one pattern: attempts at the tests of other files, and files that
//! only look similar.

mod common;

use buildpool_protocol::evidence::{Evidence, TestReport};
use common::collected;

const FIRST: &str = "<testsuite name='s'><testcase classname='s' name='t1'/><testcase classname='s' name='t2'><failure message='got 1'/></testcase></testsuite>";
const SECOND: &str =
    "<testsuite name='s'><testcase classname='s' name='t1'/><testcase classname='s' name='t2'/></testsuite>";

/// Writes a suite of tests: `a` passed, `-a` failed, `~a` was skipped. A different time makes it a
/// different run.
fn suite(tests: &str, secs: u32) -> String {
    let case = |test: &str| match (test.strip_prefix('-'), test.strip_prefix('~')) {
        (Some(name), _) => format!("<testcase name='{name}'><failure message='got 1'/></testcase>"),
        (_, Some(name)) => format!("<testcase name='{name}'><skipped message='why'/></testcase>"),
        _ => format!("<testcase name='{test}'/>"),
    };
    let cases: String = tests.split_whitespace().map(case).collect();
    format!("<testsuite name='s' time='{secs}'>{cases}</testsuite>")
}

/// Counts passed, failed and flaky tests of files, each given by its name and its tests.
fn counts(files: &[(&str, &str)]) -> (u64, u64, u64) {
    let texts: Vec<String> = files.iter().zip(1..).map(|((_, tests), at)| suite(tests, at)).collect();
    let files: Vec<_> = files.iter().zip(&texts).map(|((name, _), text)| (*name, text.as_str())).collect();
    let report = only(collected(&files, "*"));
    (report.passed, report.failed, report.flaky)
}

fn only(mut evidence: Evidence) -> TestReport {
    assert_eq!(evidence.test_reports.len(), 1, "{:?}", evidence.test_reports);
    evidence.test_reports.remove(0)
}

#[test]
fn later_attempts_at_the_same_tests_count_and_say_what_changed() {
    let evidence = collected(&[("rep/a.xml", FIRST), ("rep/a-Retry1.xml", SECOND)], "rep/*.xml");
    let report = &evidence.test_reports[0];
    assert_eq!((report.passed, report.failed, report.flaky), (2, 0, 1), "{report:?}");
    assert_eq!((report.cases[0].name.as_str(), report.cases[0].flaky), ("s.t2", true));
    assert_eq!(report.cases[0].messages, ["got 1"]);
    assert!(evidence.notes[0].contains("s.t2 (failed, then passed)"), "{:?}", evidence.notes);
    assert_eq!(counts(&[("a.xml", "t1 t2"), ("a-retry.xml", "t1 -t2")]), (1, 1, 0));
    // An attempt at only the failed tests, and a series of attempts ordered by number.
    assert_eq!(counts(&[("a.xml", "t1 -t2"), ("a.rerun.xml", "t2")]), (2, 0, 1));
    let third = [("a-attempt-9", "t1 -t2 -t3"), ("a-attempt-10", "t2 -t3"), ("a-attempt-11", "t3")];
    assert_eq!(counts(&third).1, 3, "they begin with neither the first nor the second");
    let third = [("a", "t1 -t2 -t3"), ("a-attempt-9", "t2 -t3"), ("a-attempt-10", "t3")];
    assert_eq!(counts(&third), (3, 0, 2));
    // The file name has no other words.
    assert_eq!(counts(&[("junit.xml", "a -b"), ("retry.xml", "b"), ("other.xml", "c")]), (3, 0, 1));
    assert_eq!(counts(&[("attempt-1.xml", "a -b"), ("attempt-2.xml", "b")]), (2, 0, 1));
}

#[test]
fn runs_that_surefire_counts_and_took_back_leave_nothing_out() {
    let flaky = "<testsuite name='app.T' tests='3' errors='0' failures='1'><testcase name='flakes' classname='app.T'><flakyFailure message='attempt 0'><stackTrace>java.lang.AssertionError: attempt 0\n\tat app.T.flakes(T.java:9)\n</stackTrace></flakyFailure></testcase><testcase name='good' classname='app.T'/></testsuite>";
    let failed = "<testsuite name='app.T' tests='4' errors='0' failures='3'><testcase name='always' classname='app.T'><failure message='no'>no</failure><rerunFailure message='no'/><rerunFailure message='no'/></testcase><testcase name='good' classname='app.T'/></testsuite>";
    for (text, expected) in [
        (flaky.to_owned(), (2, 0, 1)),
        (format!("<testsuites>{flaky}</testsuites>"), (2, 0, 1)),
        (failed.to_owned(), (1, 1, 0)),
    ] {
        let evidence = collected(&[("TEST-app.T.xml", text.as_str())], "*");
        assert!(!evidence.notes.iter().any(|note| note.contains("declares")), "{:?}", evidence.notes);
        let report = only(evidence);
        assert_eq!((report.passed, report.failed, report.flaky), expected, "{report:?}");
        assert_eq!(report.cut, None);
    }
    // The suite declares one run more than it lists, so one is missing.
    let cut = flaky.replace("failures='1'", "failures='2'");
    let report = only(collected(&[("TEST-app.T.xml", cut.as_str())], "*"));
    assert!(report.cut.is_some_and(|cut| cut.contains("declares 2 failures and errors")), "{cut}");
}

#[test]
fn a_file_that_may_be_of_a_matrix_takes_no_failure_back() {
    for (first, second, expected) in [
        ("t1 -t2", "t1 t2", (3, 1, 0)),
        ("t1 t2", "t1 -t2", (3, 1, 0)),
        ("t1 t2", "t1 t2", (4, 0, 0)),
        ("-t2", "t2", (1, 1, 0)),
        // Only one test, which failed before.
        ("-a b c", "a", (3, 1, 0)),
    ] {
        assert_eq!(counts(&[("py39.xml", first), ("py310.xml", second)]), expected, "{first}, {second}");
    }
    let evidence = collected(&[("py39.xml", FIRST), ("py310.xml", SECOND)], "*.xml");
    assert_eq!(evidence.test_reports[0].cases[0].messages, ["got 1"]);
    let note = &evidence.notes[0];
    assert!(note.contains("counted in each: s.t2 (failed, then passed)"), "{note}");
    let runs = [("a-1.xml", "-a"), ("b-1.xml", "b"), ("a-2.xml", "a"), ("b-2.xml", "b")];
    assert_eq!(counts(&runs), (3, 1, 0));
    let builds = [("core_debug", "-a"), ("net_debug", "b"), ("core_release", "a")];
    assert_eq!(counts(&builds), (2, 1, 0));
}

#[test]
fn an_attempt_is_one_at_the_file_that_its_name_tells() {
    for files in [
        [("py39-attempt-1.xml", "-a"), ("py310-attempt-1.xml", "a")],
        [("retry-lib-py39.xml", "-a"), ("retry-lib-py310.xml", "a")],
        [("TEST-com.RetryTest.xml", "-a"), ("TEST-com.RetryTest-jdk21.xml", "a")],
        [("retry-39.xml", "-a"), ("retry-310.xml", "a")],
        // Written before the failure that it would replace.
        [("j-retry.xml", "a"), ("j.xml", "-a")],
    ] {
        assert_eq!(counts(&files), (1, 1, 0), "{files:?}");
    }
    assert_eq!(counts(&[("py39", "-a"), ("py310", "-a"), ("py310-retry", "a")]), (1, 1, 1));
    // The file name has no other words, and several files could match.
    assert_eq!(counts(&[("py39.xml", "-a"), ("py310.xml", "-a"), ("retry.xml", "a")]), (1, 2, 0));
    assert_eq!(counts(&[("py39.xml", "-a"), ("py310.xml", "a"), ("retry.xml", "a")]), (2, 1, 0));
}

#[test]
fn what_was_skipped_takes_no_failure_back() {
    let report =
        only(collected(&[("j.xml", &suite("-a b", 1)), ("j-retry.xml", &suite("~a b", 2))], "*.xml"));
    assert_eq!((report.passed, report.failed, report.skipped), (1, 1, 0), "{report:?}");
    assert_eq!((report.cases.len(), report.cases[0].messages.as_slice()), (1, &["got 1".to_owned()][..]));
    assert_eq!(counts(&[("j", "-a"), ("j-retry-1", "~a"), ("j-retry-2", "a")]), (1, 0, 1));
}

#[test]
fn equal_files_of_one_directory_count_once_where_no_other_run_would_write_the_same() {
    let (timed, other) = (&*suite("t1 -t2", 1), &*suite("t1 t2", 2));
    let report = only(collected(&[("j.xml", timed), ("copy.xml", timed), ("py310.xml", other)], "*.xml"));
    assert_eq!((report.passed, report.failed, report.path.as_str()), (3, 1, "*.xml (3 files)"));
    let report = only(collected(&[("a/j.xml", timed), ("b/j.xml", timed)], "*/*.xml"));
    assert_eq!((report.passed, report.failed), (2, 2));
    // Without times, files of a matrix are equal if their results are equal. The counts must not
    // depend on that.
    let said = FIRST.replace("<failure", "<failure type='timeout time=5s'");
    for bare in [FIRST, &said, &*suite("t1 -t2", 0)] {
        let report = only(collected(&[("py39.xml", bare), ("py310.xml", bare)], "*.xml"));
        assert_eq!((report.passed, report.failed), (2, 2), "{bare}");
    }
}

#[test]
fn a_test_is_flaky_once_however_many_attempts_say_so() {
    let run = |name: &str, bad: &str| {
        let properties =
            |at: u32| format!("<properties><property name='repetition' value='{at}'/></properties>");
        format!(
            "<testsuite name='s' time='{}'><testcase name='{name}'>{}<failure message='got 1'/></testcase>\
             <testcase name='{name}'>{}{bad}</testcase></testsuite>",
            bad.len() + 1,
            properties(1),
            properties(2)
        )
    };
    let (flaky, failed) = (&*run("a", ""), &*run("a", "<failure message='got 2'/>"));
    for earlier in [flaky, failed] {
        let report = only(collected(&[("j.xml", earlier), ("j-retry.xml", flaky)], "*.xml"));
        assert_eq!((report.passed, report.failed, report.flaky), (1, 0, 1), "{report:?}");
        assert_eq!((report.cases.len(), report.cases[0].runs), (1, 4), "{report:?}");
    }
}

#[test]
fn tests_that_share_a_name_in_files_of_different_things_are_counted_each() {
    let parts = [("a/junit.xml", FIRST), ("b/junit-retry.xml", SECOND)];
    let evidence = collected(&parts, "*/*.xml");
    let report = &evidence.test_reports[0];
    assert_eq!((report.passed, report.failed), (3, 1), "{report:?}");
    assert!(evidence.notes[0].contains("one name in several files"), "{:?}", evidence.notes);
    let tap = collected(&[("a.tap", "1..1\nnot ok 1\n"), ("a-retry.tap", "1..1\nok 1\n")], "*.tap");
    assert_eq!((tap.test_reports[0].passed, tap.test_reports[0].failed), (1, 1));
}

#[test]
fn shards_that_name_their_suites_differently_are_no_attempts() {
    let shard = |name: &str, bad: &str| {
        format!(
            "<testsuite name='{name}'><testcase classname='s' name='t1'>{bad}</testcase><testcase classname='s' name='t2'/></testsuite>"
        )
    };
    let (bad, good) = (shard("shard 1", "<failure message='got 1'/>"), shard("shard 2", ""));
    for files in [[("1.xml", &*bad), ("1-retry.xml", &*good)], [("1.xml", &*good), ("1-retry.xml", &*bad)]] {
        let evidence = collected(&files, "*.xml");
        let report = &evidence.test_reports[0];
        assert_eq!((report.passed, report.failed, report.flaky), (3, 1, 0), "{report:?}");
        assert!(evidence.notes[0].contains("one name in several files"), "{:?}", evidence.notes);
    }
}

#[test]
fn a_report_that_leaves_something_out_says_what() {
    let cut = |files: &[(&str, &str)]| collected(files, "*.xml").test_reports.remove(0).cut;
    let half = "<testsuite name='s'><testcase name='a'/><testcase name='b'>";
    let whole = "<testsuite name='s'><testcase name='a'/><testcase name='b'/></testsuite>";
    let other = "<testsuite name='t'><testcase name='c'/></testsuite>";
    assert!(cut(&[("half.xml", half)]).is_some_and(|reason| reason.starts_with("half.xml: ")));
    assert!(cut(&[("half.xml", half), ("other.xml", other)]).is_some());
    assert!(cut(&[("half.xml", "<testsuite name='s'>"), ("other.xml", other)]).is_some());
    let declared = "<testsuite name='s' failures='2'><testcase name='a'><failure/></testcase></testsuite>";
    assert!(cut(&[("a.xml", declared)]).is_some_and(|reason| reason.contains("declares 2 failures")));
    assert_eq!(cut(&[("a.xml", whole), ("other.xml", other)]), None);
}

#[test]
fn what_a_file_leaves_out_only_a_whole_attempt_at_it_makes_up_for() {
    let cut = |files: &[(&str, &str)]| only(collected(files, "*.xml")).cut;
    let half = "<testsuite name='s'><testcase name='a'/><testcase name='b'>";
    let whole = &*suite("a b", 2);
    assert_eq!(cut(&[("j.xml", half), ("j-retry.xml", whole)]), None);
    assert!(cut(&[("j.xml", whole), ("j-retry.xml", half)]).is_some());
    // Another file of a matrix is not an attempt.
    assert!(cut(&[("py39.xml", half), ("py310.xml", whole)]).is_some());
    let declared = "<testsuite name='s' failures='1'><testcase name='a'/></testsuite>";
    assert!(cut(&[("py39.xml", declared), ("py310.xml", whole)]).is_some());
    // An attempt at only the failed tests, and an attempt that skips the missing test.
    let failed = "<testsuite name='s'><testcase name='a'><failure/></testcase><testcase name='b'>";
    assert!(cut(&[("j.xml", failed), ("j-retry.xml", &suite("a", 2))]).is_some());
    assert!(cut(&[("j.xml", half), ("j-retry.xml", &suite("a ~b", 2))]).is_some());
}
