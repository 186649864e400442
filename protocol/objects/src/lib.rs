//! Snapshots on disk and in transfer, for client, coordinator and worker: isolated git runs, object
//! caches, packs, and resumable file transfers. This crate does disk I/O and starts `git`. It does
//! no network I/O.

pub mod cache;
pub mod directory;
pub mod extent;
pub mod flow;
pub mod git;
pub mod incoming;
pub mod limits;
pub mod pack;
pub mod programs;
pub mod pump;
pub mod record;
pub mod removal;
pub mod scan;
pub mod trees;

pub use cache::{CacheError, ObjectCache};
pub use extent::{Excess, Extent};
pub use git::{Git, GitError, Place, Stop};
