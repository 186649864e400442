//! What a project says about itself: its configuration file, and the tools that its files show it uses.
//!
//! Reads the disk, runs nothing.

mod choose;
mod config;
mod detect;
mod node;
mod quote;
mod templates;
mod xcode;

pub use choose::{ChooseError, Chosen, Goal, choose, repository_of};
pub use config::{Commands, ConfigProblem, Configuration, ConfigurationCache, nearest};
pub use detect::{Detected, Tool};
pub use quote::quoted;
pub use templates::Templates;
