//! Tests which part of a log an answer shows, and how an answer states its cause.

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::Verbosity;

fn digest(command: &str, log: &str, code: i32) -> Digest {
    let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: Some(Ending::Exited { code }), ..Facts::default() })
}

fn minimal(digest: &Digest) -> String {
    let mut result = JobResult::default();
    digest.render(Verbosity::Minimal, None, None, &mut result);
    text(&result)
}

/// `diff` exits 1 for a difference. Its output is the answer, not an error.
#[test]
fn the_output_of_a_failure_without_an_error_is_shown_within_the_budget() {
    let line = |number| format!("+a changed line with some more words in it, and its number {number}\n");
    let log: String = (0..60).map(line).collect();
    let whole = minimal(&digest("diff -u a b", &log, 1));
    for number in 0..60 {
        assert!(whole.contains(line(number).trim()), "line {number} is missing:\n{whole}");
    }
    let long: String = (0..2_000).map(line).collect();
    let cut = minimal(&digest("diff -u a b", &long, 1));
    assert!(cut.contains(line(1_999).trim()) && cut.contains(line(1_960).trim()), "{cut}");
    assert!(cut.chars().count() <= Verbosity::Minimal.budget().1);
    assert!(!cut.contains("The last line is"), "the last line is shown twice:\n{cut}");
}

#[test]
fn a_cause_does_not_repeat_the_exit_code() {
    let shown = minimal(&digest("grep x a", "", 1));
    assert!(shown.contains("\ncause: The command printed nothing.\n"), "{shown}");
}

#[test]
fn a_test_run_without_tests_proves_nothing_whoever_chose_the_command() {
    let go =
        "ok  \texample.com/a\t0.013s [no tests to run]\nok  \texample.com/b\t(cached) [no tests to run]\n";
    let unittest = "\n----------------------------------------------------------------------\nRan 0 tests in 0.000s\n\nOK\n";
    for (command, log) in [
        ("go test ./... -run TestNone", go),
        ("cd a && python3 -m unittest -k none", unittest),
        ("ctest -R none", "Test project /a/build\nNo tests were found!!!\n"),
    ] {
        assert_eq!(digest(command, log, 0).verdict, Verdict::Inconclusive, "{command}");
    }
    let some = "ok  \texample.com/a\t0.013s [no tests to run]\nok  \texample.com/b\t0.010s\n";
    assert_eq!(digest("go test ./... -run TestA", some, 0).verdict, Verdict::Passed);
    assert_eq!(digest("cat log.txt", unittest, 0).verdict, Verdict::Passed, "no test runner ran");
}
