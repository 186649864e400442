//! The project of a call: its configuration file, and the commands of the detected tools.
//!
//! This module reads the disk and runs nothing.

mod choose;
mod config;
mod configured;
mod directory;
mod filter;
mod names;
mod setup;
mod templates;
mod tools;

pub use choose::{ChooseError, Chosen, Goal, choose, repository_of};
pub use config::{Commands, ConfigProblem, Configuration, ConfigurationCache, SetupEntry, nearest};
pub use names::similar;
pub use setup::{DEFAULT_INPUTS, configured as configured_setup, suggested as suggested_setup};
pub use templates::Templates;
