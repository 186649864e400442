//! The files of a command: snapshots, warm checkouts, artifacts.

pub mod artifacts;
mod checkout;
mod cleanup;
pub mod collection;
mod derived_data;
mod difference;
mod error;
mod git_directory;
mod names;
mod no_follow;
mod pool;
pub mod setup;
pub mod transfer;

pub use collection::SpaceLimits;
pub use error::WorkspaceError;
pub use names::{NameError, NameFault};
pub use pool::{EMPTY_DIRECTORY, MissingSnapshot, Prepared, Workspaces};
