//! Determines which earlier starts of the daemon have certainly ended. These are the starts that
//! used this directory on this machine since its last boot, because this daemon holds the lock of
//! the directory now. A copy of the disk has no such starts: the original may run where this daemon
//! cannot observe it. Attempts in a copy belong to the original.

use super::data_directory::DataDirectory;
use crate::platform;
use crate::records::{self, Durability};
use buildpool_protocol::ids::BootId;
use buildpool_protocol::limits::LIST_MAX;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tracing::warn;

/// File with the recorded starts.
const RECORD: &str = "starts.json";

#[derive(Serialize, Deserialize)]
struct Starts {
    place: DirectoryIdentity,
    /// Newest first.
    boots: Vec<BootId>,
}

/// Values that differ between a copy and its original.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct DirectoryIdentity {
    /// Id of the machine's current boot.
    machine: String,
    device: u64,
    inode: u64,
    /// Permanent id of the machine, if it has one.
    #[serde(default)]
    id: Option<String>,
}

/// Owner of the attempts in the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AttemptsOwner {
    /// This worker. Running processes are on this machine.
    ThisWorker,
    /// This worker, before the machine was switched off. No process runs, and unsynced data may be
    /// missing.
    BeforeReboot,
    /// A worker on this machine, because the attempts name its files. This directory is a copy.
    WorkerOfOriginal,
    /// Possibly a worker on another machine. Only ended attempts are certain to be over.
    Unknown,
}

/// Records of the starts before this one.
pub(super) struct EarlierStarts {
    /// Starts that have certainly ended.
    pub(super) boots: Vec<BootId>,
    /// Owner of the attempts that they left.
    pub(super) owner: AttemptsOwner,
}

impl DirectoryIdentity {
    fn of(directory: &Path) -> io::Result<Option<Self>> {
        let metadata = fs::metadata(directory)?;
        let (device, inode, id) = (metadata.dev(), metadata.ino(), platform::machine_id());
        Ok(platform::machine_boot().map(|machine| Self { machine, device, inode, id }))
    }

    /// Returns true if both places are the same directory on the same machine, within one boot.
    fn is_same(&self, other: &Self) -> bool {
        (&self.machine, self.device, self.inode) == (&other.machine, other.device, other.inode)
    }

    /// Returns the owner of the attempts here, if a daemon at `there` left them.
    fn owner_of_attempts(&self, there: &Self) -> AttemptsOwner {
        let is_one_machine = self.id.is_some() && self.id == there.id;
        if self.is_same(there) {
            AttemptsOwner::ThisWorker
        } else if self.machine == there.machine {
            // The device number may change within one boot, if the disk was mounted again.
            if self.inode == there.inode { AttemptsOwner::Unknown } else { AttemptsOwner::WorkerOfOriginal }
        } else if is_one_machine && self.inode == there.inode {
            AttemptsOwner::BeforeReboot
        } else {
            AttemptsOwner::Unknown
        }
    }
}

/// Reads the records of earlier starts. If they cannot be read, the owner is unknown.
pub(super) fn read(data_directory: &DataDirectory) -> EarlierStarts {
    read_in(data_directory.path()).unwrap_or_else(|error| {
        warn!("the earlier starts of this worker can't be read: {error}");
        EarlierStarts { boots: Vec::new(), owner: AttemptsOwner::Unknown }
    })
}

/// Records this start, after the removal of attempts that belong to another worker. From now on all
/// attempts here belong to this worker. A failure only leaves the owner unknown at the next start.
pub(super) fn record(data_directory: &DataDirectory, boot: BootId, earlier: &EarlierStarts) {
    if let Err(error) = record_in(data_directory.path(), boot, earlier) {
        warn!("the starts of this worker can't be written down: {error}");
    }
}

