//! Transfer and storage of snapshots, artifacts and programs of workers.

mod peer;
mod programs;
mod serve;
mod store;

pub(crate) use peer::{Frame, Out, Peer, PeerKind};
pub(crate) use serve::artifact_file;
pub(crate) use store::{Limits, TransferStore};
