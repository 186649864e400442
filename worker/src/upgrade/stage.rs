//! Puts a received program next to the present one, and checks that it starts here with the ordered version.

use super::program::{self, Limits};
use super::{Restart, Staged, StagedFile};
use buildpool_objects::incoming::{Received, checksum_of};
use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::upgrade::UpgradeOrder;
use std::fs::{self, OpenOptions, Permissions};
use std::future::pending;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of `--version`. A Mac checks a new program at its first start.
const VERSION_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of the worker's id and of the order's id in the name of a staged program.
const ID_BYTES: usize = 12;

/// Reason why a program can't be staged.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The program can't be written next to the present one.
    #[error(
        "{} can't be written: {source}; the worker's user must be able to write the directory of its program. Install the program in a directory of that user, or upgrade it in the way in which it was installed",
        .path.display()
    )]
    Write {
        /// Path of the new program.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The present program can't get a second name.
    #[error(
        "{} can't get a second name in its directory, by which it could come back: {source}; the worker's user must own the program, on a disk with hard links",
        .path.display()
    )]
    Link {
        /// Path of the present program.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The copy has other bytes.
    #[error("the copy {} does not have the checksum {expected}; the disk may be damaged", .path.display())]
    Checksum {
        /// Path of the copy.
        path: PathBuf,
        /// The checksum of the order.
        expected: String,
    },
    /// The program does not start.
    #[error("the new program does not start on this machine: {0}")]
    Start(io::Error),
    /// The program does not state the ordered version.
    #[error("`--version` of the new program should print `buildpool {version}`; it {story}")]
    Version {
        /// The ordered version.
        version: String,
        /// How it ended.
        story: String,
    },
}

/// Returns the purpose in the names of all programs that this worker stages: workers of one machine may share a program.
fn purpose(worker: &str) -> String {
    format!("new-{}", end_of(worker))
}

/// Returns the last bytes of an id, which differ most.
fn end_of(id: &str) -> &str {
    &id[id.len().saturating_sub(ID_BYTES)..]
}

/// Returns the path of a new program next to the present one. Each order has its own, because the copy for an order
/// that has ended may still be written.
fn path(restart: &Restart, worker: &str, order: UpgradeId) -> PathBuf {
    restart.beside(&format!("{}-{}", purpose(worker), end_of(&order.to_string())))
}

/// Removes the programs that a killed process of this worker left. Blocks.
pub fn remove_left(restart: &Restart, worker: &str) {
    let start = restart.beside(&purpose(worker));
    let (Some(directory), Some(start)) = (start.parent(), start.file_name()) else { return };
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(start.as_encoded_bytes()) {
            drop(StagedFile(entry.path()));
        }
    }
}

/// Checks that a program can be written next to the present one, and that the present one can get a second name. Blocks.
///
/// # Errors
/// [`StageError::Write`] and [`StageError::Link`].
pub fn check_place(restart: &Restart, worker: &str, order: UpgradeId) -> Result<(), StageError> {
    let file = StagedFile(path(restart, worker, order));
    create(&file.0).map_err(|source| StageError::Write { path: file.0.clone(), source })?;
    let path = restart.program.clone();
    fs::remove_file(&file.0)
        .and_then(|()| fs::hard_link(&restart.program, &file.0))
        .map_err(|source| StageError::Link { path, source })
}

fn create(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o700).open(path)
}

/// Copies a received program next to the present one, and verifies the copy. Removes the received file. Blocks.
///
/// # Errors
/// [`StageError::Write`] and [`StageError::Checksum`].
pub fn copy(
    received: Received,
    order: UpgradeOrder,
    restart: Restart,
    worker: &str,
    data_dir: &Path,
) -> Result<Staged, StageError> {
    // From here on, the file is removed if anything fails, also if the caller no longer waits for it.
    let file = StagedFile(path(&restart, worker, order.id));
    let path = &file.0;
    let write = || -> io::Result<_> {
        let mut copy = create(path)?;
        io::copy(&mut fs::File::open(received.path())?, &mut copy)?;
        copy.set_permissions(Permissions::from_mode(0o755))?;
        copy.sync_all()?;
        drop(copy);
        checksum_of(path)
    };
    let (found, _) = write().map_err(|source| StageError::Write { path: path.clone(), source })?;
    if found != order.blake3 {
        return Err(StageError::Checksum { path: path.clone(), expected: order.blake3.to_string() });
    }
    if let Err(error) = received.remove() {
        tracing::warn!(%error, "a received program can't be removed");
    }
    Ok(Staged { file, order, restart, data_dir: data_dir.to_owned() })
}

