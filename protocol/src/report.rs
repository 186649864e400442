//! The result of a job and its findings, for the submitter. The client link, `--json` and MCP use
//! the same names.

mod crash;
mod finding;
mod json;
mod state;

pub use crash::{CrashIndicators, CrashReport, Termination};
pub use finding::{EvidenceRange, Finding, FindingSummary, Location, Omission, Severity, TestCounts};
pub use json::{answer, prune};
pub use state::{Cause, JobState, KnownFrom, Verdict, Waiting};

use crate::outcome::{CrashType, ProcessState};
use crate::output::Stream;
use crate::spec::Verbosity;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Name of the omission of a running job's output before its last lines.
pub const EARLIER_OUTPUT: &str = "earlier_output";

/// Warnings, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Warnings {
    /// Number of all warnings.
    pub count: u64,
    /// Warnings within the limit of the verbosity.
    pub shown: Vec<String>,
}

/// A process of the job that still exists, or outlived the command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Survivor {
    /// Process id.
    pub pid: i32,
    /// Its name or command line.
    pub command: String,
}

/// A gap in the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GapEntry {
    /// The stream.
    pub stream: Stream,
    /// First missing byte.
    pub offset: u64,
    /// Number of missing bytes.
    pub bytes: u64,
    /// The reason.
    pub reason: String,
}

/// An artifact of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArtifactEntry {
    /// Path relative to the command's directory.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Checksum in hexadecimal.
    pub blake3: String,
    /// True if it is executable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// The working tree that was used.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// Id of the tree.
    pub id: String,
    /// Number of files in it.
    pub files: u64,
    /// Files that look like secrets and were not sent.
    pub kept_back: Vec<String>,
    /// Files on the submitter's machine that are not in the workspace: ignored directories at the top and in the
    /// command's directory, LFS pointers instead of content, links that lead out of the tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// The command that makes the missing dependencies, detected from the project's files. Absent if no dependencies are missing or
    /// the project configures `setup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_suggestion: Option<String>,
    /// Files that changed while the snapshot was taken.
    pub changed_meanwhile: Vec<String>,
    /// Other differences from the working tree, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The command that prepared the workspace before the job's command.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SetupResult {
    /// The configured command.
    pub command: String,
    /// False if no input had changed since the last successful run in this workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran: bool,
    /// Its exit code; null if it did not run or did not exit by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_secs: Option<f64>,
    /// The end of its output, both streams in order: after a failure, and in verbosity `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Length of its whole output in bytes.
    #[serde(default)]
    pub log_bytes: u64,
}

/// An earlier attempt without a result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EarlierAttempt {
    /// Number of the attempt.
    pub attempt: u32,
    /// Name of the worker.
    pub worker: String,
    /// The reason, in one sentence.
    pub reason: String,
}

/// Resource usage of the process tree.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_secs: f64,
    /// Processor time in the kernel.
    pub system_secs: f64,
    /// Largest resident set of one process, in bytes. On Linux it is never below the value of the
    /// keeper when it created the command's process, some megabytes. The kernel passes that value
    /// on to the new program. For a smaller command it is an upper bound.
    pub max_rss_bytes: u64,
}

