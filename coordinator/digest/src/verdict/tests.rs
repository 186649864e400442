//! Tests each row of the verdict table.

mod memory;

use super::*;
use crate::rules::Indicator;
use buildpool_protocol::evidence::MemoryEvidence;
use buildpool_protocol::outcome::{EndReason, OutputHeld, SetupOutcome, StartFailure};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{CrashReport, TestCounts};
use std::collections::BTreeSet;
use std::time::Duration;

fn seen<T>(what: T, line: &str) -> MarkerLine<T> {
    MarkerLine { what, line: line.to_owned(), stream: Stream::Stdout, from: 0, order: 1, last: 1 }
}

#[track_caller]
fn check(case: &VerdictInput<'_>, rule: &str, verdict: Verdict, crash_type: CrashType) -> Decision {
    let decision = decide(case);
    assert_eq!(
        (decision.rule.name(), decision.verdict, decision.crash_type),
        (rule, verdict, crash_type),
        "{decision:?}"
    );
    assert_eq!(decision.cause.is_none(), rule == "zero", "{decision:?}");
    decision
}

const ZERO: Ending = Ending::Exited { code: 0 };
const ONE: Ending = Ending::Exited { code: 1 };

fn died(name: &str) -> Ending {
    Ending::Signaled { signal: 0, name: name.to_owned(), core_dump: true }
}

fn failed(failed: u64) -> TestEvidence {
    let counts = TestCounts { failed, total: failed, ..TestCounts::default() };
    TestEvidence { counts: Some(counts), ..TestEvidence::default() }
}

fn all_skipped(skipped: u64, run: TestRun) -> TestEvidence {
    let counts = TestCounts { skipped, total: skipped, ..TestCounts::default() };
    TestEvidence { counts: Some(counts), run, ..TestEvidence::default() }
}

fn no_tests(source: &str, run: TestRun) -> TestEvidence {
    TestEvidence { none: Some((source.to_owned(), KnownFrom::Marker)), run, ..TestEvidence::default() }
}

fn error(line: &str) -> FirstFinding {
    FirstFinding::Error { line: line.to_owned(), source: KnownFrom::Marker, is_infrastructure: false }
}

fn first(first: FirstFinding) -> ErrorEvidence<'static> {
    ErrorEvidence { first, ..ErrorEvidence::default() }
}

fn build_errors() -> ErrorEvidence<'static> {
    ErrorEvidence { build: true, ..ErrorEvidence::default() }
}

fn unread() -> ErrorEvidence<'static> {
    ErrorEvidence { unread: Some("x.xml: breaks off"), ..ErrorEvidence::default() }
}

fn problem(line: &str, is_infrastructure: bool, build: bool) -> ErrorEvidence<'static> {
    let report_problem = Some(ReportProblem { line: line.to_owned(), is_infrastructure });
    ErrorEvidence { report_problem, build, ..ErrorEvidence::default() }
}

fn succeeded(success: &MarkerLine<ToolId>) -> LogResult<'_> {
    LogResult::Succeeded { success, before: None, doubt: None }
}

fn killed_by_kernel() -> MemoryEvidence {
    MemoryEvidence { oom_killed: true, limit_bytes: Some(64 << 20), ..MemoryEvidence::default() }
}

fn known() -> String {
    name_every_row().join(" ")
}

/// Rows of the table in the documentation.
fn name_every_row() -> Vec<String> {
    let table = include_str!("../../../../docs/endings.md");
    table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once('`'))
        .map(|(row, _)| row.to_owned())
        .collect()
}

