//! Errors that one end of a link sends to the other.

use serde::{Deserialize, Serialize};

/// Error code for programs. The text in [`LinkError`] is for users.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The token is missing, unknown, expired or revoked.
    Unauthorized,
    /// The role of the token does not allow this request.
    Forbidden,
    /// No protocol version in common.
    VersionMismatch,
    /// The frame does not parse or is not valid at this point.
    Malformed,
    /// The frame or field exceeds its limit.
    TooLarge,
    /// A field has an invalid value. The text contains the field, the value and the valid values.
    Invalid,
    /// No job with this id is known.
    UnknownJob,
    /// The job is known, but its log was deleted.
    Evicted,
    /// The prefix matches several jobs.
    Ambiguous,
    /// No known worker, connected or not, can run the job.
    Unsatisfiable,
    /// The id is already used for something else.
    Conflict,
    /// A limit of this principal or of the pool is reached. A later retry may succeed.
    Exhausted,
    /// No such worker, token, finding, artifact or template.
    NotFound,
    /// The coordinator is shutting down or its disk refuses writes. Retry later.
    Unavailable,
    /// An internal error of the coordinator.
    Internal,
}

impl ErrorCode {
    /// Returns true if the same request may succeed later without a change.
    pub const fn is_worth_a_retry(self) -> bool {
        matches!(self, Self::Exhausted | Self::Unavailable | Self::Internal)
    }
}

/// An error answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct LinkError {
    /// Error code, for programs.
    pub code: ErrorCode,
    /// Message for users: the problem, its place, and the valid values.
    pub message: String,
}

impl LinkError {
    /// Creates an error with its message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Returns an error with all its sources in one line: `error: cause: cause of the cause`.
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
