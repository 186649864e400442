//! Tests of commands: the failure that counts in a run of several programs, and the effect of options.

mod digests;

use buildpool_protocol::report::Verdict::{self, Passed};
use digests::{digest, of_command};

#[test]
fn failures_that_a_good_end_hides_are_told() {
    let total = "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n";
    let log = format!("[INFO] Scanning for projects...\n{total}[INFO] BUILD SUCCESS\n");
    let hidden = digest(&log, Some(0));
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
fn a_command_that_asks_for_a_further_action_is_not_complete() {
    for (command, verdict) in [
        ("xcodebuild archive -scheme A && xcodebuild -exportArchive -archivePath A", Verdict::Inconclusive),
        ("xcodebuild archive -scheme A", Passed),
    ] {
        assert_eq!(of_command(command, "** ARCHIVE SUCCEEDED **\n", 0).verdict, verdict, "{command}");
    }
}

#[test]
fn a_build_tool_without_its_start_clears_nothing_before_its_success() {
    let errors = [
        "src/a.c:1:2: error: x",
        "src/a.c:1:2: error: x\nmake: *** [Makefile:2: a.o] Error 1",
        "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:1:2\n\nerror: could not compile `a` (lib) due to 1 previous error",
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nNameError: name 'x' is not defined",
        "Segmentation fault (core dumped)",
        "thread 'main' panicked at src/main.rs:1:2:\nboom",
        "Killed",
    ];
    let builds = [
        ("> Task :compile\n", "BUILD SUCCESSFUL in 1s"),
        ("[INFO] Scanning for projects...\n", "[INFO] BUILD SUCCESS"),
        ("Command line invocation:\n    /usr/bin/xcodebuild build\n\n", "** BUILD SUCCEEDED **"),
        ("  Determining projects to restore...\n", "Build succeeded.\n    0 Warning(s)\n    0 Error(s)"),
    ];
    for (start, success) in builds {
        for error in errors {
            let cut = digest(&format!("{error}\n{success}\n"), Some(0));
            assert_eq!(cut.verdict, Verdict::Inconclusive, "{error}\n{success}");
            assert!(cut.silent_failure, "{error}\n{success}");
        }
        let whole = digest(&format!("{start}fine\n{success}\n"), Some(0));
        assert_eq!(whole.verdict, Verdict::Passed, "{success}");
    }
}

#[test]
fn a_test_that_prints_errors_does_not_spoil_the_success_of_its_runner() {
    let noise = "src/a.c:1:2: error: x\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nNameError: name 'x' is not defined\n";
    for (start, end) in [
        ("", "t/a.t .. ok\nAll tests successful.\nFiles=1, Tests=3,  0 wallclock secs\nResult: PASS\n"),
        ("", "== Tests result: SUCCESS ==\n"),
        (
            "INFO: Analyzed 2 targets (1 packages loaded, 3 targets configured).\n",
            "INFO: Build completed successfully, 5 total actions\n",
        ),
        (
            "[info] welcome to sbt 1.9.7 (Debian Java 17)\n",
            "[success] Total time: 1 s, completed 1 Jan 2026, 00:00:00\n",
        ),
        (
            "Test run for /w/A.dll (.NETCoreApp,Version=v8.0)\n",
            "Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5, Duration: 30 ms - A.dll\n",
        ),
    ] {
        let result = digest(&format!("{start}{noise}{end}"), Some(0));
        assert_eq!(result.verdict, Verdict::Passed, "{end}: {:?}", result.cause);
    }
}

#[test]
fn a_dead_test_host_stands_against_the_success_of_its_tool() {
    let end = "Executed 3 tests, with 0 failures (0 unexpected) in 0.1 (0.2) seconds\n** TEST SUCCEEDED **\n";
    for sign in [
        "AppTests (123) encountered an error (Exited with unexpected signal code 11)",
        "AppUITests-Runner (123) encountered an error (Failed to background test runner.)",
        "AppTests encountered an error (Timed out)",
        "*** Terminating app due to uncaught exception 'NSRangeException', reason: 'x'",
        "App/File.swift:12: Fatal error: Unexpectedly found nil",
        "Failed to install or launch the test runner",
        "Timed out registering for testing event accessibility notifications",
    ] {
        for start in ["", "Command line invocation:\n    /usr/bin/xcodebuild test\n\n"] {
            let log = format!("{start}{sign}\n{end}");
            let result = digest(&log, Some(0));
            assert_eq!(result.verdict, Verdict::Inconclusive, "{log}");
            assert!(result.silent_failure, "{log}");
        }
    }
    for place in [
        "",
        " in AppTests/testA()",
        " in AppTests.testA(); summary will include totals from previous launches.",
    ] {
        let log = format!("Restarting after unexpected exit, crash, or test timeout{place}\n{end}");
        assert_eq!(digest(&log, Some(0)).verdict, Verdict::Crashed, "{log}");
    }
    assert_eq!(digest(end, Some(0)).verdict, Verdict::Passed);
}

#[test]
fn the_meaning_of_the_exit_code_of_timeout_is_told_as_a_guess() {
    let result = digest("x\n", Some(124));
    assert!(result.cause.is_some_and(|cause| cause.text.contains("a guess")
        && cause.known_from == buildpool_protocol::report::KnownFrom::ShellConvention));
}

#[test]
fn a_pipe_that_hides_exit_codes_is_told() {
    let cause = |command: &str| {
        of_command(command, "a.c:3:5: error: 'x' undeclared\n", 0).cause.expect("there is one").text
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
        assert_eq!(of_command(command, &log, 0).verdict, verdict, "{command}");
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
        assert_eq!(of_command(command, &log, 0).verdict, verdict, "{command}");
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
        let digest = of_command(command, &log, 0);
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
        assert_eq!(of_command(command, &log, 0).verdict, verdict, "{command}");
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

/// Verdict of a log of a command that exited with 0.
fn verdict_of(command: &str, log: &str) -> Verdict {
    of_command(command, log, 0).verdict
}

#[test]
fn a_total_with_failed_tests_is_doubted_whatever_printed_it() {
    let log = "== test session starts ==\ncollected 3 items\n=== 1 failed, 2 passed in 0.1s ===\n";
    for command in ["cat test.log", "echo log", "cat test.log; make", "pytest | cat", ""] {
        assert_eq!(verdict_of(command, log), Verdict::Inconclusive, "{command}");
    }
}

#[test]
fn remarks_of_a_linter_behind_a_pipe_are_doubted() {
    let log = "************* Module a\na.py:1:0: C0114: Missing module docstring (missing-module-docstring)\n\n\
        Your code has been rated at 0.00/10\n";
    for command in ["make lint | cat", "pylint a | cat", "pylint a; make", "(make lint; make) | cat"] {
        assert_eq!(verdict_of(command, log), Verdict::Inconclusive, "{command}");
    }
    for command in [
        "make lint",
        "set -o pipefail; make lint | cat",
        "pylint --exit-zero a | cat",
        "make lint && cat notes | head",
        "pylint a && make | cat",
    ] {
        assert_eq!(verdict_of(command, log), Passed, "{command}");
    }
}

#[test]
fn an_error_after_the_tests_of_the_last_program_is_of_its_cleanup() {
    let log = "> test\n> jest\n\nPASS ./a.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       3 passed, 3 total\n\
        Ran all test suites.\nerror: could not remove /w/x\n";
    assert_eq!(verdict_of("npm ci; npm test", log), Passed);
    assert_eq!(verdict_of("npm test; rm -rf x", log), Verdict::Inconclusive);
}

#[test]
fn lines_that_look_like_failures_of_deno_or_racket_are_not() {
    for log in [
        "dist/a.js:1:1 => src/a.ts:3:4\nDone in 0.2s\n",
        "my test\nFAILURE\n--------------------\nall good\n",
    ] {
        assert_eq!(verdict_of("", log), Passed, "{log}");
    }
}

#[test]
fn an_installation_of_packages_does_not_clear_an_error_before_it() {
    let error = "Error: no answer from the server\n";
    for installed in [
        "added 3 packages in 2s\n",
        "Installing collected packages: six\nSuccessfully installed six-1.16.0\n",
    ] {
        assert_eq!(
            digest(&format!("{error}{installed}"), None).verdict,
            Verdict::Inconclusive,
            "{installed}"
        );
        assert_eq!(digest(installed, None).verdict, Passed, "{installed}");
    }
    assert_eq!(digest(&format!("{error}** BUILD SUCCEEDED **\n"), None).verdict, Passed);
}

#[test]
fn a_benchmark_has_no_tests_and_a_program_inside_of_maven_may_end_it() {
    let none = "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\nfib 20                  time:   [25.1 us 25.2 us 25.3 us]\n";
    let begun =
        "[INFO] Scanning for projects...\n[INFO] --- exec:3.1.0:java (default-cli) @ app ---\nhello\n";
    for (log, good, other) in [(none, "cargo bench", "cargo test"), (begun, "mvn exec:java", "mvn verify")] {
        assert_eq!(of_command(good, log, 0).verdict, Verdict::Passed, "{good}");
        assert_eq!(of_command(other, log, 0).verdict, Verdict::Inconclusive, "{other}");
    }
}

#[test]
fn a_runner_without_tests_did_not_pass_below_a_build_driver() {
    let rule = "-".repeat(70);
    for total in [
        format!("\n{rule}\nRan 0 tests in 0.000s\n\nOK\n"),
        "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n".to_owned(),
        "?   \ta\t[no test files]\n?   \tb\t[no test files]\n".to_owned(),
        "Files=0, Tests=0,  0 wallclock secs ( 0.00 usr +  0.00 sys =  0.00 CPU)\nResult: NOTESTS\n".to_owned(),
    ] {
        for command in ["make -s test", "make -s test | cat", ""] {
            assert_eq!(of_command(command, &total, 0).verdict, Verdict::Inconclusive, "{command}: {total}");
        }
    }
}

const GO_FAILED: &str = "--- FAIL: TestF (0.00s)\n    f_test.go:7: got 1\nFAIL\nFAIL\tm/f\t0.002s\nFAIL\n";
const GO_PASSED: &str = "ok  \tm/f\t0.002s\n";
const GO_NAMED: &str = "=== RUN   TestF\n--- PASS: TestF (0.00s)\n=== RUN   TestG\n--- PASS: TestG (0.00s)\nPASS\nok  \tm/f\t0.002s\n";

/// A run of unittest with one test, which failed or passed.
fn unittest(fails: bool) -> &'static str {
    match fails {
        true => {
            "F\n======================================================================\nFAIL: test_f (t.A.test_f)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/w/t.py\", line 4, in test_f\n    self.assertEqual(1, 2)\nAssertionError: 1 != 2\n\n----------------------------------------------------------------------\nRan 1 test in 0.000s\n\nFAILED (failures=1)\n"
        }
        false => {
            ".\n----------------------------------------------------------------------\nRan 1 test in 0.000s\n\nOK\n"
        }
    }
}

#[test]
fn the_same_invocation_run_again_clears_its_failure() {
    let [failed, passed] = [true, false].map(unittest);
    let pytest = "=== 1 failed, 2 passed in 0.1s ===\n=== 3 passed in 0.1s ===\n".to_owned();
    for (command, log, counts) in [
        ("go test ./f || go test ./f", format!("{GO_FAILED}{GO_PASSED}"), [1, 0]),
        ("go test -count=1 ./f; go test -count=1 ./f", format!("{GO_FAILED}{GO_PASSED}"), [1, 0]),
        ("until go test ./f; do sleep 1; done", format!("{GO_FAILED}{GO_FAILED}{GO_PASSED}"), [1, 0]),
        (
            "go test ./... || go test ./...",
            format!("ok  \tm/a\t0.002s\n{GO_FAILED}ok  \tm/a\t(cached)\n{GO_PASSED}"),
            [1, 0],
        ),
        // Named tests need no equal command.
        ("go test ./f || go test -v ./f", format!("{GO_FAILED}{GO_NAMED}"), [2, 0]),
        ("make test", format!("{GO_FAILED}{GO_NAMED}"), [2, 0]),
        ("python3 -m unittest t || python3 -m unittest t", format!("{failed}{passed}"), [1, 0]),
        ("python3 -m unittest t; python3 -m unittest t", format!("{failed}{passed}"), [1, 0]),
        ("pytest -q a || pytest -q a", pytest.clone(), [3, 0]),
    ] {
        let digest = of_command(command, &log, 0);
        assert_eq!(digest.verdict, Passed, "{command}: {:?}", digest.cause);
        let tests = digest.tests.expect("the log counts");
        assert_eq!([tests.passed, tests.failed], counts, "{command}");
    }
}

#[test]
fn another_invocation_clears_no_failure() {
    let [failed, passed] = [true, false].map(unittest);
    let go_b = "ok  \tm/b\t0.002s\n";
    let build = "# m/f\nf/f.go:3:2: undefined: x\nFAIL\tm/f [build failed]\nFAIL\n";
    let exit = "--- FAIL: TestF (0.00s)\n    f_test.go:7: got 1\nexit status 3\nFAIL\tm/f\t0.002s\nFAIL\n";
    let benchmark = "goos: linux\n--- FAIL: BenchmarkX\n    f_test.go:9: no\nFAIL\nexit status 1\nFAIL\tm/f\t0.002s\nFAIL\n";
    let same_name = "=== RUN   TestF\n--- PASS: TestF (0.00s)\nPASS\nok  \tm/e\t0.002s\n";
    let other = "=== RUN   TestG\n--- PASS: TestG (0.00s)\nPASS\nok  \tm/f\t0.002s\n";
    for (command, log) in [
        ("go test ./f || go test ./b", format!("{GO_FAILED}{go_b}")),
        ("go test ./f || go test -run TestG ./f", format!("{GO_FAILED}{GO_PASSED}")),
        ("go test ./f || go test -v -run TestG ./f", format!("{GO_FAILED}{other}")),
        ("make test", format!("{GO_FAILED}{GO_PASSED}")),
        ("(cd a && go test ./f); (cd b && go test ./f)", format!("{GO_FAILED}{GO_PASSED}")),
        ("for d in a b; do go test ./$d; done", format!("{GO_FAILED}{go_b}")),
        // The second run did not reach the package that failed.
        ("go test ./... || go test ./... || true", format!("{GO_FAILED}{go_b}")),
        ("go test ./... || go test ./... || true", format!("{GO_FAILED}{go_b}{GO_FAILED}")),
        ("go test ./f; go test -v -run TestG ./f", format!("{build}{other}")),
        // A program that ended early may have tests that never ran.
        ("go test ./f; go test -v ./f", format!("{exit}{GO_NAMED}")),
        ("go test ./f || go test ./f", format!("{GO_FAILED}ok  \tm/f\t0.002s [no tests to run]\n")),
        // Another program of the command may run the tool, and a part of it may write what the tool reads.
        (
            "./unit.sh; pytest e2e || pytest e2e",
            "=== 1 failed, 9 passed in 0.1s ===\n=== 3 passed in 0.1s ===\n".to_owned(),
        ),
        (
            "echo a > .env; pytest a; echo b > .env; pytest a",
            "=== 1 failed, 2 passed in 0.1s ===\n=== 3 passed in 0.1s ===\n".to_owned(),
        ),
        ("go test -bench . ./f; go test -v ./f", format!("{benchmark}{other}")),
        // Another package has a test of the same name.
        ("go test -tags integ ./f; go test -v ./...", format!("{GO_FAILED}{same_name}{GO_PASSED}")),
        ("python3 -m unittest t || python3 -m unittest u", format!("{failed}{passed}")),
        ("python3 -m unittest t || python3 -m unittest t || true", format!("{failed}{failed}")),
        ("cd a; python3 -m unittest t; cd b; python3 -m unittest t", format!("{failed}{passed}")),
        (
            "pytest a || pytest a",
            "=== 1 failed, 2 passed in 0.1s ===\n=== no tests ran in 0.1s ===\n".to_owned(),
        ),
    ] {
        let digest = of_command(command, &log, 0);
        assert_eq!(digest.verdict, Verdict::Inconclusive, "{command}: {:?} {log}", digest.cause);
    }
}