#[test]
fn a_setup_that_did_not_pass_is_the_cause_of_the_end() {
    let failed = |ending: Ending| SetupOutcome {
        command: "npm ci".into(),
        ending,
        duration: Duration::from_millis(1_500),
        log: "npm error 404\n\n".into(),
        log_bytes: 16,
    };
    for (ending, said) in [(ONE, "exited with code 1"), (died("SIGSEGV"), "died of SIGSEGV")] {
        let setup = failed(ending.clone());
        let case =
            VerdictInput { ending: Some(&ending), failed_setup: Some(&setup), ..VerdictInput::default() };
        let decision = check(&case, "setup_failed", Verdict::Failed, CrashType::Unknown);
        let cause = decision.cause.unwrap().text;
        assert_eq!(cause, format!("The setup (`npm ci`) {said} after 1.5 s, so the command did not run."));
        assert_eq!(decision.line.as_deref(), Some("npm error 404"));
        let acted = EndReason::Timeout { after: Duration::from_secs(5), held: None };
        let case = VerdictInput { acted: Some(&acted), ..case };
        let decision = check(&case, "acted_timeout", Verdict::TimedOut, CrashType::Timeout);
        let cause = decision.cause.unwrap().text;
        assert!(cause.starts_with("The pool ended the setup (`npm ci`): it ran longer"), "{cause}");
    }
}

#[test]
fn the_pool_s_reason_goes_before_the_signal() {
    let killed = died("SIGKILL");
    let rows = [
        (
            EndReason::Timeout { after: Duration::from_secs(5), held: None },
            "acted_timeout",
            Verdict::TimedOut,
            CrashType::Timeout,
        ),
        (
            EndReason::Timeout {
                after: Duration::from_secs(5),
                held: Some(OutputHeld { held_for: Duration::from_secs(4), reason: "full".into() }),
            },
            "acted_timeout_held",
            Verdict::TimedOut,
            CrashType::Timeout,
        ),
        (
            EndReason::IdleTimeout { after: Duration::from_secs(5) },
            "acted_idle_timeout",
            Verdict::TimedOut,
            CrashType::Timeout,
        ),
        (
            EndReason::Cancelled { by: "me".into(), reason: String::new() },
            "acted_cancelled",
            Verdict::Cancelled,
            CrashType::Cancelled,
        ),
        (EndReason::Drained, "acted_drained", Verdict::Lost, CrashType::None),
        (EndReason::CutOff, "acted_cut_off", Verdict::Lost, CrashType::None),
        (EndReason::Fenced, "acted_fenced", Verdict::Lost, CrashType::None),
        (
            EndReason::DiskLimit { used_bytes: 3 << 20, limit_bytes: 2 << 20 },
            "acted_disk_limit",
            Verdict::Failed,
            CrashType::Unknown,
        ),
        (
            EndReason::OutputLimit { reason: "disk full".into() },
            "acted_output_limit",
            Verdict::Lost,
            CrashType::None,
        ),
    ];
    for (acted, rule, verdict, crash_type) in rows {
        for ending in [&killed, &ZERO, &ONE] {
            let case = VerdictInput { ending: Some(ending), acted: Some(&acted), ..VerdictInput::default() };
            check(&case, rule, verdict, crash_type);
            assert!(known().contains(rule), "{rule} is not in the table");
        }
    }
}

#[test]
fn what_never_ran_is_said_to_be_so() {
    let text = || "x".to_owned();
    let rows = [
        (StartFailure::NotFound { program: text() }, "not_found", Verdict::Failed, CrashType::Unknown),
        (
            StartFailure::NotExecutable { program: text(), reason: text() },
            "not_executable",
            Verdict::Failed,
            CrashType::Unknown,
        ),
        (
            StartFailure::Directory { path: text(), reason: text() },
            "no_directory",
            Verdict::Rejected,
            CrashType::None,
        ),
        (StartFailure::Workspace { reason: text() }, "no_workspace", Verdict::Rejected, CrashType::None),
        (StartFailure::Resources { reason: text() }, "no_resources", Verdict::Rejected, CrashType::None),
    ];
    for (failure, rule, verdict, crash_type) in rows {
        let ending = Ending::NotStarted(failure);
        check(&VerdictInput { ending: Some(&ending), ..VerdictInput::default() }, rule, verdict, crash_type);
        assert!(known().contains(rule), "{rule} is not in the table");
    }
    let ending = Ending::Unobserved { reason: text() };
    check(
        &VerdictInput { ending: Some(&ending), ..VerdictInput::default() },
        "unobserved",
        Verdict::Lost,
        CrashType::None,
    );
}

