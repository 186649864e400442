//! A thread that does network I/O for callers that block.

use std::future::Future;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime, RuntimeFlavor};
use tokio::sync::watch;

/// A runtime with one thread. Calls work on any thread, also on one of another runtime.
#[derive(Debug)]
pub(super) struct Background {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    is_closed: watch::Sender<bool>,
}

impl Background {
    /// # Errors
    /// If the thread can't be started.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime), is_closed: watch::Sender::new(false) })
    }

    /// Ends all calls of [`Background::wait`], and each later one at its start.
    pub(super) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    /// Blocks until the future completes. Returns `None` if it takes longer than the limit, or is ended by
    /// [`Background::close`].
    pub(super) fn wait<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let runtime = self.runtime.as_ref().expect("it is taken only by drop").handle();
        let block = || {
            // Timers and sockets of the future belong to this runtime.
            let _entered = runtime.enter();
            let mut is_closed = self.is_closed.subscribe();
            let limited = async {
                tokio::select! {
                    biased;
                    _closed = is_closed.wait_for(|is_closed| *is_closed) => None,
                    completed = tokio::time::timeout(limit, future) => completed.ok(),
                }
            };
            // The budget of the calling task must not run out: the timer would never fire.
            let unlimited = tokio::task::unconstrained(limited);
            futures_executor::block_on(unlimited)
        };
        blocking(block)
    }
}

/// Locks a connection to a database. While another thread holds it and waits for a server, other tasks of this thread move
/// to another one: a server that does not answer must not stop all connections.
pub(crate) fn locked<T>(connection: &Mutex<T>) -> MutexGuard<'_, T> {
    match connection.try_lock() {
        Ok(locked) => locked,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            blocking(|| connection.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

/// Blocks. Other tasks of this thread move to another one.
fn blocking<T>(block: impl FnOnce() -> T) -> T {
    let is_worker =
        Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_worker { tokio::task::block_in_place(block) } else { block() }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Waiting for the thread would block, and this may run on a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Background;
    use std::future::pending;
    use std::time::Duration;

    #[test]
    fn close_ends_a_call_that_waits_and_each_later_one() {
        const LONG: Duration = Duration::from_secs(3_600);
        let background = Background::new("test").expect("a thread can be started");
        assert_eq!(background.wait(LONG, async { 1 }), Some(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| background.wait(LONG, pending::<()>()));
            background.close();
            assert_eq!(waiting.join().expect("it does not panic"), None);
        });
        assert_eq!(background.wait(LONG, async { 2 }), None);
    }
}
