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
    Here,
    /// This worker, before the machine was switched off. No process runs, and unsynced data may be
    /// missing.
    BeforePower,
    /// A worker on this machine, because the attempts name its files. This directory is a copy.
    Copied,
    /// Possibly a worker on another machine. Only ended attempts are certain to be over.
    Unsure,
}

/// Records of the starts before this one.
pub(super) struct Earlier {
    /// Starts that have certainly ended.
    pub(super) boots: Vec<BootId>,
    /// Owner of the attempts that they left.
    pub(super) left: AttemptsOwner,
}

impl DirectoryIdentity {
    fn of(directory: &Path) -> io::Result<Option<Self>> {
        let metadata = fs::metadata(directory)?;
        let (device, inode, id) = (metadata.dev(), metadata.ino(), platform::machine_id());
        Ok(platform::machine_boot().map(|machine| Self { machine, device, inode, id }))
    }

    /// Returns true if both places are the same directory on the same machine, within one boot.
    fn is(&self, other: &Self) -> bool {
        (&self.machine, self.device, self.inode) == (&other.machine, other.device, other.inode)
    }

    /// Returns the owner of the attempts here, if a daemon at `there` left them.
    fn left(&self, there: &Self) -> AttemptsOwner {
        let is_one_machine = self.id.is_some() && self.id == there.id;
        if self.is(there) {
            AttemptsOwner::Here
        } else if self.machine == there.machine {
            // The device number may change within one boot, if the disk was mounted again.
            if self.inode == there.inode { AttemptsOwner::Unsure } else { AttemptsOwner::Copied }
        } else if is_one_machine && self.inode == there.inode {
            AttemptsOwner::BeforePower
        } else {
            AttemptsOwner::Unsure
        }
    }
}

/// Reads the records of earlier starts. If they cannot be read, the owner is unsure.
pub(super) fn look(data_directory: &DataDirectory) -> Earlier {
    look_in(data_directory.path()).unwrap_or_else(|error| {
        warn!("the earlier starts of this worker can't be read: {error}");
        Earlier { boots: Vec::new(), left: AttemptsOwner::Unsure }
    })
}

/// Records this start, after the removal of attempts that belong to another worker. From now on all
/// attempts here belong to this worker. A failure only makes the next start unsure.
pub(super) fn note(data_directory: &DataDirectory, boot: BootId, earlier: &Earlier) {
    if let Err(error) = note_in(data_directory.path(), boot, earlier) {
        warn!("the starts of this worker can't be written down: {error}");
    }
}

fn look_in(directory: &Path) -> io::Result<Earlier> {
    let none = Earlier { boots: Vec::new(), left: AttemptsOwner::Here };
    let Some(place) = DirectoryIdentity::of(directory)? else { return Ok(none) };
    let written: Option<Starts> = records::read_if_whole(directory, RECORD)?;
    Ok(written.map_or(none, |written| {
        let left = place.left(&written.place);
        let boots = if place.is(&written.place) { written.boots } else { Vec::new() };
        Earlier { boots, left }
    }))
}

fn note_in(directory: &Path, boot: BootId, earlier: &Earlier) -> io::Result<()> {
    let Some(place) = DirectoryIdentity::of(directory)? else { return Ok(()) };
    let boots = std::iter::once(boot).chain(earlier.boots.iter().copied()).take(LIST_MAX).collect();
    records::write(directory, RECORD, &Starts { place, boots }, Durability::Process)
}

#[cfg(test)]
mod tests {
    use super::{AttemptsOwner, DirectoryIdentity, RECORD, look_in, note_in};
    use buildpool_protocol::ids::BootId;

    #[test]
    fn earlier_starts_are_those_of_this_place_and_not_of_a_copy() {
        let (original, copy) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let boot = |number| BootId::from_uuid(uuid::Uuid::from_u128(number));
        let note = |directory: &tempfile::TempDir, number| {
            let earlier = look_in(directory.path()).expect("a disk");
            note_in(directory.path(), boot(number), &earlier).expect("a disk");
            (earlier.boots, earlier.left)
        };
        assert_eq!(note(&original, 1), (vec![], AttemptsOwner::Here));
        assert_eq!(note(&original, 2), (vec![boot(1)], AttemptsOwner::Here));
        let record = std::fs::metadata(original.path().join(RECORD)).expect("written");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&record) & 0o777, 0o600, "no other user may read it");
        std::fs::copy(original.path().join(RECORD), copy.path().join(RECORD)).expect("a copy");
        assert_eq!(note(&copy, 3), (vec![], AttemptsOwner::Copied));
        assert_eq!(note(&original, 4), (vec![boot(2), boot(1)], AttemptsOwner::Here));
        assert_eq!(note(&copy, 5), (vec![boot(3)], AttemptsOwner::Here), "its present records are its own");
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
            (here.clone(), AttemptsOwner::Here, "an earlier start"),
            (place("boot", 1, 2, None), AttemptsOwner::Here, "an earlier start of an older version"),
            (
                place("before", 3, 2, Some("id")),
                AttemptsOwner::BeforePower,
                "before the machine was switched off",
            ),
            (place("boot", 1, 3, Some("id")), AttemptsOwner::Copied, "a copy beside it"),
            (
                place("boot", 3, 2, Some("id")),
                AttemptsOwner::Unsure,
                "a disk that was mounted anew, or copied whole",
            ),
            (place("other", 1, 2, Some("other")), AttemptsOwner::Unsure, "another machine"),
            (place("before", 1, 3, Some("id")), AttemptsOwner::Unsure, "put back from a backup"),
            (place("before", 1, 2, None), AttemptsOwner::Unsure, "a machine without a name"),
        ] {
            assert_eq!(here.left(&there), left, "{what}");
        }
        let nameless = place("boot", 1, 2, None);
        assert_eq!(nameless.left(&place("before", 1, 2, None)), AttemptsOwner::Unsure);
    }
}
