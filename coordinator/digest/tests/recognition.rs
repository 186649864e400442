//! Tests of recognizers on tool output: counts, names, locations, whole messages, and harmless
//! lines.

mod digests;

use buildpool_digest::{Digester, Facts, History, Options};
use buildpool_protocol::evidence::{Evidence, TestCase, TestReport, TestStatus};
use buildpool_protocol::outcome::{CrashType, Ending};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, Severity, Verdict};
use buildpool_protocol::spec::{Purpose, Verbosity};
use digests::{exited, with};

/// Passed, failed, skipped, expected failures.
#[track_caller]
fn counts(log: &str, expected: [u64; 4]) {
    let tests = exited(log, 1).tests.expect("the tool counted");
    assert_eq!([tests.passed, tests.failed, tests.skipped, tests.expected_failures], expected, "{tests:?}");
    assert_eq!(tests.total, expected.iter().sum::<u64>());
}

#[test]
fn totals_are_summed_over_suites_and_targets() {
    counts(
        "running 2 tests\ntest a ... ok\ntest b ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n\
         running 3 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\n",
        [3, 1, 1, 0],
    );
    counts(
        "Test Case '-[A a]' started.\nTest Case '-[A a]' passed (0.1 seconds).\nExecuted 1 test, with 0 failures (0 unexpected) in 1 (1) seconds\n\
         Test Case '-[B b]' started.\nTest Case '-[B b]' failed (0.1 seconds).\nExecuted 1 test, with 1 failure (0 unexpected) in 1 (1) seconds\n",
        [1, 1, 0, 0],
    );
    counts(
        "Ran 10 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=3, expected failures=1)\n",
        [3, 3, 3, 1],
    );
    counts("  5 passing (3ms)\n  2 pending\n  1 failing\n", [5, 1, 2, 0]);
    counts("=== 1 failed, 2 passed, 3 skipped, 1 xfailed, 1 error in 0.1s ===\n", [2, 2, 3, 1]);
    counts("Tests:       1 failed, 2 skipped, 3 passed, 6 total\n", [3, 1, 2, 0]);
    counts("      Tests  1 failed | 3 passed (4)\n", [3, 1, 0, 0]);
    counts("# tests 3\n# pass 2\n# fail 1\n", [2, 1, 0, 0]);
}

#[test]
fn a_retried_test_counts_once_with_its_last_result() {
    let log = "Test Case '-[A a]' started.\nTest Case '-[A a]' failed (0.1 seconds).\n\
               Test Case '-[A a]' started.\nTest Case '-[A a]' passed (0.1 seconds).\n";
    counts(log, [1, 0, 0, 0]);
    assert_eq!(exited(log, 0).flaky_tests, 1);
}

#[test]
fn issues_are_no_tests_and_cases_are_no_tests() {
    counts(
        "◇ Test a() started.\n✘ Test a() recorded an issue at A.swift:1:2: no\n✘ Test a() recorded an issue at A.swift:2:2: no\n\
         ✘ Test a() failed after 0.001 seconds with 2 issues.\n✔ Test \"b\" with 3 test cases passed after 0.001 seconds.\n\
         ✘ Test run with 2 tests failed after 0.002 seconds with 2 issues.\n",
        [1, 1, 0, 0],
    );
}

#[test]
fn a_driver_counts_before_what_it_runs() {
    counts(
        "[       OK ] A.B (0 ms)\n[  PASSED  ] 1 test.\n50% tests passed, 1 tests failed out of 2\n",
        [1, 1, 0, 0],
    );
}

#[test]
fn harmless_words_turn_nothing() {
    for log in [
        "0 errors, 0 warnings\n",
        "compiling src/error_handling.rs\n",
        "let error = Error Domain=NSCocoaErrorDomain Code=4 \"no such file\"\n",
        "--- xcodebuild: WARNING: Using the first of multiple matching destinations:\n",
        "    var authError: Error?\n",
        "the build failed to be slow\n",
        "test error::tests::fatal_panicked ... ok\n",
        "App[1:2] Connection interrupted\n",
    ] {
        let digest = exited(log, 0);
        assert_eq!(digest.verdict, Verdict::Passed, "{log}");
        assert!(digest.findings.is_empty(), "{log}: {:?}", digest.findings);
    }
}

