//! The language of buildpool: what the parts say to each other, and the limits that each of them keeps.
//!
//! Nothing here does I/O, reads a clock or knows a runtime. A message that parses here is well formed; whether it
//! is *allowed* is decided by whoever receives it.

pub mod client_link;
pub mod duration;
pub mod error;
pub mod evidence;
pub mod frame;
mod glob;
pub mod ids;
pub mod infrastructure;
pub mod java;
pub mod limiter;
pub mod limits;
pub mod outcome;
pub mod output;
pub mod report;
pub mod shown;
pub mod spec;
pub mod token;
pub mod transfer;
pub mod version;
pub mod worker_link;

pub use error::{ErrorCode, LinkError};
pub use ids::{AttemptId, BootId, BuildId, JobId, Lease, TokenId, WorkerId};
pub use outcome::{Acted, CrashType, Ending, Outcome, ProcessState};
pub use output::Stream;
pub use report::{Finding, JobResult, JobState, Verdict};
pub use spec::{JobSpec, Verbosity};