#[test]
fn each_signal_has_its_type_and_a_core_dump_changes_nothing() {
    for (name, crash_type) in [
        ("SIGSEGV", CrashType::SegmentationFault),
        ("SIGABRT", CrashType::Abort),
        ("SIGKILL", CrashType::Killed),
        ("SIGTERM", CrashType::Terminated),
        ("SIGINT", CrashType::Interrupted),
        ("SIGTRAP", CrashType::Trap),
        ("SIGILL", CrashType::IllegalInstruction),
        ("SIGBUS", CrashType::BusError),
        ("SIGFPE", CrashType::FloatingPointException),
        ("SIGSYS", CrashType::BadSystemCall),
        ("SIGPIPE", CrashType::Unknown),
    ] {
        let ending = died(name);
        let decision = check(
            &VerdictInput { ending: Some(&ending), ..VerdictInput::default() },
            "signal",
            Verdict::Crashed,
            crash_type,
        );
        let cause = decision.cause.expect("a crash has a cause");
        assert_eq!(cause.known_from, KnownFrom::WaitStatus);
        assert!(cause.text.contains(name));
    }
    let (ending, memory) = (died("SIGKILL"), killed_by_kernel());
    let case = VerdictInput { ending: Some(&ending), memory: Some(&memory), ..VerdictInput::default() };
    check(&case, "signal_out_of_memory", Verdict::Crashed, CrashType::OutOfMemory);
}

#[test]
fn a_code_of_128_and_more_is_a_guess_unless_the_log_says_it() {
    let ending = Ending::Exited { code: 139 };
    let case = VerdictInput { ending: Some(&ending), ..VerdictInput::default() };
    let decision = check(&case, "code_shell_signal", Verdict::Failed, CrashType::SegmentationFault);
    assert_eq!(decision.cause.expect("there is a cause").known_from, KnownFrom::ShellConvention);
    for (count, rule) in [(0, "code_shell_signal"), (1, "code_tests_failed")] {
        let tests = TestEvidence { unfinished: 1, running: Some("A.b".into()), ..failed(count) };
        let cause = decide(&VerdictInput { tests, ..case.clone() }).cause.expect("there is a cause").text;
        assert!(cause.contains("SIGSEGV") && cause.contains(" while `A.b` ran"), "{rule}: {cause}");
    }
    let crashes = [seen(Indicator::Died("SIGSEGV"), "Segmentation fault")];
    let case = VerdictInput { ending: Some(&ending), crashes: &crashes, ..VerdictInput::default() };
    check(&case, "code_death", Verdict::Crashed, CrashType::SegmentationFault);
    // SIGBUS on macOS and SIGUSR1 on Linux have the same number, so the signal stays unset.
    let ending = Ending::Exited { code: 138 };
    let case = VerdictInput { ending: Some(&ending), ..VerdictInput::default() };
    check(&case, "code_unexplained", Verdict::Failed, CrashType::Unknown);
}