#[test]
fn a_good_end_hides_nothing() {
    let log = "Test Case '-[A a]' started.\n** TEST SUCCEEDED **\n";
    assert_eq!(exited(log, 0).verdict, Verdict::Inconclusive);
    assert!(exited(log, 0).silent_failure);
    let log = "Test case 'A.a()' passed on 'iPhone' (0.1 seconds)\n\
               Restarting after unexpected exit, crash, or test timeout in A.b(); summary will include totals from previous launches.\n\
               ** TEST SUCCEEDED **\n";
    let crashed = exited(log, 0);
    assert_eq!((crashed.verdict, crashed.crash_type), (Verdict::Crashed, CrashType::SimulatorCrash));
    assert!(crashed.crash_indicators.restarted_after_crash);
    let history = History { last_good_tests: Some(6664), ..History::default() };
    let facts = Facts { ending: Some(Ending::Exited { code: 0 }), history, ..Facts::default() };
    let digest = with("=== 2557 passed in 1.0s ===\n", &facts);
    assert_eq!(digest.verdict, Verdict::Inconclusive);
    assert!(digest.crash_indicators.test_count_collapsed);
}

#[test]
fn reports_are_believed_before_the_log() {
    let case = TestCase {
        name: "Suite/testB()".into(),
        status: TestStatus::Failed,
        messages: vec!["expected 1".into()],
        ..TestCase::default()
    };
    let report = TestReport {
        path: "r.xcresult".into(),
        passed: 4,
        failed: 1,
        cases: vec![case],
        ..TestReport::default()
    };
    let evidence = Evidence { test_reports: vec![report], ..Evidence::default() };
    let facts = Facts { ending: Some(Ending::Exited { code: 0 }), evidence, ..Facts::default() };
    let digest = with("** TEST SUCCEEDED **\n", &facts);
    assert_eq!(digest.verdict, Verdict::Failed);
    assert_eq!(
        digest.tests.as_ref().map(|tests| (tests.failed, tests.source.as_str())),
        Some((1, "r.xcresult"))
    );
    assert_eq!(digest.findings[0].test.as_deref(), Some("Suite/testB()"));
    assert_eq!(digest.findings[0].evidence.report.as_deref(), Some("r.xcresult"));
}

#[test]
fn messages_stay_whole_and_know_their_place() {
    let log = "   Compiling a v0.1.0\nwarning: unused\n --> src/a.rs:1:1\n\nerror[E0308]: mismatched types\n  --> src/lib.rs:3:5\n   |\n3  |     1\n   |     ^ expected `()`\n   |\n   = note: why\n\nerror: could not compile `a` (lib) due to 1 previous error\n";
    let digest = exited(log, 101);
    let first = &digest.findings[0];
    assert!(first.message.ends_with("= note: why"), "{}", first.message);
    let place = first.location.as_ref().expect("the arrow names it");
    assert_eq!((place.file.as_str(), place.line, place.column), ("src/lib.rs", Some(3), Some(5)));
    assert_eq!((first.tier, first.severity, first.stream), (1, Severity::Error, Some(Stream::Stdout)));
    let evidence = &log.as_bytes()[first.evidence.from as usize..first.evidence.to as usize];
    assert!(evidence.starts_with(b"error[E0308]") && evidence.ends_with(b"note: why\n"));
    assert_eq!(digest.crash_type, CrashType::BuildFailure);
    assert!(
        digest
            .findings
            .iter()
            .any(|finding| finding.tier == 2 && finding.message.contains("could not compile"))
    );
}

#[test]
fn the_lines_around_a_message_are_those_that_stand_there() {
    let lines = |word: &str, count: u32| -> String { (0..count).map(|n| format!("{word} {n}\n")).collect() };
    let log = format!(
        "{}a.c:3:2: error: broken\n{}b.c:3:2: error: other\n{}",
        lines("before", 30),
        lines("between", 4),
        lines("after", 30)
    );
    // The result is the same for a truncated log, where later lines could still belong to the
    // message.
    for end in [log.len(), log.find("after 3\n").expect("it is there")] {
        let digest = exited(&log[..end], 1);
        let [first, second] = &digest.findings[..] else { panic!("{:#?}", digest.findings) };
        assert_eq!(first.pre_context.join(" "), lines("before", 30)[240..].trim_end().replace('\n', " "));
        assert_eq!(first.post_context, ["between 0", "between 1", "between 2", "between 3"]);
        assert_eq!(second.pre_context, first.post_context);
        let after: Vec<_> = second.post_context.iter().map(String::as_str).collect();
        let all = lines("after", if end == log.len() { 10 } else { 3 });
        assert_eq!(after, all.lines().collect::<Vec<_>>());
    }
}

