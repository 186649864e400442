//! Limits on the expensive requests of one token's name at a time. A name with many requests delays its own requests, and
//! hardly those of others.

use buildpool_protocol::error::{ErrorCode, LinkError};
use dashmap::DashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent requests of one name to the pool's thread or for a list.
const OF_NAME: usize = 2;
/// Inputs of one name, other than submits, that wait for the pool's thread or for their records at a time.
const INPUTS_OF_NAME: usize = 16;
/// Bytes of submits of one name that wait for the pool's thread or for their records at a time. The records of a round
/// share a transaction, so a submit of another name waits for these bytes of each name at most.
const SUBMIT_BYTES_OF_NAME: u32 = 1 << 20;
/// Bytes that a small submit counts as.
const SUBMIT_BYTES_MIN: u32 = SUBMIT_BYTES_OF_NAME / 64;
/// Lists that are made at a time. A list keeps a processor busy for many milliseconds.
const LISTS: usize = 2;
/// Logs that are read for answers at a time, over all names.
const LOGS: usize = 8;
/// Bodies of HTTP requests of one name that are received and parsed at a time. A parsed body takes many times its size.
const BODIES_OF_NAME: usize = 4;
/// Followers of events of one name. Each change of the pool wakes all of them.
const FOLLOWERS_OF_NAME: usize = 64;

/// The limits of all names. The number of entries is limited by the number of names.
pub(crate) struct RequestLimits {
    queries: DashMap<String, Arc<Semaphore>>,
    lists: DashMap<String, Arc<Semaphore>>,
    inputs: DashMap<String, Arc<Semaphore>>,
    submits: DashMap<String, Arc<Semaphore>>,
    logs: DashMap<String, Arc<Semaphore>>,
    bodies: DashMap<String, Arc<Semaphore>>,
    followers: DashMap<String, Arc<Semaphore>>,
    all_lists: Arc<Semaphore>,
    all_logs: Arc<Semaphore>,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            queries: DashMap::new(),
            lists: DashMap::new(),
            inputs: DashMap::new(),
            submits: DashMap::new(),
            logs: DashMap::new(),
            bodies: DashMap::new(),
            followers: DashMap::new(),
            all_lists: Arc::new(Semaphore::new(LISTS)),
            all_logs: Arc::new(Semaphore::new(LOGS)),
        }
    }
}

