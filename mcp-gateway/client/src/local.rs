//! The local pool: a coordinator with one worker on this machine. It is started on first use and
//! found again by a file.
//!
//! Its directory contains `lock`, held by the running pool, and `endpoint.json`, which exists while
//! the pool is reachable. It also contains `pool.log` and the data of the coordinator and the
//! worker. Any number of commands may search for the pool at once. Each one that finds no endpoint
//! starts a pool. The first process to take the lock continues and the others end, so all commands
//! find the same endpoint.
//!
//! A pool ends after an idle time, and soon after its program file was replaced. A new version of
//! the command line uses the old pool if their protocols are compatible; the next start runs the
//! new version.

mod error;
mod files;
mod search;

pub use error::LocalError;
pub use files::{Lock, Published};
pub use search::Search;

use crate::directories;
use std::path::{Path, PathBuf};

/// Environment variable with another directory. For tests, and for several pools of one user.
pub const DIRECTORY_VARIABLE: &str = "BUILDPOOL_LOCAL_DIR";
/// Environment variable with the idle time after which a pool ends, in seconds.
pub const IDLE_VARIABLE: &str = "BUILDPOOL_LOCAL_IDLE_SECS";
/// Subcommand of a program that starts a pool. The directory is its argument.
pub const SUBCOMMAND: &str = "local-pool";

/// A local pool at a directory, running or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalPool {
    directory: PathBuf,
    program: PathBuf,
}

impl LocalPool {
    /// Returns this user's pool. `program` starts it.
    ///
    /// # Errors
    /// [`LocalError::NoHome`] if there is no directory for it.
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

    /// Returns the pool of a directory.
    pub fn at(directory: PathBuf, program: PathBuf) -> Self {
        Self { directory, program }
    }

    /// Returns the directory of all its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates its directory with access for this user only, or checks its owner and mode.
    ///
    /// # Errors
    /// If it can't be created, or belongs to another user.
    pub fn prepare(&self) -> Result<(), LocalError> {
        files::prepare(&self.directory)
    }

    /// Returns the path of its log.
    pub fn log_file(&self) -> PathBuf {
        self.directory.join("pool.log")
    }

    /// Returns the content of the endpoint file, whether the pool is alive or not.
    ///
    /// # Errors
    /// If the file exists and can't be read.
    pub fn published(&self) -> Result<Option<Published>, LocalError> {
        files::read(&self.directory)
    }

    /// Returns true if a process has the lock of this directory, whether it has an endpoint file or
    /// not.
    ///
    /// # Errors
    /// If the lock file can't be used.
    pub fn is_running(&self) -> Result<bool, LocalError> {
        files::is_locked(&self.directory)
    }

    /// Starts a search for the pool, which starts the pool if it is not found.
    pub fn search(&self) -> Search<'_> {
        Search::new(self)
    }
}