#[test]
fn a_simulator_that_timed_out_is_an_indicator_of_its_own() {
    for (log, is_it) in [
        ("Simulator timed out\n", true),
        ("xcodebuild: error: Simulator boot timed out\n", true),
        ("Simulator iPhone 15 timed out waiting for the device\n", true),
        ("SimulatorTests.testTimeout: the request timed out\n", false),
    ] {
        let mut result = JobResult::default();
        exited(log, 65).render(Verbosity::Minimal, None, None, &mut result);
        assert_eq!(result.crash_indicators.simulator_boot_timeout, is_it, "{log}");
    }
}

#[test]
fn what_passing_runs_have_too_is_no_cause() {
    let log = "a.c:1:1: error: always here\nb.c:2:1: error: new\n";
    let before = exited("a.c:17:1: error: always here\n", 0);
    let history =
        History { passing_signatures: before.signatures().into_iter().collect(), ..History::default() };
    let facts = Facts { ending: Some(Ending::Exited { code: 1 }), history, ..Facts::default() };
    let digest = with(log, &facts);
    assert_eq!(digest.findings[0].message, "b.c:2:1: error: new");
    let old = digest.findings.iter().find(|finding| finding.also_in_passing_jobs).expect("it is known");
    assert_eq!((old.tier, old.message.as_str()), (3, "a.c:1:1: error: always here"));
    assert!(old.confidence < digest.findings[0].confidence);
}

#[test]
fn findings_are_found_again_by_id_and_cuts_name_a_call() {
    let log: String = (0..50).map(|n| format!("src/a{n}.c:{n}:1: error: number {n}\n")).collect();
    let digest = exited(&log, 1);
    let mut result = JobResult::default();
    digest.render(Verbosity::Minimal, None, None, &mut result);
    assert_eq!(result.tier_1_findings.len(), 15);
    for summary in &result.other_findings {
        let whole = digest.finding(&summary.id).expect("each id in an answer can be requested");
        assert!(whole.message.starts_with("src/a"));
    }
    for omission in &result.omitted {
        assert!(omission.lines > 0, "{omission:?}");
        let runs = ["buildpool logs 0199 --stream ", "buildpool job 0199 --"]
            .iter()
            .any(|call| omission.get.starts_with(call));
        assert!(runs, "{omission:?}");
    }
}

#[test]
fn streams_are_told_apart() {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, b"out 1\nsrc/a.c:1:");
    digester.push(Stream::Stderr, b"noise in between\n");
    digester.push(Stream::Stdout, b"2: error: split\nout 2\n");
    digester.gap(Stream::Stdout, 100, "the spool was full");
    digester.push(Stream::Stdout, b"after\n");
    let digest = digester.finish(&Facts { ending: Some(Ending::Exited { code: 1 }), ..Facts::default() });
    assert_eq!(digest.findings[0].message, "src/a.c:1:2: error: split");
    assert_eq!(digest.findings[0].evidence.from, 6);
    assert_eq!((digest.gaps[0].bytes, digest.gaps[0].offset), (100, 38));
    let mut result = JobResult::default();
    digest.render(Verbosity::Full, None, None, &mut result);
    assert_eq!(result.stderr.as_deref(), Some("noise in between"));
}

#[test]
fn the_output_of_a_passed_command_is_shown_as_it_was_written() {
    let log = "a  b\t \n  123e4567-e89b-12d3-a456-426614174000\n/w/x 0123456789abcdef0123\n\u{202e}\n";
    for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
        let mut result = JobResult::default();
        exited(log, 0).render(verbosity, None, None, &mut result);
        assert_eq!(result.stdout.as_deref(), Some(log.replace('\u{202e}', "\\u{202e}").as_str()));
        assert_eq!((result.filtered_output, result.stderr), (None, None));
    }
}

