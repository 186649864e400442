//! The pool as the tools see it: connected when the first call needs it.

use crate::client::{Client, ClientError, LinkStatus, Target};
use crate::tools::Listings;
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};

/// How the gateway calls itself to the coordinator.
pub(crate) const CLIENT: &str = concat!("buildpool-mcp ", env!("CARGO_PKG_VERSION"));

/// Calls under way at once with the gateway's own token: as many as the gateway takes at all.
const OWN_CALLS_MAX: usize = crate::gateway::CALLS_MAX;
/// Calls under way at once of one caller with a token of its own: no caller can take all that there are.
const CALLER_CALLS_MAX: usize = OWN_CALLS_MAX / 4;

/// A pool, and with whose token it is asked.
#[derive(Debug)]
pub(crate) struct Pool {
    target: Target,
    client: Mutex<Option<Client>>,
    /// The caller's calls.
    pub(crate) calls: Semaphore,
    /// What jobs in place were submitted with; a caller's connections come and go, so all of a gateway share them.
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

    /// One that is connected already, for a caller with a token of its own.
    pub(crate) fn connected(target: Target, client: Client, listings: Arc<Listings>) -> Self {
        Self { target, client: Mutex::new(Some(client)), calls: Semaphore::new(CALLER_CALLS_MAX), listings }
    }

    /// Whether asking it would start it.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.target, Target::Local(_))
    }

    /// The connection; made now if there is none yet.
    ///
    /// # Errors
    /// Why there can't be one.
    pub(crate) async fn client(&self) -> Result<Client, ClientError> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let connected = Client::connect(self.target.clone(), CLIENT).await?;
        *client = Some(connected.clone());
        Ok(connected)
    }

    /// Whether the coordinator vouches for the token still: it closes the connection of one that is revoked or over.
    pub(crate) fn is_vouched_for(&self) -> bool {
        match self.client.try_lock() {
            Ok(client) => {
                client.as_ref().is_some_and(|client| !matches!(*client.status().borrow(), LinkStatus::Idle))
            }
            // It is being connected.
            Err(_) => true,
        }
    }

    /// From now on and as long as this is kept, it never answers.
    #[cfg(test)]
    pub(crate) async fn keep_silent(&self) -> tokio::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().await
    }

    /// The connection, if one was made.
    pub(crate) async fn connection(&self) -> Option<Client> {
        self.client.lock().await.clone()
    }
}
