//! The worker: runs processes, spools and streams their output, and explains their end.
//!
//! Two kinds of processes share the work. The *daemon* ([`daemon`]) maintains the link to the
//! coordinator. It may die, be upgraded or lose its connection. A *keeper* ([`keeper`]) is a small
//! separate process that owns one attempt at a time: its pipes, its spool, its deadlines and the
//! end of its process tree. They communicate through a socket and the attempt's directory.

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
pub mod upgrade;
pub mod workspace;

pub use config::{Config, ConfigError};
pub use daemon::{Shutdown, ShutdownHandle, ShutdownRequest, WorkerError, WorkerExit, run};
pub use keeper::keeper_main;
