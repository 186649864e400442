//! What one end tells the other when it can't do as asked.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What went wrong, for a program. The text beside it is for a person.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// No token, an unknown one, an expired or a revoked one.
    Unauthorized,
    /// A token whose role does not allow this.
    Forbidden,
    /// No protocol version in common.
    VersionMismatch,
    /// A frame that does not parse, or that does not belong here.
    Malformed,
    /// A frame or field over its limit.
    TooLarge,
    /// A field with a value that cannot be served; the text names field, value and what is valid.
    Invalid,
    /// Nothing is known under this id.
    UnknownJob,
    /// The job is known, its log is not kept any more.
    Evicted,
    /// A prefix that fits several jobs.
    Ambiguous,
    /// No worker, connected or known, could ever run it.
    Unsatisfiable,
    /// The id is in use for something else.
    Conflict,
    /// A limit of this principal or of the pool is reached; later it may work.
    Exhausted,
    /// No such worker, token, finding, artifact or template.
    NotFound,
    /// The coordinator is going away or its disk refuses writes; try again.
    Unavailable,
    /// The coordinator's own fault.
    Internal,
}

impl ErrorCode {
    /// Whether the same request may succeed later without a change.
    pub const fn is_worth_a_retry(self) -> bool {
        matches!(self, Self::Exhausted | Self::Unavailable | Self::Internal)
    }
}

/// An error answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkError {
    /// For a program.
    pub code: ErrorCode,
    /// For a person: what was wrong, where, and what is valid.
    pub message: String,
}

impl LinkError {
    /// An error with its sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LinkError {}

/// An error with all that caused it, in one line: `what: why: why that`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
