//! The MCP server: tools, resources and tasks over stdio and HTTP.

pub mod builds;
mod config;
mod gateway;
mod handler;
pub mod install;
mod pictures;
mod pool;
mod progress;
mod render;
mod resources;
mod tasks;
mod tools;
mod transport;

pub use config::{GatewayConfig, HttpAuth, HttpConfig, WaitBudgets};
pub use handler::Handler;
pub use transport::{HttpServer, ServeError, serve_http, serve_stdio};
