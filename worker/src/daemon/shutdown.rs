//! How a daemon is asked to end.

use tokio::sync::watch;

/// What is asked for; each is stronger than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Wish {
    /// Nothing.
    #[default]
    Stay,
    /// Take no more jobs, and end when those that run have ended or the deadline has come.
    Drain,
    /// End what runs now.
    Hurry,
    /// Leave at once; keepers go on, and the next daemon finds them.
    Leave,
}

/// The asking end.
#[derive(Debug)]
pub struct ShutdownHandle(watch::Sender<Wish>);

/// The daemon's end.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Wish>);

impl Shutdown {
    /// Both ends.
    pub fn new() -> (ShutdownHandle, Self) {
        let (sender, receiver) = watch::channel(Wish::Stay);
        (ShutdownHandle(sender), Self(receiver))
    }

    /// Waits until more is asked for than was known. For ever, once the asking end is gone.
    pub(super) async fn wish(&mut self) -> Wish {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}

impl ShutdownHandle {
    /// Asks; a weaker wish than the present one changes nothing.
    pub fn ask(&self, wish: Wish) {
        self.0.send_if_modified(|present| {
            let is_stronger = wish > *present;
            if is_stronger {
                *present = wish;
            }
            is_stronger
        });
    }

    /// Asks for the next stronger of draining and hurrying: what each SIGTERM does.
    pub fn ask_more(&self) {
        let present = *self.0.borrow();
        self.ask(if present == Wish::Stay { Wish::Drain } else { Wish::Hurry });
    }
}
