//! What files and the kernel said about an attempt, beyond its log. Collected on the worker, so that the files need
//! not travel.

use crate::report::{CrashReport, Location, Severity};
use serde::{Deserialize, Serialize};

/// Everything that was found; empty when nothing was looked for or nothing was there.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Crash reports that belong to the job.
    #[serde(default)]
    pub crash_reports: Vec<CrashReport>,
    /// Why there is none although something crashed.
    #[serde(default)]
    pub crash_report_absence: Option<String>,
    /// What each test report said.
    #[serde(default)]
    pub test_reports: Vec<TestReport>,
    /// Build and device problems that a report names.
    #[serde(default)]
    pub issues: Vec<ReportIssue>,
    /// Memory, where the kernel says something.
    #[serde(default)]
    pub memory: Option<MemoryEvidence>,
    /// Reports that were named and could not be read, and why; other remarks.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The first report that was named and could not be read, and why: what it says against a good end is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// The counts and the remarkable cases of one report, each test once with its last result.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TestReport {
    /// The file, relative to the command's directory where it is inside.
    pub path: String,
    /// `xcresult`, `junit`, `go_json`, `cargo_json`, `tap`.
    pub format: String,
    /// Passed, of which some may have failed first.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Skipped or disabled.
    pub skipped: u64,
    /// Failed as it should.
    pub expected_failures: u64,
    /// Tests that did not simply pass: failed, flaky, skipped with a reason; bounded.
    pub cases: Vec<TestCase>,
    /// Remarkable cases beyond those listed.
    pub cases_omitted: u64,
    /// Tests that started and have no result.
    pub unfinished: Vec<String>,
    /// Of those that passed, how many failed first.
    #[serde(default)]
    pub flaky: u64,
    /// Runs of all tests, counting repetitions and arguments; 0 where the report does not tell them apart.
    #[serde(default)]
    pub runs: u64,
    /// Where the tests ran: `iPhone 17 Pro, iOS Simulator 26.1, arm64`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// The path of another report that tells of the same tests and is believed instead. Counts of such a report are
    /// not to be added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// Why it does not tell of all that it should: it breaks off, or counts failures that it does not list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// A test in a report.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TestCase {
    /// As the tool names it: `Suite/test()`, `module::test`.
    pub name: String,
    /// Its last result.
    pub status: TestStatus,
    /// The last run, in seconds.
    pub duration_secs: Option<f64>,
    /// Failure messages or the reason of a skip.
    pub messages: Vec<String>,
    /// Where it failed.
    pub location: Option<Location>,
    /// Runs, counting retries.
    pub runs: u32,
    /// Passed only after it failed.
    pub flaky: bool,
    /// The name that people gave it, where it differs: Swift Testing prints this one in the log.
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
    /// As the tool writes them.
    pub arguments: String,
    /// The last result with them.
    pub status: TestStatus,
    /// Runs with them.
    pub runs: u32,
    /// Passed only after it failed.
    pub flaky: bool,
    /// Failure messages of the last run.
    pub messages: Vec<String>,
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    /// As it should.
    #[default]
    Passed,
    /// Not as it should.
    Failed,
    /// Not run.
    Skipped,
    /// Failed, and was expected to.
    ExpectedFailure,
}

/// A problem that a report names and that is not a test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReportIssue {
    /// In which report.
    pub path: String,
    /// How bad.
    pub severity: Severity,
    /// What it says.
    pub message: String,
    /// Where, if it says so.
    pub location: Option<Location>,
    /// `infrastructure` when it is not the code's fault, `tests` when it is of what runs them and not of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// What to do about it, for `infrastructure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// What the kernel says about memory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryEvidence {
    /// A process of the job was killed for memory.
    pub oom_killed: bool,
    /// The limit that was hit, in bytes.
    pub limit_bytes: Option<u64>,
    /// The most that was used, in bytes.
    pub peak_bytes: Option<u64>,
    /// `cgroup` or `kernel_log`.
    pub source: String,
    /// Which process was killed, where the kernel says: `rustc (pid 4711)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
}
