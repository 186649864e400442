//! Turns of token names: each name has few expensive requests in work at a time, so a name with many requests delays
//! its own ones and hardly those of others.

use dashmap::DashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one name that the pool's thread or a list is asked for at a time.
const OF_NAME: usize = 2;
/// Lists that are made at a time. A list keeps a processor busy for many milliseconds.
const LISTS: usize = 2;

/// The turns of all names. The number of entries is limited by the number of names.
pub(crate) struct Turns {
    queries: DashMap<String, Arc<Semaphore>>,
    lists: DashMap<String, Arc<Semaphore>>,
    all_lists: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { queries: DashMap::new(), lists: DashMap::new(), all_lists: Arc::new(Semaphore::new(LISTS)) }
    }
}

/// A turn, until it is dropped.
pub(crate) struct Turn {
    _of_name: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits for a turn to ask the pool's thread for the state of a job.
    pub(crate) async fn query(&self, name: &str) -> Turn {
        Turn { _of_name: Self::of(&self.queries, name).await, _of_all: None }
    }

    /// Waits for a turn to make a list, read or encode it.
    pub(crate) async fn list(&self, name: &str) -> Turn {
        // The name's turn first: lists of one name must not wait in line before those of others.
        let of_name = Self::of(&self.lists, name).await;
        Turn { _of_name: of_name, _of_all: self.all_lists.clone().acquire_owned().await.ok() }
    }

    async fn of(turns: &DashMap<String, Arc<Semaphore>>, name: &str) -> Option<OwnedSemaphorePermit> {
        let new = || Arc::new(Semaphore::new(OF_NAME));
        let turns = turns.entry(name.to_owned()).or_insert_with(new).clone();
        turns.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{LISTS, OF_NAME, Turns};
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_name_with_many_requests_does_not_delay_those_of_others() {
        let turns = Turns::default();
        let held: Vec<_> = (0..OF_NAME).map(|_| turns.query("ada").now_or_never().expect("free")).collect();
        assert!(turns.query("ada").now_or_never().is_none());
        assert!(turns.query("eve").now_or_never().is_some());
        drop(held);
        assert!(turns.query("ada").now_or_never().is_some());
    }

    #[tokio::test]
    async fn lists_of_all_names_are_limited_and_go_on_in_the_order_of_their_requests() {
        let turns = Turns::default();
        let mut held: Vec<_> = (0..LISTS).map(|_| turns.list("ada").now_or_never().expect("free")).collect();
        let (mut of_ada, mut of_eve) = (Box::pin(turns.list("ada")), Box::pin(turns.list("eve")));
        assert!(of_ada.as_mut().now_or_never().is_none());
        assert!(of_eve.as_mut().now_or_never().is_none());
        held.pop();
        assert!(of_eve.now_or_never().is_some(), "a later list of the same name goes behind it");
    }
}
