//! The records of an attempt on disk. Writes are atomic: the crash of a process at any time leaves either the old
//! or the new record. After a power loss, a record can also be cut, or that of an earlier attempt.
//!
//! | file | written by | when |
//! |---|---|---|
//! | `attempt.json` | worker | before a keeper gets the attempt |
//! | `state.json` | keeper | when the process exists (100 ms later, if a guardian watches the keeper), and when the pool decided to end it |
//! | `log` | keeper | while it runs |
//! | `outcome.json` | keeper | when the process tree has ended; durable before any message is sent |
//! | `result.json` | worker | when evidence and artifacts were added to the outcome |

use buildpool_evidence::memory::cgroup::MemoryCounters;
use buildpool_protocol::ids::{AttemptId, Lease};
use buildpool_protocol::outcome::{EndReason, Outcome};
use buildpool_protocol::spec::JobSpec;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Limit on the bytes of a record.
const RECORD_BYTES_MAX: u64 = 256 << 20;
/// Name of the worker's record of an attempt.
pub const ATTEMPT: &str = "attempt.json";
/// Name of the record of a running process.
pub const STATE: &str = "state.json";
/// Name of the directory that a setup has its records and its log in.
pub const SETUP: &str = "setup";
/// Name of the log.
pub const LOG: &str = "log";
/// Name of the keeper's outcome.
pub const OUTCOME: &str = "outcome.json";
/// Name of the worker's complete outcome.
pub const RESULT: &str = "result.json";

/// Facts about an attempt that the worker needs after a restart.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Lease of the grant.
    pub lease: Lease,
    /// The spec without its environment, which may contain values that must not be stored.
    pub spec: JobSpec,
    /// Working directory of the command.
    pub directory: PathBuf,
    /// Root of the files in a workspace.
    #[serde(default)]
    pub root: Option<PathBuf>,
    /// A result bundle that the worker added to the command.
    #[serde(default)]
    pub result_bundle: Option<PathBuf>,
    /// Build directory of an `xcodebuild` of this attempt, in a workspace.
    #[serde(default)]
    pub derived_data: Option<PathBuf>,
    /// Control group that the attempt shares with its worker, if there is one.
    #[serde(default)]
    pub memory: Option<MemoryGroup>,
    /// Limit on the disk space of the attempt, if it has one.
    #[serde(default)]
    pub disk: Option<DiskLimit>,
    /// OOM kills on the machine before the attempt.
    #[serde(default)]
    pub machine_kills: Option<u64>,
    /// Seconds from boot to the grant, by the continuous clock.
    #[serde(default)]
    pub since_boot_secs: f64,
    /// Name of the user that it runs as, if that is not the worker's.
    #[serde(default)]
    pub user: Option<String>,
    /// Directories that this user can pass while it runs.
    #[serde(default)]
    pub gates: Vec<PathBuf>,
    /// Path of the worker's data directory when the record was written. Older versions did not
    /// record it.
    #[serde(default)]
    pub data_dir: Option<PathBuf>,
}

impl AttemptRecord {
    /// Returns the record with its paths moved to the current path of the data directory.
    #[must_use]
    pub fn found_in(mut self, data_dir: &Path) -> Self {
        let before = self.data_dir.replace(data_dir.to_owned());
        let Some(before) = before.filter(|before| before != data_dir) else { return self };
        let named = [&mut self.root, &mut self.result_bundle, &mut self.derived_data];
        let counted = self.disk.as_mut().map(|disk| &mut disk.root);
        let paths =
            named.into_iter().flatten().chain(counted).chain([&mut self.directory]).chain(&mut self.gates);
        for path in paths {
            if let Ok(below) = path.strip_prefix(&before) {
                *path = data_dir.join(below);
            }
        }
        self
    }
}

/// Limit on the disk space of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskLimit {
    /// Directory with the files that count.
    pub root: PathBuf,
    /// Limit on the size of the files that changed since the start, in bytes.
    pub bytes_max: u64,
}

/// A control group and its counters before an attempt ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemoryGroup {
    /// Path below `/sys/fs/cgroup`.
    pub path: PathBuf,
    /// Counters before the attempt. `None` without a memory controller.
    #[serde(default)]
    pub before: Option<MemoryCounters>,
    /// True if the group contains only the worker and this attempt.
    pub is_exclusive: bool,
}

