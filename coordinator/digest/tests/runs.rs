//! Tests complete runs of tools, passed and failed: verdict with and without the exit code, counts,
//! and findings. Text that a test prints does not count as output of its runner.

mod printed;

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::outcome::{CrashType, Ending};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::report::Verdict::{self, Passed};
use buildpool_protocol::spec::Verbosity;
use printed::broken::{BROKEN, WHOLE};
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
fn what_was_announced_and_never_told_did_not_pass() {
    check(UNENDED);
}

#[test]
fn each_test_counts_once() {
    check(ONCE);
}

#[test]
fn a_failure_behind_a_good_exit_code_is_told() {
    check(HIDDEN);
    for run in HIDDEN {
        assert!(digest(run.log, Some(0)).silent_failure, "{}", run.what);
    }
}

#[test]
fn what_only_looks_like_a_failure_is_none() {
    check(HARMLESS);
    let told = HARMLESS.last().expect("there are some");
    let failures = digest(told.log, Some(1)).findings.len();
    assert_eq!(failures, 1, "one failure, printed three times");
}

#[test]
fn tools_of_java_are_told_truly() {
    check(JVM);
}

#[test]
fn what_java_s_tools_tell_names_test_and_place() {
    let found = |log: &str| {
        let digest = digest(log, Some(1));
        let first = digest.findings.first().expect("there is one");
        let place = first.location.clone().map(|place| format!("{}:{}", place.file, place.line.unwrap_or(0)));
        let cause = digest.cause.expect("there is one").text;
        (first.test.clone().unwrap_or_default(), place.unwrap_or_default(), cause, digest.crash_type)
    };
    let stack = "\tat org.junit.Assert.fail(Assert.java:89)\n\tat java.base/java.util.List.of(List.java:1)\n\tat app//app.OneTest.wrongSum(OneTest.java:8)\n";
    for (log, test, place) in [
        (format!("[ERROR] wrongSum(app.OneTest)  Time elapsed: 0.001 s  <<< FAILURE!\njava.lang.AssertionError\n{stack}"), "app.OneTest.wrongSum", "OneTest.java:8"),
        (format!("[ERROR] app.OneTest.wrongSum -- Time elapsed: 0.001 s <<< FAILURE!\norg.opentest4j.AssertionFailedError: no\n{stack}"), "app.OneTest.wrongSum", "OneTest.java:8"),
        (format!("[ERROR] wrongSum{{int}}[2]  Time elapsed: 0 s  <<< ERROR!\njava.lang.AssertionError\n{stack}"), "app.OneTest.wrongSum{int}[2]", "OneTest.java:8"),
        ("app.OneTest > wrongSum FAILED\n    java.lang.AssertionError at OneTest.java:8\n".to_owned(), "app.OneTest > wrongSum", "OneTest.java:8"),
        (format!("app.OneTest > wrongSum() FAILED\n    org.opentest4j.AssertionFailedError: no\n    {}", stack.replace('\t', "        ").trim_start()), "app.OneTest > wrongSum()", "OneTest.java:8"),
        ("  JUnit Jupiter:OneTest:wrongSum()\n    MethodSource [className = 'app.OneTest']\n    => org.opentest4j.AssertionFailedError: no\n       org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:38)\n       app.OneTest.wrongSum(OneTest.java:8)\n".to_owned(), "OneTest:wrongSum()", "OneTest.java:8"),
        (format!("1) wrongSum(app.OneTest)\njava.lang.AssertionError\n{stack}"), "wrongSum(app.OneTest)", "OneTest.java:8"),
        ("java.lang.IllegalStateException: no\n\tat Main.load(Main.java:5)\n".to_owned(), "", "Main.java:5"),
    ] {
        let (named, placed, ..) = found(&log);
        assert_eq!((named.as_str(), placed.as_str()), (test, place), "{log}");
    }
    // The list at the end repeats no failure, and none of its text is lost.
    let test = |name: &str| {
        format!(
            "[ERROR] {name}(app.OneTest)  Time elapsed: 0.1 s  <<< FAILURE!\njava.lang.AssertionError: no\n\tat app.OneTest.sums(OneTest.java:8)\n\n"
        )
    };
    let list = "[ERROR] Failures: \n[ERROR]   OneTest.sums:8 no 1\n[ERROR]   OneTest.sums:8 no 2\n[ERROR]   OneTest>Base.other:3->help:4 no\n";
    let told = digest(&format!("{}{}{}{list}", test("sums[1: a]"), test("sums[2]"), test("other")), Some(1));
    let lines: Vec<_> = told.findings.iter().filter_map(|found| found.message.lines().last()).collect();
    let expected = [
        "[ERROR]   OneTest.sums:8 no 1",
        "[ERROR]   OneTest.sums:8 no 2",
        "[ERROR]   OneTest>Base.other:3->help:4 no",
    ];
    assert_eq!(lines, expected, "{:#?}", told.findings);
    // The right line of a message becomes the cause. An exit value of a JVM is not a signal number.
    for (log, cause, crash) in [
        (
            "* What went wrong:\nExecution failed for task ':boom'.\n> Could not do it\n   > task says no\n",
            "Exit code 1: > task says no",
            CrashType::BuildFailure,
        ),
        (
            "* Where:\nBuild file '/w/build.gradle' line: 6\n\n* What went wrong:\nNo such thing.\n",
            "Exit code 1: No such thing. (/w/build.gradle:6)",
            CrashType::BuildFailure,
        ),
        (
            "> Process 'Gradle Test Executor 1' finished with non-zero exit value 11\n",
            "A process started by the command crashed: > Process 'Gradle Test Executor 1' finished with non-zero exit value 11",
            CrashType::Unknown,
        ),
        (
            "> Process 'Gradle Test Executor 1' finished with non-zero exit value 137\n",
            "A process started by the command crashed: > Process 'Gradle Test Executor 1' finished with non-zero exit value 137",
            CrashType::Killed,
        ),
    ] {
        let (_, _, told, kind) = found(log);
        assert_eq!((told.as_str(), kind), (cause, crash), "{log}");
    }
}

