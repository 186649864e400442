//! The files that a command sees: snapshots in, warm checkouts, artifacts out.

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
mod visible;

pub use collection::SpaceLimits;
pub use error::WorkspaceError;
pub use names::{NameProblem, Wrong};
pub use pool::{Lacking, Prepared, Workspaces};
