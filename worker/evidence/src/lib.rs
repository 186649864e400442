//! Evidence beyond the log: result bundles, crash files, test reports, memory.
//!
//! Everything that is read here was written by the job or by the system about it, so every reader is bounded, follows no
//! link out of the command's directory and answers with a value or a reason, whatever the bytes.

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
