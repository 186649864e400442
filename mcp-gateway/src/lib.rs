//! The user's side: pool client, snapshots and the MCP tools.

pub mod artifacts;
pub mod builds;
pub mod client;
mod config;
pub mod directories;
mod fixtures;
mod gateway;
mod handler;
pub mod install;
pub mod local;
mod pictures;
mod pool;
mod progress;
pub mod project;
mod render;
mod resources;
pub mod snapshot;
mod tasks;
mod tools;
mod transport;

pub use config::{GatewayConfig, HttpAuth, HttpConfig, WaitBudgets};
pub use transport::{HttpServer, ServeError, serve_http, serve_stdio};