/// The result of a job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobResult {
    /// Id of the job.
    pub job_id: String,
    /// The shortest unique prefix of the id, at least 12 digits, for texts. JSON answers leave it
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// Number of the attempt that this result describes; 0 before the first.
    pub attempt: u32,
    /// Earlier attempts, each with its reason: lost, declined, or retried after an infrastructure
    /// failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<EarlierAttempt>,
    /// Name of the worker.
    pub worker: Option<String>,
    /// The command in one line.
    pub command: String,
    /// Directory in the snapshot. Empty at its root and without a snapshot. Relative paths in tool
    /// output are relative to this directory. Absolute paths below the workspace are shown relative
    /// to the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Run time of the process, so far or in total.
    pub duration_secs: Option<f64>,
    /// Time that the job waited.
    pub queued_secs: Option<f64>,
    /// State of the job.
    pub state: JobState,
    /// False while its worker cannot be reached.
    pub connected: bool,
    /// Set while it waits.
    pub waiting: Option<Waiting>,
    /// Reason why it ran on another pool than the requested one. Set only in that case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Id of its build, with its prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Verbosity that the submitter requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<Verbosity>,
    /// RFC 3339.
    pub created_at: Option<String>,
    /// RFC 3339.
    pub started_at: Option<String>,
    /// RFC 3339.
    pub finished_at: Option<String>,
    /// Name of the submitter.
    pub submitter: Option<String>,
    /// Requested worker labels.
    pub labels: Vec<String>,
    /// Null until done.
    pub verdict: Option<Verdict>,
    /// True only for `passed`.
    pub success: bool,
    /// Exit code of the process itself, else null.
    pub exit_code: Option<i32>,
    /// State from the wait status.
    pub process_state: ProcessState,
    /// Category of an abnormal end.
    pub crash_type: CrashType,
    /// The cause, in one sentence.
    pub cause: Option<Cause>,
    /// Crash indicators in the log.
    pub crash_indicators: CrashIndicators,
    /// Crash reports.
    pub crash_reports: Vec<CrashReport>,
    /// True if an abnormal end has no explanation, or a success hides a failure.
    pub silent_failure: bool,
    /// Counts as reported by the tool.
    pub tests: Option<TestCounts>,
    /// Likely root causes, complete.
    pub tier_1_findings: Vec<Finding>,
    /// Other findings, one line each.
    pub other_findings: Vec<FindingSummary>,
    /// Failed tests that a line of `other_findings` counts, with names for a filter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_tests: Vec<String>,
    /// Included depending on verbosity.
    pub stderr: Option<String>,
    /// Included depending on verbosity.
    pub stdout: Option<String>,
    /// Output after the template or the digest.
    pub filtered_output: Option<String>,
    /// While the job runs: the last lines of its output, both streams in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// While the job runs: seconds since its last output, or since its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_secs: Option<u64>,
    /// While the job runs: the test that runs, if the log shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_test: Option<String>,
    /// True if the shown output is the complete log, so that findings are pointers into it. JSON
    /// answers leave it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub complete_log: bool,
    /// All omissions.
    pub omitted: Vec<Omission>,
    /// True if a signal killed the command itself.
    pub process_crashed: bool,
    /// Warnings, each once.
    pub warnings: Warnings,
    /// Almost always empty.
    pub survivors: Vec<Survivor>,
    /// Almost always empty.
    pub gaps: Vec<GapEntry>,
    /// Artifacts that were transferred.
    pub artifacts: Vec<ArtifactEntry>,
    /// The snapshot that it ran on.
    pub snapshot: Option<SnapshotInfo>,
    /// The project's `setup` command, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupResult>,
    /// Resource usage.
    pub usage: Option<Usage>,
    /// Differences of report and log, unreadable reports, and the reason for a missing crash
    /// report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Suggested next calls, at most three.
    pub next: Vec<String>,
}

/// Heading of the failed tests that only a report contains.
pub const HIDDEN_TESTS_HEADING: &str = "=== Failed Tests ===";

impl JobResult {
    /// Returns the JSON of an answer. Fields that are null, empty or zero are left out. `job_id`,
    /// `state` and `verdict` are always present, `success` and `exit_code` once the job is done,
    /// and all counts inside `tests`. Control characters in texts are escaped as in
    /// [`shown`](crate::shown).
    pub fn to_json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        prune(&mut value);
        let Value::Object(map) = &mut value else { return value };
        map.remove("short_id");
        map.remove("complete_log");
        if self.state != JobState::Done {
            map.insert("connected".to_owned(), json!(self.connected));
        }
        value
    }

    /// Returns the id for texts: the short id if the coordinator sent it.
    pub fn shown_id(&self) -> &str {
        self.short_id.as_deref().unwrap_or(&self.job_id)
    }

    /// Fields that only a pool provides. A digest without a pool leaves them out.
    pub const POOL_FIELDS: &'static [&'static str] = &[
        "job_id",
        "attempt",
        "earlier_attempts",
        "worker",
        "command",
        "directory",
        "duration_secs",
        "queued_secs",
        "state",
        "connected",
        "waiting",
        "fallback",
        "request_id",
        "verbosity",
        "created_at",
        "started_at",
        "finished_at",
        "submitter",
        "labels",
        "survivors",
        "gaps",
        "artifacts",
        "snapshot",
        "setup",
        "last_lines",
        "silent_secs",
        "running_test",
        "usage",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_leaves_out_what_is_empty_and_keeps_what_is_promised() {
        let mut result = JobResult { job_id: "j".to_owned(), ..JobResult::default() };
        assert_eq!(
            result.to_json(),
            json!({"job_id": "j", "state": "queued", "verdict": null, "crash_type": "none", "connected": false})
        );
        result.state = JobState::Done;
        result.verdict = Some(Verdict::Crashed);
        result.tests =
            Some(TestCounts { failed: 1, total: 1, source: "report".to_owned(), ..TestCounts::default() });
        result.short_id = Some("j".to_owned());
        let json = result.to_json();
        assert_eq!(json["success"], false);
        assert!(json.as_object().expect("an object").get("exit_code").expect("present").is_null());
        assert_eq!(json["tests"]["passed"], 0);
        assert!(json.get("short_id").is_none() && json.get("omitted").is_none());
    }
}
