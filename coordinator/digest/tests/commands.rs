//! Tests of commands: the failure that counts in a run of several programs, and the effect of options.

use buildpool_digest::{Digest, Digester, Facts, Options};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::Verdict::{self, Passed};

fn digest(log: &str, code: Option<i32>) -> Digest {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: code.map(|code| Ending::Exited { code }), ..Facts::default() })
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

/// Verdict of a log of a command that exited with 0.
fn of_command(command: &str, log: &str) -> Verdict {
    let mut digester = Digester::new(Options { command: command.to_owned(), ..Options::default() });
    digester.push(Stream::Stdout, log.as_bytes());
    digester.finish(&Facts { ending: Some(Ending::Exited { code: 0 }), ..Facts::default() }).verdict
}

#[test]
fn a_total_with_failed_tests_is_doubted_whatever_printed_it() {
    let log = "== test session starts ==\ncollected 3 items\n=== 1 failed, 2 passed in 0.1s ===\n";
    for command in ["cat test.log", "echo log", "cat test.log; make", "pytest | cat", ""] {
        assert_eq!(of_command(command, log), Verdict::Inconclusive, "{command}");
    }
}

#[test]
fn remarks_of_a_linter_behind_a_pipe_are_doubted() {
    let log = "************* Module a\na.py:1:0: C0114: Missing module docstring (missing-module-docstring)\n\n\
        Your code has been rated at 0.00/10\n";
    assert_eq!(of_command("make lint | cat", log), Verdict::Inconclusive);
    for command in ["make lint", "set -o pipefail; make lint | cat", "pylint --exit-zero a | cat"] {
        assert_eq!(of_command(command, log), Passed, "{command}");
    }
}

#[test]
fn an_error_after_the_tests_of_the_last_program_is_of_its_cleanup() {
    let log = "> test\n> jest\n\nPASS ./a.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       3 passed, 3 total\n\
        Ran all test suites.\nerror: could not remove /w/x\n";
    assert_eq!(of_command("npm ci; npm test", log), Passed);
    assert_eq!(of_command("npm test; rm -rf x", log), Verdict::Inconclusive);
}

#[test]
fn lines_that_look_like_failures_of_deno_or_racket_are_not() {
    for log in [
        "dist/a.js:1:1 => src/a.ts:3:4\nDone in 0.2s\n",
        "my test\nFAILURE\n--------------------\nall good\n",
    ] {
        assert_eq!(of_command("", log), Passed, "{log}");
    }
}
