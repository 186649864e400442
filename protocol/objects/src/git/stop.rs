//! Cancellation of the git commands of an operation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Listener = Box<dyn FnOnce() + Send>;

/// A cancellation handle, shared by an operation and its owner. Clones refer to the same operation.
#[derive(Clone, Default)]
pub struct Stop(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_stopped: bool,
    next: u64,
    listeners: BTreeMap<u64, Listener>,
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

impl Stop {
    /// Kills all running commands of the operation and prevents new ones.
    pub fn stop(&self) {
        let listeners = {
            let mut state = self.state();
            state.is_stopped = true;
            std::mem::take(&mut state.listeners)
        };
        for (_, listener) in listeners {
            listener();
        }
    }

    /// Returns true if the operation was stopped.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Returns a stop for a part of the operation. It is stopped together with this one, or alone.
    pub fn part(&self) -> Self {
        let part = Self::default();
        let stopped = part.clone();
        // The listener stays registered for the lifetime of the operation.
        std::mem::forget(self.listen(move || stopped.stop()));
        part
    }

    /// Calls `listener` when the operation is stopped, immediately if it already is. Dropping the
    /// returned value removes the listener.
    pub(crate) fn listen(&self, listener: impl FnOnce() + Send + 'static) -> Listening {
        let mut state = self.state();
        if state.is_stopped {
            drop(state);
            listener();
            return Listening { stop: self.clone(), number: u64::MAX };
        }
        let number = state.next;
        state.next += 1;
        state.listeners.insert(number, Box::new(listener));
        Listening { stop: self.clone(), number }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a listener of a [`Stop`].
pub(crate) struct Listening {
    stop: Stop,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.state().listeners.remove(&self.number);
    }
}
