//! Puts a received program next to the present one, and checks that it starts here with the ordered version.

use super::program;
use super::{Restart, Staged};
use buildpool_objects::incoming::{Received, checksum_of};
use buildpool_protocol::upgrade::UpgradeOrder;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of `--version`. A Mac checks a new program at its first start.
const VERSION_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of a worker's id in the name of the staged program: workers of one machine may share a program.
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

/// Returns the path of a new program next to the present one.
fn path(restart: &Restart, worker: &str) -> PathBuf {
    restart.beside(&format!("new-{}", &worker[worker.len().saturating_sub(ID_BYTES)..]))
}

/// Checks that a program can be written next to the present one. Blocks.
///
/// # Errors
/// [`StageError::Write`].
pub fn check_place(restart: &Restart, worker: &str) -> Result<(), StageError> {
    let path = path(restart, worker);
    create(&path).and_then(|_| fs::remove_file(&path)).map_err(|source| StageError::Write { path, source })
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
    let path = path(&restart, worker);
    let write = || -> io::Result<_> {
        let mut file = create(&path)?;
        io::copy(&mut fs::File::open(received.path())?, &mut file)?;
        file.set_permissions(Permissions::from_mode(0o755))?;
        file.sync_all()?;
        drop(file);
        checksum_of(&path)
    };
    let (found, _) = write().map_err(|source| StageError::Write { path: path.clone(), source })?;
    if found != order.blake3 {
        return Err(StageError::Checksum { path, expected: order.blake3.to_string() });
    }
    if let Err(error) = received.remove() {
        tracing::warn!(%error, "a received program can't be removed");
    }
    Ok(Staged { path, order, restart, data_dir: data_dir.to_owned() })
}

/// Starts a staged program with `--version`. A program that fails is removed.
///
/// # Errors
/// [`StageError::Start`] and [`StageError::Version`].
pub async fn check_version(staged: Staged) -> Result<Staged, StageError> {
    let checked = match program::run(&staged.path, ["--version".into()], VERSION_WITHIN).await {
        Err(error) => Err(StageError::Start(error)),
        Ok(ran)
            if ran.status.is_some_and(|status| status.success())
                && states(&ran.out, &staged.order.version) =>
        {
            Ok(())
        }
        Ok(ran) => {
            let version = staged.order.version.clone();
            Err(StageError::Version { version, story: ran.story(VERSION_WITHIN) })
        }
    };
    match checked {
        Ok(()) => Ok(staged),
        Err(error) => {
            staged.remove();
            Err(error)
        }
    }
}

/// Returns true if this is the output of `buildpool --version` of a version.
fn states(out: &str, version: &str) -> bool {
    let mut words = out.split_whitespace();
    words.next() == Some("buildpool") && words.next() == Some(version)
}

impl Staged {
    /// Removes the program.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a program that is not used can't be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_place, states};
    use crate::upgrade::{FileId, Restart};

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
    fn a_directory_that_is_not_there_can_t_hold_the_new_program() {
        let place = tempfile::tempdir().expect("a directory");
        let file = FileId::at(place.path()).expect("it exists");
        let restart = Restart { program: place.path().join("buildpool"), arguments: Vec::new(), file };
        check_place(&restart, "w").expect("it can");
        assert_eq!(std::fs::read_dir(place.path()).expect("read").count(), 0, "nothing is left");
        let restart = Restart { program: place.path().join("none/buildpool"), arguments: Vec::new(), file };
        let error = check_place(&restart, "w").expect_err("it can't").to_string();
        assert!(error.contains(".buildpool.new-w can't be written"), "{error}");
    }
}
