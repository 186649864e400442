//! Tests evidence from files together with the log and the exit code.

use buildpool_digest::{Digest, Digester, Facts, Options, text};
use buildpool_protocol::evidence::{
    Evidence, MemoryEvidence, ReportIssue, TestArguments, TestCase, TestReport, TestStatus,
};
use buildpool_protocol::outcome::{CrashType, Ending};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashReport, JobResult, KnownFrom, Location, Severity, Verdict};
use buildpool_protocol::spec::{Purpose, Verbosity};

fn digest(log: &str, code: Option<i32>, evidence: Evidence) -> Digest {
    let mut digester = Digester::new(Options::default());
    digester.push(Stream::Stdout, log.as_bytes());
    let ending = code.map(|code| Ending::Exited { code });
    digester.finish(&Facts { ending, evidence, ..Facts::default() })
}

fn junit(path: &str, passed: u64, failed: &[(&str, &str)]) -> TestReport {
    let case = |(name, message): &(&str, &str)| TestCase {
        name: (*name).to_owned(),
        status: TestStatus::Failed,
        messages: vec![(*message).to_owned()],
        location: Some(Location { file: format!("{name}.py"), line: Some(3), column: None }),
        ..TestCase::default()
    };
    TestReport {
        path: path.to_owned(),
        format: "junit".to_owned(),
        passed,
        failed: failed.len() as u64,
        cases: failed.iter().map(case).collect(),
        ..TestReport::default()
    }
}

fn of(reports: Vec<TestReport>) -> Evidence {
    Evidence { test_reports: reports, ..Evidence::default() }
}

#[test]
fn tests_of_a_superseded_report_are_not_unfinished() {
    let cut = TestReport {
        unfinished: vec!["c".into(), "d".into()],
        superseded_by: Some("q2.tap".into()),
        ..junit("q1.tap", 2, &[])
    };
    let found = digest("", Some(0), of(vec![junit("q2.tap", 4, &[]), cut]));
    assert_eq!(found.verdict, Verdict::Passed, "{}", found.explain());
}

#[test]
fn a_test_that_log_and_report_call_unfinished_is_one() {
    let report = TestReport { unfinished: vec!["m/a.TestZ".into()], ..junit("o.json", 1, &[]) };
    let found = digest("=== RUN   TestZ\n", Some(1), of(vec![report]));
    assert!(found.explain().contains("never ended: 1"), "{}", found.explain());
}

#[test]
fn a_problem_in_a_report_speaks_against_a_good_end() {
    let issue = |category: Option<&str>| ReportIssue {
        path: "r.xcresult".into(),
        severity: Severity::Error,
        message: "Cannot find 'x' in scope".into(),
        location: None,
        category: category.map(str::to_owned),
        advice: None,
    };
    let log = "** BUILD SUCCEEDED **\n";
    let evidence = Evidence { issues: vec![issue(None)], ..Evidence::default() };
    let found = digest(log, Some(0), evidence);
    assert_eq!((found.verdict, found.silent_failure), (Verdict::Failed, true), "{}", found.explain());
    assert_eq!(found.explanation.rule, "zero_report_problem");
    let cause = found.cause.expect("there is a cause");
    assert_eq!(cause.known_from, KnownFrom::Report);
    assert!(cause.text.contains("Cannot find 'x' in scope"), "{}", cause.text);
    let evidence = Evidence { issues: vec![issue(Some("infrastructure"))], ..Evidence::default() };
    assert_eq!(digest(log, Some(0), evidence).verdict, Verdict::Inconclusive);
    let warning = ReportIssue { severity: Severity::Warning, ..issue(None) };
    let evidence = Evidence { issues: vec![warning], ..Evidence::default() };
    assert_eq!(digest(log, Some(0), evidence).verdict, Verdict::Passed);
}

#[test]
fn a_crash_report_of_the_job_is_a_death_by_itself() {
    let crash = CrashReport {
        process_name: "App".into(),
        signal: Some("SIGTRAP".into()),
        matched_by: Some("pid".into()),
        ..CrashReport::default()
    };
    let evidence = Evidence { crash_reports: vec![crash], ..Evidence::default() };
    for code in [None, Some(0), Some(65)] {
        let found = digest("** TEST SUCCEEDED **\n", code, evidence.clone());
        assert_eq!((found.verdict, found.crash_type), (Verdict::Crashed, CrashType::Trap), "{code:?}");
        assert_eq!(found.silent_failure, code == Some(0), "{code:?}");
        let cause = found.cause.expect("there is a cause");
        assert_eq!(cause.known_from, KnownFrom::CrashReport);
        assert_eq!(cause.text, "`App` crashed with SIGTRAP.");
    }
}

