//! The link between a client (the command line, a gateway) and the coordinator. The client opens
//! the connection.
//!
//! A request has a number that its answers repeat. The client chooses the numbers. Followed output
//! is sent separately, as binary frames ([`crate::frame::BinaryKind::Follow`]) on the channel with
//! that number.

mod from_client;
mod jobs;
mod lists;
mod logs;
mod submit;
mod to_client;

pub use from_client::FromClient;
pub use jobs::{JobCursor, JobCursorError, JobQuery};
pub use lists::{AuditEntry, JobSummary, Progress, Role, TokenCreated, TokenSummary, WorkerSummary};
pub use logs::{Cursor, CursorError, LogAnswer, LogCursor, LogQuery, StreamChoice, TextPlace};
pub use submit::{Secret, SubmitMessage, View, check_length};
pub use to_client::ToClient;

/// Path of the link on the coordinator.
pub const PATH: &str = "/v1/client";
