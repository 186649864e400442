//! The user's side: pool client, snapshots and the MCP tools.

pub mod client;
pub mod directories;
pub mod local;
pub mod project;
mod render;
pub mod snapshot;
