//! The test harness for tests of several parts: the real binary, in its own processes and
//! directories.
//!
//! The simulation in [`sim`] does not need them: it is one process with simulated time.
//!
//! Each process that a test starts through this crate is ended by its id when the test ends, also
//! after a failure.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "in a test a panic is the report")]

mod binary;
pub mod bombs;
mod dice;
mod disk;
mod finished;
pub mod hostile;
mod http;
mod machine;
pub mod mcp;
mod otlp;
mod place;
mod pool;
mod process;
mod proxy;
pub mod sim;
mod sources;
mod terminal;
pub mod usage;
mod wire;
mod workload;

pub use binary::binary;
pub use dice::Dice;
pub use disk::SmallDisk;
pub use finished::Finished;
pub use http::HttpAnswer;
pub use machine::{Machine, complaints_of_verify};
pub use otlp::{OtlpReceiver, Spanned};
pub use place::Place;
pub use pool::cluster::Cluster;
pub use pool::{Pool, PoolBuilder};
pub use process::{Process, Stopped, keeper_of, keepers_in, processes_of, signal};
pub use proxy::{Direction, Flow, Proxy};
pub use sources::source_files;
pub use terminal::Terminal;
pub use wire::{Peer, Refused};
pub use workload::{Scribe, Workload};

use std::str::FromStr;
use std::time::{Duration, Instant};

/// A well-formed token that was never created.
pub const STRANGER: &str =
    "bp_00000000000000000000000000000000_000000000000000000000000000000000000000000000000";

/// Timeout for any operation that ends at all on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the whole number in an environment variable, or `None` if it is not set.
///
/// # Panics
/// If the value is not a whole number.
pub fn number_from_env<N: FromStr>(name: &str) -> Option<N> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("invalid {name} `{text}`: must be a whole number")))
}

/// Waits until a condition returns a value.
///
/// # Panics
/// If it does not within [`PATIENCE`]. The message contains `event`.
pub fn wait_for<T>(event: &str, condition: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, event, condition)
}

/// Waits until a condition returns a value, for an event of several operations.
///
/// # Panics
/// If it does not within the limit. The message contains `event`.
pub fn wait_within<T>(limit: Duration, event: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain: {event}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a condition is true.
///
/// # Panics
/// As [`wait_for`].
pub fn wait_until(event: &str, mut condition: impl FnMut() -> bool) {
    wait_for(event, || condition().then_some(()));
}
