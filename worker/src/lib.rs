//! The worker: runs processes, spools and streams their output, explains how they ended.
//!
//! Two processes share the work. The *daemon* ([`daemon`]) keeps the link to the coordinator, and may die, be
//! upgraded or be cut off. A *keeper* ([`keeper`]) is a small process beside it that owns one attempt at a time: its
//! pipes, its spool, its deadlines and the ending of its tree. They meet at a socket and in the attempt's directory.

pub mod config;
pub mod daemon;
pub mod environment;
pub mod isolation;
pub mod keeper;
pub mod limits;
pub mod link;
pub mod platform;
pub mod records;
pub mod supervisor;
pub mod tools;
pub mod workspace;

pub use config::{Config, ConfigError};
pub use daemon::{Shutdown, ShutdownHandle, Wish, WorkerError, run};
pub use keeper::keeper_main;
