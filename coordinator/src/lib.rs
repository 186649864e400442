//! The coordinator: it accepts jobs, grants them to workers, keeps their logs, and says what became of them.
//!
//! [`Coordinator::start`] opens the store, restores what it finds there, and listens. The decisions are made by
//! [`buildpool_pool`] and [`buildpool_digest`]; here are the disk, the sockets and the clock.

mod attempt;
pub mod auth;
pub mod backup;
mod completing;
pub mod config;
mod coordinator;
mod digesting;
mod finished;
mod hub;
mod logtext;
mod metrics;
mod net;
mod priority;
mod public_url;
mod result;
mod runtime;
mod shared;
pub mod store;
pub mod tls;
mod transfer;

pub use config::{Config, ConfigError, Protection};
pub use coordinator::{Activity, Coordinator, CoordinatorError, run};
