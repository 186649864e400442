//! Tests records of `go test -json` of packages that run at the same time.

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Verdict};
use buildpool_protocol::spec::{Purpose, Verbosity};

/// Records as in a real run: package, test, action and output.
const MIXED: [(&str, &str, &str, &str); 24] = [
    ("b", "TestAdds", "run", ""),
    ("b", "TestAdds", "output", "=== RUN   TestAdds\\n"),
    ("a", "TestAdds", "run", ""),
    ("a", "TestAdds", "output", "=== RUN   TestAdds\\n"),
    ("b", "TestAdds", "output", "    b_test.go:3: b: got 3, want 4\\n"),
    ("a", "TestAdds", "output", "    a_test.go:3: log of a\\n"),
    ("b", "TestAdds", "output", "--- FAIL: TestAdds (0.30s)\\n"),
    ("b", "TestAdds", "fail", ""),
    ("b", "TestSub", "run", ""),
    ("b", "TestSub", "output", "=== RUN   TestSub\\n"),
    ("a", "TestAdds", "output", "--- PASS: TestAdds (0.30s)\\n"),
    ("a", "TestAdds", "pass", ""),
    ("a", "TestSub", "run", ""),
    ("a", "TestSub", "output", "=== RUN   TestSub\\n"),
    ("b", "TestSub", "output", "--- PASS: TestSub (0.23s)\\n"),
    ("b", "TestSub", "pass", ""),
    ("b", "", "output", "FAIL\\n"),
    ("a", "TestSub", "output", "--- PASS: TestSub (0.23s)\\n"),
    ("a", "TestSub", "pass", ""),
    ("b", "", "output", "FAIL\\texample.com/b\\t0.544s\\n"),
    ("b", "", "fail", ""),
    ("a", "", "output", "PASS\\n"),
    ("a", "", "output", "ok  \\texample.com/a\\t0.535s\\n"),
    ("a", "", "pass", ""),
];

fn record((package, test, action, output): (&str, &str, &str, &str)) -> String {
    let field = |name: &str, value: &str| match value {
        "" => String::new(),
        value => format!(r#","{name}":"{value}""#),
    };
    format!(
        "{{\"Time\":\"2026-11-23T22:00:00Z\",\"Action\":\"{action}\",\"Package\":\"example.com/{package}\"{}{}}}\n",
        field("Test", test),
        field("Output", output)
    )
}

fn digester(records: &[(&str, &str, &str, &str)]) -> Digester {
    let mut digester = Digester::new(Options { purpose: Purpose::Tests, ..Options::default() });
    records.iter().for_each(|one| digester.push(Stream::Stdout, record(*one).as_bytes()));
    digester
}

fn ended(digester: Digester, code: i32) -> Digest {
    digester.finish(&Facts { ending: Some(Ending::Exited { code }), ..Facts::default() })
}

fn shown(digest: &Digest, verbosity: Verbosity) -> String {
    let mut result = JobResult::default();
    digest.render(verbosity, None, None, &mut result);
    text(&result)
}

#[test]
fn equal_names_of_two_packages_are_different_tests() {
    let digest = ended(digester(&MIXED), 1);
    assert_eq!(digest.verdict, Verdict::Failed);
    let tests = digest.tests.as_ref().expect("the tests are counted");
    assert_eq!((tests.passed, tests.failed, tests.total), (3, 1, 4));
}

#[test]
fn the_answer_has_the_text_of_the_records_one_package_after_the_other() {
    let digest = ended(digester(&MIXED), 1);
    let text = shown(&digest, Verbosity::Minimal);
    assert!(!text.contains("Action"), "{text}");
    assert!(text.contains("|    b_test.go:3: b: got 3, want 4\n|--- FAIL: TestAdds (0.30s)\n"), "{text}");
    let passed = ended(digester(&MIXED[21..]), 0);
    let text = shown(&passed, Verbosity::Full);
    assert!(text.contains("|PASS\n|ok  \texample.com/a\t0.535s"), "{text}");
}

#[test]
fn the_end_of_a_package_does_not_end_the_tests_of_another_one() {
    let records = [&MIXED[..10], &MIXED[21..]].concat();
    let live = digester(&records).live();
    assert_eq!(live.running_test.as_deref(), Some("TestSub"));
    let digest = ended(digester(&records), 0);
    assert_eq!(digest.verdict, Verdict::Inconclusive, "{}", digest.explain());
}

#[test]
fn without_an_end_the_waiting_output_counts() {
    let records = [MIXED[0], MIXED[1], ("b", "TestAdds", "output", "panic: boom\\n")];
    let digest = ended(digester(&records), 2);
    assert!(shown(&digest, Verbosity::Minimal).contains("panic: boom"), "{}", digest.explain());
    assert_ne!(digest.verdict, Verdict::Passed);
}

#[test]
fn packages_without_a_selected_test_are_no_tests_only_if_all_are() {
    let none = "testing: warning: no tests to run\nPASS\nok  \texample.com/a\t0.003s [no tests to run]\n";
    let some = "ok  \texample.com/b\t0.003s\n";
    for (log, verdict) in
        [(none.to_owned(), Verdict::Inconclusive), (format!("{none}{some}"), Verdict::Passed)]
    {
        let mut digester = Digester::new(Options {
            purpose: Purpose::Tests,
            command: "go test ./... -run TestX".into(),
            ..Options::default()
        });
        digester.push(Stream::Stdout, log.as_bytes());
        let digest = ended(digester, 0);
        assert_eq!(digest.verdict, verdict, "{log}: {}", digest.explain());
    }
}
