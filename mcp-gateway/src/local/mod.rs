//! The local pool: a coordinator with one worker on this machine, started on first use and found again by a file.
//!
//! Its directory has `lock`, held by the one pool that runs; `endpoint.json`, there while it can be reached; `pool.log`;
//! and the data of the coordinator and of the worker. Any number of commands may look for it at once: each that finds no
//! endpoint starts a pool, the first to take the lock stays, the others end, and all find the same endpoint.
//!
//! A pool ends when it has been idle for a while, and soon after its program was replaced by another version: a new
//! version of the command line talks to the old pool as long as their protocols allow, and the next start is the new one's.

mod error;
mod files;
mod search;

pub use error::LocalError;
pub use files::{Lock, Published};
pub use search::Search;

use crate::directories;
use std::path::{Path, PathBuf};

/// Names another directory than the user's own; for tests, and for several pools of one user.
pub const DIRECTORY_VARIABLE: &str = "BUILDPOOL_LOCAL_DIR";
/// Ends an idle pool after this many seconds instead of the usual time.
pub const IDLE_VARIABLE: &str = "BUILDPOOL_LOCAL_IDLE_SECS";
/// The subcommand that a program has to have to be started as a pool; the directory follows it.
pub const SUBCOMMAND: &str = "local-pool";

/// A local pool by its place, whether it runs or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalPool {
    directory: PathBuf,
    program: PathBuf,
}

impl LocalPool {
    /// This user's pool; `program` is what starts it.
    ///
    /// # Errors
    /// [`LocalError::NoHome`] when there is no place for it.
    pub fn of_this_user(program: PathBuf) -> Result<Self, LocalError> {
        let named = std::env::var_os(DIRECTORY_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        let directory = match named {
            Some(named) => {
                std::path::absolute(&named).map_err(|source| LocalError::Directory { path: named, source })?
            }
            None => directories::data().ok_or(LocalError::NoHome)?.join("local"),
        };
        Ok(Self::at(directory, program))
    }

    /// The pool of a directory.
    pub fn at(directory: PathBuf, program: PathBuf) -> Self {
        Self { directory, program }
    }

    /// Where everything of it lies.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes its directory, for its user only, or checks that it is.
    ///
    /// # Errors
    /// When it can't be made, or is another user's.
    pub fn prepare(&self) -> Result<(), LocalError> {
        files::prepare(&self.directory)
    }

    /// What it prints.
    pub fn log_file(&self) -> PathBuf {
        self.directory.join("pool.log")
    }

    /// What a pool has published there, alive or not.
    ///
    /// # Errors
    /// When the file is there and can't be read.
    pub fn published(&self) -> Result<Option<Published>, LocalError> {
        files::read(&self.directory)
    }

    /// Whether a process is the pool of this directory, whatever it has published.
    ///
    /// # Errors
    /// When the lock file can't be used.
    pub fn is_running(&self) -> Result<bool, LocalError> {
        files::is_locked(&self.directory)
    }

    /// Begins to look for it; it is started if it is not found.
    pub fn search(&self) -> Search<'_> {
        Search::new(self)
    }
}
