//! The coordinator. It accepts jobs, grants them to workers, stores their logs and reports their
//! results.
//!
//! [`Coordinator::start`] opens the store, restores its state, and listens. [`buildpool_pool`] and
//! [`buildpool_digest`] make the decisions. This crate does the I/O: disk, sockets and clock.

mod app_state;
mod attempt;
pub mod auth;
pub mod backup;
mod completing;
pub mod config;
mod connections;
mod coordinator;
mod digesting;
mod leader;
mod logtext;
mod memory;
mod metrics;
pub mod migrate;
mod net;
mod priority;
mod public_url;
mod recent_jobs;
mod result;
mod revocations;
mod runtime;
mod spans;
mod stdin;
pub mod store;
mod test_history;
pub mod tls;
mod transfer;
pub mod trust;
mod webhooks;

pub use config::{Config, ConfigError, Protection, StoreConfig};
pub use coordinator::{Activity, Coordinator, CoordinatorError, EarlierRun, RunEnd, Standby, run};
pub use leader::election;
pub use memory::limit_arenas;
