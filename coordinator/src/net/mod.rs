//! Sockets: listening, protecting, authenticating, and one task a connection. No decision about a job is made here.

pub(crate) mod client_conn;
pub(crate) mod follow;
mod idle;
pub(crate) mod listen;
pub(crate) mod requests;
pub(crate) mod router;
pub(crate) mod worker_conn;
