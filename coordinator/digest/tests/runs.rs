//! Tests complete runs of tools, passed and failed: verdict with and without the exit code, counts,
//! and findings. Text that a test prints does not count as output of its runner.

mod digests;
mod printed;

use buildpool_digest::{Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::report::Verdict::{self, Passed};
use buildpool_protocol::spec::Verbosity;
use digests::digest;
use printed::broken::{BROKEN, WHOLE};
use printed::*;

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
fn a_list_of_counts_is_of_pytest_only_below_its_heading() {
    let pytest = "============================= test session starts ==============================\ncollected 2 items\n\na.py ..                  [100%]\n\n============================== 2 passed in 0.01s ===============================\n";
    for below in ["summary of retries:\n       1 failed\n", "\n       1 failed\n"] {
        assert_eq!(digest(&format!("{pytest}{below}"), Some(0)).verdict, Passed, "{below}");
    }
    assert_eq!(digest("Results (1.00s):\n", Some(0)).verdict, Passed);
}
