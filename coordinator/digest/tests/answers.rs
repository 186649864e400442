//! Tests which part of a log an answer shows, and how an answer states its cause.

mod digests;

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::{Purpose, Verbosity};
use digests::of_command;

/// Digest of a command that `run_tests` chose.
fn tests_digest(command: &str, log: &str, code: i32) -> Digest {
    let options = Options { command: command.to_owned(), purpose: Purpose::Tests, ..Options::default() };
    let mut digester = Digester::new(options);
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
    let whole = minimal(&of_command("diff -u a b", &log, 1));
    for number in 0..60 {
        assert!(whole.contains(line(number).trim()), "line {number} is missing:\n{whole}");
    }
    let long: String = (0..2_000).map(line).collect();
    let cut = minimal(&of_command("diff -u a b", &long, 1));
    assert!(cut.contains(line(1_999).trim()) && cut.contains(line(1_960).trim()), "{cut}");
    assert!(cut.chars().count() <= Verbosity::Minimal.budget().1);
    assert!(!cut.contains("The last line is"), "the last line is shown twice:\n{cut}");
    assert!(cut.contains(line(0).trim()), "the first line is missing:\n{cut}");
    let shown = cut.lines().filter(|line| line.starts_with("|+a changed line")).count();
    assert!(cut.contains(&format!("\n|[… {} lines not shown …]\n", thousands(2_000 - shown))), "{cut}");
}

fn thousands(number: usize) -> String {
    format!("{},{:03}", number / 1_000, number % 1_000)
}

#[test]
fn controls_are_escaped_in_the_output_of_a_failure() {
    let log = "a\u{7}b \u{1b}[31mred\u{1b}[0m 10%\r20%\nc\0d\u{b}e\u{7f}\n";
    let shown = minimal(&of_command("./run", log, 1));
    assert!(shown.contains("|20%\n|c\\x00d\\x0be\\x7f\n"), "{shown}");
    let bell = minimal(&of_command("./run", "a\u{7}b \u{1b}[31mred\u{1b}[0m\n", 1));
    assert!(bell.contains("|a\\x07b red\n"), "{bell}");
    let line = |number| format!("a line with some more words in it\u{7}, and its number {number}\n");
    let long: String = (0..2_000).map(line).collect();
    let cut = minimal(&of_command("./run", &long, 1));
    for number in [0, 1_999] {
        assert!(cut.contains(&format!("words in it\\x07, and its number {number}\n")), "{cut}");
    }
}

/// The exit code decides the verdict of a command that an agent wrote. The cause states that no test ran.
#[test]
fn a_missing_file_of_tests_is_a_run_without_tests() {
    let log = include_str!("../samples/pytest/no_file.log");
    let own = of_command("pytest tests/test_missing.py", log, 4);
    assert_eq!(own.verdict, Verdict::Failed);
    let cause = own.cause.clone().expect("there is a cause").text;
    assert!(cause.starts_with("No test ran (exit code 4): ERROR: file or directory not found: "), "{cause}");
    let shown = minimal(&own);
    assert!(shown.contains("\ncause: No test ran (exit code 4)\n"), "{shown}");
    for (command, log, code) in [
        ("python3 -m pytest tests/test_missing.py", log, 4),
        ("npm test -- --match='*joins none*'", include_str!("../samples/ava/no_match.log"), 1),
        ("bun test -t nonesuch", include_str!("../samples/bun/no_match.log"), 1),
        ("npm test -- no.test.js", include_str!("../samples/node_test/no_file.log"), 1),
        ("mocha no.js", "Error: No test files found: \"no.js\"\n", 1),
        ("npx jest no.js", "No tests found, exiting with code 1\n", 1),
        ("mix test test/no.exs", "Paths given to `mix test` did not match any directory/file: no.exs\n", 1),
        ("mix test --only a:b", "The --only option was given to \"mix test\" but no test was executed\n", 1),
        ("meson test -C build a", "ERROR: *:a test name does not match any test\n", 1),
    ] {
        let digest = tests_digest(command, log, code);
        assert_eq!(digest.verdict, Verdict::Inconclusive, "{command}: {:?}", digest.cause);
        let cause = digest.cause.expect("there is a cause").text;
        assert!(cause.contains("no test ran"), "{command}: {cause}");
    }
}

#[test]
fn a_cause_does_not_repeat_the_exit_code() {
    let shown = minimal(&of_command("grep x a", "", 1));
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
        assert_eq!(of_command(command, log, 0).verdict, Verdict::Inconclusive, "{command}");
    }
    let some = "ok  \texample.com/a\t0.013s [no tests to run]\nok  \texample.com/b\t0.010s\n";
    assert_eq!(of_command("go test ./... -run TestA", some, 0).verdict, Verdict::Passed);
    assert_eq!(of_command("cat log.txt", unittest, 0).verdict, Verdict::Passed, "no test runner ran");
}

/// A program may read only the findings of the JSON form. Next to a complete log they contain the reason too. The text form
/// does not repeat the log.
#[test]
fn findings_next_to_a_complete_log_have_the_reason() {
    let log = "\
Adds                                    | FAIL |
1 != 2
-----------------------------------------------
Missing                                 | FAIL |
No keyword with name 'Nope Keyword' found.
-----------------------------------------------
3 tests, 1 passed, 2 failed
";
    let digest = of_command("robot a.robot", log, 2);
    let mut result = JobResult::default();
    digest.render_json(Verbosity::Minimal, None, None, 0, &mut result);
    assert_eq!(result.filtered_output.as_deref(), Some(log.trim_end()), "the log is complete");
    let messages: Vec<&str> = result.tier_1_findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.ends_with("\n1 != 2")), "{messages:?}");
    assert!(messages.iter().any(|message| message.contains("\nNo keyword with name")), "{messages:?}");
    assert_eq!(minimal(&digest).matches("1 != 2").count(), 1, "the text repeats the log");
    let long = format!("src/a.ts:1:1 - error TS1: {}the last words", "a long type, ".repeat(14));
    let mut result = JobResult::default();
    of_command("tsc", &long, 2).render_json(Verbosity::Minimal, None, None, 0, &mut result);
    let message = &result.tier_1_findings[0].message;
    assert!(message.contains("…\n…") && message.ends_with("the last words"), "{message}");
}

/// The fields of many findings next to a complete log stay within the budget.
#[test]
fn many_findings_next_to_a_complete_log_keep_the_budget() {
    let log: String =
        (0..20).map(|n| format!("src/a.c:{n}:1: error: no {n}\n  12 | x = {n};\n     | ^\n")).collect();
    let mut result = JobResult::default();
    of_command("make", &log, 2).render_json(Verbosity::Minimal, None, None, 0, &mut result);
    let length = result.to_json().to_string().chars().count();
    assert!(length <= Verbosity::Minimal.budget().1, "{length}");
}
