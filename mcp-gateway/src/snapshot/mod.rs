//! The working tree at a moment, as git objects, without touching the user's repository.
//!
//! git works on a git directory of our own, in the user's cache directory: our objects, our index, our configuration.
//! The user's index is read as a file; the user's objects are read through alternates, and not even seen by what writes,
//! because git renews the time of an object that it finds instead of writing it. Nothing runs with the user's git directory
//! as its own except questions that only read. So no ref, index, object, stash, hook, lock or configuration of the user's is
//! written or touched, whatever state the repository is in.
//!
//! Files are taken as the bytes that they have: no line ends are converted, no filters run. What `git status` would not
//! show as ignored goes along, less what looks like a secret and is not committed.

mod deliver;
mod disk;
mod error;
mod excludes;
mod head;
mod ignores;
mod index_file;
mod left_behind;
mod nested;
mod repository;
mod scan;
mod secrets;
mod store;
mod take;
mod users_index;
mod worktree;

pub use deliver::{DeliverError, deliver, take_and_deliver};
pub use error::SnapshotError;
pub use index_file::IndexError;
pub use take::{GUARD_BYTES, Options, Snapshot, take};

#[cfg(test)]
mod tests;
