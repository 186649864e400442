//! Connections to a coordinator, for workers and clients: its URL, the WebSocket, and the pauses
//! between attempts.
//!
//! The caller decides which certificates are accepted (crate `buildpool-trust`), sets the time
//! limit, and sends the first message.

mod backoff;
mod socket;
mod transport;
mod url;

pub use backoff::Backoff;
pub use socket::{DialError, Socket, connect, open};
pub use transport::Transport;
pub use url::{PoolUrl, UrlError};
