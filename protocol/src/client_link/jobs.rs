//! Queries for lists of jobs.

use crate::ids::{BuildId, JobId};
use crate::report::{JobState, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A query for a list of jobs. Each field that is set must match.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobQuery {
    /// State of the job.
    pub state: Option<JobState>,
    /// The build that the job belongs to.
    pub build: Option<BuildId>,
    /// Name of the submitter.
    pub submitter: Option<String>,
    /// A label that the job requests: `KEY`, or `KEY=VALUE`.
    pub label: Option<String>,
    /// Verdict of a finished job.
    pub verdict: Option<Verdict>,
    /// Name of the worker of its newest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Text that its command contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Text that its project contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Earliest time of its creation, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Its creation is before this time, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    /// Position after an earlier answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<JobCursor>,
}

/// The position after a job in a list, newest first. Its text form is `MILLISECONDS:ID`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct JobCursor {
    /// Creation of the job, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// Id of the job.
    pub job: JobId,
}

impl fmt::Display for JobCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.created_at_ms, self.job)
    }
}

impl FromStr for JobCursor {
    type Err = JobCursorError;

    fn from_str(text: &str) -> Result<Self, JobCursorError> {
        let (created, job) = text.split_once(':').ok_or(JobCursorError)?;
        let created_at_ms = created.parse().map_err(|_| JobCursorError)?;
        Ok(Self { created_at_ms, job: job.parse().map_err(|_| JobCursorError)? })
    }
}

impl Serialize for JobCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobCursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Error: the text is not a cursor into a list of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a cursor has the form MILLISECONDS:ID, as an earlier answer gave it")]
pub struct JobCursorError;
