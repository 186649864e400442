//! Replaces the worker's own program by order of the coordinator.
//!
//! The new program registers in a trial before it replaces the old one. So a crash at any moment leaves a program at the
//! path that has registered. The only rollback is for a new program that can't be executed after the rename.
//!
//! 1. The daemon receives the program and verifies its checksum ([`crate::workspace::transfer::fetch_program`]).
//! 2. The program is copied next to the old one, verified again, and started with `--version` ([`stage`]). A copy that is
//!    not used is removed; the next start of the worker removes one that a killed worker left.
//! 3. The daemon ends, as in a restart. It holds no attempt then.
//! 4. The new program starts as the worker, with the same arguments and data. When it has registered, it prints
//!    [`REGISTERED`] and exits ([`trial`]).
//! 5. A rename puts it in the place of the old one, and this process executes it ([`replace`]).
//!
//! If a step fails, this process executes the old program again, which reports the reason ([`failure`]).

pub mod failure;
pub mod program;
pub mod replace;
pub mod stage;
pub mod trial;

use buildpool_protocol::ids::UpgradeId;
use buildpool_protocol::upgrade::UpgradeOrder;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// How this process was started, so that it can start another program in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restart {
    /// Path of the program, without symbolic links.
    pub program: PathBuf,
    /// All arguments after the program.
    pub arguments: Vec<OsString>,
    /// The file that runs in this process.
    pub file: FileId,
}

/// A file: its device and its inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the file at this path.
    ///
    /// # Errors
    /// The system's error, if the file can't be examined.
    pub fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

impl Restart {
    /// Returns true if the path still has the file that runs. Another worker or a package manager may have replaced it.
    /// Then the present program can't be started again, and has no place to which it could come back.
    pub(crate) fn is_unchanged(&self) -> bool {
        FileId::at(&self.program).is_ok_and(|file| file == self.file)
    }

    /// Returns the path next to the program for this purpose.
    fn beside(&self, purpose: &str) -> PathBuf {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        self.program.with_file_name(format!(".{name}.{purpose}"))
    }

    /// Returns the path of the program before the last upgrade.
    pub fn previous(&self) -> PathBuf {
        self.beside("previous")
    }
}

/// A verified program next to the present one. It is removed on drop, unless it has replaced the present one.
#[derive(Debug)]
pub struct Staged {
    /// The file.
    file: StagedFile,
    /// The order that it belongs to.
    pub order: UpgradeOrder,
    /// How this process was started.
    pub restart: Restart,
    /// Data directory of the worker.
    pub data_dir: PathBuf,
}

impl Staged {
    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        &self.file.0
    }
}

/// A file that is removed on drop.
#[derive(Debug)]
struct StagedFile(PathBuf);

impl Drop for StagedFile {
    fn drop(&mut self) {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.0.display(), %error, "a program that is not used can't be removed");
            }
            // After the replacement, the file has the name of the present program.
            _ => {}
        }
    }
}

/// Option of the command `worker` for a trial, with the id of the order.
pub const TRIAL_OPTION: &str = "--upgrade-trial";
/// Line that a program prints in its trial after it has registered.
pub const REGISTERED: &str = "registered";

/// Returns the directory of received programs and of the last failure.
pub fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("upgrade")
}

/// Returns the arguments of a trial.
fn trial_arguments(restart: &Restart, id: UpgradeId) -> Vec<OsString> {
    let mut arguments = restart.arguments.clone();
    arguments.extend([TRIAL_OPTION.into(), id.to_string().into()]);
    arguments
}
