//! The files that a command sees.

use buildpool_protocol::outcome::StartFailure;
use buildpool_protocol::spec::Source;
use buildpool_protocol::worker_link::Grant;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that are laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// Where the command runs.
    pub directory: PathBuf,
}

/// Lays out the files of an attempt. What belongs to it alone goes below `attempt_directory`.
///
/// # Errors
/// When the directory of a job in place is not absolute, or the files can't be laid out.
pub fn prepare(grant: &Grant, attempt_directory: &Path) -> Result<Prepared, StartFailure> {
    match &grant.spec.source {
        Source::InPlace { directory } => {
            let directory = PathBuf::from(directory);
            if !directory.is_absolute() {
                return Err(StartFailure::Directory {
                    path: directory.display().to_string(),
                    reason: "a job in place names an absolute directory".to_owned(),
                });
            }
            Ok(Prepared { directory })
        }
        Source::Empty => {
            let directory = attempt_directory.join("empty");
            fs::create_dir(&directory).map_err(|error| StartFailure::Workspace {
                reason: format!("{}: {error}", directory.display()),
            })?;
            Ok(Prepared { directory })
        }
        Source::Snapshot { .. } => {
            Err(StartFailure::Workspace { reason: "this worker cannot lay out snapshots".to_owned() })
        }
    }
}
