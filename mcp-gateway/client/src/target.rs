//! The pool to connect to: a named one, or the local pool, which is started if necessary.

use super::dial::{self, PoolInfo};
use super::endpoint::Endpoint;
use super::error::ClientError;
use crate::local::LocalPool;
use buildpool_dial::{Peers, PoolUrl, Socket};
use std::sync::Arc;

/// The target of connections and reconnections.
#[derive(Clone, Debug)]
pub enum Target {
    /// A coordinator at a known endpoint.
    Named(Endpoint),
    /// The local pool. Its address changes with each start.
    Local(LocalPool),
}

impl Target {
    /// Opens a connection. Starts the local pool if it is not running.
    pub(super) async fn dial(&self, client: &str) -> Result<(Socket, PoolInfo), ClientError> {
        match self {
            Self::Named(endpoint) => dial::dial(endpoint, client).await,
            Self::Local(pool) => dial_local(pool, client).await,
        }
    }

    /// Returns the coordinators of the pool, for a link to this one. `None` if there is only one.
    pub(super) fn peers(&self, current: &PoolUrl) -> Option<Peers> {
        match self {
            Self::Named(endpoint) => dial::peers(endpoint, current),
            Self::Local(_) => None,
        }
    }
}

/// Connects to the local pool. The endpoint file may be stale, and another process may listen on
/// its port. That process does not have the key of the pinned certificate, so the dial fails before
/// a token is sent, and the search continues.
async fn dial_local(pool: &LocalPool, client: &str) -> Result<(Socket, PoolInfo), ClientError> {
    let local = |error| ClientError::Local(Arc::new(error));
    let mut search = pool.search();
    loop {
        let found = search.next().await.map_err(local)?;
        match dial::dial(&found.endpoint(), client).await {
            Ok(dialled) => return Ok(dialled),
            Err(error @ (ClientError::VersionMismatch { .. } | ClientError::Refused(_))) => {
                return Err(error);
            }
            Err(error) => search.dead(&found, error),
        }
    }
}