/// The heading of failed tests belongs to findings that name a test.
#[test]
fn a_crash_of_a_plain_command_is_not_below_the_heading_of_failed_tests() {
    let crash = CrashReport {
        process_name: "App".into(),
        signal: Some("SIGTRAP".into()),
        matched_by: Some("pid".into()),
        file_path: "/r/App.ips".into(),
        ..CrashReport::default()
    };
    let evidence = Evidence { crash_reports: vec![crash], ..Evidence::default() };
    let found = digest("starting\n", None, evidence);
    for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Full] {
        let mut result = JobResult::default();
        found.render(verbosity, None, None, &mut result);
        let shown = text(&result);
        assert!(shown.contains("App") && !shown.contains("Failed Tests"), "{shown}");
    }
}

#[test]
fn a_crash_has_the_place_that_its_report_names() {
    let place = |message: Option<&str>, frames: &[&str]| {
        let crash = CrashReport {
            process_name: "App".into(),
            message: message.map(str::to_owned),
            top_frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            ..CrashReport::default()
        };
        let found = digest("", Some(65), Evidence { crash_reports: vec![crash], ..Evidence::default() });
        found.findings[0].location.clone().map(|place| (place.file, place.line.unwrap_or(0)))
    };
    let frames = ["libsystem_kernel.dylib  __pthread_kill + 8", "App  load() + 48 (Model.swift:15)"];
    let said = "App/Model.swift:42: Fatal error: no value";
    assert_eq!(place(Some(said), &frames), Some(("App/Model.swift".into(), 42)));
    assert_eq!(place(Some("abort() called"), &frames), Some(("Model.swift".into(), 15)));
    assert_eq!(
        place(Some("dyld[4711]: no such library: 12:30: x"), &["App  f(int) + 1", "App  (a:3)"]),
        None
    );
}

const CARGO: &str = "running 2 tests\ntest tests::a ... ok\ntest tests::b ... FAILED\n\nfailures:\n\n---- tests::b stdout ----\nthread 'tests::b' panicked at src/lib.rs:9:5:\nno\n\n\nfailures:\n    tests::b\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\nerror: test failed, to rerun pass `--lib`\n";

#[test]
fn a_report_makes_no_crash_of_a_panic_in_a_test() {
    for reports in [vec![], vec![junit("j.xml", 1, &[("tests::b", "no")])], vec![junit("jest.xml", 5, &[])]] {
        let found = digest(CARGO, Some(101), of(reports));
        assert_eq!((found.verdict, found.crash_type), (Verdict::Failed, CrashType::TestFailure));
    }
}

#[test]
fn failed_tests_of_one_name_are_each_told() {
    let log = "FAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed, 1 passed in 0.01s\n";
    let failed = [("tests.test_a.test_x", "assert 1 == 2"), ("tests.test_b.test_x", "assert 'p' == 'q'")];
    let found = digest(log, Some(1), of(vec![junit("j.xml", 0, &failed)]));
    let told: Vec<_> = found.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(told.iter().filter(|message| message.contains("assert 1 == 2")).count(), 1, "{told:?}");
    assert!(told.contains(&"assert 'p' == 'q'"), "{told:?}");
    let place = |text: &str| {
        let found = found.findings.iter().find(|finding| finding.message.contains(text));
        found.and_then(|finding| finding.location.clone()).map(|location| location.file)
    };
    assert_eq!(place("'q'").as_deref(), Some("tests.test_b.test_x.py"));
}

