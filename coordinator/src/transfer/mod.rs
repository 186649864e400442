//! Snapshots and artifacts on their way through the coordinator, and where they lie meanwhile.

mod peer;
mod serve;
mod store;

pub(crate) use peer::{Frame, Out, Peer, Who};
pub(crate) use store::TransferStore;