/// Permits one request, until it is dropped.
pub(crate) struct RequestPermit {
    _of_name: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl RequestLimits {
    /// Waits for a permit to ask the pool's thread for the state of a job.
    pub(crate) async fn query(&self, name: &str) -> RequestPermit {
        RequestPermit { _of_name: Self::of(&self.queries, name, OF_NAME).await, _of_all: None }
    }

    /// Waits for a permit to make a list, read or encode it.
    pub(crate) async fn list(&self, name: &str) -> RequestPermit {
        // The name's permit first: lists of one name must not wait in line before those of others.
        let of_name = Self::of(&self.lists, name, OF_NAME).await;
        RequestPermit { _of_name: of_name, _of_all: self.all_lists.clone().acquire_owned().await.ok() }
    }

    /// Waits for a permit to pass an input to the pool, such as a worker's registration or report. It ends when its records
    /// are on disk.
    pub(crate) async fn input(&self, name: &str) -> RequestPermit {
        RequestPermit { _of_name: Self::of(&self.inputs, name, INPUTS_OF_NAME).await, _of_all: None }
    }

    /// Waits for a permit to submit a job with so many bytes. It ends when the job's record is on disk.
    pub(crate) async fn submit(&self, name: &str, bytes: usize) -> RequestPermit {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(SUBMIT_BYTES_MIN, SUBMIT_BYTES_OF_NAME);
        let bytes_of_name = Self::semaphore(&self.submits, name, SUBMIT_BYTES_OF_NAME as usize);
        RequestPermit { _of_name: bytes_of_name.acquire_many_owned(bytes).await.ok(), _of_all: None }
    }

    /// Waits for a permit to read a log for an answer, search it or digest it again.
    pub(crate) async fn log(&self, name: &str) -> RequestPermit {
        let of_name = Self::of(&self.logs, name, OF_NAME).await;
        RequestPermit { _of_name: of_name, _of_all: self.all_logs.clone().acquire_owned().await.ok() }
    }

    /// Waits for a permit to receive the body of a request and parse it.
    pub(crate) async fn body(&self, name: &str) -> RequestPermit {
        RequestPermit { _of_name: Self::of(&self.bodies, name, BODIES_OF_NAME).await, _of_all: None }
    }

    /// Returns a place to follow events.
    ///
    /// # Errors
    /// [`ErrorCode::Exhausted`] if the name has all of its places.
    pub(crate) fn follower(&self, name: &str) -> Result<RequestPermit, LinkError> {
        let place = Self::semaphore(&self.followers, name, FOLLOWERS_OF_NAME).try_acquire_owned();
        let exhausted = |_| {
            let text = format!(
                "the token `{name}` follows events on {FOLLOWERS_OF_NAME} connections, which is the limit of one token; close some, or use another token"
            );
            LinkError::new(ErrorCode::Exhausted, text)
        };
        Ok(RequestPermit { _of_name: Some(place.map_err(exhausted)?), _of_all: None })
    }

    async fn of(
        semaphores: &DashMap<String, Arc<Semaphore>>,
        name: &str,
        most: usize,
    ) -> Option<OwnedSemaphorePermit> {
        Self::semaphore(semaphores, name, most).acquire_owned().await.ok()
    }

    fn semaphore(semaphores: &DashMap<String, Arc<Semaphore>>, name: &str, most: usize) -> Arc<Semaphore> {
        semaphores.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(most))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BODIES_OF_NAME, FOLLOWERS_OF_NAME, INPUTS_OF_NAME, LISTS, OF_NAME, RequestLimits,
        SUBMIT_BYTES_OF_NAME,
    };
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_name_with_many_requests_does_not_delay_those_of_others() {
        let limits = RequestLimits::default();
        let held: Vec<_> = (0..OF_NAME).map(|_| limits.query("ada").now_or_never().expect("free")).collect();
        assert!(limits.query("ada").now_or_never().is_none());
        assert!(limits.query("eve").now_or_never().is_some());
        drop(held);
        assert!(limits.query("ada").now_or_never().is_some());
        let held: Vec<_> =
            (0..INPUTS_OF_NAME).map(|_| limits.input("ada").now_or_never().expect("free")).collect();
        assert!(limits.input("ada").now_or_never().is_none() && limits.input("eve").now_or_never().is_some());
        drop(held);
        let held: Vec<_> = (0..OF_NAME).map(|_| limits.log("ada").now_or_never().expect("free")).collect();
        assert!(limits.log("ada").now_or_never().is_none() && limits.log("eve").now_or_never().is_some());
        drop(held);
    }

    #[tokio::test]
    async fn submits_of_one_name_wait_for_their_bytes_and_those_of_others_do_not() {
        let limits = RequestLimits::default();
        let mut held: Vec<_> =
            (0..64).map(|_| limits.submit("eve", 100).now_or_never().expect("free")).collect();
        assert!(limits.submit("eve", 100).now_or_never().is_none());
        assert!(limits.submit("ada", usize::MAX).now_or_never().is_some());
        held.truncate(32);
        assert!(limits.submit("eve", SUBMIT_BYTES_OF_NAME as usize).now_or_never().is_none());
        assert!(limits.submit("eve", SUBMIT_BYTES_OF_NAME as usize / 2).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_name_has_a_limit_on_bodies_and_on_followers() {
        let limits = RequestLimits::default();
        let held: Vec<_> =
            (0..BODIES_OF_NAME).map(|_| limits.body("eve").now_or_never().expect("free")).collect();
        assert!(limits.body("eve").now_or_never().is_none() && limits.body("ada").now_or_never().is_some());
        drop(held);
        assert!(limits.body("eve").now_or_never().is_some());
        let held: Vec<_> = (0..FOLLOWERS_OF_NAME).map(|_| limits.follower("eve").expect("free")).collect();
        let refused = limits.follower("eve").err().expect("it has all of its places");
        assert!(refused.message.contains("`eve`") && refused.message.contains("64"), "{}", refused.message);
        assert!(limits.follower("ada").is_ok());
        drop(held);
        assert!(limits.follower("eve").is_ok());
    }

    #[tokio::test]
    async fn lists_of_all_names_are_limited_and_go_on_in_the_order_of_their_requests() {
        let limits = RequestLimits::default();
        let mut held: Vec<_> = (0..LISTS).map(|_| limits.list("ada").now_or_never().expect("free")).collect();
        let (mut of_ada, mut of_eve) = (Box::pin(limits.list("ada")), Box::pin(limits.list("eve")));
        assert!(of_ada.as_mut().now_or_never().is_none());
        assert!(of_eve.as_mut().now_or_never().is_none());
        held.pop();
        assert!(of_eve.now_or_never().is_some(), "a later list of the same name goes behind it");
    }
}
