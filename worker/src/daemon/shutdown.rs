//! Shutdown requests of a daemon.

use tokio::sync::watch;

/// A shutdown request. Each level is stronger than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum ShutdownRequest {
    /// No request.
    #[default]
    None,
    /// Accept no more jobs, and exit when the running jobs have ended or the deadline has passed.
    Drain,
    /// End the running jobs now.
    EndJobs,
    /// Exit immediately. Keepers continue, and the next daemon finds them.
    Exit,
}

/// The requesting end.
#[derive(Debug)]
pub struct ShutdownHandle(watch::Sender<ShutdownRequest>);

/// The daemon's end.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<ShutdownRequest>);

impl Shutdown {
    /// Creates both ends.
    pub fn new() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(ShutdownRequest::None);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// Waits for a stronger request. Waits forever after the requesting end is dropped.
    pub(crate) async fn wish(&mut self) -> ShutdownRequest {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns true if there is a request.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow() != ShutdownRequest::None
    }
}

impl ShutdownHandle {
    /// Requests a shutdown. A request weaker than the current one has no effect.
    pub fn request(&self, request: ShutdownRequest) {
        self.0.send_if_modified(|present| {
            let is_stronger = request > *present;
            if is_stronger {
                *present = request;
            }
            is_stronger
        });
    }

    /// Requests the next level, a drain or the end of the jobs, as each SIGTERM does.
    pub fn request_next_level(&self) {
        let present = *self.0.borrow();
        self.request(if present == ShutdownRequest::None {
            ShutdownRequest::Drain
        } else {
            ShutdownRequest::EndJobs
        });
    }
}
