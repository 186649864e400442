//! Snapshots: the working tree at a moment as git objects, without changes to the user's
//! repository.
//!
//! git works on a separate git directory in the user's cache directory, with its own objects, index
//! and configuration. The user's index is read as a file. The user's objects are read through
//! alternates. Commands that write objects do not see them, because git would update the time of an
//! existing object instead of writing it. Only read-only commands use the user's git directory. So
//! no ref, index, object, stash, hook, lock or configuration of the user is written, in any state
//! of the repository.
//!
//! Files are taken byte for byte: no line ends are converted, no filters run. A snapshot contains
//! all files that `git status` does not show as ignored, except uncommitted files that look like
//! secrets.

mod deliver;
mod disk;
mod error;
mod excludes;
mod head;
mod ignores;
mod index_file;
mod left_behind;
mod nested;
mod not_sent;
mod packing;
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
