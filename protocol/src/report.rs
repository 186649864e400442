//! What a submitter gets: the result of a job and its findings. The same names on the client link, in `--json` and over
//! MCP.

use crate::outcome::{CrashType, ProcessState};
use crate::output::Stream;
use crate::shown::{is_plain, printable};
use crate::spec::Verbosity;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for a worker.
    #[default]
    Queued,
    /// Granted; files are laid out.
    Preparing,
    /// The process runs.
    Running,
    /// The process has ended; log, evidence and result are on their way.
    Sealing,
    /// Over.
    Done,
}

impl JobState {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Sealing => "sealing",
            Self::Done => "done",
        }
    }
}

/// What a job means to its submitter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It exited 0 and nothing speaks against it.
    Passed,
    /// It exited otherwise, or its tests failed.
    Failed,
    /// It, or what it tested, died.
    Crashed,
    /// It was ended for its time.
    TimedOut,
    /// It was ended because somebody asked.
    Cancelled,
    /// Its worker is gone: not the command's fault.
    Lost,
    /// It was never run: nothing could run it, or it could not be laid out.
    Rejected,
    /// The signs contradict each other.
    Inconclusive,
}

impl Verdict {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Rejected => "rejected",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a cause is known from, the surest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownFrom {
    /// The pool's own doing.
    Pool,
    /// The kernel's word on the process.
    WaitStatus,
    /// A crash report.
    CrashReport,
    /// A test report or result bundle.
    Report,
    /// A line of the log.
    Marker,
    /// An exit code of 128+n: a guess.
    ShellConvention,
}

/// Why it ended as it did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cause {
    /// One sentence for a person.
    pub text: String,
    /// Where it is known from.
    pub known_from: KnownFrom,
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Waiting {
    /// One sentence.
    pub reason: String,
    /// Jobs that go first, plus one.
    pub position: Option<u64>,
    /// RFC 3339.
    pub since: String,
    /// From history, in seconds, where there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_secs: Option<f64>,
}

/// Signs of a crash in the log; a sign is not a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each is named after the line that sets it; docs/endings.md lists the lines")]
pub struct CrashIndicators {
    pub test_runner_crashed: bool,
    pub connection_interrupted: bool,
    pub early_exit: bool,
    pub never_began_testing: bool,
    pub bundle_load_failed: bool,
    pub simulator_boot_timeout: bool,
    pub test_process_crashed: bool,
    pub restarted_after_crash: bool,
    pub fatal_error: bool,
    pub uncaught_exception: bool,
    pub unexpected_signal: bool,
    pub runner_error: bool,
    pub runner_not_launched: bool,
    pub sanitizer: bool,
    pub panic: bool,
    pub killed: bool,
    pub out_of_memory: bool,
    pub tests_unfinished: bool,
    pub test_count_collapsed: bool,
}

/// One crash report file, as far as it says.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CrashReport {
    /// `procName`.
    pub process_name: String,
    /// `procPath`.
    pub process_path: Option<String>,
    /// Process id.
    pub pid: Option<i64>,
    /// `EXC_BREAKPOINT`.
    pub exception_type: Option<String>,
    /// `SIGTRAP`.
    pub signal: Option<String>,
    /// Who ended it, in the system's words.
    pub termination: Option<Termination>,
    /// RFC 3339.
    pub timestamp: Option<String>,
    /// On the worker.
    pub file_path: String,
    /// The faulting thread's, innermost first.
    pub top_frames: Vec<String>,
    /// `Fatal error: …` and what else the application left to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The process fact by which it belongs to the job: `pid`, `parent_pid`, `responsible_pid`, `simulator_device`,
    /// `process_path`, `attached`, `named`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_by: Option<String>,
}

/// A termination reason. The code is a signal only in namespace `SIGNAL`, and can be wider than 32 bits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Termination {
    /// `SIGNAL`, `DYLD`, `CODESIGNING`…
    pub namespace: Option<String>,
    /// In the namespace's own numbers.
    pub code: Option<i64>,
    /// In words.
    pub indicator: Option<String>,
}

/// Counts of tests, each test once with its last result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TestCounts {
    /// As they should.
    pub passed: u64,
    /// Not as they should.
    pub failed: u64,
    /// Not run.
    pub skipped: u64,
    /// Failed as they should.
    pub expected_failures: u64,
    /// The sum of the four.
    pub total: u64,
    /// The report or the marker that was believed.
    pub source: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// Something died.
    Fatal,
    /// Something failed.
    Error,
    /// Something may be wrong.
    Warning,
    /// Worth knowing.
    Info,
}

