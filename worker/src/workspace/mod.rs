//! The files of a command: snapshots, warm checkouts, artifacts.

pub mod artifacts;
pub mod carry;
mod checkout;
pub mod collection;
mod derived_data;
mod difference;
mod error;
mod leftovers;
mod names;
mod pool;
mod reach;
pub mod setup;
mod visible;

pub use collection::SpaceLimits;
pub use error::WorkspaceError;
pub use names::{NameProblem, Wrong};
pub use pool::{Lacking, Prepared, Workspaces};
