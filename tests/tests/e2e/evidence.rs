//! Tests of report files that contradict or complete the log.

use buildpool_tests::{Finished, Pool, PoolBuilder, wait_for, wait_until};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../worker/evidence/tests/data/xcresult");

/// A fake xcodebuild. It copies a recorded bundle to `-resultBundlePath`, records the path, prints
/// a given text and exits with a given code.
const XCODEBUILD: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = -resultBundlePath ] && bundle=$2
    shift
done
echo "$bundle" > "$NOTE"
[ -z "$RECORDED" ] || cp -R "$RECORDED" "$bundle"
printf '%b' "$SAYS"
exit "$CODE"
"#;

/// Creates a directory with a program.
fn with_program(pool: &Pool, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let directory = pool.place().home().join("tools");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// Runs a command with these programs first in `PATH`.
fn run(pool: &Pool, form: &[&str], variables: &[(&str, &str)], command: &[&str]) -> Finished {
    let tools = pool.place().home().join("tools");
    let path = format!("PATH={}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut all = vec!["run".to_owned(), "--no-snapshot".to_owned()];
    all.extend(form.iter().map(|word| (*word).to_owned()));
    let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
    for variable in variables.chain([path]) {
        all.extend(["--env".to_owned(), variable]);
    }
    all.push("--".to_owned());
    all.extend(command.iter().map(|word| (*word).to_owned()));
    pool.command(&all.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap().into()
}

/// Counts the results of the test cases in the output of Apple's tool, without repetitions.
fn count(node: &Value, result: &str) -> u64 {
    if node["nodeType"] == "Test Case" {
        return u64::from(node["result"] == result);
    }
    node["children"].as_array().into_iter().flatten().map(|child| count(child, result)).sum()
}

#[test]
fn a_bundle_that_names_failures_is_believed_before_a_log_that_says_success() {
    let pool = Pool::start(1);
    with_program(&pool, "xcodebuild", XCODEBUILD);
    let note = pool.place().home().join("note");
    let recorded = format!("{RECORDED}/Xcode26-Mixed-XCTest-SwiftTesting");
    let oracle: Value = serde_json::from_slice(&fs::read(format!("{recorded}.json")).unwrap()).unwrap();
    let nodes = oracle["testNodes"].as_array().unwrap();
    let expected = |result: &str| nodes.iter().map(|node| count(node, result)).sum::<u64>();
    let variables = [
        ("NOTE", note.to_str().unwrap()),
        ("RECORDED", &format!("{recorded}.xcresult")),
        (
            "SAYS",
            "Executed 7 tests, with 0 failures (0 unexpected) in 0.1 (0.2) seconds\\n** TEST SUCCEEDED **\\n",
        ),
        ("CODE", "0"),
    ];
    let command = ["xcodebuild", "test", "-scheme", "App"];
    let finished = run(&pool, &["--output", "json"], &variables, &command).expect(1);
    let result = finished.json();
    assert_eq!((&result["verdict"], &result["crash_type"]), (&"failed".into(), &"test_failure".into()));
    assert_eq!((&result["exit_code"], &result["cause"]["known_from"]), (&0.into(), &"report".into()));
    for (field, word) in [("passed", "Passed"), ("failed", "Failed"), ("skipped", "Skipped")] {
        assert_eq!(result["tests"][field], expected(word), "{field}: {result}");
    }
    let notes = result["notes"].to_string();
    assert!(notes.contains("the log counts 0 of 7 tests as failed"), "{result}");
    assert_eq!(result["tests"]["source"], "result.xcresult");
    let bundle = PathBuf::from(fs::read_to_string(&note).unwrap().trim());
    assert!(bundle.is_absolute() && !bundle.exists(), "{}", bundle.display());

    let digest = run(&pool, &["--output", "digest"], &variables, &command).expect(1).out();
    let (head, hidden) = digest.split_once("=== Failed Tests ===\n").unwrap();
    assert!(head.starts_with("FAILED: exit code 0"), "{digest}");
    let failed = result["tier_1_findings"].as_array().unwrap();
    assert!(!failed.is_empty());
    for finding in failed {
        let test = finding["test"].as_str().unwrap();
        assert!(hidden.contains(test.rsplit('/').next().unwrap()), "{test}: {digest}");
    }
}

#[test]
fn a_bundle_stays_where_the_command_wanted_it_and_a_crashed_tool_needs_none() {
    let pool = Pool::start(1);
    with_program(&pool, "xcodebuild", XCODEBUILD);
    let note = pool.place().home().join("note");
    let own = pool.place().home().join("own.xcresult");
    let recorded = format!("{RECORDED}/Xcode16-Mixed-XCTest-SwiftTesting.xcresult");
    let variables =
        |recorded| [("NOTE", note.to_str().unwrap()), ("RECORDED", recorded), ("SAYS", ""), ("CODE", "65")];
    let command = ["xcodebuild", "test", "-scheme", "App", "-resultBundlePath", own.to_str().unwrap()];
    let named = run(&pool, &["--output", "json"], &variables(&recorded), &command).expect(65).json();
    assert_eq!(
        (&named["verdict"], &named["silent_failure"]),
        (&"failed".into(), &serde_json::Value::Null),
        "{named}"
    );
    assert!(own.join("database.sqlite3").exists());
    let none = run(&pool, &["--output", "json"], &variables(""), &["xcodebuild", "build", "-scheme", "App"]);
    let none = none.expect(65).json();
    assert_eq!((&none["verdict"], &none["silent_failure"]), (&"failed".into(), &true.into()), "{none}");
}

#[test]
fn a_report_and_the_log_disagree_and_both_are_told() {
    let pool = Pool::start(1);
    let report = "<testsuite name='s' tests='3' failures='1'><testcase classname='s' name='good'/>\
                  <testcase classname='s' name='bad'><failure message='expected 2, got 3'/></testcase>\
                  <testcase classname='s' name='left'><skipped/></testcase></testsuite>";
    let text = format!("echo \"{report}\" > r.xml; echo '3 passed in 0.01s'");
    let form = ["--report", "*.xml", "--output", "json"];
    let result = run(&pool, &form, &[], &["sh", "-c", &text]).expect(1).json();
    assert_eq!((&result["verdict"], &result["tests"]["failed"]), (&"failed".into(), &1.into()), "{result}");
    assert_eq!(result["tests"]["total"], 3);
    assert_eq!(result["tests"]["source"], "r.xml");
    let finding = &result["tier_1_findings"][0];
    assert_eq!(finding["message"], "expected 2, got 3", "{result}");
    assert!(finding["test"].as_str().unwrap().ends_with("bad"), "{result}");
    assert_eq!(finding["evidence"]["report"], "r.xml");

    // A report that omits something may hide a failure, even if the command succeeds.
    let less = "echo \"<testsuite name='s' failures='1'><testcase name='good'/></testsuite>\" > less.xml";
    let less = run(&pool, &["--report", "less.xml", "--output", "json"], &[], &["sh", "-c", less]);
    let less = less.expect(1).json();
    assert_eq!((&less["verdict"], &less["silent_failure"]), (&"inconclusive".into(), &true.into()), "{less}");
    assert!(less["cause"]["text"].as_str().unwrap().contains("declares 1 failure or error"), "{less}");
    // A report without tests may do so too: a requested report should contain tests.
    for empty in ["<testsuites/>", "<testsuites tests='0'></testsuites>", "<testsuite name='s'/>"] {
        let empty = format!("echo \"{empty}\" > empty.xml; echo '3 passed in 0.01s'");
        let empty = run(&pool, &["--report", "empty.xml", "--output", "json"], &[], &["sh", "-c", &empty]);
        let empty = empty.expect(1).json();
        assert_eq!((&empty["verdict"], &empty["exit_code"]), (&"inconclusive".into(), &0.into()), "{empty}");
        assert_eq!(empty["cause"]["known_from"], "report", "{empty}");
    }
    let other = "echo '<project/>' > pom.xml; echo '3 passed in 0.01s'";
    run(&pool, &["--report", "*.xml", "--output", "json"], &[], &["sh", "-c", other]).expect(0);

    let missing = run(&pool, &["--report", "none.xml", "--output", "json"], &[], &["true"]).expect(0).json();
    assert!(missing["notes"].to_string().contains("none.xml"), "{missing}");
}

/// Starts a pool with one worker that searches the returned directory for crash files.
fn pool_with_crash_directory() -> (Pool, PathBuf) {
    let mut pool = PoolBuilder::default().start();
    let directory = pool.place().home().join("DiagnosticReports");
    fs::create_dir(&directory).unwrap();
    let config = pool.place().home().join("worker.toml");
    fs::write(&config, format!("crash_directories = [{directory:?}]\n")).unwrap();
    pool.add_worker(vec!["--config".to_owned(), config.to_str().unwrap().to_owned()]);
    pool.wait_for_workers();
    (pool, directory)
}

#[test]
fn a_crash_file_that_comes_late_is_waited_for_when_the_log_speaks_of_a_crash() {
    let (pool, directory) = pool_with_crash_directory();
    let go = pool.place().file("go");
    let text = format!(
        "while [ ! -e {} ]; do sleep 0.05; done; echo 'App/main.swift:3: Fatal error: no value'; echo '** TEST SUCCEEDED **'",
        go.display()
    );
    let arguments = ["run", "--no-snapshot", "--output", "json", "--", "sh", "-c", &text];
    let child = pool.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let attempts = pool.data("w0").join("attempts");
    let (attempt, state) = wait_for("the command runs", || {
        let attempt = fs::read_dir(&attempts).ok()?.next()?.ok()?.path();
        let state: Value = serde_json::from_slice(&fs::read(attempt.join("state.json")).ok()?).ok()?;
        Some((attempt, state))
    });
    let at = moment(state["started_at_ms"].as_i64().unwrap());
    let body = format!(
        "{{\"bug_type\":\"309\"}}\n{{\"procName\":\"App\",\"pid\":{},\"procLaunch\":\"{at}\",\"captureTime\":\"{at}\",\
         \"exception\":{{\"type\":\"EXC_BREAKPOINT\",\"signal\":\"SIGTRAP\"}}}}",
        state["pid"]
    );
    fs::write(go, "").unwrap();
    // The command ends before its crash file exists.
    wait_until("the command ends", || attempt.join("outcome.json").exists());
    fs::write(directory.join("App-2026-01-02-030405.ips"), body).unwrap();
    let result = Finished::from(child.wait_with_output().unwrap()).json();
    let report = &result["crash_reports"][0];
    assert_eq!(
        (&report["process_name"], &report["matched_by"], &report["signal"]),
        (&"App".into(), &"pid".into(), &"SIGTRAP".into()),
        "{result}"
    );
    assert_eq!(result["verdict"], "crashed", "{result}");
}

/// Formats a time as in crash files.
fn moment(at_ms: i64) -> String {
    let seconds = std::process::Command::new("date")
        .args(if cfg!(target_os = "macos") { ["-u", "-r"] } else { ["-u", "-d"] })
        .arg(format!("{}{}", if cfg!(target_os = "macos") { "" } else { "@" }, at_ms / 1000))
        .arg("+%Y-%m-%d %H:%M:%S")
        .output()
        .unwrap();
    format!("{}.{:03}0 +0000", String::from_utf8(seconds.stdout).unwrap().trim(), at_ms % 1000)
}

#[test]
fn a_missing_crash_file_is_explained_and_what_suggests_no_crash_is_not_waited_for() {
    let (pool, directory) = pool_with_crash_directory();
    let killed =
        pool.buildpool(&["run", "--no-snapshot", "--output", "json", "--", "sh", "-c", "kill -9 $$"]);
    let killed = killed.json();
    assert_eq!(killed["verdict"], "crashed");
    assert_eq!(killed.get("crash_reports"), None);
    fs::remove_dir_all(&directory).unwrap();
    let abort = pool.buildpool(&["run", "--no-snapshot", "--output", "json", "--", "sh", "-c", "kill -6 $$"]);
    let abort = abort.json();
    assert_eq!((&abort["verdict"], &abort["crash_type"]), (&"crashed".into(), &"abort".into()));
    assert!(abort["notes"].to_string().contains("no crash report"), "{abort}");
}

#[test]
fn an_infrastructure_failure_is_tried_again_where_that_is_allowed_and_the_result_tells() {
    let pool = Pool::start(2);
    // The first attempt fails because its disk is full. Later attempts pass.
    let flag = pool.place().home().join("flag");
    let text = format!(
        "if mkdir {flag}; then echo 'cp: error writing out: No space left on device' >&2; exit 1; fi; echo fine",
        flag = flag.display()
    );
    let command = ["sh", "-c", &text];
    let once = run(&pool, &["--output", "json"], &[], &command).expect(1).json();
    assert_eq!(once["tier_1_findings"][0]["category"], "infrastructure", "{once}");
    assert_eq!((&once["attempt"], once.get("earlier_attempts")), (&1.into(), None));
    fs::remove_dir(&flag).unwrap();
    let again = run(&pool, &["--retries", "2", "--output", "json"], &[], &command).expect(0).json();
    assert_eq!((&again["verdict"], &again["attempt"]), (&"passed".into(), &2.into()), "{again}");
    let earlier = &again["earlier_attempts"][0];
    assert_eq!(earlier["attempt"], 1);
    assert_ne!(earlier["worker"], again["worker"], "another worker may have space");
    assert!(earlier["reason"].as_str().unwrap().contains("No space left"), "{again}");
    // A failure of the code is never retried.
    let code = run(&pool, &["--retries", "2", "--output", "json"], &[], &["sh", "-c", "exit 3"]).expect(3);
    assert_eq!(code.json()["attempt"], 1);
    let id = again["job_id"].as_str().unwrap();
    let first = pool.buildpool(&["logs", id, "--attempt", "1", "--stream", "interleaved"]).expect(0);
    assert!(first.out().contains("No space left"), "{first}");
}

#[test]
fn a_run_in_which_nothing_ran_is_no_pass_on_a_guess() {
    let pool = Pool::start(1);
    for (text, code, verdict) in [
        ("echo 'no tests ran in 0.01s'; exit 5", 5, "failed"),
        ("echo '** TEST SUCCEEDED **'; exit 70", 70, "failed"),
        ("exit 3", 3, "failed"),
    ] {
        let result = run(&pool, &["--output", "json"], &[], &["sh", "-c", text]).expect(code).json();
        assert_eq!((&result["verdict"], &result["success"]), (&verdict.into(), &false.into()), "{text}");
        assert!(!result["cause"]["text"].as_str().unwrap().is_empty(), "{result}");
        let cause = result["cause"]["text"].as_str().unwrap();
        let is_told = cause.contains("No tests ran") || cause.contains("ran no tests");
        assert_eq!(is_told, text.contains("no tests ran"), "{result}");
    }
}