/// Starts a staged program with `--version`. A program that fails is removed.
///
/// # Errors
/// [`StageError::Start`] and [`StageError::Version`].
pub async fn check_version(staged: Staged) -> Result<Staged, StageError> {
    let limits = Limits { within: VERSION_WITHIN, line: None };
    let ran = program::run(staged.path(), ["--version".into()], limits, pending()).await;
    let ran = ran.map_err(StageError::Start)?;
    if ran.is_success() && states(&ran.out, &staged.order.version) {
        return Ok(staged);
    }
    Err(StageError::Version { version: staged.order.version.clone(), story: ran.story(VERSION_WITHIN) })
}

/// Returns true if this is the output of `buildpool --version` of a version.
fn states(out: &str, version: &str) -> bool {
    let mut words = out.split_whitespace();
    words.next() == Some("buildpool") && words.next() == Some(version)
}

#[cfg(test)]
mod tests {
    use super::{StageError, check_place, path, remove_left, states};
    use crate::upgrade::{FileId, Restart};
    use buildpool_protocol::ids::UpgradeId;
    use std::fs;

    fn order(number: u128) -> UpgradeId {
        UpgradeId::from_uuid(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn a_version_is_the_second_word() {
        for (out, version, expected) in [
            ("buildpool 0.2.0\n", "0.2.0", true),
            ("buildpool 0.2.0 (69e7f40 2026-11-26)\n", "0.2.0", true),
            ("buildpool 0.2.01\n", "0.2.0", false),
            ("buildpool 0.1.0\nbuildpool 0.2.0", "0.2.0", false),
            ("other 0.2.0", "0.2.0", false),
            ("", "0.2.0", false),
        ] {
            assert_eq!(states(out, version), expected, "{out:?}");
        }
    }

    #[test]
    fn the_directory_must_take_the_new_program_and_a_second_name_of_the_present_one() {
        let place = tempfile::tempdir().expect("a directory");
        let file = FileId::at(place.path()).expect("it exists");
        let program = place.path().join("buildpool");
        let restart = Restart { program: program.clone(), arguments: Vec::new(), file };
        let error = check_place(&restart, "w", order(1)).expect_err("there is no program");
        assert!(matches!(error, StageError::Link { .. }), "{error}");
        fs::write(&program, "").expect("written");
        check_place(&restart, "w", order(1)).expect("it can");
        assert_eq!(fs::read_dir(place.path()).expect("read").count(), 1, "nothing is left");
        let restart = Restart { program: place.path().join("none/buildpool"), arguments: Vec::new(), file };
        let error = check_place(&restart, "w", order(1)).expect_err("it can't").to_string();
        assert!(error.contains(".buildpool.new-w-000000000001 can't be written"), "{error}");
    }

    #[test]
    fn a_worker_removes_the_programs_that_it_left() {
        let place = tempfile::tempdir().expect("a directory");
        let file = FileId::at(place.path()).expect("it exists");
        let restart = Restart { program: place.path().join("buildpool"), arguments: Vec::new(), file };
        let (first, second) =
            ("01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b");
        let [own, another] = [path(&restart, first, order(1)), path(&restart, first, order(2))];
        let other = path(&restart, second, order(1));
        for path in [&own, &another, &other, &restart.program] {
            fs::write(path, "").expect("written");
        }
        remove_left(&restart, first);
        assert!(!own.exists() && !another.exists());
        assert!(other.exists() && restart.program.exists());
    }
}
