//! Client of a pool: dials, submits, follows and reads. The command line and the MCP tools use it.
//!
//! A [`Client`] is a handle to a task that owns one connection. If the connection breaks, the task
//! dials again and resends the open requests. A submit keeps its job id, and a followed log
//! continues at the reached position. So a restart of the coordinator neither loses nor repeats
//! anything. This crate does not depend on MCP.
//!
//! Each request of [`request`] is a type with the type of its answer; [`Client::call`] sends it.
//! `examples/run_job.rs` is a complete client.
//!
//! [`snapshot`] turns a working tree into the source of a job, [`artifacts`] downloads the files
//! that a job made, [`local`] finds or starts the pool of this machine, and [`project`] reads the
//! configuration of a project and detects its test and build commands.

mod administration;
mod api;
pub mod artifacts;
mod channel;
mod client;
mod dial;
pub mod directories;
mod endpoint;
mod error;
mod job_events;
mod link;
pub mod local;
mod pending;
pub mod programs;
pub mod project;
mod reader;
pub mod request;
pub mod snapshot;
mod stdin;
mod target;
mod transfer;

pub use api::{Api, Event, Events, query_value};
pub use buildpool_dial::{PoolUrl, UrlError};
pub use buildpool_protocol::error::chain;
pub use channel::JobEvent;
pub use client::{Client, FollowQuery, new_job_id};
pub use dial::{PoolInfo, connect};
pub use endpoint::{AccessToken, Endpoint, TokenError};
pub use error::{ClientError, Misbehaviour};
pub use job_events::JobEvents;
pub use link::LinkStatus;
pub use reader::{Chunk, Output};
pub use request::{JobsPage, Request, RevokedTokens};
pub use stdin::StdinWriter;
pub use target::Target;
pub use transfer::{Transfer, TransferEvent};