/// A place in a source file.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Location {
    /// Relative to the workspace where it is inside.
    pub file: String,
    /// From 1.
    pub line: Option<u32>,
    /// From 1.
    pub column: Option<u32>,
}

/// Which bytes a finding was made from: of its stream, or of the report named here.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EvidenceRange {
    /// First byte.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// A report file instead of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// One thing worth a look.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Stable for the same job.
    pub id: String,
    /// 1 likely cause, 2 other errors, 3 also in passing runs.
    pub tier: u8,
    /// What it says, whole.
    pub message: String,
    /// How bad.
    pub severity: Severity,
    /// 0 to 1; how it is made is documented.
    pub confidence: f64,
    /// The job's id, or its name in a build.
    pub job: String,
    /// The job's verdict, or its state while it runs.
    pub job_state: String,
    /// How often it was seen.
    pub recurrence: u64,
    /// A passing run of the same command had it too.
    pub also_in_passing_jobs: bool,
    /// Where in the sources.
    pub location: Option<Location>,
    /// In which test.
    pub test: Option<String>,
    /// In which stream; none when it comes from a report.
    pub stream: Option<Stream>,
    /// From which bytes.
    pub evidence: EvidenceRange,
    /// `infrastructure` when it is not the code's fault, with what to do in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Lines before.
    pub pre_context: Vec<String>,
    /// Lines after.
    pub post_context: Vec<String>,
}

/// A finding in one line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FindingSummary {
    /// Gets the whole by `get_finding_details`.
    pub id: String,
    /// 2 or 3; 1 when the list of tier 1 was full.
    pub tier: u8,
    /// Its first line.
    pub message: String,
    /// How bad.
    pub severity: Severity,
    /// 0 to 1.
    pub confidence: f64,
    /// Of which job.
    pub job: String,
}

/// A counted cut, and the call that gets what was cut.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Omission {
    /// `stdout`, `stderr`, `filtered_output`, `tier_1_findings`, `other_findings`, `warnings`…
    pub what: String,
    /// Lines or entries.
    pub lines: u64,
    /// Bytes, where they are known.
    pub bytes: u64,
    /// A command or tool call.
    pub get: String,
}

/// Warnings, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Warnings {
    /// All of them.
    pub count: u64,
    /// Those that the verbosity lets through.
    pub shown: Vec<String>,
}

/// A process of the job that is still there, or was when the command had ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Survivor {
    /// Process id.
    pub pid: i32,
    /// Its name or command line.
    pub command: String,
}

/// A hole in the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GapEntry {
    /// Of which stream.
    pub stream: Stream,
    /// First missing byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// Why.
    pub reason: String,
}

/// A file that was brought back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArtifactEntry {
    /// Relative to the command's directory.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// Checksum in hexadecimal.
    pub blake3: String,
    /// Whether it can be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// The working tree that was used.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// The tree.
    pub id: String,
    /// Files in it.
    pub files: u64,
    /// Files that look like secrets and stayed at home.
    pub kept_back: Vec<String>,
    /// Files that changed while the snapshot was taken.
    pub changed_meanwhile: Vec<String>,
    /// What else is other than in the working tree, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An attempt that gave no result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EarlierAttempt {
    /// Its number.
    pub attempt: u32,
    /// The worker's name.
    pub worker: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// What the process tree used.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_secs: f64,
    /// Processor time in the kernel.
    pub system_secs: f64,
    /// Largest resident set of one process, in bytes. On Linux it is never below what the keeper had when it made the command's
    /// process, some megabytes: the kernel carries that over to the new program. Of a smaller command it is a bound from above.
    pub max_rss_bytes: u64,
}

