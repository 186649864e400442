//! Tests of answers to logs that claim success.

mod digests;

use buildpool_digest::{Digest, Digester, Facts, Options};
use buildpool_protocol::evidence::{Evidence, TestReport};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashReport, JobResult, Verdict};
use buildpool_protocol::spec::{Purpose, TemplateSpec, Verbosity};
use digests::{exited, with};

/// Text shown for a log, in a verbosity or unfiltered.
fn shown(digest: &Digest, verbosity: Verbosity, raw: bool) -> String {
    let template = TemplateSpec { name: "raw".into(), ..TemplateSpec::default() };
    let mut result = JobResult::default();
    digest.render(verbosity, raw.then_some(&template), None, &mut result);
    [result.filtered_output, result.stdout, result.stderr]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_claim_of_success_that_is_contradicted_is_named_outside_of_the_output() {
    let log =
        "Executed 1 test, with 0 failures (0 unexpected) in 1 (1) seconds\n** TEST SUCCEEDED **\nmore\n";
    let report = TestReport { path: "r.xcresult".into(), passed: 4, failed: 1, ..TestReport::default() };
    let evidence = Evidence { test_reports: vec![report], ..Evidence::default() };
    let note = "other evidence contradicts this success in the log: `** TEST SUCCEEDED **`";
    for code in [0, 65] {
        let facts =
            Facts { ending: Some(Ending::Exited { code }), evidence: evidence.clone(), ..Facts::default() };
        let hidden = with(log, &facts);
        assert_eq!(hidden.notes.first().map(String::as_str), Some(note), "exit code {code}");
        // Output of a job is shown as it was printed.
        assert_eq!(shown(&hidden, Verbosity::Minimal, false), log.trim());
        assert_eq!(shown(&hidden, Verbosity::Normal, true).trim(), log.trim());
    }
    let crash =
        CrashReport { process_name: "App".into(), signal: Some("SIGTRAP".into()), ..CrashReport::default() };
    let evidence = Evidence { crash_reports: vec![crash], ..Evidence::default() };
    let facts = Facts { ending: Some(Ending::Exited { code: 65 }), evidence, ..Facts::default() };
    let cut_short = exited("Test Case '-[A a]' started.\n** TEST SUCCEEDED **\n", 0);
    for digest in [with("** TEST SUCCEEDED **\n", &facts), cut_short] {
        assert_eq!(digest.notes.first().map(String::as_str), Some(note), "{:?}", digest.cause);
    }
}

#[test]
fn success_that_nothing_contradicts_stays_as_it_is() {
    for (log, code) in [("** BUILD SUCCEEDED **\n", 0), ("** BUILD SUCCEEDED **\nscp: no such host\n", 1)] {
        let digest = exited(log, code);
        let text = shown(&digest, Verbosity::Normal, false);
        assert!(text.contains("** BUILD SUCCEEDED **") && digest.notes.is_empty(), "{text}");
    }
}

#[test]
fn a_run_without_a_matching_test_states_it_once() {
    let log = "[INFO] --- maven-surefire-plugin:2.22.3:test (default-test) @ options ---\n[INFO] Running example.OptionsTest\n[INFO] Tests run: 0, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in example.OptionsTest\n[INFO] Results:\n[INFO] Tests run: 0, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n";
    let options = Options {
        command: "mvn test -Dtest=A#b -Dsurefire.failIfNoSpecifiedTests=false".into(),
        purpose: Purpose::Tests,
        ..Options::default()
    };
    let mut digester = Digester::new(options);
    digester.push(Stream::Stdout, log.as_bytes());
    let facts = Facts { ending: Some(Ending::Exited { code: 0 }), ..Facts::default() };
    let digest = digester.finish(&facts);
    assert_eq!(digest.verdict, Verdict::Inconclusive);
    let text = shown(&digest, Verbosity::Minimal, false);
    assert!(digest.notes.is_empty(), "{text}\n{:?}", digest.notes);
}