#[test]
fn passed_tests_answer_in_one_line_and_full_adds_the_output() {
    let log = "running 2 tests\ntest a ... ok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let mut digester = Digester::new(Options { purpose: Purpose::Tests, ..Options::default() });
    digester.push(Stream::Stdout, log.as_bytes());
    let digest = digester.finish(&Facts { ending: Some(Ending::Exited { code: 0 }), ..Facts::default() });
    let mut result = JobResult { command: "cargo test".to_owned(), ..JobResult::default() };
    digest.render(Verbosity::Minimal, None, None, &mut result);
    assert_eq!(buildpool_digest::text(&result), "PASSED: 2 tests (cargo test)\n");
    assert_eq!(result.omitted[0].lines, 5);
    digest.render(Verbosity::Full, None, None, &mut result);
    assert_eq!(result.stdout.as_deref(), Some(log));
}

#[test]
fn a_test_run_without_tests_is_inconclusive_for_every_runner() {
    let cargo = |count| {
        let result = format!(
            "test result: ok. {count} passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s"
        );
        format!("running {count} tests\n\n{result}\n")
    };
    let verdict = |purpose, log: &str| {
        let mut digester = Digester::new(Options { purpose, ..Options::default() });
        digester.push(Stream::Stdout, log.as_bytes());
        digester.finish(&Facts { ending: Some(Ending::Exited { code: 0 }), ..Facts::default() }).verdict
    };
    let tap = "TAP version 13\n1..0\n# tests 0\n# suites 0\n# pass 0\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0\n";
    // A filter that selects no test is a mistake in each run, and so is a total without tests.
    for purpose in [Purpose::Tests, Purpose::Command] {
        assert_eq!(verdict(purpose, &cargo(0)), Verdict::Inconclusive);
        assert_eq!(verdict(purpose, tap), Verdict::Inconclusive);
        assert_eq!(
            verdict(purpose, "Test project /w/build\nNo tests were found!!!\n"),
            Verdict::Inconclusive
        );
    }
    for log in
        ["1..0\n", "No tests found, exiting with code 0\n", "No test files found, exiting with code 0\n"]
    {
        assert_eq!(verdict(Purpose::Tests, log), Verdict::Inconclusive, "{log}");
        assert_eq!(verdict(Purpose::Command, log), Verdict::Passed, "{log}");
    }
    // Other parts of the run had tests.
    assert_eq!(verdict(Purpose::Tests, &format!("{}{}", cargo(0), cargo(3))), Verdict::Passed);
}

#[test]
fn a_live_view_counts() {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, b"running 3 tests\ntest a ... ok\ntest b ... FAILED\nhalf a li");
    let live = digester.live();
    assert_eq!((live.lines, live.errors, live.tests_done, live.tests_total), (3, 1, 2, Some(3)));
    assert_eq!(live.last_line, "test b ... FAILED");
}

#[test]
fn a_full_disk_is_the_machine_s_fault_whoever_trips_over_it() {
    for log in [
        "gcc -o a a.o\n/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status\nmake: *** [Makefile:3: a] Error 1\n",
        "ld: write() failed, errno=28 (No space left on device)\nclang: error: linker command failed with exit code 1 (use -v to see invocation)\n** BUILD FAILED **\n",
        "error: linking with `cc` failed: exit status: 1\n  |\n  = note: /usr/bin/ld: final link failed: No space left on device\n          collect2: error: ld returned 1 exit status\n\nerror: could not compile `a` (bin \"a\") due to 1 previous error\n",
        "error: failed to write /x/target/debug/a.rmeta: No space left on device (os error 28)\n\nerror: could not compile `a` (lib) due to 1 previous error\n",
        "a.c:9:1: fatal error: error writing to /tmp/ccX.s: No space left on device\ncompilation terminated.\n",
        "ld.lld: error: failed to open a: Disk quota exceeded\n",
    ] {
        let full = exited(log, 1);
        assert!(full.is_infrastructure(), "{log}\n{}", full.explain());
        assert_eq!(full.findings[0].category.as_deref(), Some("infrastructure"), "{log}");
        assert!(
            full.cause.is_some_and(|cause| cause.text.contains("space") || cause.text.contains("quota")),
            "{log}"
        );
    }
    for log in [
        "a.c:3:5: error: expected ';' before 'return'\n/usr/bin/ld: final link failed: No space left on device\n",
        "a.c:3:5: error: \"No space left on device\" is not a constant expression\n",
        "/usr/bin/ld: a.o: undefined reference to `f'\ncollect2: error: ld returned 1 exit status\n",
    ] {
        assert!(!exited(log, 1).is_infrastructure(), "{log}");
    }
}

