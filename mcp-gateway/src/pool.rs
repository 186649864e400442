//! The pool as the tools see it: connected when the first call needs it.

use crate::client::{Client, ClientError, Target};
use tokio::sync::Mutex;

/// How the gateway calls itself to the coordinator.
pub(crate) const CLIENT: &str = concat!("buildpool-mcp ", env!("CARGO_PKG_VERSION"));

/// A pool, and with whose token it is asked.
#[derive(Debug)]
pub(crate) struct Pool {
    target: Target,
    client: Mutex<Option<Client>>,
}

impl Pool {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, client: Mutex::new(None) }
    }

    /// One that is connected already.
    pub(crate) fn connected(target: Target, client: Client) -> Self {
        Self { target, client: Mutex::new(Some(client)) }
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

    /// The connection, if one was made.
    pub(crate) async fn connection(&self) -> Option<Client> {
        self.client.lock().await.clone()
    }
}