/// The process of an attempt, and the decision to end it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StateRecord {
    /// Id of the command's own process, which is also its session and process group.
    pub pid: i32,
    /// Start time of the process. It distinguishes a later process with the same id.
    pub process_started: u64,
    /// Start in milliseconds since 1970.
    pub started_at_ms: i64,
    /// Set if the pool ends it.
    #[serde(default)]
    pub acted: Option<EndReason>,
    /// Process ids observed in its tree. Limited.
    #[serde(default)]
    pub pids: Vec<i32>,
}

/// Returns the directory of an attempt below the directory of all attempts.
pub fn attempt_directory(attempts: &Path, attempt: AttemptId) -> PathBuf {
    attempts.join(format!("{}.{}", attempt.job, attempt.number))
}

/// Returns the attempt of such a directory, by its name.
pub fn attempt_of(directory: &Path) -> Option<AttemptId> {
    let (job, number) = directory.file_name()?.to_str()?.split_once('.')?;
    Some(AttemptId { job: job.parse().ok()?, number: number.parse().ok()? })
}

/// Reads a record. Returns `None` if it does not exist.
///
/// # Errors
/// Fails if it exists and cannot be read or parsed. Anything but a file of at most 256 MiB is
/// [`io::ErrorKind::InvalidData`]: without isolation, a job can replace its records, and a pipe would block the reader.
pub fn read<R: DeserializeOwned>(directory: &Path, name: &str) -> io::Result<Option<R>> {
    let file = match open(&directory.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if is_replaced(&error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length > RECORD_BYTES_MAX {
        let text = format!("it has {length} bytes; a record has at most {RECORD_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from)
}

/// Opens a record or a log to read it.
///
/// # Errors
/// Fails if it cannot be opened. Anything but a file is [`io::ErrorKind::InvalidData`]: the opening of a named pipe would wait
/// for a writer.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: it is not a file", path.display()),
        ));
    }
    Ok(file)
}

/// Returns true for an error of `open` that no disk causes, but a file that was closed or replaced by a socket or a link.
fn is_replaced(error: &io::Error) -> bool {
    let found = error.raw_os_error().map(Errno::from_raw);
    matches!(
        found,
        Some(Errno::EACCES | Errno::EPERM | Errno::ENXIO | Errno::EOPNOTSUPP | Errno::ELOOP | Errno::ENOTDIR)
    )
}

/// Reads a record. Returns `None` if it does not exist, was truncated by a power loss, or was replaced.
///
/// # Errors
/// Fails if it exists and cannot be read.
pub fn read_if_whole<R: DeserializeOwned>(directory: &Path, name: &str) -> io::Result<Option<R>> {
    match read(directory, name) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            warn!("{} is not whole and counts as missing: {error}", directory.join(name).display());
            Ok(None)
        }
        other => other,
    }
}

/// Durability of a record: survives a power loss, or only a process crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Every process sees the complete record from now on.
    Process,
    /// The record is on disk when the function returns.
    Power,
}

/// Returns the name of the temporary file of a record.
pub(crate) fn beside(name: &str) -> String {
    format!("{name}.new")
}

/// Writes a record to a temporary file and renames it. One sync after the rename makes it durable:
/// the journal commit contains both. A record truncated by an earlier power loss counts as missing.
///
/// # Errors
/// Fails if the disk fails. The record is then the old one, or a new one that may not be durable.
pub fn write<R: Serialize>(
    directory: &Path,
    name: &str,
    record: &R,
    durability: Durability,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(record)?;
    let beside = directory.join(beside(name));
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&beside)?;
    let written = file.write_all(&bytes).and_then(|()| {
        // The file of an earlier attempt keeps its blocks. ext4 would write one that is emptied first to the disk at once
        // (ext4(5), auto_da_alloc).
        if file.metadata()?.len() > bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
        }
        fs::rename(&beside, directory.join(name))
    });
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    match durability {
        Durability::Process => Ok(()),
        Durability::Power => file.sync_all(),
    }
}

/// An outcome with its attempt and its checksum. Its file may have had the outcome of an earlier attempt. After a power loss, it
/// can have the old bytes, or some of both, under the new name.
#[derive(Serialize, Deserialize)]
struct OutcomeRecord {
    attempt: AttemptId,
    /// BLAKE3 checksum of the JSON text of `outcome`.
    blake3: String,
    outcome: Box<RawValue>,
}

