//! Whole runs as tools print them, good and bad: the verdict with and without the exit code, the counts, which findings there
//! are and which there are not. Words that a test prints are no words of its runner.

mod printed;

use buildpool_digest::{Digest, Digester, Facts, Options};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::Verdict::{self, Passed};
use printed::*;

fn digest(log: &str, code: Option<i32>) -> Digest {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: code.map(|code| Ending::Exited { code }), ..Facts::default() })
}

#[track_caller]
fn check(runs: &[Run]) {
    let padding: String = (0..150).map(|n| format!("loading part {n} of the data set\n")).collect();
    let mut wrong = Vec::new();
    for run in runs {
        for (way, log) in [("", run.log.to_owned()), (", padded", format!("{padding}{}{padding}", run.log))] {
            let mut faults = run.faults(&digest(&log, Some(run.code)), true);
            faults.extend(run.faults(&digest(&log, None), false));
            wrong.extend(faults.into_iter().map(|fault| format!("{}{way}: {fault}", run.what)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_word_that_is_printed_makes_no_failure_of_a_good_run() {
    check(GOOD_WITH_WORDS);
}

#[test]
fn output_before_a_runner_s_words_hides_none_of_them() {
    check(GLUED);
}

#[test]
fn a_run_that_is_cut_short_is_not_complete() {
    check(CUT_SHORT);
}

#[test]
fn a_word_that_a_failing_test_prints_is_no_crash() {
    check(FAILING_WITH_WORDS);
}

#[test]
fn each_failure_is_a_finding_with_all_that_it_says() {
    check(EACH_FAILURE);
}

#[test]
fn what_a_test_prints_is_not_counted() {
    check(PRINTED_TOTALS);
}

#[test]
fn the_name_of_a_task_before_each_line_hides_nothing() {
    check(TASKS);
    let log = "#9 1.455 error[E0308]: mismatched types\n#9 1.455   --> src/main.rs:2:18\n";
    let place = digest(log, Some(1)).findings[0].location.clone().expect("the arrow names it");
    assert_eq!((place.file.as_str(), place.line), ("src/main.rs", Some(2)));
}

#[test]
fn failures_that_a_good_end_hides_are_told() {
    let log = "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n";
    let hidden = digest(log, Some(0));
    assert_eq!(hidden.verdict, Verdict::Inconclusive);
    assert!(hidden.silent_failure);
    assert!(hidden.cause.is_some_and(|cause| cause.text.contains("1 test as failed")));
    let log = "=== 1 failed, 2 passed in 0.1s ===\n== test session starts ==\n=== 1 passed in 0.1s ===\n";
    let rerun = digest(log, Some(0));
    assert_eq!(rerun.verdict, Verdict::Passed);
    assert!(
        rerun.silent_failure
            && rerun.cause.is_some_and(|cause| cause.text.contains("an earlier one counted 1 test"))
    );
}

#[test]
fn a_tool_s_own_total_without_failures_is_success() {
    let wrong: Vec<_> = GOOD_TOTALS
        .iter()
        .flat_map(|(tool, log)| {
            let alone = digest(log, None);
            let noisy = digest(&format!("Killed\npanic: recovered\nFatal error: simulated\n{log}"), Some(0));
            [(tool, "alone", alone), (tool, "after words", noisy)]
        })
        .filter(|(.., digest)| digest.verdict != Passed)
        .map(|(tool, way, digest)| format!("{tool}, {way}: {} {:?}", digest.verdict, digest.cause))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_tool_that_nobody_knows_is_heard_all_the_same() {
    check(UNKNOWN_TOOLS);
    for run in UNKNOWN_TOOLS {
        let digest = digest(run.log, Some(1));
        assert!(
            !digest.silent_failure && digest.explanation.rule != "code_unexplained",
            "{}",
            digest.explain()
        );
    }
}

#[test]
fn messages_are_whole() {
    check(WHOLE_MESSAGES);
}

#[test]
fn what_was_expected_or_ignored_is_no_cause() {
    check(NO_CAUSES);
    for run in NO_CAUSES {
        let digest = digest(run.log, Some(1));
        assert!(says(&digest.findings[0].message, run.told[0]), "{}", digest.explain());
    }
}

#[test]
fn a_linter_s_remarks_are_the_cause() {
    check(REMARKS);
    for run in REMARKS {
        let digest = digest(run.log, Some(1));
        assert_eq!(digest.explanation.rule, "code_remarks", "{}", digest.explain());
        assert!(!digest.silent_failure, "{}", run.log);
    }
}

#[test]
fn a_good_run_has_no_findings_of_words() {
    let log = "an error occurred and was handled\ncannot happen: failed\nFAIL: 0\nerror: 0\nFATAL: 0\n";
    let digest = digest(log, Some(0));
    assert_eq!(digest.verdict, Verdict::Passed);
    assert!(digest.findings.is_empty(), "{:?}", digest.findings);
}

#[test]
fn an_error_that_is_told_twice_is_one_finding() {
    let log = "/src/Program.cs(12,17): error CS0103: The name 'foo' does not exist [/src/App.csproj]\n\nBuild FAILED.\n\n/src/Program.cs(12,17): error CS0103: The name 'foo' does not exist [/src/App.csproj]\n    1 Warning(s)\n    1 Error(s)\n";
    let digest = digest(log, Some(1));
    let errors: Vec<_> = digest.findings.iter().filter(|found| found.message.contains("CS0103")).collect();
    assert_eq!(errors.len(), 1, "{}", digest.explain());
    assert_eq!(errors[0].recurrence, 2);
}

#[test]
fn without_its_exit_code_no_failed_run_passed() {
    for run in runs().filter(|run| run.code != 0) {
        assert_ne!(digest(run.log, None).verdict, Passed, "{}", run.what);
    }
}
