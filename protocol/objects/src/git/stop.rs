//! Ends the git commands of an operation that nobody waits for any more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Listener = Box<dyn FnOnce() + Send>;

/// Shared by an operation and by whoever may cancel it. Clones are the same stop.
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
    /// Ends all commands of the operation that run, and keeps further ones from starting.
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

    /// Whether the operation was stopped.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Returns a stop for a part of the operation: it stops with this one, or by itself.
    pub fn part(&self) -> Self {
        let part = Self::default();
        let stopped = part.clone();
        // For as long as the operation: the number is never taken back.
        std::mem::forget(self.listen(move || stopped.stop()));
        part
    }

    /// Calls the listener when the operation is stopped, at once if it is already, as long as the
    /// returned value lives.
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

/// A listener of a [`Stop`].
pub(crate) struct Listening {
    stop: Stop,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.state().listeners.remove(&self.number);
    }
}