#[test]
fn other_codes_are_failures_of_what_the_log_names() {
    let one = VerdictInput { ending: Some(&ONE), ..VerdictInput::default() };
    check(&one, "code_unexplained", Verdict::Failed, CrashType::Unknown);
    let memory = killed_by_kernel();
    let case = VerdictInput { memory: Some(&memory), ..one.clone() };
    check(&case, "code_out_of_memory", Verdict::Crashed, CrashType::OutOfMemory);
    let errors = ErrorEvidence { test: true, ..ErrorEvidence::default() };
    let case = VerdictInput { tests: failed(2), errors, ..one.clone() };
    check(&case, "code_tests_failed", Verdict::Failed, CrashType::TestFailure);
    let errors = ErrorEvidence { build: true, ..first(error("a.c:1: error")) };
    check(&VerdictInput { errors, ..one.clone() }, "code_error", Verdict::Failed, CrashType::BuildFailure);
    let line = "a.c:1: error".to_owned();
    let in_report = FirstFinding::Error { line, source: KnownFrom::Report, is_infrastructure: false };
    let errors = ErrorEvidence { build: true, ..first(in_report) };
    let case = VerdictInput { errors, ..one.clone() };
    let decision = check(&case, "code_error", Verdict::Failed, CrashType::BuildFailure);
    assert_eq!(decision.cause.expect("there is a cause").known_from, KnownFrom::Report);
    let report = CrashReport { signal: Some("SIGTRAP".into()), ..CrashReport::default() };
    let case = VerdictInput { crash_report: Some(&report), ..one.clone() };
    check(&case, "code_death", Verdict::Crashed, CrashType::Trap);
    let line = "no space".to_owned();
    let of_machine = FirstFinding::Error { line, source: KnownFrom::Marker, is_infrastructure: true };
    let case = VerdictInput { errors: first(of_machine), ..one.clone() };
    check(&case, "code_infrastructure", Verdict::Failed, CrashType::Unknown);
    let failure = seen(ToolId::Xcodebuild, "** BUILD FAILED **");
    let case = VerdictInput { log: LogResult::Failed(&failure), ..one.clone() };
    check(&case, "code_failure_marker", Verdict::Failed, CrashType::BuildFailure);
    let failure = seen(ToolId::Xcodebuild, "** TEST FAILED **");
    let case = VerdictInput { log: LogResult::Failed(&failure), ..one.clone() };
    check(&case, "code_failure_marker", Verdict::Failed, CrashType::Unknown);
    let remark = FirstFinding::Remark("a.py:1:1: E501 line too long".into());
    let case = VerdictInput { errors: first(remark), ..one.clone() };
    check(&case, "code_remarks", Verdict::Failed, CrashType::Unknown);
    let warning = FirstFinding::Warning("a.c:1: warning: unused".into());
    let case = VerdictInput { errors: first(warning), ..one.clone() };
    let decision = check(&case, "code_warnings", Verdict::Failed, CrashType::Unknown);
    assert!(decision.cause.expect("there is a cause").text.contains("a.c:1: warning: unused"));
    let case = VerdictInput { tests: no_tests("pytest output", TestRun::No), ..one.clone() };
    check(&case, "code_no_tests", Verdict::Failed, CrashType::Unknown);
    let case = VerdictInput { tests: no_tests("pytest output", TestRun::SelectedTests), ..case };
    check(&case, "code_none_selected", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { errors: build_errors(), ..case };
    check(&case, "code_no_tests", Verdict::Failed, CrashType::BuildFailure);
    let success = seen(ToolId::Xcodebuild, "** BUILD SUCCEEDED **");
    let case = VerdictInput { log: succeeded(&success), ..one };
    let decision = check(&case, "code_unexplained", Verdict::Failed, CrashType::Unknown);
    assert!(decision.cause.expect("there is a cause").text.contains("exit code contradicts it"));
}

#[test]
fn a_panic_inside_tests_is_a_failed_test() {
    let crashes = [seen(Indicator::Panic, "thread 'a' panicked at src/lib.rs:1:1:")];
    let ending = Ending::Exited { code: 101 };
    let case = VerdictInput {
        ending: Some(&ending),
        crashes: &crashes,
        tests: failed(1),
        ..VerdictInput::default()
    };
    let tests = TestEvidence { panics_are_tests: true, ..failed(1) };
    let in_tests = VerdictInput { tests, ..case.clone() };
    check(&in_tests, "code_tests_failed", Verdict::Failed, CrashType::TestFailure);
    check(&case, "code_death", Verdict::Crashed, CrashType::Unknown);
}

#[test]
fn zero_passes_only_with_nothing_against_it() {
    let zero = VerdictInput { ending: Some(&ZERO), ..VerdictInput::default() };
    check(&zero, "zero", Verdict::Passed, CrashType::None);
    let tests = TestEvidence { report: Some("r.xml".into()), ..failed(1) };
    let case = VerdictInput { tests, ..zero.clone() };
    check(&case, "zero_report_failed", Verdict::Failed, CrashType::TestFailure);
    let success = seen(ToolId::Xcodebuild, "** TEST SUCCEEDED **");
    let good = VerdictInput { log: succeeded(&success), ..zero.clone() };
    check(&good, "zero", Verdict::Passed, CrashType::None);
    let crashes = [seen(Indicator::RestartedAfterCrash, "Restarting after unexpected exit")];
    let case =
        VerdictInput { crashes: &crashes, tools: BTreeSet::from([ToolId::Xcodebuild]), ..good.clone() };
    check(&case, "zero_runner_crash", Verdict::Crashed, CrashType::SimulatorCrash);
    let report = CrashReport { signal: Some("SIGTRAP".into()), ..CrashReport::default() };
    let crashes = [seen(Indicator::FatalError, "Fatal error: no")];
    let case = VerdictInput { crashes: &crashes, crash_report: Some(&report), ..good.clone() };
    check(&case, "zero_crash_report", Verdict::Crashed, CrashType::Trap);
    let case = VerdictInput { crash_report: Some(&report), ..good.clone() };
    let decision = check(&case, "zero_crash_report", Verdict::Crashed, CrashType::Trap);
    assert_eq!(decision.cause.expect("there is a cause").known_from, KnownFrom::CrashReport);
    let case = VerdictInput { tests: TestEvidence { unfinished: 3, ..failed(0) }, ..good.clone() };
    check(&case, "zero_unfinished", Verdict::Inconclusive, CrashType::Unknown);
    let tests = TestEvidence { without_total: Some("....".into()), ..failed(0) };
    let case = VerdictInput { tests, ..good.clone() };
    check(&case, "zero_without_total", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { errors: problem("a.swift:1: no", false, true), ..good.clone() };
    let decision = check(&case, "zero_report_problem", Verdict::Failed, CrashType::BuildFailure);
    assert_eq!(decision.cause.expect("there is a cause").known_from, KnownFrom::Report);
    let case = VerdictInput { errors: problem("a.swift:1: no", true, true), ..good.clone() };
    check(&case, "zero_report_problem", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { errors: unread(), ..good.clone() };
    check(&case, "zero_report_unread", Verdict::Inconclusive, CrashType::Unknown);
    let past = TestEvidence { failures_are_past: true, ..failed(1) };
    let case = VerdictInput { tests: past.clone(), ..case };
    check(&case, "zero_report_unread", Verdict::Inconclusive, CrashType::Unknown);
    let memory = killed_by_kernel();
    let killed = VerdictInput { memory: Some(&memory), ..zero.clone() };
    check(&killed, "zero_out_of_memory", Verdict::Inconclusive, CrashType::OutOfMemory);
    let case = VerdictInput { log: succeeded(&success), ..killed };
    check(&case, "zero", Verdict::Passed, CrashType::None);
    let tests = TestEvidence { collapsed: Some((2557, 6664)), ..failed(0) };
    let case = VerdictInput { tests, ..good.clone() };
    check(&case, "zero_collapsed", Verdict::Inconclusive, CrashType::Unknown);
    let tests = TestEvidence { missed: Some("-Dtest=A".into()), ..failed(0) };
    let case = VerdictInput { tests, ..good.clone() };
    check(&case, "zero_tests_missed", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { tests: all_skipped(3, TestRun::Tests), ..good.clone() };
    check(&case, "zero", Verdict::Passed, CrashType::None);
    let case = VerdictInput { tests: all_skipped(3, TestRun::SelectedTests), ..case };
    check(&case, "zero_none_selected", Verdict::Inconclusive, CrashType::Unknown);
    let none = VerdictInput { tests: no_tests("cargo output", TestRun::No), ..good.clone() };
    check(&none, "zero_no_tests", Verdict::Inconclusive, CrashType::Unknown);
    let built = seen(ToolId::Cargo, "Finished `test` profile");
    let other = VerdictInput { log: succeeded(&built), ..none };
    check(&other, "zero", Verdict::Passed, CrashType::None);
    let tests = TestEvidence { fails_without: true, ..no_tests("the line `NO TESTS RAN`", TestRun::No) };
    let case = VerdictInput { tests, ..other.clone() };
    check(&case, "zero_no_tests", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { tests: no_tests("cargo output", TestRun::Tests), ..other };
    check(&case, "zero_no_tests", Verdict::Inconclusive, CrashType::Unknown);
    let failure = seen(ToolId::Xcodebuild, "** TEST FAILED **");
    let case = VerdictInput { log: LogResult::Failed(&failure), ..zero.clone() };
    check(&case, "zero_failure_marker", Verdict::Inconclusive, CrashType::Unknown);
    let log = LogResult::Contradicts { success: &success, failure: Some(&failure) };
    let case = VerdictInput { log, ..zero.clone() };
    check(&case, "zero_failure_marker", Verdict::Inconclusive, CrashType::Unknown);
    let log = LogResult::Succeeded { success: &success, before: Some(&failure), doubt: None };
    let case = VerdictInput { log, ..zero.clone() };
    check(&case, "zero", Verdict::Passed, CrashType::None);
    let case = VerdictInput { tests: failed(1), ..zero.clone() };
    check(&case, "zero_tests_failed", Verdict::Inconclusive, CrashType::TestFailure);
    // The success of another tool does not cancel a failure. Only a later total of the same tool
    // does.
    let case = VerdictInput { tests: failed(1), ..good.clone() };
    check(&case, "zero_tests_failed", Verdict::Inconclusive, CrashType::TestFailure);
    let case = VerdictInput { tests: past, ..good.clone() };
    check(&case, "zero_failed_before", Verdict::Passed, CrashType::None);
    let case = VerdictInput { crashes: &crashes, ..zero.clone() };
    check(&case, "zero_death_marker", Verdict::Inconclusive, CrashType::Unknown);
    let report = [seen(Indicator::Sanitizer, "ERROR: AddressSanitizer: x")];
    let case = VerdictInput { crashes: &report, ..good.clone() };
    check(&case, "zero_death_marker", Verdict::Inconclusive, CrashType::Unknown);
    // `Markers::standing_crashes` removes crash messages that a test printed. Nothing cancels the
    // others.
    let case = VerdictInput { crashes: &crashes, ..good.clone() };
    check(&case, "zero_death_marker", Verdict::Inconclusive, CrashType::Unknown);
    let standing = Some("a.c:3:5: error: no".to_owned());
    let errors = ErrorEvidence { standing, ..ErrorEvidence::default() };
    let case = VerdictInput { errors, ..good.clone() };
    check(&case, "zero_standing_error", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { cut_short: Some(ToolId::Scons), ..zero.clone() };
    check(&case, "zero_cut_short", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { unreported: Some(ToolId::Jest), ..zero.clone() };
    check(&case, "zero_unreported", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { bad_end: Some("inside a stack trace: at f (a.js:1:2)".into()), ..zero.clone() };
    check(&case, "zero_bad_end", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { action_left: Some("xcodebuild archive".to_owned()), ..good };
    check(&case, "zero_action_left", Verdict::Inconclusive, CrashType::Unknown);
}

#[test]
fn a_log_alone_passes_on_a_last_word_only() {
    let log = VerdictInput::default();
    check(&log, "log_nothing", Verdict::Inconclusive, CrashType::Unknown);
    let success = seen(ToolId::Maven, "BUILD SUCCESS");
    let good = VerdictInput { log: succeeded(&success), ..log.clone() };
    let decision = check(&good, "log_success_marker", Verdict::Passed, CrashType::None);
    assert_eq!(decision.cause.expect("there is a cause").known_from, KnownFrom::Marker);
    let case = VerdictInput { errors: unread(), ..good.clone() };
    check(&case, "log_report_unread", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { errors: build_errors(), ..good.clone() };
    check(&case, "log_contradiction", Verdict::Inconclusive, CrashType::BuildFailure);
    let case = VerdictInput { errors: problem("the simulator did not boot", true, false), ..good.clone() };
    check(&case, "log_contradiction", Verdict::Inconclusive, CrashType::Unknown);
    let doubted = |doubt| LogResult::Succeeded { success: &success, before: None, doubt: Some(doubt) };
    let case = VerdictInput { log: doubted(Doubt::Unended(ToolId::Maven)), ..good.clone() };
    check(&case, "log_unended", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { log: doubted(Doubt::Line("make: *** [all] Error 2")), ..good.clone() };
    check(&case, "log_contradiction", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { tests: TestEvidence { unfinished: 1, ..failed(0) }, ..good.clone() };
    check(&case, "log_unfinished", Verdict::Inconclusive, CrashType::Unknown);
    let tests = TestEvidence { without_total: Some("....".into()), ..failed(0) };
    let case = VerdictInput { tests, ..good.clone() };
    check(&case, "log_without_total", Verdict::Inconclusive, CrashType::Unknown);
    let tested = seen(ToolId::Xcodebuild, "** TEST SUCCEEDED **");
    let tests = TestEvidence { only_in_test_runs: true, ..no_tests("XCTest output", TestRun::No) };
    let case = VerdictInput { log: succeeded(&tested), tests, ..good.clone() };
    check(&case, "log_no_tests", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { action_left: Some("xcodebuild archive".to_owned()), ..good.clone() };
    check(&case, "log_action_left", Verdict::Inconclusive, CrashType::Unknown);
    let case = VerdictInput { tests: failed(1), ..log.clone() };
    check(&case, "log_tests_failed", Verdict::Failed, CrashType::TestFailure);
    let case = VerdictInput { tests: failed(1), ..good.clone() };
    check(&case, "log_tests_failed", Verdict::Failed, CrashType::TestFailure);
    let tests = TestEvidence { failures_are_past: true, ..failed(1) };
    let case = VerdictInput { tests, ..good.clone() };
    check(&case, "log_success_marker", Verdict::Passed, CrashType::None);
    let failure = seen(ToolId::Maven, "BUILD FAILURE");
    let case = VerdictInput { log: LogResult::Failed(&failure), ..log.clone() };
    check(&case, "log_failure_marker", Verdict::Failed, CrashType::Unknown);
    let crashes = [seen(Indicator::Sanitizer, "ERROR: AddressSanitizer")];
    let case = VerdictInput { crashes: &crashes, ..log.clone() };
    check(&case, "log_death", Verdict::Crashed, CrashType::Unknown);
    let report = CrashReport { signal: Some("SIGTRAP".into()), ..CrashReport::default() };
    let case = VerdictInput { crash_report: Some(&report), ..good };
    check(&case, "log_death", Verdict::Crashed, CrashType::Trap);
    let errors = ErrorEvidence { test: true, ..first(error("x")) };
    let case = VerdictInput { errors, ..log.clone() };
    check(&case, "log_errors", Verdict::Failed, CrashType::TestFailure);
    let case = VerdictInput { errors: first(error("x")), ..log };
    check(&case, "log_errors_weak", Verdict::Inconclusive, CrashType::Unknown);
}

#[test]
fn every_row_of_the_documented_table_is_tested_here() {
    let tests = concat!(include_str!("tests.rs"), include_str!("tests/memory.rs"));
    for row in name_every_row() {
        let is_rule = ["acted_", "code_", "zero", "log_", "no_", "not_", "signal", "unobserved"];
        if is_rule.iter().any(|start| row.starts_with(start)) {
            assert!(tests.contains(&format!("\"{row}\"")), "{row} has no test");
        }
    }
}
