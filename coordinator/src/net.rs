//! Listener, TLS, authentication, and one task for each connection. No decision about a job is made
//! here.

pub(crate) mod admission;
mod api;
pub(crate) mod client_conn;
mod client_socket;
pub(crate) mod descriptors;
pub(crate) mod follow;
pub(crate) mod forward;
mod idle;
pub(crate) mod inbound;
pub(crate) mod links;
pub(crate) mod listen;
pub(crate) mod load;
mod natural;
pub(crate) mod outbox;
mod page;
mod pending_connections;
pub(crate) mod queries;
pub(crate) mod rate;
pub(crate) mod request_context;
pub(crate) mod request_limits;
mod requests;
pub(crate) mod router;
pub(crate) mod sign_in;
pub(crate) mod sockets;
pub(crate) mod standby;
pub(crate) mod stdin;
mod upgrades;
mod websocket;
mod worker_conn;
mod worker_message;

use crate::app_state::AppState;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::version::VersionRange;
use std::time::Duration;

/// Maximum time to send the reason to a peer before its connection is closed.
const CLOSE_REASON_WITHIN: Duration = Duration::from_secs(1);

/// Returns the protocol version to use with a peer.
fn agree(shared: &AppState, theirs: VersionRange, peer: &str) -> Result<u16, LinkError> {
    let ours = shared.config.protocol;
    ours.agree(theirs).ok_or_else(|| {
        let text = format!(
            "no common protocol version: this coordinator supports {ours}, the {peer} {theirs}; upgrade the older one"
        );
        LinkError::new(ErrorCode::VersionMismatch, text)
    })
}