fn read_in(directory: &Path) -> io::Result<EarlierStarts> {
    let none = EarlierStarts { boots: Vec::new(), owner: AttemptsOwner::ThisWorker };
    let Some(place) = DirectoryIdentity::of(directory)? else { return Ok(none) };
    let written: Option<Starts> = records::read_if_whole(directory, RECORD)?;
    Ok(written.map_or(none, |written| {
        let owner = place.owner_of_attempts(&written.place);
        let boots = if place.is_same(&written.place) { written.boots } else { Vec::new() };
        EarlierStarts { boots, owner }
    }))
}

fn record_in(directory: &Path, boot: BootId, earlier: &EarlierStarts) -> io::Result<()> {
    let Some(place) = DirectoryIdentity::of(directory)? else { return Ok(()) };
    let boots = std::iter::once(boot).chain(earlier.boots.iter().copied()).take(LIST_MAX).collect();
    records::write(directory, RECORD, &Starts { place, boots }, Durability::Process)
}

#[cfg(test)]
mod tests {
    use super::{AttemptsOwner, DirectoryIdentity, RECORD, read_in, record_in};
    use buildpool_protocol::ids::BootId;

    #[test]
    fn earlier_starts_are_those_of_this_place_and_not_of_a_copy() {
        let (original, copy) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let boot = |number| BootId::from_uuid(uuid::Uuid::from_u128(number));
        let start = |directory: &tempfile::TempDir, number| {
            let earlier = read_in(directory.path()).expect("a disk");
            record_in(directory.path(), boot(number), &earlier).expect("a disk");
            (earlier.boots, earlier.owner)
        };
        assert_eq!(start(&original, 1), (vec![], AttemptsOwner::ThisWorker));
        assert_eq!(start(&original, 2), (vec![boot(1)], AttemptsOwner::ThisWorker));
        let record = std::fs::metadata(original.path().join(RECORD)).expect("written");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&record) & 0o777, 0o600, "no other user may read it");
        std::fs::copy(original.path().join(RECORD), copy.path().join(RECORD)).expect("a copy");
        assert_eq!(start(&copy, 3), (vec![], AttemptsOwner::WorkerOfOriginal));
        assert_eq!(start(&original, 4), (vec![boot(2), boot(1)], AttemptsOwner::ThisWorker));
        assert_eq!(
            start(&copy, 5),
            (vec![boot(3)], AttemptsOwner::ThisWorker),
            "its present records are its own"
        );
    }

    #[test]
    fn what_was_left_elsewhere_is_not_taken_for_ones_own() {
        let place = |machine: &str, device, inode, id: Option<&str>| DirectoryIdentity {
            machine: machine.to_owned(),
            device,
            inode,
            id: id.map(str::to_owned),
        };
        let here = place("boot", 1, 2, Some("id"));
        for (there, left, what) in [
            (here.clone(), AttemptsOwner::ThisWorker, "an earlier start"),
            (place("boot", 1, 2, None), AttemptsOwner::ThisWorker, "an earlier start of an older version"),
            (
                place("before", 3, 2, Some("id")),
                AttemptsOwner::BeforeReboot,
                "before the machine was switched off",
            ),
            (place("boot", 1, 3, Some("id")), AttemptsOwner::WorkerOfOriginal, "a copy beside it"),
            (
                place("boot", 3, 2, Some("id")),
                AttemptsOwner::Unknown,
                "a disk that was mounted anew, or copied whole",
            ),
            (place("other", 1, 2, Some("other")), AttemptsOwner::Unknown, "another machine"),
            (place("before", 1, 3, Some("id")), AttemptsOwner::Unknown, "put back from a backup"),
            (place("before", 1, 2, None), AttemptsOwner::Unknown, "a machine without a name"),
        ] {
            assert_eq!(here.owner_of_attempts(&there), left, "{what}");
        }
        let nameless = place("boot", 1, 2, None);
        assert_eq!(nameless.owner_of_attempts(&place("before", 1, 2, None)), AttemptsOwner::Unknown);
    }
}
