//! The user's side: pool client, snapshots and the MCP tools.