#[test]
fn words_of_death_after_the_marks_of_tests_are_heard() {
    check(AFTER_MARKS);
}

#[test]
fn words_that_anybody_says_raise_no_alarm() {
    check(ALARMS);
}

#[test]
fn a_tool_s_success_takes_back_nothing_of_another_s_failure() {
    check(AFTER_ANOTHER);
    let traces = AFTER_ANOTHER.last().expect("there are some");
    let digest = digest(traces.log, Some(1));
    let cause = digest.cause.expect("there is one").text;
    assert!(cause.contains("ValueError: no (/w/a.py:9)"), "{cause}");
}

#[test]
fn records_of_json_say_what_the_tool_would_have_said() {
    check(RECORDS);
    let log = RECORDS[0].log;
    assert_eq!(digest(log, Some(1)).findings.len(), 1, "one failure in three records");
}

#[test]
fn the_totals_of_frameworks_are_told_behind_any_exit_code() {
    check(FRAMEWORKS);
    for run in FRAMEWORKS.iter().filter(|run| run.code == 0) {
        let digest = digest(run.log, Some(0));
        assert_eq!(digest.silent_failure, digest.verdict != Passed, "{}", run.what);
    }
}

#[test]
fn a_run_that_broke_off_has_not_passed_whatever_its_exit_code() {
    let mut wrong = Vec::new();
    for (what, log, cause) in BROKEN {
        let digest = digest(log, Some(0));
        let text = digest.cause.as_ref().map_or("", |cause| &cause.text);
        if digest.verdict != Verdict::Inconclusive || !digest.silent_failure || !text.contains(cause) {
            wrong.push(format!("{what}: {:?}, {text}", digest.verdict));
        }
    }
    for (what, log) in WHOLE {
        let digest = digest(log, Some(0));
        if digest.verdict != Passed || digest.silent_failure {
            wrong.push(format!("{what}: {:?}, {:?}", digest.verdict, digest.cause));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_word_of_death_after_progress_is_one() {
    for (log, is_death) in [
        ("t/test_seg.py .Fatal Python error: Segmentation fault\n", true),
        ("t/test_seg.py ..Killed\n", true),
        ("..F.Segmentation fault (core dumped)\n", true),
        ("test_foo (t.T.test_foo) ... Segmentation fault (core dumped)\n", true),
        ("test a::b ... Killed\n", true),
        ("the server says: Killed\n", false),
        ("I wait... Segmentation fault is the name of a song\n", false),
    ] {
        let indicators = digest(log, Some(0)).crash_indicators;
        let seen = indicators.killed || indicators.unexpected_signal || indicators.fatal_error;
        assert_eq!(seen, is_death, "{log}");
    }
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

/// Prefixes that CI systems and programs add to each line.
const FRONTS: &[&str] = &[
    "2026-11-21T04:12:13.1234567Z ",
    "test (linux)\tRun tests\t2026-11-21T04:12:13.1234567Z ",
    "2026-11-21T04:12:13.123456Z 01O ",
    "\u{1b}_bk;t=1700000000000\u{7}",
    "[2026-11-21T04:12:13Z] ",
    "[2026-11-21T04:12:13.123Z] ",
    "[04:12:13] ",
    "web-1  | ",
    "web-1  | 2026-11-21T04:12:13.123456789Z ",
    "[CI/test]   | ",
    "2026-11-21 04:12:13 ",
    "04:12:13 ",
    "Nov 21 04:12:13 ",
];

/// Logs whose indentation and blank lines have a meaning.
const INDENTED: &[&str] = &[
    "starting\nTraceback (most recent call last):\n  File \"/w/a.py\", line 3, in <module>\n    main()\n    ~~~~^^\nKeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/w/b.py\", line 9, in main\n    raise ValueError('no')\nValueError: no\n\nthe end\n",
    "error[E0308]: mismatched types\n  --> src/main.rs:2:18\n   |\n2  |     let x: u32 = \"a\";\n   |            ---   ^^^ expected `u32`\n   |            |\n   |            expected due to this\n\nwarning: unused\n --> src/a.rs:3:4\n",
    "\n  math\n    1) subs\n\n\n  1 passing (3ms)\n  1 failing\n\n  1) math\n       subs:\n     Error: no\n      at Context.<anonymous> (test/a.js:7:12)\n\n",
    "FAIL src/b.test.js\n  \u{25cf} subs\n\n    Expected: 2\n    Received: 3\n\n      at Object.toBe (src/b.test.js:4:17)\n\nTest Suites: 1 failed, 1 total\nTests:       1 failed, 4 passed, 5 total\n",
];

#[test]
fn what_stands_before_each_line_takes_nothing_of_it() {
    for log in INDENTED {
        let plain = digest(log, Some(1));
        for front in FRONTS {
            // Some writers trim the ends of lines.
            for trimmed in [false, true] {
                let trims = trimmed && !front.starts_with(|c: char| c.is_alphanumeric());
                let line = |line: &str| match format!("{front}{line}") {
                    line if trims => line.trim_end().to_owned(),
                    line => line,
                };
                let lines: Vec<String> = log.lines().map(line).collect();
                let other = digest(&(lines.join("\n") + "\n"), Some(1));
                assert_eq!(other.findings.len(), plain.findings.len(), "{front:?}: {}", other.explain());
                for (other, plain) in other.findings.iter().zip(&plain.findings) {
                    assert!(other.message.ends_with(&plain.message), "{front:?}: {}", other.message);
                    assert_eq!((&other.location, &other.test), (&plain.location, &plain.test), "{front:?}");
                }
                assert_eq!(other.tests, plain.tests, "{front:?}");
            }
        }
    }
}

#[test]
fn a_group_of_exceptions_is_at_the_place_of_its_first() {
    let group = digest(include_str!("printed/exception-group.txt"), Some(1));
    let place = group.findings[0].location.clone().expect("the frames name it");
    assert_eq!((place.file.as_str(), place.line), ("/w/a.py", Some(2)));
}

#[test]
fn failures_that_a_good_end_hides_are_told() {
    let log = "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n";
    let hidden = digest(log, Some(0));
    assert_eq!(hidden.verdict, Verdict::Inconclusive);
    assert!(hidden.silent_failure);
    assert!(hidden.cause.is_some_and(|cause| cause.text.contains("1 test as failed")));
    let run = |reruns: &str| {
        let second = format!("== test session starts ==\n{reruns}=== 1 passed in 0.1s ===\n");
        digest(&format!("=== 1 failed, 2 passed in 0.1s ===\n{second}"), Some(0))
    };
    assert_eq!(run("").verdict, Verdict::Inconclusive);
    let rerun = run("run-last-failure: rerun previous 1 failure (skipped 1 file)\n");
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
        .map(|(tool, log)| (tool, digest(log, None)))
        .filter(|(_, digest)| digest.verdict != Passed)
        .map(|(tool, digest)| format!("{tool}: {} {:?}", digest.verdict, digest.cause))
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
fn an_error_of_a_build_beside_tests_is_one_where_the_build_failed() {
    let beside = "[ RUN      ] A.a\na.c:3:5: error: 'x' undeclared\n[       OK ] A.a (0 ms)\n";
    let of = |log: &str, code| digest(log, Some(code)).crash_type;
    assert_eq!(of(&format!("{beside}make: *** [Makefile:3: a.o] Error 1\n"), 2), CrashType::BuildFailure);
    let failed = "[ RUN      ] A.b\na.c:9: Failure\n  Expected: 2\n[  FAILED  ] A.b (0 ms)\n";
    assert_eq!(of(&format!("{beside}{failed}"), 1), CrashType::TestFailure);
}

#[test]
fn what_says_why_is_a_finding() {
    check(REASONS);
    for run in REASONS {
        let digest = digest(run.log, Some(run.code));
        assert!(
            !digest.silent_failure && digest.explanation.rule != "code_unexplained",
            "{}",
            digest.explain()
        );
    }
}

#[test]
fn where_nothing_is_known_to_say_why_the_last_line_is_quoted() {
    let cause = |log: &str, code| digest(log, Some(code)).cause.expect("there is a cause").text;
    assert!(
        cause("starting\nall is lost\n\n", 3)
            .ends_with("No known error message was found. The last line is: all is lost")
    );
    assert!(cause("", 3).ends_with("code 3. The command printed nothing."));
    let warning = cause("a.c:3:6: warning: unused [-Wunused]\n", 1);
    assert!(warning.contains("no error in the output") && warning.contains("a.c:3:6"), "{warning}");
    let both = cause("a.c:3:6: warning: unused [-Wunused]\nall is lost\n", 1);
    assert!(both.contains("the last line is: all is lost") && both.contains("a.c:3:6"), "{both}");
}

#[test]
fn the_test_that_ran_when_a_signal_came_is_named() {
    for (run, test) in ANNOUNCED {
        let named = format!(" while `{test}` ran");
        let mut wrong = run.faults(&digest(run.log, Some(139)), true);
        wrong.extend(run.faults(&digest(run.log, None), false));
        assert!(wrong.is_empty(), "{}: {}", run.what, wrong.join("\n"));
        for ending in [
            Ending::Exited { code: 139 },
            Ending::Signaled { signal: 11, name: "SIGSEGV".to_owned(), core_dump: false },
        ] {
            let mut digester = Digester::new(Options::default());
            digester.push(Stream::Stdout, run.log.as_bytes());
            let digest = digester.finish(&Facts { ending: Some(ending), ..Facts::default() });
            let mut result = JobResult::default();
            digest.render(Verbosity::Minimal, None, None, &mut result);
            let shown = text(&result);
            let of_what = ["SIGSEGV", "Segmentation fault", "Killed"].iter().any(|word| shown.contains(word));
            assert!(shown.contains(&named) && of_what, "{}: {shown}", run.what);
        }
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
    // Go reports success for packages without a selected test.
    let is_empty = |log: &str| log.contains("[no tests to run]");
    for run in runs().filter(|run| run.code != 0 && !is_empty(run.log)) {
        assert_ne!(digest(run.log, None).verdict, Passed, "{}", run.what);
    }
}

#[test]
fn runs_of_many_tools_are_told_as_they_were() {
    check(OUTSIDE);
}

#[test]
fn words_that_anybody_may_say_are_no_tool_s() {
    check(COMMON_WORDS);
}

#[test]
fn checks_of_nim_are_told_with_their_tests() {
    check(NIM);
    let digest = digest(NIM[0].log, Some(1));
    let tests: Vec<_> = digest.findings.iter().map(|found| found.test.as_deref()).collect();
    assert_eq!(tests, [Some("bad"), Some("raises"), None], "{}", digest.explain());
    let place = digest.findings[0].location.clone().expect("it has a place");
    assert_eq!((place.file.as_str(), place.line, place.column), ("/w/t.nim", Some(4), Some(21)));
}

#[test]
fn a_tool_that_runs_again_takes_its_failure_back() {
    check(TAKEN_BACK);
}

#[test]
fn a_success_is_of_its_own_invocation() {
    check(INVOCATIONS);
}

#[test]
fn the_cause_comes_before_what_follows_from_it() {
    for (run, cause) in CONSEQUENCES {
        let digest = digest(run.log, Some(run.code));
        let faults = run.faults(&digest, true);
        assert!(faults.is_empty(), "{}: {faults:?}", run.what);
        assert_eq!(
            digest.cause.as_ref().map(|cause| cause.text.as_str()),
            Some(*cause),
            "{}",
            digest.explain()
        );
        let is_machine = ["a simulator", "a keychain", "a linker", "a phone"];
        let expected = is_machine.iter().any(|what| run.what.starts_with(what));
        assert_eq!(digest.is_infrastructure(), expected, "{}", digest.explain());
    }
}

#[test]
fn lines_above_a_mere_exit_code_are_told_without_an_exit_code() {
    let log = "\nYour change has 3174 lines, which is more than the 2000 maximum\nthat are taken here.\n\n##[error]Process completed with exit code 1.\n";
    for code in [None, Some(1)] {
        let digest = digest(log, code);
        let message = digest.findings.first().map(|found| found.message.clone()).unwrap_or_default();
        assert!(message.contains("the 2000 maximum"), "{}", digest.explain());
    }
}

/// A file that cannot be loaded is a build error, at the location from its runner, and not a failed
/// test.
#[test]
fn a_test_file_that_cannot_be_loaded_is_an_error_of_a_build() {
    for (log, code, place) in [
        (include_str!("printed/loading/pytest.log"), 2, "test_coll.py:1"),
        (include_str!("printed/loading/unittest.log"), 1, "/w/py/ut_imp.py:1"),
        (include_str!("printed/loading/jest.log"), 1, "t/imp.test.js"),
        (include_str!("printed/loading/mocha.log"), 1, "/w/js/t/imp.mocha.js:1"),
        (include_str!("printed/loading/rspec.log"), 1, "./load_spec.rb"),
    ] {
        let digest = digest(log, Some(code));
        assert_eq!(digest.crash_type, CrashType::BuildFailure, "{}", digest.explain());
        assert!(digest.tests.is_none_or(|tests| tests.failed == 0), "{log}");
        let location = digest.findings[0].location.clone().expect("it has a place");
        let row = location.line.map_or(String::new(), |line| format!(":{line}"));
        assert_eq!(format!("{}{row}", location.file), place, "{log}");
    }
}

#[test]
fn an_exception_is_at_the_first_frame_in_the_project() {
    let log = "/usr/lib/ruby/3.1.0/json/common.rb:216:in `parse': unexpected token (JSON::ParserError)\n\tfrom /usr/lib/ruby/3.1.0/json/common.rb:216:in `parse'\n\tfrom app.rb:3:in `load'\n\tfrom app.rb:5:in `<main>'\n";
    let place = digest(log, Some(1)).findings[0].location.clone().expect("it has a place");
    assert_eq!((place.file.as_str(), place.line), ("app.rb", Some(3)));
}

#[test]
fn a_command_that_asks_for_a_further_action_is_not_complete() {
    for (command, verdict) in [
        ("xcodebuild archive -scheme A && xcodebuild -exportArchive -archivePath A", Verdict::Inconclusive),
        ("xcodebuild archive -scheme A", Passed),
    ] {
        let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
        digester.push(Stream::Stdout, b"** ARCHIVE SUCCEEDED **\n");
        let ending = Some(Ending::Exited { code: 0 });
        assert_eq!(digester.finish(&Facts { ending, ..Facts::default() }).verdict, verdict, "{command}");
    }
}

#[test]
fn a_pipe_that_hides_exit_codes_is_told() {
    let cause = |command: &str| {
        let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
        digester.push(Stream::Stdout, b"a.c:3:5: error: 'x' undeclared\n");
        let ending = Some(Ending::Exited { code: 0 });
        digester.finish(&Facts { ending, ..Facts::default() }).cause.expect("there is one").text
    };
    assert!(cause("gcc a.c 2>&1 | cat").contains("set -o pipefail"));
    assert!(!cause("gcc a.c; echo done").contains("pipefail"));
    assert!(!cause("set -o pipefail; gcc a.c | cat").contains("pipefail"));
}

#[test]
fn coverage_that_is_too_low_is_pardoned_with_the_tool_that_ran_it() {
    let pytest = "collected 1 item\n\na.py .    [100%]\n\nFAIL Required test coverage of 90% not reached. Total coverage: 80.00%\n=== 1 passed in 0.13s ===\n";
    let report = "Coverage failure: total of 80 is less than fail-under=90\n";
    let ran = "collected 1 item\n\na.py .    [100%]\n\n=== 1 passed in 0.13s ===\n";
    for (command, log, verdict) in [
        ("pytest --cov --cov-fail-under=90 || true", pytest.to_owned(), Passed),
        ("python3 -m pytest --cov || echo no", format!("{pytest}no\n"), Passed),
        ("pytest --cov --cov-fail-under=90 | tee log", pytest.to_owned(), Verdict::Inconclusive),
        ("make cov || true", pytest.to_owned(), Verdict::Inconclusive),
        ("coverage report || true; pytest", format!("{report}{ran}"), Passed),
        ("coverage report; pytest || true", format!("{report}{ran}"), Verdict::Inconclusive),
    ] {
        let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
        digester.push(Stream::Stdout, log.as_bytes());
        let ending = Some(Ending::Exited { code: 0 });
        assert_eq!(digester.finish(&Facts { ending, ..Facts::default() }).verdict, verdict, "{command}");
    }
}

#[test]
fn the_last_words_of_frameworks_are_heard_behind_a_pipe() {
    check(CLOSING);
    let place = |what: &str, said: &str| {
        let run = CLOSING.iter().find(|run| run.what == what).expect("it is there");
        let digest = digest(run.log, Some(1));
        let found = digest.findings.iter().find(|found| found.message.contains(said)).expect("it is told");
        let place = found.location.clone().expect("it has a place");
        format!("{}:{}", place.file, place.line.unwrap_or_default())
    };
    assert_eq!(place("Boost.Test", "S/thr"), "bt.cc:11");
    assert_eq!(place("Boost.Test with its progress", "S/bad"), "bt.cc:6");
    assert_eq!(place("CUnit in full", "bad"), "cu.c:3");
    assert_eq!(place("Common Test under rebar3", "bad"), "/w/er/test/er_SUITE.erl:5");
}

#[test]
fn a_good_program_takes_back_nothing_of_another_one_s_failures() {
    check(SEVERAL);
}

#[test]
fn what_went_wrong_besides_javascript_s_tests_is_no_success() {
    check(JAVASCRIPT);
}

#[test]
fn the_cause_says_what_is_wrong_where_the_first_line_only_says_where() {
    let run = |what: &str| JAVASCRIPT.iter().find(|run| run.what == what).expect("it is there").log;
    for (log, cause) in [
        (
            "/usr/bin/ld: main.o: in function `main':\nmain.c:(.text+0xa): undefined reference to `helpr'\ncollect2: error: ld returned 1 exit status\n",
            "/usr/bin/ld: main.o: in function `main': main.c:(.text+0xa): undefined reference to `helpr'",
        ),
        (
            "CMake Error at CMakeLists.txt:3 (find_package):\n\n  By not providing \"FindX.cmake\"\n",
            "CMake Error at CMakeLists.txt:3 (find_package): By not providing \"FindX.cmake\"",
        ),
        (
            "  File \"/w/syn.py\", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax\n",
            "SyntaxError: invalid syntax (/w/syn.py:1)",
        ),
        (
            "File \"a.ml\", line 3, characters 4-6:\n3 | let x = y\n            ^\nError: Unbound value y\n",
            "Error: Unbound value y (a.ml:3)",
        ),
        (
            "a.f90:3:5:\n\n    3 |  x = 1\n      |   1\nError: Symbol x at (1) has no IMPLICIT type\n",
            "Error: Symbol x at (1) has no IMPLICIT type (a.f90:3)",
        ),
        (
            "/w/u.js:2\nx.foo();\n  ^\n\nTypeError: x is undefined\n    at Object.<anonymous> (/w/u.js:2:3)\n\nNode.js v20.20.2\n",
            "TypeError: x is undefined (/w/u.js:2)",
        ),
        (
            "/w/t.js:1\nthrow \"text\"\n^\n\ntext\n(Use `node --trace-uncaught ...` to show where the exception was thrown)\n\nNode.js v20.20.2\n",
            "text (/w/t.js:1)",
        ),
        (run("jest, a suite that cannot be loaded"), "Cannot find module './nothere' from 'a.test.js'"),
        (
            run("vitest, a file that cannot be loaded"),
            "vt/a.spec.mjs [ vt/a.spec.mjs ]: Error: Cannot find module './nothere' imported from /w/vt/a.spec.mjs (vt/a.spec.mjs:1)",
        ),
        (
            run("mocha, a file that cannot be loaded"),
            "Exception during run: Error: Cannot find module './nothere' (/w/mt/a.js:1)",
        ),
        (run("mocha, a file that cannot be read"), "SyntaxError: Unexpected end of input (/w/mo/syn.js:2)"),
        (run("ava, an exception that no test caught"), "Error: late (av/x.mjs:1)"),
    ] {
        let told = digest(log, Some(1)).cause.expect("there is one").text;
        assert_eq!(told, format!("Exit code 1: {cause}"));
    }
}

#[test]
fn what_tests_logged_that_passed_leaves_room_for_others() {
    let passed = |n: usize| {
        format!(
            "=== RUN   Test{n}\n    a_test.go:3: fine\n=== RUN   Test{n}/x\n--- PASS: Test{n} (0.00s)\n    --- PASS: Test{n}/x (0.00s)\n"
        )
    };
    let passed: String = (0..600).map(passed).collect();
    let failed = "=== RUN   TestZ\n=== RUN   TestZ/x\n    a_test.go:5: inner\n=== RUN   TestZ/y\n--- FAIL: TestZ (0.00s)\n    --- FAIL: TestZ/x (0.00s)\n    --- PASS: TestZ/y (0.00s)\nFAIL\nFAIL\tex\t0.012s\n";
    let digest = digest(&format!("{passed}{failed}"), Some(1));
    assert!(
        digest.findings.iter().any(|found| says(&found.message, "TestZ/x & a_test.go:5")),
        "{}",
        digest.explain()
    );
}

#[test]
fn failures_have_the_place_in_one_s_own_sources() {
    let of = |log: &str| {
        let found = digest(log, Some(1)).findings[0].clone();
        found.location.map(|place| (place.file, place.line))
    };
    for (log, file, line) in [
        (
            "panic: no [recovered]\n\ngoroutine 6 [running]:\ntesting.tRunner.func1()\n\t/usr/lib/go-1.19/src/testing/testing.go:1399 +0x39f\nex.TestPanic(0x0?)\n\t/w/p_test.go:3 +0x2e\n",
            "/w/p_test.go",
            3,
        ),
        (
            "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in <module>\n    json.loads(\"\")\n  File \"/usr/lib/python3.11/json/__init__.py\", line 346, in loads\n    return d.decode(s)\nValueError: no\n",
            "/w/a.py",
            3,
        ),
        (
            "✘ [ERROR] Could not resolve \"./nope.js\"\n\n    m.js:1:14:\n      1 │ import x from \"./nope.js\"\n        ╵               ~~~~~~~~~~~\n\n1 error\n",
            "m.js",
            1,
        ),
        (
            "/usr/bin/ld: /tmp/cc1.o: in function `main':\nb.c:(.text+0x24): undefined reference to `g'\ncollect2: error: ld returned 1 exit status\n",
            "b.c",
            0,
        ),
        (
            "file:///w/e.js:7\nconst z = ;\n          ^\n\nSyntaxError: Unexpected token ';'\n    at compileSourceTextModule (node:internal/modules/esm/utils:346:16)\n\nNode.js v20.20.2\n",
            "/w/e.js",
            7,
        ),
        (
            "Running 1 test using 1 worker\n\n  1) a.spec.js:9:5 › slow ─────\n\n    Test timeout of 50ms exceeded.\n\n  1 failed\n    a.spec.js:9:5 › slow ─────\n",
            "a.spec.js",
            9,
        ),
        (
            "TAP version 13\nnot ok 1 should match\n  ---\n    operator: equal\n    at: Test.<anonymous> (/w/tape.js:1:57)\n  ...\n1..1\n",
            "/w/tape.js",
            1,
        ),
    ] {
        let line = (line > 0).then_some(line);
        assert_eq!(of(log), Some((file.to_owned(), line)), "{log}");
    }
}

#[test]
fn an_exception_that_nothing_follows_ended_the_program() {
    let trace = "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in <module>\n    f()\n";
    for said in ["MemoryError", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3 GiB"] {
        let (last, before) = (format!("{trace}{said}\n\n"), format!("{trace}{said}\ngoing on\n"));
        for (log, code, verdict) in [
            (&last, Some(1), Verdict::Crashed),
            (&last, None, Verdict::Crashed),
            (&before, Some(1), Verdict::Crashed),
            (&before, None, Verdict::Inconclusive),
            (&before, Some(0), Verdict::Inconclusive),
        ] {
            assert_eq!(digest(log, code).verdict, verdict, "{code:?}: {log}");
        }
    }
}

#[test]
fn the_command_says_whose_failure_counts() {
    let tsc = "src/a.ts(3,5): error TS2304: Cannot find name 'foo'.\n";
    let log = format!("{tsc}..    [100%]\n2 passed in 0.01s\n");
    for (command, verdict) in [
        ("", Verdict::Inconclusive),
        ("tsc; pytest -q", Verdict::Inconclusive),
        ("sh -c 'tsc; pytest -q'", Verdict::Inconclusive),
        ("tsc || true; pytest -q", Passed),
        ("make test", Verdict::Inconclusive),
        // The command runs no other program, so a test printed the error.
        ("pytest -q", Passed),
    ] {
        let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
        digester.push(Stream::Stdout, log.as_bytes());
        let ending = Some(Ending::Exited { code: 0 });
        assert_eq!(digester.finish(&Facts { ending, ..Facts::default() }).verdict, verdict, "{command}");
    }
}

#[test]
fn a_run_that_was_asked_for_tests_and_had_none_did_not_pass() {
    let goal = "[INFO] Scanning for projects...\n[INFO] --- maven-surefire-plugin:2.22.3:test (default-test) @ a ---\n";
    let success = "[INFO] BUILD SUCCESS\n";
    let tests = "[INFO]  T E S T S\n[INFO] Running app.ATest\n[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in app.ATest\n[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\n";
    let unmarked = tests.replace("[INFO] ", "");
    let none = "[INFO] Tests run: 0, Failures: 0, Errors: 0, Skipped: 0\n";
    let asking = "mvn --batch-mode test -Dtest=Nope -Dsurefire.failIfNoSpecifiedTests=false";
    for (what, command, log, verdict) in [
        ("none", asking, format!("{goal}{success}"), Verdict::Inconclusive),
        ("a total of none", asking, format!("{goal}{none}{success}"), Verdict::Inconclusive),
        ("some in the second module", asking, format!("{goal}{goal}{tests}{success}"), Passed),
        ("some of an old surefire", asking, format!("{goal}{unmarked}{success}"), Passed),
        ("quiet", asking, String::new(), Passed),
        ("not asked", "mvn test", format!("{goal}{success}"), Passed),
    ] {
        let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
        digester.push(Stream::Stdout, log.as_bytes());
        let ending = Some(Ending::Exited { code: 0 });
        let digest = digester.finish(&Facts { ending, ..Facts::default() });
        assert_eq!(digest.verdict, verdict, "{what}: {:?}", digest.cause);
    }
}

#[test]
fn a_tool_that_ran_twice_is_forgiven_only_if_both_are_and_something_succeeded() {
    let cargo = "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:1:5\n\nerror: could not compile `a` (lib) due to 1 previous error\n";
    let tsc = "src/a.ts(3,5): error TS2304: Cannot find name 'foo'.\n";
    let pytest = "..    [100%]\n2 passed in 0.01s\n";
    for (command, log, verdict) in [
        ("cargo clippy || true; cargo build; echo ok", format!("{cargo}ok\n"), Verdict::Inconclusive),
        ("cargo clippy || true; cargo build | tee log", cargo.to_owned(), Verdict::Inconclusive),
        ("tsc || true; tsc -p core; pytest -q", format!("{tsc}{pytest}"), Verdict::Inconclusive),
        ("tsc || true; tsc -p core || true; pytest -q", format!("{tsc}{pytest}"), Passed),
        ("tsc || echo no", format!("{tsc}no\n"), Verdict::Inconclusive),
    ] {
        let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
        digester.push(Stream::Stdout, log.as_bytes());
        let ending = Some(Ending::Exited { code: 0 });
        assert_eq!(digester.finish(&Facts { ending, ..Facts::default() }).verdict, verdict, "{command}");
    }
}

#[test]
fn what_a_test_prints_hides_nothing_of_its_runner_or_of_others() {
    let vitest = "RUN  v1.6.0 /w\n\nstderr | a.test.ts > x\ntext\n Test Files  1 failed (1)\n      Tests  1 failed (1)\n";
    assert_ne!(digest(vitest, Some(0)).verdict, Passed);
    assert_eq!(digest(vitest, None).verdict, Verdict::Failed);
    let make = "stderr | build.js\nsrc/a.c:3:5: error: expected ';'\nmake: *** [Makefile:2: a.o] Error 1\n";
    assert_eq!(digest(make, None).verdict, Verdict::Failed);
    let long = format!("stdout | a.test.ts > x\n{}Segmentation fault\n", "text\n".repeat(100));
    assert_eq!(digest(&long, None).verdict, Verdict::Crashed);
}

#[test]
fn a_list_of_counts_is_of_pytest_only_below_its_heading() {
    let pytest = "============================= test session starts ==============================\ncollected 2 items\n\na.py ..                  [100%]\n\n============================== 2 passed in 0.01s ===============================\n";
    for below in ["summary of retries:\n       1 failed\n", "\n       1 failed\n"] {
        assert_eq!(digest(&format!("{pytest}{below}"), Some(0)).verdict, Passed, "{below}");
    }
    assert_eq!(digest("Results (1.00s):\n", Some(0)).verdict, Passed);
}

/// Text of a log's digest in `minimal`.
fn minimal(log: &str, code: Option<i32>) -> String {
    let mut result = JobResult::default();
    digest(log, code).render(Verbosity::Minimal, None, None, &mut result);
    text(&result)
}

const NODE_STACKS: &str = "TAP version 13\n# Subtest: late\nnot ok 1 - late\n  ---\n  duration_ms: 51.878304\n  error: 'test timed out after 50ms'\n  ...\n# Subtest: bad\nnot ok 2 - bad\n  ---\n  duration_ms: 1.06846\n  location: '/w/b.test.mjs:5:1'\n  failureType: 'testCodeFailure'\n  error: '1 == 2'\n  code: 'ERR_ASSERTION'\n  name: 'AssertionError'\n  expected: 2\n  actual: 1\n  operator: '=='\n  stack: |-\n    TestContext.<anonymous> (file:///w/b.test.mjs:5:26)\n    Test.runInAsyncScope (node:async_hooks:206:9)\n    Test.run (node:internal/test_runner/test:796:25)\n    Test.processPendingSubtests (node:internal/test_runner/test:526:18)\n    Test.postRun (node:internal/test_runner/test:889:19)\n    Test.run (node:internal/test_runner/test:835:12)\n    async Test.processPendingSubtests (node:internal/test_runner/test:526:7)\n  ...\n1..2\n    Test.run (node:internal/test_runner/test:796:25)\n# tests 2\n# suites 0\n# pass 0\n# fail 2\n";
const UNITTEST_TWO: &str = "FE.s\n======================================================================\nERROR: test_err (test_u.T.test_err)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/w/test_u.py\", line 5, in test_err\n    def test_err(self): raise ValueError('boom')\n                        ^^^^^^^^^^^^^^^^^^^^^^^^\nValueError: boom\n\n======================================================================\nFAIL: test_bad (test_u.T.test_bad)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/w/test_u.py\", line 4, in test_bad\n    def test_bad(self): self.assertEqual([1,2],[1,3])\n                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\nAssertionError: Lists differ: [1, 2] != [1, 3]\n\nFirst differing element 1:\n2\n3\n\n- [1, 2]\n?     ^\n\n+ [1, 3]\n?     ^\n\n\n----------------------------------------------------------------------\nRan 4 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)\n";

#[test]
fn a_short_log_of_a_failure_is_shown_once_and_whole() {
    for log in [NODE_STACKS, UNITTEST_TWO] {
        for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
            let mut result = JobResult::default();
            digest(log, Some(1)).render(verbosity, None, None, &mut result);
            assert_eq!(result.filtered_output.as_deref(), Some(log.trim_end()));
            assert!(!result.tier_1_findings.is_empty());
            assert!(result.tier_1_findings.iter().all(|finding| finding.message.lines().count() == 1));
            let shown = text(&result);
            let bars = log.lines().count();
            assert!(shown.len() <= log.len() + bars + 200, "{shown}");
        }
    }
}

#[test]
fn the_end_of_a_long_line_is_shown() {
    let long = format!("ValueError: {} the end of it", "word ".repeat(600));
    let shown = minimal(
        &format!("Traceback (most recent call last):\n  File \"/w/a.py\", line 1, in <module>\n{long}\n"),
        Some(1),
    );
    assert!(shown.contains("the end of it"), "{shown}");
}

#[test]
fn a_flood_of_failures_leaves_each_a_line_and_the_last_word() {
    let rule = "=".repeat(70);
    let thin = "-".repeat(70);
    let block = |n: usize| {
        format!(
            "{rule}\nFAIL: test_{n} (t.T.test_{n})\n{thin}\nTraceback (most recent call last):\n  File \"/w/a/long/directory/t.py\", line {n}, in test_{n}\n    self.assertEqual(1, 2)\n\nAssertionError: 1 != 2\n\n"
        )
    };
    let blocks: String = (0..60).map(block).collect();
    let shown = minimal(&format!("{blocks}{thin}\nRan 900 tests in 2.3s\n\nFAILED (failures=60)\n"), Some(1));
    for n in 0..60 {
        assert!(shown.contains(&format!("test_{n} (t.T.test_{n})")), "test_{n}: {shown}");
    }
    assert!(shown.contains("\n|FAILED (failures=60)\n"), "{shown}");
}

#[test]
fn in_a_flood_of_remarks_the_first_are_whole_and_each_file_is_named() {
    let row = |n: usize| format!("  {n}:5  error  'name{n}' is not defined  no-undef\n");
    let rows: String = (1..6).map(row).collect();
    let files: String = (0..50).map(|n| format!("/w/src/file{n}.js\n{rows}\n")).collect();
    let shown = minimal(&format!("{files}\u{2716} 250 problems (250 errors, 0 warnings)\n"), Some(1));
    let names = (0..50).map(|n| format!("/w/src/file{n}.js"));
    let first = (1..6).map(|n| format!("{n}:5 error 'name{n}'"));
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in names.chain(first).chain(["250 problems".to_owned()]) {
        assert!(words.contains(&said), "{said}: {shown}");
    }
}

#[test]
fn of_a_flood_of_remarks_two_of_each_sort_are_shown() {
    let long =
        |n: usize| format!("[a/b{n}.proto:{n}:1] The line length is 91, but it must be shorter than 80\n");
    let long: String = (1..1500).map(long).collect();
    let rare = "[a/z.proto:40:1] Imports are not sorted.\n[a/z.proto:41:1] Imports are not sorted.\n";
    let shown = minimal(&format!("{long}{rare}"), None);
    assert!(shown.contains("z.proto:40") && shown.contains("z.proto:41"), "{shown}");
}
