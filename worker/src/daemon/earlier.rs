//! Which starts of the daemon are certain to be over: those that had this very directory on this very machine since it was
//! last switched on, because the lock of the directory is held now. On a copy of the disk there are none: the original may be
//! running where this one can't see it. What is written in a copy of attempts is the original's, too.

use super::home::Home;
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

/// Where they are written down.
const RECORD: &str = "starts.json";

#[derive(Serialize, Deserialize)]
struct Starts {
    place: Place,
    /// The newest first.
    boots: Vec<BootId>,
}

/// What a copy does not have in common with its original.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Place {
    /// Of the machine, anew each time that it is switched on.
    machine: String,
    device: u64,
    inode: u64,
    /// Of the machine, for ever, where it has such a name.
    #[serde(default)]
    id: Option<String>,
}

/// Whose the attempts are that lie in the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// This worker's: what runs of them runs here.
    Here,
    /// This worker's, before the machine was switched off: nothing of them runs, and what was not synced may be missing.
    BeforePower,
    /// Those of a worker on this machine, whose files they name: this directory is a copy.
    Copied,
    /// Perhaps those of a worker on another machine: only what has ended is certain to be over.
    Unsure,
}

/// What was written down by the starts before this one.
pub(super) struct Earlier {
    /// Those that are certain to be over.
    pub(super) boots: Vec<BootId>,
    /// What the attempts are that they left.
    pub(super) left: Left,
}

impl Place {
    fn of(directory: &Path) -> io::Result<Option<Self>> {
        let metadata = fs::metadata(directory)?;
        let (device, inode, id) = (metadata.dev(), metadata.ino(), platform::machine_id());
        Ok(platform::machine_boot().map(|machine| Self { machine, device, inode, id }))
    }

    /// Whether a daemon that had this place had that one, too, without a pause of the machine.
    fn is(&self, other: &Self) -> bool {
        (&self.machine, self.device, self.inode) == (&other.machine, other.device, other.inode)
    }

    /// Whose the attempts here are when they were left by a daemon there.
    fn left(&self, there: &Self) -> Left {
        let is_one_machine = self.id.is_some() && self.id == there.id;
        if self.is(there) {
            Left::Here
        } else if self.machine == there.machine {
            // The number of a device may change while the machine runs: a disk that was mounted anew.
            if self.inode == there.inode { Left::Unsure } else { Left::Copied }
        } else if is_one_machine && self.inode == there.inode {
            Left::BeforePower
        } else {
            Left::Unsure
        }
    }
}

/// What the starts before this one wrote down. What can't be read is nobody's for certain.
pub(super) fn look(home: &Home) -> Earlier {
    look_in(home.directory()).unwrap_or_else(|error| {
        warn!("the earlier starts of this worker can't be read: {error}");
        Earlier { boots: Vec::new(), left: Left::Unsure }
    })
}

/// Writes this start down, after what was left elsewhere is gone: from here on all that lies here is this worker's. Who can't
/// write it down costs the next start certainty and nothing else.
pub(super) fn note(home: &Home, boot: BootId, earlier: &Earlier) {
    if let Err(error) = note_in(home.directory(), boot, earlier) {
        warn!("the starts of this worker can't be written down: {error}");
    }
}

fn look_in(directory: &Path) -> io::Result<Earlier> {
    let none = Earlier { boots: Vec::new(), left: Left::Here };
    let Some(place) = Place::of(directory)? else { return Ok(none) };
    let written: Option<Starts> = records::read_if_whole(directory, RECORD)?;
    Ok(written.map_or(none, |written| {
        let left = place.left(&written.place);
        let boots = if place.is(&written.place) { written.boots } else { Vec::new() };
        Earlier { boots, left }
    }))
}

fn note_in(directory: &Path, boot: BootId, earlier: &Earlier) -> io::Result<()> {
    let Some(place) = Place::of(directory)? else { return Ok(()) };
    let boots = std::iter::once(boot).chain(earlier.boots.iter().copied()).take(LIST_MAX).collect();
    records::write(directory, RECORD, &Starts { place, boots }, Durability::Process)
}

#[cfg(test)]
mod tests {
    use super::{Left, Place, RECORD, look_in, note_in};
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
        assert_eq!(note(&original, 1), (vec![], Left::Here));
        assert_eq!(note(&original, 2), (vec![boot(1)], Left::Here));
        let record = std::fs::metadata(original.path().join(RECORD)).expect("written");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&record) & 0o777, 0o600, "nobody else's to read");
        std::fs::copy(original.path().join(RECORD), copy.path().join(RECORD)).expect("a copy");
        assert_eq!(note(&copy, 3), (vec![], Left::Copied));
        assert_eq!(note(&original, 4), (vec![boot(2), boot(1)], Left::Here));
        assert_eq!(note(&copy, 5), (vec![boot(3)], Left::Here), "what it has now is its own");
    }

    #[test]
    fn what_was_left_elsewhere_is_not_taken_for_ones_own() {
        let place = |machine: &str, device, inode, id: Option<&str>| Place {
            machine: machine.to_owned(),
            device,
            inode,
            id: id.map(str::to_owned),
        };
        let here = place("boot", 1, 2, Some("id"));
        for (there, left, what) in [
            (here.clone(), Left::Here, "an earlier start"),
            (place("boot", 1, 2, None), Left::Here, "an earlier start of an older version"),
            (place("before", 3, 2, Some("id")), Left::BeforePower, "before the machine was switched off"),
            (place("boot", 1, 3, Some("id")), Left::Copied, "a copy beside it"),
            (place("boot", 3, 2, Some("id")), Left::Unsure, "a disk that was mounted anew, or copied whole"),
            (place("other", 1, 2, Some("other")), Left::Unsure, "another machine"),
            (place("before", 1, 3, Some("id")), Left::Unsure, "put back from a backup"),
            (place("before", 1, 2, None), Left::Unsure, "a machine without a name"),
        ] {
            assert_eq!(here.left(&there), left, "{what}");
        }
        let nameless = place("boot", 1, 2, None);
        assert_eq!(nameless.left(&place("before", 1, 2, None)), Left::Unsure);
    }
}
