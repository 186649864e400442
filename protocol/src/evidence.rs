//! Evidence about an attempt from files and the kernel, in addition to its log. The worker collects
//! it, so that the files do not need to be transferred.

use crate::report::{CrashReport, Location, Severity};
use serde::{Deserialize, Serialize};

/// All evidence of an attempt. Empty if no evidence was searched or found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Crash reports that belong to the job.
    #[serde(default)]
    pub crash_reports: Vec<CrashReport>,
    /// Reason why no crash report exists although something crashed.
    #[serde(default)]
    pub crash_report_absence: Option<String>,
    /// The parsed test reports.
    #[serde(default)]
    pub test_reports: Vec<TestReport>,
    /// Build and device problems from reports.
    #[serde(default)]
    pub issues: Vec<ReportIssue>,
    /// Memory evidence, if the kernel provides it.
    #[serde(default)]
    pub memory: Option<MemoryEvidence>,
    /// Requested reports that could not be read, with the reason, and other notes.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The first requested report that could not be read, or the part of the log that the digest left out, with the
    /// reason. It may contradict a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

impl Evidence {
    /// Returns the reason if the lists have failures beyond their limits. These would contradict a success, so a shortened
    /// list with them counts as unread.
    pub fn failures_beyond(&self, reports_max: usize, issues_max: usize) -> Option<String> {
        let reports = self.test_reports.get(reports_max..).unwrap_or_default();
        let issues = self.issues.get(issues_max..).unwrap_or_default();
        let has_failed =
            |report: &TestReport| report.failed > 0 || !report.unfinished.is_empty() || report.cut.is_some();
        let (name, length, most) = if reports.iter().any(has_failed) {
            ("test reports", self.test_reports.len(), reports_max)
        } else if issues.iter().any(|issue| matches!(issue.severity, Severity::Fatal | Severity::Error)) {
            ("problems in reports", self.issues.len(), issues_max)
        } else {
            return None;
        };
        Some(format!("of {length} {name} only the first {most} were kept, and the others have failures"))
    }
}

/// Counts and notable cases of one report. Each test counts once, with its last result.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TestReport {
    /// Path of the file, relative to the command's directory if it is inside.
    pub path: String,
    /// `xcresult`, `junit`, `go_json`, `cargo_json`, `tap`.
    pub format: String,
    /// Passed tests. Some of them may have failed first.
    pub passed: u64,
    /// Failed tests.
    pub failed: u64,
    /// Skipped or disabled tests.
    pub skipped: u64,
    /// Tests that failed as expected.
    pub expected_failures: u64,
    /// Tests that are failed, flaky, or skipped with a reason. Limited.
    pub cases: Vec<TestCase>,
    /// Number of such cases beyond the listed ones.
    pub cases_omitted: u64,
    /// Tests that started and have no result.
    pub unfinished: Vec<String>,
    /// Number of passed tests that failed first.
    #[serde(default)]
    pub flaky: u64,
    /// Runs of all tests, with repetitions and arguments. 0 if the report does not separate them.
    #[serde(default)]
    pub runs: u64,
    /// Devices on which the tests ran: `iPhone 17 Pro, iOS Simulator 26.1, arm64`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// Path of another report about the same tests that has priority. The counts of this report
    /// must not be added then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// Reason why the report is incomplete: it is truncated, or counts failures that it does not
    /// list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Tests that passed and are not in `cases`, for the history of tests. Limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_tests: Vec<PassedTest>,
}

/// A test that passed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PassedTest {
    /// Name used by the tool.
    pub name: String,
    /// Duration of the last run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_secs: Option<f64>,
}

/// A test in a report.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TestCase {
    /// Name used by the tool: `Suite/test()`, `module::test`.
    pub name: String,
    /// Its last result.
    pub status: TestStatus,
    /// Duration of the last run, in seconds.
    pub duration_secs: Option<f64>,
    /// Failure messages, or the reason of a skip.
    pub messages: Vec<String>,
    /// Source location of the failure.
    pub location: Option<Location>,
    /// Number of runs, with retries.
    pub runs: u32,
    /// True if it passed only after a failure.
    pub flaky: bool,
    /// Display name, if it differs: Swift Testing prints this one in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The sets of arguments with which it did not simply pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<TestArguments>,
    /// Names of files that the test attached to its failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
}

/// One set of arguments of a parametrised test.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TestArguments {
    /// The arguments as the tool writes them.
    pub arguments: String,
    /// Last result with these arguments.
    pub status: TestStatus,
    /// Number of runs with these arguments.
    pub runs: u32,
    /// True if it passed only after a failure.
    pub flaky: bool,
    /// Failure messages of the last run.
    pub messages: Vec<String>,
}

/// Result of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    /// The test passed.
    #[default]
    Passed,
    /// The test failed.
    Failed,
    /// The test was not run.
    Skipped,
    /// The test failed as expected.
    ExpectedFailure,
}

/// A problem in a report that is not a test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReportIssue {
    /// Path of the report.
    pub path: String,
    /// Severity of the problem.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// Source location, if the report contains it.
    pub location: Option<Location>,
    /// `infrastructure` if the code is not the cause. `tests` if the problem is in the test runner
    /// and not in the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Advice for the user, for `infrastructure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Memory evidence from the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryEvidence {
    /// True if a process of the job was OOM-killed.
    pub oom_killed: bool,
    /// The limit that was reached, in bytes.
    pub limit_bytes: Option<u64>,
    /// Peak memory use in bytes.
    pub peak_bytes: Option<u64>,
    /// `cgroup`, `kernel_log`, `machine` (the kernel's counter of all kills) or `rlimit` (the limit holds for each process).
    pub source: String,
    /// The killed process, if the kernel reports it: `rustc (pid 4711)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// Number of processes that were OOM-killed while the job ran, in a control group or on a machine that the job shares
    /// with other processes. One of them may be the job's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kills_nearby: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
