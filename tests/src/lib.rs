//! The harness that tests of more than one part share: the real binary, in processes of its own, in places of its own.
//!
//! The simulation in [`sim`] needs none of that: it is one process with a time of its own.
//!
//! Whatever a test starts through it is ended by its own id when the test ends, however the test ends.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "in a test a panic is the report")]

mod binary;
mod dice;
mod disk;
mod finished;
mod machine;
pub mod mcp;
mod place;
mod pool;
mod process;
mod proxy;
pub mod sim;
mod wire;
mod workload;

pub use binary::binary;
pub use dice::Dice;
pub use disk::SmallDisk;
pub use finished::Finished;
pub use machine::{Machine, complaints_of_verify};
pub use place::Place;
pub use pool::{Pool, PoolBuilder};
pub use process::{Process, Stopped, keeper_of, keepers_in, processes_of, signal};
pub use proxy::{Direction, Flow, Proxy};
pub use wire::{Peer, Refused};
pub use workload::{Scribe, Workload};

use std::time::{Duration, Instant};

/// In the form of a token, and nobody's.
pub const STRANGER: &str =
    "bp_00000000000000000000000000000000_000000000000000000000000000000000000000000000000";

/// Long enough for anything that comes to an end at all on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition gives something.
///
/// # Panics
/// When it does not within [`PATIENCE`]; the message names what was waited for.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// As [`wait_for`].
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}
