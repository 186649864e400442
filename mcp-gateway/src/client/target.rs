//! Which pool: one that was named, or the one of this machine, which is started if need be.

use super::dial::{self, PoolInfo, Socket};
use super::endpoint::Endpoint;
use super::error::ClientError;
use crate::local::LocalPool;
use std::sync::Arc;

/// A pool to connect to, and to connect to again.
#[derive(Clone, Debug)]
pub enum Target {
    /// A coordinator that somebody runs.
    Named(Endpoint),
    /// This machine's own; its address changes with each start.
    Local(LocalPool),
}

impl Target {
    /// One connection; the local pool is started for it when none runs.
    pub(super) async fn dial(&self, client: &str) -> Result<(Socket, PoolInfo), ClientError> {
        match self {
            Self::Named(endpoint) => dial::dial(endpoint, client).await,
            Self::Local(pool) => dial_local(pool, client).await,
        }
    }
}

/// Connects to the local pool. The endpoint file may be stale, and another process may listen on its port. That process does
/// not have the key of the pinned certificate, so the dial fails before a token is sent, and the search goes on.
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
