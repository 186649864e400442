//! Tests of answers to logs that claim success.

use buildpool_digest::{Digest, Digester, Facts, Options};
use buildpool_protocol::evidence::{Evidence, TestReport};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashReport, JobResult, Verdict};
use buildpool_protocol::spec::{Purpose, TemplateSpec, Verbosity};

fn with(log: &str, facts: Facts) -> Digest {
    let mut digester = Digester::new(Options { job: "0199".into(), ..Options::default() });
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&facts)
}

fn digest(log: &str, code: i32) -> Digest {
    with(log, Facts { ending: Some(Ending::Exited { code }), ..Facts::default() })
}

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
fn a_claim_of_success_is_shown_with_what_contradicts_it() {
    let log =
        "Executed 1 test, with 0 failures (0 unexpected) in 1 (1) seconds\n** TEST SUCCEEDED **\nmore\n";
    let report = TestReport { path: "r.xcresult".into(), passed: 4, failed: 1, ..TestReport::default() };
    let evidence = Evidence { test_reports: vec![report], ..Evidence::default() };
    for code in [0, 65] {
        let facts =
            Facts { ending: Some(Ending::Exited { code }), evidence: evidence.clone(), ..Facts::default() };
        let hidden = with(log, facts);
        for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
            let text = shown(&hidden, verbosity, false);
            for claim in ["** TEST SUCCEEDED **", "with 0 failures (0 unexpected) in 1 (1) seconds"] {
                let corrected = format!("{claim} [not so: r.xcresult: 1 of 5 failed]");
                // A claim that is noise in `normal` is not in that text at all.
                let is_noise = verbosity == Verbosity::Normal && !text.contains(claim);
                assert!(text.contains(&corrected) || is_noise, "{verbosity:?}, exit code {code}:\n{text}");
            }
        }
        assert_eq!(shown(&hidden, Verbosity::Normal, true).trim(), log.trim(), "raw is raw");
    }
    let crash =
        CrashReport { process_name: "App".into(), signal: Some("SIGTRAP".into()), ..CrashReport::default() };
    let evidence = Evidence { crash_reports: vec![crash], ..Evidence::default() };
    let facts = Facts { ending: Some(Ending::Exited { code: 65 }), evidence, ..Facts::default() };
    let text = shown(&with("** TEST SUCCEEDED **\n", facts), Verbosity::Minimal, false);
    assert!(text.contains("** TEST SUCCEEDED ** [not so: `App` crashed with SIGTRAP]"), "{text}");
    let cut_short = "Test Case '-[A a]' started.\n** TEST SUCCEEDED **\n";
    let text = shown(&digest(cut_short, 0), Verbosity::Minimal, false);
    assert!(text.contains("** TEST SUCCEEDED ** [not so: 1 test began and never ended"), "{text}");
}

#[test]
fn success_that_nothing_contradicts_stays_as_it_is() {
    for (log, code) in [("** BUILD SUCCEEDED **\n", 0), ("** BUILD SUCCEEDED **\nscp: no such host\n", 1)] {
        let text = shown(&digest(log, code), Verbosity::Normal, false);
        assert!(text.contains("** BUILD SUCCEEDED **") && !text.contains("not so"), "{text}");
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
    assert!(!text.contains("not so") && digest.notes.is_empty(), "{text}\n{:?}", digest.notes);
}
