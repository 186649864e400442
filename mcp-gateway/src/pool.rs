//! The pool connection of the tools. It is opened by the first call that needs it.

use crate::tools::Listings;
use buildpool_client::{Client, ClientError, LinkStatus, Target};
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};

/// Client name that the gateway sends to the coordinator.
pub(crate) const CLIENT: &str = concat!("buildpool-mcp ", env!("CARGO_PKG_VERSION"));

/// Limit on concurrent calls with the gateway's own token: the limit of the gateway.
const OWN_CALLS_MAX: usize = crate::gateway::CALLS_MAX;
/// Limit on concurrent calls of one caller with its own token, so that no caller can use up the
/// gateway's limit.
const CALLER_CALLS_MAX: usize = OWN_CALLS_MAX / 4;

/// A pool and the token to use there.
#[derive(Debug)]
pub(crate) struct Pool {
    target: Target,
    client: Mutex<Option<Client>>,
    /// Limits the caller's concurrent calls.
    pub(crate) calls: Semaphore,
    /// File listings at the submission of jobs in place. All callers of a gateway share them,
    /// because their connections come and go.
    pub(crate) listings: Arc<Listings>,
}

impl Pool {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            client: Mutex::new(None),
            calls: Semaphore::new(OWN_CALLS_MAX),
            listings: Arc::default(),
        }
    }

    /// Returns a pool with an open connection, for a caller with its own token.
    pub(crate) fn connected(target: Target, client: Client, listings: Arc<Listings>) -> Self {
        Self { target, client: Mutex::new(Some(client)), calls: Semaphore::new(CALLER_CALLS_MAX), listings }
    }

    /// Returns true if connecting would start the local pool.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.target, Target::Local(_))
    }

    /// Returns the connection, and opens it if necessary.
    ///
    /// # Errors
    /// The reason why the connection can't be opened.
    pub(crate) async fn client(&self) -> Result<Client, ClientError> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let connected = Client::connect(self.target.clone(), CLIENT).await?;
        *client = Some(connected.clone());
        Ok(connected)
    }

    /// Returns true if the coordinator still accepts the token. It closes the connection of a token
    /// that was revoked or has expired.
    pub(crate) fn is_vouched_for(&self) -> bool {
        match self.client.try_lock() {
            Ok(client) => {
                client.as_ref().is_some_and(|client| !matches!(*client.status().borrow(), LinkStatus::Idle))
            }
            // The connection is being opened.
            Err(_) => true,
        }
    }

    /// Blocks all answers while the returned guard is held.
    #[cfg(test)]
    pub(crate) async fn keep_silent(&self) -> tokio::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().await
    }

    /// Returns the connection, if it is open.
    pub(crate) async fn connection(&self) -> Option<Client> {
        self.client.lock().await.clone()
    }
}
