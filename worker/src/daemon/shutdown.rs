//! Shutdown requests of a daemon.

use tokio::sync::watch;

/// A shutdown request. Each level is stronger than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ShutdownRequest {
    /// Accept no more jobs, and exit when the running jobs have ended or the deadline has passed.
    Drain,
    /// End the running jobs now.
    EndJobs,
    /// Exit immediately. Keepers continue, and the next daemon finds them.
    Exit,
}

/// The requesting end.
#[derive(Debug)]
pub struct ShutdownHandle(watch::Sender<Option<ShutdownRequest>>);

/// The daemon's end.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Option<ShutdownRequest>>);

impl Shutdown {
    /// Creates both ends.
    pub fn new() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(None);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// Waits for a stronger request. Waits forever after the requesting end is dropped.
    pub(crate) async fn next_request(&mut self) -> ShutdownRequest {
        while self.0.changed().await.is_ok() {
            if let Some(request) = *self.0.borrow_and_update() {
                return request;
            }
        }
        std::future::pending().await
    }

    /// Returns true if there is a request.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.borrow().is_some()
    }
}

impl ShutdownHandle {
    /// Requests a shutdown. A request weaker than the current one has no effect.
    pub fn request(&self, request: ShutdownRequest) {
        self.0.send_if_modified(|present| {
            let is_stronger = Some(request) > *present;
            if is_stronger {
                *present = Some(request);
            }
            is_stronger
        });
    }

    /// Requests the next level, a drain or the end of the jobs, as each SIGTERM does.
    pub fn request_next_level(&self) {
        let is_first = self.0.borrow().is_none();
        self.request(if is_first { ShutdownRequest::Drain } else { ShutdownRequest::EndJobs });
    }
}
