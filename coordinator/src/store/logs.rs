//! Logs of attempts: append-only sequences of chunks, addressed by position.
//!
//! A log begins in memory (up to [`super::limits::INLINE_BYTES_MAX`]). A longer one continues in
//! *raw segments*: files named by their start position. A background thread compresses full
//! segments into blocks of one *pack* file, and removes them. So a log consists of the pack and
//! then the raw segments. Where they overlap, both files have the same bytes at the same position.

mod append;
mod error;
mod examine;
mod excess;
mod keep;
mod layout;
mod objects;
mod open_log;
mod pack;
mod read;
mod recent;
mod registry;
mod retention;
mod unstored;

pub use append::{Appended, LogWriter, Sealed};
pub use error::{LogError, SealError};
pub(super) use examine::{LogCheck, copy, examine, stored_attempts};
pub(crate) use objects::{export_logs, import_log};
pub(crate) use read::each_chunk;
pub use read::{LogReader, Progress};
pub use registry::Logs;
pub use retention::{Retained, Retention};
pub use unstored::Shortened;
