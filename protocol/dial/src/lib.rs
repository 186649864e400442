//! Connections to a coordinator, for workers and clients: its URLs, the WebSocket, and the order and
//! pauses of attempts.
//!
//! The caller decides which certificates are accepted (crate `buildpool-trust`), sets the time
//! limit, and sends the first message.

mod backoff;
mod route;
mod socket;
mod transport;
mod url;

pub use backoff::{Backoff, pause_for};
pub use route::Route;
pub use socket::{DialError, Socket, connect, open};
pub use transport::Transport;
pub use url::{PoolUrl, UrlError};
