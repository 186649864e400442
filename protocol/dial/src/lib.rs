//! Connections to a coordinator, for workers and clients: its URLs, the WebSocket, the order and
//! pauses of attempts, and the end of a silent connection.
//!
//! The caller decides which certificates are accepted (crate `buildpool-trust`), sets the time
//! limit, and sends the first message.

mod backoff;
mod peers;
mod route;
mod silence;
mod socket;
mod transport;
mod url;

pub use backoff::{Backoff, pause_for};
pub use peers::Peers;
pub use route::Route;
pub use silence::{Silence, SilenceStep};
pub use socket::{DialError, Socket, connect, open};
pub use transport::Transport;
pub use url::{PoolUrl, UrlError};
