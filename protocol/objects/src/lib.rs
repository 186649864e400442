//! Snapshots at rest and on the way, as client, coordinator and worker all need them: git run safely, object caches,
//! packs, and whole files that resume where they were cut. Does disk I/O and starts `git`; knows no network.

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