/// The answer about a job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobResult {
    /// The job.
    pub job_id: String,
    /// The shortest unique beginning of the id, at least 12 digits: for texts. JSON answers leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// The attempt that this speaks of; 0 before the first.
    pub attempt: u32,
    /// Those before it, with why each gave no result: lost, declined, or tried again after an infrastructure failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<EarlierAttempt>,
    /// The worker's name.
    pub worker: Option<String>,
    /// What was executed, in one line.
    pub command: String,
    /// In which directory of the snapshot; empty at its top and without one. A place that a tool gives in relation to where it runs is in
    /// relation to this one, one below the workspace that it gives whole is in relation to the top.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// How long the process ran, so far or in all.
    pub duration_secs: Option<f64>,
    /// How long the job waited.
    pub queued_secs: Option<f64>,
    /// Where it stands.
    pub state: JobState,
    /// False while its worker can't be reached.
    pub connected: bool,
    /// While it waits.
    pub waiting: Option<Waiting>,
    /// Why it ran on another pool than the one that was asked for; only where that happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The build that it is part of, by the word that asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How much of the result its submitter asked to see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<Verbosity>,
    /// RFC 3339.
    pub created_at: Option<String>,
    /// RFC 3339.
    pub started_at: Option<String>,
    /// RFC 3339.
    pub finished_at: Option<String>,
    /// Who asked.
    pub submitter: Option<String>,
    /// What was asked for of the worker.
    pub labels: Vec<String>,
    /// Null until done.
    pub verdict: Option<Verdict>,
    /// Only for `passed`.
    pub success: bool,
    /// The process's own, else null.
    pub exit_code: Option<i32>,
    /// From the wait status.
    pub process_state: ProcessState,
    /// What kind of bad end.
    pub crash_type: CrashType,
    /// Why, in a sentence.
    pub cause: Option<Cause>,
    /// Signs in the log.
    pub crash_indicators: CrashIndicators,
    /// Crash files.
    pub crash_reports: Vec<CrashReport>,
    /// Nothing explains a bad end, or a good end hides a bad one.
    pub silent_failure: bool,
    /// The tool's own counts.
    pub tests: Option<TestCounts>,
    /// Likely root causes, whole.
    pub tier_1_findings: Vec<Finding>,
    /// The rest, a line each.
    pub other_findings: Vec<FindingSummary>,
    /// Failed tests that a line of `other_findings` counts, by the names that a filter takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_tests: Vec<String>,
    /// By verbosity.
    pub stderr: Option<String>,
    /// By verbosity.
    pub stdout: Option<String>,
    /// What the template or the digest left.
    pub filtered_output: Option<String>,
    /// Whether the shown output is the whole log, so that findings are pointers into it. JSON answers leave it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub complete_log: bool,
    /// Every cut.
    pub omitted: Vec<Omission>,
    /// The command itself died of a signal.
    pub process_crashed: bool,
    /// Each once.
    pub warnings: Warnings,
    /// Empty almost always.
    pub survivors: Vec<Survivor>,
    /// Empty almost always.
    pub gaps: Vec<GapEntry>,
    /// Files that were brought back.
    pub artifacts: Vec<ArtifactEntry>,
    /// On which tree it ran.
    pub snapshot: Option<SnapshotInfo>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Where report and log differ, what could not be read, why there is no crash report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// At most three.
    pub next: Vec<String>,
}

impl From<&Finding> for FindingSummary {
    fn from(finding: &Finding) -> Self {
        Self {
            id: finding.id.clone(),
            tier: finding.tier,
            message: finding.message.clone(),
            severity: finding.severity,
            confidence: finding.confidence,
            job: finding.job.clone(),
        }
    }
}

impl Finding {
    /// A failed test that only a report names: the log is silent about it.
    pub fn is_hidden_test(&self) -> bool {
        self.stream.is_none() && self.evidence.report.is_some() && self.test.is_some()
    }
}

/// Heads the failed tests that only a report names.
pub const HIDDEN_TESTS_HEADING: &str = "=== Failed Tests ===";

impl JobResult {
    /// The JSON of an answer: fields that are null, empty or zero are left out. `job_id`, `state` and `verdict` are
    /// always present, `success` and `exit_code` once the job is done, and all counts inside `tests`. Control characters in
    /// texts are escaped as [`shown`](crate::shown) does.
    pub fn to_json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        prune(&mut value);
        let Value::Object(map) = &mut value else { return value };
        map.remove("short_id");
        map.remove("complete_log");
        map.insert("job_id".to_owned(), json!(self.job_id));
        map.insert("state".to_owned(), json!(self.state));
        map.insert("verdict".to_owned(), json!(self.verdict));
        if self.state == JobState::Done {
            map.insert("success".to_owned(), json!(self.success));
            map.insert("exit_code".to_owned(), json!(self.exit_code));
        } else {
            map.insert("connected".to_owned(), json!(self.connected));
        }
        if let Some(tests) = &self.tests {
            let mut counts = json!(tests);
            if let Some(Value::String(source)) = counts.get_mut("source") {
                *source = printable(source);
            }
            map.insert("tests".to_owned(), counts);
        }
        value
    }

    /// The id for a text: the short one where the coordinator sent it.
    pub fn shown_id(&self) -> &str {
        self.short_id.as_deref().unwrap_or(&self.job_id)
    }

    /// Fields that only a pool knows; a digest without a pool leaves them out.
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
        "usage",
    ];
}

/// Removes members that are null, false, zero or empty, at every depth, and escapes control characters. Elements of lists
/// stay.
pub fn prune(value: &mut Value) {
    match value {
        Value::String(text) if !is_plain(text.as_bytes()) => *text = printable(text),
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, member| !is_void(member));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

fn is_void(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
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
