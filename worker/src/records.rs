//! What an attempt has on disk, and how it is written so that a crash at any moment leaves either the old or the new.
//!
//! | file | by | when |
//! |---|---|---|
//! | `attempt.json` | worker | before a keeper is asked to run it |
//! | `state.json` | keeper | when the process exists, and when the pool decided to end it |
//! | `log` | keeper | while it runs |
//! | `outcome.json` | keeper | when the tree is gone; durable before anything is said |
//! | `result.json` | worker | when evidence and artifacts were added to the outcome |

use buildpool_evidence::memory::cgroup::MemoryCounters;
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::outcome::Acted;
use buildpool_protocol::spec::JobSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Name of the record that the worker makes.
pub const ATTEMPT: &str = "attempt.json";
/// Name of the record of a running process.
pub const STATE: &str = "state.json";
/// Name of the log.
pub const LOG: &str = "log";
/// Name of the keeper's account of the end.
pub const OUTCOME: &str = "outcome.json";
/// Name of the worker's account of the end.
pub const RESULT: &str = "result.json";

/// What the worker must find again after a restart.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// By which grant.
    pub lease: Lease,
    /// What was asked for, without its environment, which may hold what should not lie on a disk.
    pub spec: JobSpec,
    /// Where the command runs.
    pub directory: PathBuf,
    /// The top of the files, in a workspace.
    #[serde(default)]
    pub root: Option<PathBuf>,
    /// A result bundle that the worker added to the command.
    #[serde(default)]
    pub result_bundle: Option<PathBuf>,
    /// Where an `xcodebuild` of this attempt builds, in a workspace.
    #[serde(default)]
    pub derived_data: Option<PathBuf>,
    /// The control group that the attempt shares with its worker, where there is one.
    #[serde(default)]
    pub memory: Option<MemoryGroup>,
    /// Seconds from boot to the grant, by the continuous clock.
    #[serde(default)]
    pub since_boot_secs: f64,
    /// The name of the user that it runs as, where that is not the worker's.
    #[serde(default)]
    pub user: Option<String>,
    /// Directories that this user can pass while it runs.
    #[serde(default)]
    pub gates: Vec<PathBuf>,
    /// The worker's data directory, as it was called then; unknown to older versions.
    #[serde(default)]
    pub data_dir: Option<PathBuf>,
}

impl AttemptRecord {
    /// The same with the data directory called `data_dir` now: what lay in it lies there.
    #[must_use]
    pub fn found_in(mut self, data_dir: &Path) -> Self {
        let before = self.data_dir.replace(data_dir.to_owned());
        let Some(before) = before.filter(|before| before != data_dir) else { return self };
        let named = [&mut self.root, &mut self.result_bundle, &mut self.derived_data];
        let paths = named.into_iter().flatten().chain([&mut self.directory]).chain(&mut self.gates);
        for path in paths {
            if let Ok(below) = path.strip_prefix(&before) {
                *path = data_dir.join(below);
            }
        }
        self
    }
}

/// A control group and its counters before an attempt ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryGroup {
    /// Below `/sys/fs/cgroup`.
    pub path: PathBuf,
    /// Counters before the attempt.
    pub before: MemoryCounters,
    /// Nothing but the worker and this attempt is in it.
    pub is_exclusive: bool,
}

/// A process that was started, and what was decided about it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StateRecord {
    /// The command's own process; also its session and group.
    pub pid: i32,
    /// Tells it from a later process with the same id.
    pub process_started: u64,
    /// Milliseconds since 1970.
    pub started_at_ms: i64,
    /// Why the pool ends it.
    #[serde(default)]
    pub acted: Option<Acted>,
    /// Processes that were seen in its tree; bounded.
    #[serde(default)]
    pub pids: Vec<i32>,
}

/// The directory of an attempt below the directory of all.
pub fn attempt_directory(attempts: &Path, attempt: AttemptId) -> PathBuf {
    attempts.join(format!("{}.{}", attempt.job, attempt.number))
}

/// Reads a record; none if there is none.
///
/// # Errors
/// When it is there and can't be read or does not parse.
pub fn read<R: DeserializeOwned>(directory: &Path, name: &str) -> io::Result<Option<R>> {
    match fs::read(directory.join(name)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a record; none if there is none, or only what a loss of power left of one.
///
/// # Errors
/// When it is there and can't be read.
pub fn read_if_whole<R: DeserializeOwned>(directory: &Path, name: &str) -> io::Result<Option<R>> {
    match read(directory, name) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            warn!("{} is not whole and counts as missing: {error}", directory.join(name).display());
            Ok(None)
        }
        other => other,
    }
}

/// Whether a record must survive the loss of power, or only that of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Visible whole to every process from now on.
    Process,
    /// On the disk when this returns.
    Power,
}

/// Writes a record beside its place and moves it there. One sync makes it last: it comes after the move, so that the journal
/// that it forces out has both, and what a loss of power before it leaves cut short counts as missing.
///
/// # Errors
/// When the disk refuses; the record is then the old one, or the new one that may not last.
pub fn write<R: Serialize>(
    directory: &Path,
    name: &str,
    record: &R,
    durability: Durability,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(record)?;
    let beside = directory.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    if let Err(error) = file.write_all(&bytes).and_then(|()| fs::rename(&beside, directory.join(name))) {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    match durability {
        Durability::Process => Ok(()),
        Durability::Power => file.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Durability, OUTCOME, read, read_if_whole, write};

    #[test]
    fn a_record_is_there_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(read::<Vec<u32>>(place.path(), OUTCOME).unwrap(), None);
        for durability in [Durability::Process, Durability::Power] {
            write(place.path(), OUTCOME, &vec![1, 2], durability).unwrap();
            assert_eq!(read(place.path(), OUTCOME).unwrap(), Some(vec![1, 2]));
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        for cut in ["", "[1,", "\0\0\0\0\0"] {
            std::fs::write(place.path().join(OUTCOME), cut).unwrap();
            assert!(read::<Vec<u32>>(place.path(), OUTCOME).is_err());
            assert_eq!(read_if_whole::<Vec<u32>>(place.path(), OUTCOME).unwrap(), None);
        }
    }
}
