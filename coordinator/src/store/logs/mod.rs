//! Logs of attempts: chunks as they came, append-only, addressed by position.
//!
//! A log begins in memory ([`super::limits::INLINE_BYTES_MAX`]). One that grows beyond goes on in *raw segments*, files
//! named by the position at which they begin; full ones are compressed, behind the writer's back, into blocks of one
//! *pack* file and then removed. So a log is: pack, raw segments, in that order and without overlap that matters:
//! the same position always has the same bytes, whichever file they are read from.

mod append;
mod error;
mod examine;
mod keep;
mod layout;
mod pack;
mod read;
mod registry;
mod retention;

pub use append::{Appended, LogWriter, Sealed};
pub use error::{LogError, SealError};
pub(super) use examine::{Examined, copy, examine, stored_attempts};
pub(crate) use read::each_chunk;
pub use read::{LogReader, Progress};
pub use registry::Logs;
pub use retention::{Retained, Retention};
