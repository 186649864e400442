//! Findings, test counts and omissions.

use crate::output::Stream;
use serde::{Deserialize, Serialize};

/// Counts of tests, each test once with its last result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TestCounts {
    /// Passed tests.
    pub passed: u64,
    /// Failed tests.
    pub failed: u64,
    /// Skipped tests.
    pub skipped: u64,
    /// Tests that failed as expected.
    pub expected_failures: u64,
    /// The sum of the four.
    pub total: u64,
    /// The report or the log marker that the counts come from.
    pub source: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// A process crashed.
    Fatal,
    /// A step failed.
    Error,
    /// A possible problem.
    Warning,
    /// Useful information.
    Info,
}

/// A location in a source file.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Location {
    /// Path, relative to the workspace if it is inside.
    pub file: String,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
}

/// The bytes that a finding was made from: a range of its stream, or a report.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EvidenceRange {
    /// First byte.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// A report file instead of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// A finding in a log or report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// Id, stable for the same job.
    pub id: String,
    /// 1 likely cause, 2 other errors, 3 also in passing runs.
    pub tier: u8,
    /// The complete message.
    pub message: String,
    /// Severity.
    pub severity: Severity,
    /// Confidence from 0 to 1. The documentation describes its computation.
    pub confidence: f64,
    /// The job's id, or its name in a build.
    pub job: String,
    /// The job's verdict, or its state while it runs.
    pub job_state: String,
    /// Number of occurrences.
    pub recurrence: u64,
    /// True if a passing run of the same command also had it.
    pub also_in_passing_jobs: bool,
    /// Source location.
    pub location: Option<Location>,
    /// Name of the test.
    pub test: Option<String>,
    /// Stream of the finding. `None` if it comes from a report.
    pub stream: Option<Stream>,
    /// Byte range of the evidence.
    pub evidence: EvidenceRange,
    /// `infrastructure` if the code is not the cause. The message then contains advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Lines before.
    pub pre_context: Vec<String>,
    /// Lines after.
    pub post_context: Vec<String>,
}

/// A finding in one line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FindingSummary {
    /// Id for `get_finding_details`.
    pub id: String,
    /// 2 or 3; 1 if the list of tier 1 was full.
    pub tier: u8,
    /// Its first line.
    pub message: String,
    /// Severity.
    pub severity: Severity,
    /// Confidence from 0 to 1.
    pub confidence: f64,
    /// Id or name of the job.
    pub job: String,
}

/// An omitted part with its size, and the call that returns it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Omission {
    /// `stdout`, `stderr`, `filtered_output`, `tier_1_findings`, `other_findings`, `warnings`…
    pub what: String,
    /// Number of lines or entries.
    pub lines: u64,
    /// Number of bytes, if known.
    pub bytes: u64,
    /// A command or tool call.
    pub get: String,
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
    /// Returns true for a failed test that only a report contains, and not the log.
    pub fn is_hidden_test(&self) -> bool {
        self.stream.is_none() && self.evidence.report.is_some() && self.test.is_some()
    }
}
