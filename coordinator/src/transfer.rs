//! Transfer and storage of snapshots and artifacts.

mod peer;
mod serve;
mod store;

pub(crate) use peer::{Frame, Out, Peer, Who};
pub(crate) use serve::artifact_file;
pub(crate) use store::{Limits, TransferStore};
