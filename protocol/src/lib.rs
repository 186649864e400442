//! The protocol of buildpool: the messages between its parts, and the limits that all parts
//! enforce.
//!
//! This crate does no I/O, reads no clock and needs no async runtime. A parsed message is well
//! formed. The receiver decides if it is *allowed*.

pub mod client_link;
pub mod duration;
pub mod error;
pub mod evidence;
pub mod frame;
pub mod ids;
pub mod infrastructure;
pub mod java;
pub mod limiter;
pub mod limits;
pub mod outcome;
pub mod output;
pub mod report;
pub mod shell;
pub mod shown;
pub mod spec;
pub mod stdin;
pub mod token;
pub mod transfer;
pub mod upgrade;
pub mod version;
pub mod worker_link;

pub use error::{ErrorCode, LinkError};
pub use ids::{AttemptId, BootId, BuildId, JobId, Lease, TokenId, WorkerId};
pub use outcome::{CrashType, EndReason, Ending, Outcome, ProcessState};
pub use output::Stream;
pub use report::{Finding, JobResult, JobState, Verdict};
pub use spec::{JobSpec, Verbosity};