#[test]
fn a_single_entry_is_named_in_the_singular() {
    use buildpool_protocol::report::{GapEntry, Omission, TestCounts, Warnings};
    let one = JobResult {
        warnings: Warnings { count: 1, shown: Vec::new() },
        tests: Some(TestCounts { expected_failures: 1, total: 1, ..TestCounts::default() }),
        gaps: vec![GapEntry { stream: Stream::Stdout, offset: 0, bytes: 1, reason: "lost".to_owned() }],
        omitted: vec![Omission { what: "notes".to_owned(), lines: 1, bytes: 0, get: "x".to_owned() }],
        ..JobResult::default()
    };
    let shown = buildpool_digest::text(&one);
    for said in ["1 warning\n", "1 test, 1 expected failure", "gap: 1 byte of", "not shown: 1 note:"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

/// Text of a long log in `minimal`.
fn minimal(log: &str, code: i32) -> String {
    let mut result = JobResult::default();
    exited(log, code).render(Verbosity::Minimal, None, None, &mut result);
    buildpool_digest::text(&result)
}

#[test]
fn files_that_do_not_load_for_one_reason_are_one_line() {
    let frames = "/w/venv/lib/python3.11/site-packages/_pytest/python.py:528: in importtestmodule\n    mod = import_path(\n".repeat(6);
    let files: Vec<String> = (0..5).map(|number| format!("tests/test_{number}.py")).collect();
    let sections: String = files.iter().map(|file| {
        format!("_____ ERROR collecting {file} _____\n{frames}{file}:10: in <module>\n    import parser\nE     File \"/w/src/parser.py\", line 58\nE       class Parser\nE                   ^\nE   SyntaxError: expected ':'\n")
    }).collect();
    let list: String = files.iter().map(|file| format!("ERROR {file}\n")).collect();
    let log = format!(
        "===== test session starts =====\ncollected 0 items / 5 errors\n\n===== ERRORS =====\n{sections}===== short test summary info =====\n{list}!!!!! Interrupted: 5 errors during collection !!!!!\n===== 5 errors in 3.99s =====\n"
    );
    let shown = minimal(&log, 2);
    assert!(shown.contains("|5 errors at /w/src/parser.py:58: SyntaxError: expected ':'\n"), "{shown}");
    assert!(files[1..].iter().all(|file| shown.contains(&format!("|ERROR {file}\n"))), "{shown}");
    assert_eq!(shown.matches("SyntaxError").count(), 3, "the cause, the first file and the group: {shown}");
    assert!(shown.contains("cause: Exit code 2: tests/test_0.py: SyntaxError: expected ':'"), "{shown}");
    assert!(!shown.contains("failed tests:"), "{shown}");
}

#[test]
fn the_reason_of_a_panic_is_the_line_below_its_place() {
    let tests: String = (0..5)
        .map(|number| {
            let frames = "   0: core::panicking::panic\n             at /rustc/0123456789abcdef0123456789abcdef01234567/library/core/src/panicking.rs:150:5\n".repeat(5);
            format!("---- t{number} stdout ----\n\nthread 't{number}' (2432{number}) panicked at src/bytes.rs:137:36:\ncalled `Option::unwrap()` on a `None` value\nstack backtrace:\n{frames}\n")
        })
        .collect();
    let names: String = (0..5).map(|number| format!("    t{number}\n")).collect();
    let log = format!(
        "running 5 tests\n\nfailures:\n\n{tests}\nfailures:\n{names}\ntest result: FAILED. 0 passed; 5 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.34s\n"
    );
    let shown = minimal(&log, 101);
    let group = "5 tests fail at src/bytes.rs:137: called `Option::unwrap()` on a `None` value";
    assert!(shown.contains(group), "{shown}");
}

#[test]
fn omitted_parts_share_a_call_and_calls_have_the_short_id() {
    use buildpool_protocol::report::Omission;
    let id = "01a20a91-9bf8-7371-bca7-ef4b4e45d29e";
    let cut = |what: &str, lines, get: &str| Omission {
        what: what.to_owned(),
        lines,
        bytes: 0,
        get: format!("buildpool {get}"),
    };
    let logs = format!("logs {id} --stream interleaved");
    let result = JobResult {
        job_id: id.to_owned(),
        short_id: Some("01a20a919bf8".to_owned()),
        verdict: Some(Verdict::Failed),
        omitted: vec![
            cut("stdout", 79, &logs),
            cut("warnings", 1, &format!("job {id} --verbosity full")),
            cut("stderr", 418, &logs),
        ],
        next: vec![format!("buildpool job {id}")],
        ..JobResult::default()
    };
    let shown = buildpool_digest::text(&result);
    let line = "not shown: 79 lines of stdout, 418 lines of stderr: `buildpool logs 01a20a919bf8 --stream interleaved`; \
                1 warning: `buildpool job 01a20a919bf8 --verbosity full`\n";
    assert!(shown.contains(line), "{shown}");
    assert!(shown.contains("next: buildpool job 01a20a919bf8\n") && !shown.contains(id), "{shown}");
}

#[test]
fn a_row_of_a_complete_log_is_not_repeated_as_the_cause() {
    let log = "\n/w/index.js\n  26:5  error  'unused' is assigned a value but never used  no-unused-vars\n  28:7  error  'vall' is not defined                        no-undef\n\n\u{2716} 2 problems (2 errors, 0 warnings)\n";
    let shown = minimal(log, 1);
    assert_eq!(shown.matches("'unused' is assigned").count(), 1, "{shown}");
}

#[test]
fn the_first_line_and_a_complete_log_leave_no_cause_to_add() {
    let collected = "==== ERRORS ====\n____ ERROR collecting test_a.py ____\nImportError while importing test module '/w/test_a.py'.\ntest_a.py:1: in <module>\n    from a import b\nE   ImportError: cannot import name 'b' from 'a' (/w/a.py)\n==== short test summary info ====\nERROR test_a.py\n!!!! Interrupted: 1 error during collection !!!!\n==== 1 error in 0.18s ====\n";
    let crashed = "1/1 Test #1: parses ...***Exception: SegFault  0.00 sec\n\n0% tests passed, 1 tests failed out of 1\n\nThe following tests FAILED:\n\t  1 - parses (SEGFAULT)\nErrors while running CTest\n";
    for (log, code, first) in [(collected, 2, "FAILED"), (crashed, 8, "CRASHED (segmentation_fault)")] {
        let shown = minimal(log, code);
        assert!(shown.starts_with(first) && !shown.contains("cause:"), "{shown}");
    }
}

#[test]
fn a_filter_of_gradle_that_matches_no_test_is_inconclusive() {
    // Recorded with Gradle 4.4.1.
    let log = "> Task :test FAILED\n\nFAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':test'.\n> No tests found for given includes: [OptionsTest.stripsThreeHyphens](--tests filter) \n\n* Try:\nRun with --stacktrace option to get the stack trace.\n\nBUILD FAILED in 14s\n";
    let command = "gradle --no-daemon test --tests OptionsTest.stripsThreeHyphens".to_owned();
    let mut digester = Digester::new(Options { command, purpose: Purpose::Tests, ..Options::default() });
    digester.push(Stream::Stdout, log.as_bytes());
    let facts = Facts { ending: Some(Ending::Exited { code: 1 }), ..Facts::default() };
    let digest = digester.finish(&facts);
    assert_eq!(digest.verdict, Verdict::Inconclusive, "{:?}", digest.cause);
}

#[test]
fn the_first_line_has_the_beginning_of_a_long_command_and_the_worker_where_there_are_several() {
    let command = format!("make {}", "x".repeat(96));
    let result = JobResult {
        verdict: Some(Verdict::Failed),
        exit_code: Some(2),
        command,
        complete_log: true,
        worker: Some("mini".to_owned()),
        ..JobResult::default()
    };
    let first = |form: &buildpool_digest::TextForm<'_>| {
        buildpool_digest::text_as(&result, form).lines().next().unwrap().to_owned()
    };
    let form = buildpool_digest::TextForm::default();
    let short = format!("FAILED: exit code 2 (make {}…)", "x".repeat(18));
    assert_eq!(first(&form), format!("{short} on mini"));
    assert_eq!(first(&buildpool_digest::TextForm { worker: false, ..form }), short);
    let whole = format!("FAILED: exit code 2 (make {}…) on mini", "x".repeat(94));
    assert_eq!(first(&buildpool_digest::TextForm { details: true, ..form }), whole);
}
