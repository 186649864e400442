//! Locks of the owners of shared snapshots. One thread at a time changes the chains of an owner; the others go on with
//! other owners.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The locks of all owners. Cheap to clone.
#[derive(Clone, Default, Debug)]
pub(super) struct OwnerLocks {
    inner: Arc<Inner>,
}

#[derive(Default, Debug)]
struct Inner {
    /// The locks that a thread has or waits for.
    locks: Mutex<BTreeMap<String, Lock>>,
    released: Condvar,
}

#[derive(Default, Debug)]
struct Lock {
    is_held: bool,
    waiting: usize,
}

impl Inner {
    fn locks(&self) -> MutexGuard<'_, BTreeMap<String, Lock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to change the chains of an owner.
#[derive(Debug)]
pub(super) struct OwnerLock {
    inner: Arc<Inner>,
    owner: String,
}

impl OwnerLocks {
    /// Waits until no other thread has the lock of this owner. Blocks.
    pub(super) fn lock(&self, owner: &str) -> OwnerLock {
        let inner = self.inner.clone();
        let mut locks = inner.locks();
        locks.entry(owner.to_owned()).or_default().waiting += 1;
        let is_held = |locks: &mut BTreeMap<String, Lock>| locks.get(owner).is_some_and(|lock| lock.is_held);
        let waited = inner.released.wait_while(locks, is_held);
        let mut locks = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get_mut(owner) {
            *lock = Lock { is_held: true, waiting: lock.waiting - 1 };
        }
        drop(locks);
        OwnerLock { inner, owner: owner.to_owned() }
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        let mut locks = self.inner.locks();
        if let Some(lock) = locks.get_mut(&self.owner) {
            lock.is_held = false;
            if lock.waiting == 0 {
                locks.remove(&self.owner);
            }
        }
        drop(locks);
        self.inner.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::OwnerLocks;
    use std::thread::{self, yield_now};
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_waits_for_the_lock_of_its_owner_only() {
        let locks = OwnerLocks::default();
        let waiting = |owner: &str| locks.inner.locks().get(owner).map(|lock| lock.waiting);
        let first = locks.lock("a");
        let other = locks.lock("b");
        assert_eq!((waiting("a"), waiting("b")), (Some(0), Some(0)));
        let second = thread::spawn({
            let locks = locks.clone();
            move || drop(locks.lock("a"))
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while waiting("a") == Some(0) && !second.is_finished() {
            assert!(Instant::now() < deadline, "the thread neither waits nor ends");
            yield_now();
        }
        assert_eq!((waiting("a"), waiting("b")), (Some(1), Some(0)));
        drop(first);
        second.join().expect("it gets the lock");
        assert_eq!(waiting("a"), None, "a lock that no thread uses is removed");
        drop(other);
    }
}