/// Writes an outcome of an attempt as [`write()`] does. It survives a power loss.
///
/// # Errors
/// As for [`write()`].
pub fn write_outcome(directory: &Path, name: &str, attempt: AttemptId, outcome: &Outcome) -> io::Result<()> {
    let outcome = to_raw_value(outcome)?;
    let record = OutcomeRecord { attempt, blake3: checksum(&outcome), outcome };
    write(directory, name, &record, Durability::Power)
}

/// Reads an outcome of an attempt. Returns `None` as [`read_if_whole`] does, and for the outcome of another attempt.
///
/// # Errors
/// As for [`read_if_whole`].
pub fn read_outcome(directory: &Path, name: &str, attempt: AttemptId) -> io::Result<Option<Outcome>> {
    let Some(found) = read_if_whole::<Box<RawValue>>(directory, name)? else { return Ok(None) };
    let outcome = match serde_json::from_str::<OutcomeRecord>(found.get()) {
        Ok(record) if record.attempt == attempt && record.blake3 == checksum(&record.outcome) => {
            record.outcome
        }
        Ok(_) => {
            warn!(
                "{} is not whole, or of another attempt; it counts as missing",
                directory.join(name).display()
            );
            return Ok(None);
        }
        // A keeper or worker of an older version wrote it. The directory of such an attempt is not used again.
        Err(_) => found,
    };
    let parsed = serde_json::from_str(outcome.get()).inspect_err(|error| {
        warn!("{} is not whole and counts as missing: {error}", directory.join(name).display());
    });
    Ok(parsed.ok())
}

fn checksum(text: &RawValue) -> String {
    blake3::hash(text.get().as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::{
        Durability, OUTCOME, attempt_directory, attempt_of, beside, read, read_if_whole, read_outcome, write,
        write_outcome,
    };
    use crate::keeper::spool::Sealed;
    use buildpool_protocol::ids::{AttemptId, JobId};
    use buildpool_protocol::outcome::{Ending, Outcome};
    use std::path::Path;

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

    #[test]
    fn a_record_replaces_all_of_the_file_that_it_is_written_to() {
        let place = tempfile::tempdir().unwrap();
        for record in [vec![1; 100], vec![2], vec![3; 7]] {
            std::fs::write(place.path().join(beside(OUTCOME)), "[8, 8, 8, 8, 8, 8, 8, 8, 8, 8]").unwrap();
            write(place.path(), OUTCOME, &record, Durability::Process).unwrap();
            assert_eq!(read(place.path(), OUTCOME).unwrap(), Some(record));
        }
    }

    #[test]
    fn the_outcome_of_another_attempt_counts_as_missing() {
        let place = tempfile::tempdir().unwrap();
        let attempt = |number| AttemptId { job: JobId::from_uuid(uuid::Uuid::nil()), number };
        let outcome = Outcome::new(Ending::Exited { code: 3 }, 1, Sealed::empty().seals);
        write_outcome(place.path(), OUTCOME, attempt(1), &outcome).unwrap();
        assert_eq!(read_outcome(place.path(), OUTCOME, attempt(1)).unwrap(), Some(outcome.clone()));
        assert_eq!(read_outcome(place.path(), OUTCOME, attempt(2)).unwrap(), None);
        // Some of its bytes are still those of an earlier outcome.
        let text = std::fs::read_to_string(place.path().join(OUTCOME)).unwrap();
        std::fs::write(place.path().join(OUTCOME), text.replace(r#""code":3"#, r#""code":0"#)).unwrap();
        assert_eq!(read_outcome(place.path(), OUTCOME, attempt(1)).unwrap(), None);
        // As an older version wrote it.
        write(place.path(), OUTCOME, &outcome, Durability::Power).unwrap();
        assert_eq!(read_outcome(place.path(), OUTCOME, attempt(1)).unwrap(), Some(outcome));
        for damaged in ["1", "{}", r#"{"ending":"new"}"#] {
            std::fs::write(place.path().join(OUTCOME), damaged).unwrap();
            assert_eq!(read_outcome(place.path(), OUTCOME, attempt(1)).unwrap(), None);
        }
    }

    #[test]
    fn the_name_of_a_directory_states_its_attempt() {
        let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number: 12 };
        assert_eq!(attempt_of(&attempt_directory(Path::new("/data/attempts"), attempt)), Some(attempt));
        for other in ["/", "/data/attempts/x.1", "/data/attempts/1"] {
            assert_eq!(attempt_of(Path::new(other)), None);
        }
    }
}
