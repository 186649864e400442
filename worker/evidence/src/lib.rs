//! Evidence in addition to the log: result bundles, crash files, test reports, memory.
//!
//! The job or the system wrote all input, so it is untrusted. Every reader has limits and follows
//! no link out of the command's directory. For any input it returns a value or an error with a
//! reason.

mod attempt;
mod collect;
mod core_file;
pub mod crash;
mod detect;
mod error;
mod files;
mod find;
mod formats;
mod infrastructure;
mod join;
pub mod limits;
pub mod memory;
mod merge;
mod platform;
mod read;
mod run_tool;
mod sanitizer;
mod tally;
mod text;
pub mod xcresult;

pub use collect::{Collection, Context, collect, default_crash_directories, read_reports};
pub use crash::search::Progress;
pub use crash::suggests_crash;
pub use detect::ReportKind;
pub use error::EvidenceError;
pub use read::{ReadReport, read_report};
pub use xcresult::command::{result_bundle_in, with_result_bundle};