#[test]
fn two_failures_of_one_test_are_told_apart_by_what_they_say() {
    // pytest lists a test twice if its call and its teardown both fail.
    let log = "FAILED py/test_a.py::test_both - AssertionError: call\nERROR py/test_a.py::test_both - RuntimeError: teardown no\n1 failed, 1 error in 0.01s\n";
    let failed = [
        ("py.test_a.test_both (pytest, test 1)", "AssertionError: call\nassert 0"),
        ("py.test_a.test_both (pytest, test 2)", "failed on teardown\nRuntimeError: teardown no"),
    ];
    let found = digest(log, Some(1), of(vec![junit("j.xml", 0, &failed)]));
    let told: Vec<_> = found.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn what_a_report_tells_beside_its_counts_is_in_the_answer() {
    let case = |name: &str, status, message: &str| TestCase {
        name: name.into(),
        status,
        messages: vec![message.into()],
        runs: 2,
        ..TestCase::default()
    };
    let report = TestReport {
        flaky: 1,
        skipped: 1,
        cases: vec![
            TestCase { flaky: true, ..case("S/again()", TestStatus::Passed, "was late") },
            case("S/off()", TestStatus::Skipped, "no network"),
        ],
        ..junit("r.xcresult", 2, &[])
    };
    let found = digest("", Some(0), of(vec![report]));
    assert_eq!((found.verdict, found.flaky_tests), (Verdict::Passed, 1));
    assert_eq!(
        found.notes,
        [
            "1 test passed only after failing: S/again() in 2 runs: was late",
            "1 test skipped with a reason: S/off() in 2 runs: no network"
        ]
    );
    let mut report = junit("r.xcresult", 0, &[("S/bad()", "Expectation failed")]);
    report.cases[0].attachments = vec!["screen.png".into()];
    report.cases[0].arguments = vec![TestArguments {
        arguments: "n: 7".into(),
        status: TestStatus::Failed,
        ..TestArguments::default()
    }];
    let found = digest("", Some(65), of(vec![report]));
    let told = &found.findings[0].message;
    assert_eq!(told, "Expectation failed\nfailed with arguments: n: 7\nattached: screen.png");
}

#[test]
fn that_no_tests_ran_is_said() {
    let told = |log: &str, code, evidence| {
        let found = digest(log, Some(code), evidence);
        let known_from = found.cause.as_ref().map(|cause| cause.known_from);
        (found.explanation.rule, known_from, found.silent_failure, found.notes.join("|"))
    };
    let executed =
        "Executed 0 tests, with 0 failures (0 unexpected) in 0.000 (0.001) seconds\n** TEST SUCCEEDED **\n";
    let note = |by: &str| format!("no tests ran, by {by}");
    assert_eq!(
        told(executed, 0, of(vec![])),
        ("zero_no_tests", Some(KnownFrom::Marker), true, String::new())
    );
    let empty = || of(vec![junit("j.xml", 0, &[])]);
    assert_eq!(told("", 0, empty()), ("zero", None, false, note("j.xml")));
    assert_eq!(told("", 5, empty()), ("code_no_tests", Some(KnownFrom::Report), false, String::new()));
    let pytest = "collected 0 items\n\n============================ no tests ran in 0.01s ============================\n";
    assert_eq!(told(pytest, 5, of(vec![])), ("code_no_tests", Some(KnownFrom::Marker), false, String::new()));
    for (line, fails) in [
        ("No tests found, exiting with code 1", true),
        ("No test files found, exiting with code 1", true),
        ("[INFO] No tests to run.", false),
        ("No tests were found!!!", true),
        ("NO TESTS RAN", true),
        ("No test matches the given testcase filter `A` in a.dll", true),
    ] {
        let (rule, _, silent, _) = told(line, 1, of(vec![]));
        assert_eq!((rule, silent), ("code_no_tests", false), "{line}");
        // The runner's own exit code is 1, so something hid it.
        let (rule, _, _, notes) = told(line, 0, of(vec![]));
        let expected = match fails {
            true => ("zero_no_tests", String::new()),
            false => ("zero", note(&format!("the line `{line}`"))),
        };
        assert_eq!((rule, notes), expected);
        // Another program ran tests.
        let more = format!("{line}\n=== 3 passed in 0.1s ===\n");
        assert_eq!(told(&more, 0, of(vec![])).3, "");
    }
    // A build leaves a result bundle without tests. An error explains more than missing tests do.
    let bundle = TestReport { format: "xcresult".into(), ..junit("r.xcresult", 0, &[]) };
    assert_eq!(told("** BUILD SUCCEEDED **\n", 0, of(vec![bundle])).3, "");
    assert_eq!(told("a.c:3:1: error: expected ';'\n", 1, empty()).0, "code_error");
}

#[test]
fn a_child_that_was_killed_for_memory_is_told_of_after_a_good_end() {
    let memory =
        MemoryEvidence { oom_killed: true, limit_bytes: Some(64 << 20), ..MemoryEvidence::default() };
    let killed = || Evidence { memory: Some(memory.clone()), ..Evidence::default() };
    let found = digest("", Some(0), killed());
    assert_eq!((found.verdict, found.crash_type), (Verdict::Inconclusive, CrashType::OutOfMemory));
    assert!(found.silent_failure && found.notes.is_empty(), "{:?}", found.notes);
    let cause = found.cause.expect("there is a cause");
    assert!(cause.text.contains("limit 64 MiB"), "{}", cause.text);
    // A tool that ran to the end has better information.
    let found = digest("** TEST SUCCEEDED **\n", Some(0), killed());
    assert_eq!((found.verdict, found.crash_type), (Verdict::Passed, CrashType::None));
    assert!(found.notes[0].contains("limit 64 MiB"), "{:?}", found.notes);
    let found = digest("", Some(1), killed());
    assert_eq!((found.crash_type, found.silent_failure), (CrashType::OutOfMemory, false));
}

#[test]
fn what_a_report_says_that_cannot_be_read_is_not_known() {
    let verdict = |log: &str, code, evidence| {
        let found = digest(log, code, evidence);
        (found.verdict, found.explanation.rule)
    };
    let unread = || Evidence { unread: Some("report r.xcresult: damaged".into()), ..Evidence::default() };
    assert_eq!(verdict("", Some(0), unread()), (Verdict::Inconclusive, "zero_report_unread"));
    let good = "** TEST SUCCEEDED **\n";
    assert_eq!(verdict(good, Some(0), unread()), (Verdict::Inconclusive, "zero_report_unread"));
    assert_eq!(verdict(good, None, unread()), (Verdict::Inconclusive, "log_report_unread"));
    assert_eq!(verdict("", Some(3), unread()), (Verdict::Failed, "code_unexplained"));
    let cut = |superseded_by: Option<&str>| TestReport {
        cut: Some("j.xml: the report breaks off".into()),
        superseded_by: superseded_by.map(str::to_owned),
        ..junit("j.xml", 3, &[])
    };
    let found = digest("", Some(0), of(vec![cut(None)]));
    assert_eq!((found.verdict, found.silent_failure), (Verdict::Inconclusive, true));
    assert!(found.cause.is_some_and(|cause| cause.text.ends_with("j.xml: the report breaks off")));
    // Another report covers the same tests.
    let bundle = || TestReport { format: "xcresult".into(), ..junit("r.xcresult", 4, &[]) };
    assert_eq!(verdict("", Some(0), of(vec![bundle(), cut(Some("r.xcresult"))])), (Verdict::Passed, "zero"));
    // A report of the same rank can cover a different run of them.
    let other = of(vec![junit("py310.xml", 4, &[]), cut(Some("py310.xml"))]);
    assert_eq!(verdict("", Some(0), other), (Verdict::Inconclusive, "zero_report_unread"));
}

#[test]
fn a_problem_in_a_report_speaks_against_a_last_word_alone() {
    let issue = ReportIssue {
        path: "r.xcresult".into(),
        severity: Severity::Error,
        message: "Failed to boot the simulator".into(),
        location: None,
        category: Some("infrastructure".into()),
        advice: Some("run again".into()),
    };
    let evidence = Evidence { issues: vec![issue], ..Evidence::default() };
    let found = digest("** TEST SUCCEEDED **\n", None, evidence);
    assert_eq!((found.verdict, found.explanation.rule), (Verdict::Inconclusive, "log_contradiction"));
    assert!(found.cause.is_some_and(|cause| cause.text.contains("but a report has errors")));
}

#[test]
fn a_report_of_a_part_of_what_the_log_counts_is_noted() {
    let log = "============================== 50 passed in 0.10s ==============================\n";
    let found = digest(log, Some(0), of(vec![junit("j.xml", 1, &[])]));
    let is_told = |note: &String| note.contains("50 tests") && note.contains("j.xml");
    assert!(found.notes.iter().any(is_told), "{:?}", found.notes);
}

#[test]
fn what_the_machine_failed_at_is_told_apart_with_what_to_do() {
    let logs = [
        ("Failed to boot simulator: timed out\n", "simctl"),
        ("Failed to install or launch the test runner.\n", "test runner could not be started"),
        ("Timed out registering for testing event accessibility notifications\n", "services did not answer"),
        (
            "xcodebuild: error: Unable to find a device matching the provided destination specifier:\n",
            "install the runtime",
        ),
        ("The device is locked.\n", "unlock the device"),
        (
            "Unable to launch com.example.App because the device was not, or could not be, unlocked.\n",
            "unlock the device",
        ),
        ("The request was denied by service delegate (SBMainWorkspace).\n", "refused the launch"),
        (
            "An error was encountered processing the command (domain=FBSOpenApplicationServiceErrorDomain, code=1):\n",
            "refused the launch",
        ),
        ("write /tmp/x: No space left on device\n", "free space"),
        ("npm ERR! code ENOSPC\n", "free space"),
        (
            "error: unable to attach DB: error: accessing build database \"/w/build.db\": database is locked\n",
            "-derivedDataPath",
        ),
        ("error: database is locked\n", "holds the database"),
        ("/w/build/App.app: errSecInternalComponent\n", "unlock-keychain"),
        ("error: User interaction is not allowed.\n", "unlock-keychain"),
        (
            "You have not agreed to the Xcode license agreements. Please run 'sudo xcodebuild -license'.\n",
            "-license accept",
        ),
        (
            "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com\n",
            "network",
        ),
        (
            "npm ERR! network request to https://registry.npmjs.org/x failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org\n",
            "network",
        ),
        (
            "error: Couldn't fetch updates from remote repositories: fatal: unable to access 'https://github.com/a/b/'\n",
            "could not be fetched",
        ),
        ("Error: listen EADDRINUSE: address already in use :::3000\n    at node:net:1817:16\n", "port"),
        ("2024/05/01 10:00:00 listen tcp :8080: bind: address already in use\n", "port"),
        (
            "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in <module>\n    s.bind(a)\nOSError: [Errno 98] Address already in use\n",
            "port",
        ),
    ];
    let mut wrong = Vec::new();
    for (log, advice) in logs {
        let found = digest(log, Some(65), Evidence::default());
        let first = found.findings.first();
        let advised = first.is_some_and(|finding| finding.message.contains(advice));
        if !found.is_infrastructure() || !advised {
            wrong.push(format!("{log}{}{:?}", found.explain(), first.map(|finding| &finding.message)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for log in [
        "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in f\nsqlite3.OperationalError: database is locked\n",
        "/w/A.swift:12: error: -[AppTests.A testB] : XCTAssertTrue failed - the device is locked\n",
        "a.c:3:1: error: expected ';' // address already in use\n",
    ] {
        let found = digest(log, Some(1), Evidence::default());
        assert!(!found.is_infrastructure(), "{log}{}", found.explain());
    }
}

#[test]
fn memory_that_python_was_refused_is_the_cause_unless_a_test_failed_of_it() {
    let raised =
        "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in test_a\n    bytearray(10**15)\n";
    for error in [
        "MemoryError",
        "MemoryError: no room",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7 TiB",
    ] {
        let found = digest(&format!("{raised}{error}\n"), Some(1), Evidence::default());
        assert_eq!(found.crash_type, CrashType::OutOfMemory, "{}", found.explain());
        assert!(found.crash_indicators.out_of_memory);
    }
    let test = format!(
        "E.\n{}\nERROR: test_a (__main__.T.test_a)\n{}\n{raised}MemoryError\n\n{}\nRan 2 tests in 0.001s\n\nFAILED (errors=1)\n",
        "=".repeat(70),
        "-".repeat(70),
        "-".repeat(70)
    );
    let found = digest(&test, Some(1), Evidence::default());
    assert_eq!(
        (found.verdict, found.crash_type),
        (Verdict::Failed, CrashType::TestFailure),
        "{}",
        found.explain()
    );
}

#[test]
fn what_the_log_leaves_out_of_a_failure_comes_from_the_report() {
    let log = "        FAIL [   0.005s] a tests::it_works\n     Summary [   0.010s] 2 tests run: 1 passed, 1 failed, 0 skipped\nerror: test run failed\n";
    let said = "\nthread 'tests::it_works' panicked at a/src/lib.rs:6:9:\nno such luck\n";
    let failed = [("a.tests::it_works", said)];
    let found = digest(log, Some(100), of(vec![junit("junit.xml", 1, &failed)]));
    let told = found.findings.iter().find(|finding| finding.message.contains("no such luck"));
    let told = told.unwrap_or_else(|| panic!("{:?}", found.findings));
    assert_eq!(told.location.as_ref().and_then(|place| place.line), Some(3));
}

#[test]
fn tests_that_do_not_build_need_no_note_about_missing_reports() {
    let note = "report pattern \"**/TEST-*.xml\" matches nothing";
    let notes = |purpose, log: &str| {
        let mut digester = Digester::new(Options { purpose, ..Options::default() });
        digester.push(Stream::Stdout, log.as_bytes());
        let evidence = Evidence { notes: vec![note.to_owned()], ..Evidence::default() };
        let facts = Facts { ending: Some(Ending::Exited { code: 1 }), evidence, ..Facts::default() };
        digester.finish(&facts).notes
    };
    let build = "[ERROR] COMPILATION ERROR : \n[ERROR] /w/src/Parser.java:[32,42] incompatible types\n[INFO] BUILD FAILURE\n";
    assert!(notes(Purpose::Tests, build).is_empty());
    assert_eq!(notes(Purpose::Command, build), [note]);
    assert_eq!(notes(Purpose::Tests, "FAILED tests/test_a.py::test_x - assert 1 == 2\n"), [note]);
}
