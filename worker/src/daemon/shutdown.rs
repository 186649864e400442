//! Shutdown requests of a daemon.

use tokio::sync::watch;

/// A shutdown request. Each level is stronger than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Wish {
    /// No request.
    #[default]
    Stay,
    /// Accept no more jobs, and exit when the running jobs have ended or the deadline has passed.
    Drain,
    /// End the running jobs now.
    Hurry,
    /// Exit immediately. Keepers continue, and the next daemon finds them.
    Leave,
}

/// The requesting end.
#[derive(Debug)]
pub struct ShutdownHandle(watch::Sender<Wish>);

/// The daemon's end.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Wish>);

impl Shutdown {
    /// Creates both ends.
    pub fn new() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(Wish::Stay);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// Waits for a stronger request. Waits forever after the requesting end is dropped.
    pub(crate) async fn wish(&mut self) -> Wish {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns true if there is a request.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow() != Wish::Stay
    }
}

impl ShutdownHandle {
    /// Requests a shutdown. A request weaker than the current one has no effect.
    pub fn ask(&self, wish: Wish) {
        self.0.send_if_modified(|present| {
            let is_stronger = wish > *present;
            if is_stronger {
                *present = wish;
            }
            is_stronger
        });
    }

    /// Requests the next level, drain or hurry, as each SIGTERM does.
    pub fn ask_more(&self) {
        let present = *self.0.borrow();
        self.ask(if present == Wish::Stay { Wish::Drain } else { Wish::Cancel });
    }
}
