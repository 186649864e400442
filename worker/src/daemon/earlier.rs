//! Which starts of the daemon are certain to be over: those that had this very directory on this very machine since it was
//! last switched on, because the lock of the directory is held now. On a copy of the disk there are none: the original may be
//! running where this one can't see it.

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
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// Of the machine, anew each time that it is switched on.
    machine: String,
    device: u64,
    inode: u64,
}

impl Place {
    fn of(directory: &Path) -> io::Result<Option<Self>> {
        let metadata = fs::metadata(directory)?;
        let place = |machine| Self { machine, device: metadata.dev(), inode: metadata.ino() };
        Ok(platform::machine_boot().map(place))
    }
}

/// Writes this start down; the earlier ones. Who can't write it down costs the next start certainty and nothing else.
pub(super) fn note(home: &Home, boot: BootId) -> Vec<BootId> {
    note_in(home.directory(), boot).unwrap_or_else(|error| {
        warn!("the starts of this worker can't be written down: {error}");
        Vec::new()
    })
}

fn note_in(directory: &Path, boot: BootId) -> io::Result<Vec<BootId>> {
    let Some(place) = Place::of(directory)? else { return Ok(Vec::new()) };
    let written: Option<Starts> = records::read_if_whole(directory, RECORD)?;
    let earlier = written.filter(|starts| starts.place == place).map_or_else(Vec::new, |starts| starts.boots);
    let boots = std::iter::once(boot).chain(earlier.iter().copied()).take(LIST_MAX).collect();
    records::write(directory, RECORD, &Starts { place, boots }, Durability::Process)?;
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use super::{RECORD, note_in};
    use buildpool_protocol::ids::BootId;

    #[test]
    fn earlier_starts_are_those_of_this_place_and_not_of_a_copy() {
        let (original, copy) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let boot = |number| BootId::from_uuid(uuid::Uuid::from_u128(number));
        assert_eq!(note_in(original.path(), boot(1)).expect("a disk"), []);
        assert_eq!(note_in(original.path(), boot(2)).expect("a disk"), [boot(1)]);
        let record = std::fs::metadata(original.path().join(RECORD)).expect("written");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&record) & 0o777, 0o600, "nobody else's to read");
        std::fs::copy(original.path().join(RECORD), copy.path().join(RECORD)).expect("a copy");
        assert_eq!(note_in(copy.path(), boot(3)).expect("a disk"), []);
        assert_eq!(note_in(original.path(), boot(4)).expect("a disk"), [boot(2), boot(1)]);
    }
}
