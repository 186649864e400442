//! Counts the requests to the stores that several coordinators share. A process has one of each.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::sync::LazyLock;
use std::time::Instant;

/// A shared store.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(crate) struct SharedStore {
    store: &'static str,
}

/// The PostgreSQL server.
pub(super) const POSTGRESQL: SharedStore = SharedStore { store: "postgresql" };
/// The bucket or directory.
pub(super) const OBJECTS: SharedStore = SharedStore { store: "objects" };

/// Times of requests, by store.
pub(crate) type Times = Family<SharedStore, Histogram, fn() -> Histogram>;

/// From 0.5 ms to about 30 s.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 3.0, 11))
}

/// Times of all requests.
pub(crate) static TIMES: LazyLock<Times> = LazyLock::new(|| Times::new_with_constructor(histogram));
/// Requests that failed.
pub(crate) static ERRORS: LazyLock<Family<SharedStore, Counter>> = LazyLock::new(Family::default);

/// Measures a request.
pub(super) fn measured<T, E>(store: &SharedStore, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let began = Instant::now();
    let result = act();
    TIMES.get_or_create(store).observe(began.elapsed().as_secs_f64());
    if result.is_err() {
        ERRORS.get_or_create(store).inc();
    }
    result
}
