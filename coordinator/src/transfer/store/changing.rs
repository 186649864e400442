//! Owners of shared snapshots whose chains are changed at this moment. One task at a time changes the chains of an owner;
//! the others go on with other owners.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The owners in use. Cheap to clone.
#[derive(Clone, Default, Debug)]
pub(super) struct Owners {
    inner: Arc<Inner>,
}

#[derive(Default, Debug)]
struct Inner {
    in_use: Mutex<BTreeSet<String>>,
    ended: Condvar,
}

impl Inner {
    fn in_use(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to change the chains of an owner.
#[derive(Debug)]
pub(super) struct Alone {
    inner: Arc<Inner>,
    owner: String,
}

impl Owners {
    /// Waits until no other task changes the chains of this owner. Blocks.
    pub(super) fn alone(&self, owner: &str) -> Alone {
        let inner = self.inner.clone();
        let is_busy = |in_use: &mut BTreeSet<String>| in_use.contains(owner);
        let waited = inner.ended.wait_while(inner.in_use(), is_busy);
        waited.unwrap_or_else(PoisonError::into_inner).insert(owner.to_owned());
        Alone { inner, owner: owner.to_owned() }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.inner.in_use().remove(&self.owner);
        self.inner.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::Owners;
    use std::sync::mpsc;

    #[test]
    fn one_task_waits_for_another_with_its_owner_only() {
        let owners = Owners::default();
        let first = owners.alone("a");
        let _other = owners.alone("b");
        let (sender, receiver) = mpsc::channel();
        let waiting = {
            let owners = owners.clone();
            std::thread::spawn(move || {
                let _second = owners.alone("a");
                sender.send("second").unwrap();
            })
        };
        assert!(receiver.try_recv().is_err());
        drop(first);
        assert_eq!(receiver.recv().unwrap(), "second");
        waiting.join().unwrap();
    }
}
