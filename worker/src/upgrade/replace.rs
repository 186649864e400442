//! The last steps: the trial, the rename, and the start of the program in this process.

use super::trial::{self, Verdict};
use super::{Restart, Staged, failure};
use crate::daemon::Shutdown;
use buildpool_protocol::upgrade::{UpgradeStage, UpgradeState};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use tracing::{error, info};

/// Carries out an upgrade after the daemon has ended. Returns only if this process should end, or if no program can be
/// started in its place.
///
/// # Errors
/// The system's error, if neither program starts. The service manager starts this one again.
pub async fn replace(staged: Staged, mut shutdown: Shutdown) -> io::Result<()> {
    let version = &staged.order.version;
    if !staged.restart.is_unchanged() {
        staged.remove();
        error!(
            version,
            "the upgrade failed: the program was replaced while it ran; the one in its place starts"
        );
        return Err(execute(&staged.restart));
    }
    info!(version, "the new program is tried");
    let failed = match trial::run(&staged, &mut shutdown).await {
        Verdict::Shutdown => {
            staged.remove();
            return Ok(());
        }
        Verdict::Failed(reason) => {
            staged.remove();
            reason
        }
        Verdict::Registered => match swap(&staged.path, &staged.restart) {
            Ok(()) => {
                failure::remove(&staged.data_dir);
                info!(version, "the new program is in its place; it starts");
                let refused = execute(&staged.restart);
                put_back(&staged.restart);
                format!("the new program can't be executed: {refused}")
            }
            Err(error) => {
                staged.remove();
                format!("{} can't be replaced: {error}", staged.restart.program.display())
            }
        },
    };
    error!(version, "the upgrade failed: {failed}");
    let state = UpgradeState {
        id: staged.order.id,
        version: version.clone(),
        stage: UpgradeStage::Failed,
        reason: failed,
    };
    if let Err(error) = failure::write(&staged.data_dir, &state) {
        error!("the failure can't be recorded, so the coordinator will not know it: {error}");
    }
    Err(execute(&staged.restart))
}

/// Puts the new program in the place of the present one, which keeps a second name. At each moment the path has one of the
/// two. The new program is another file, so the kernel's record of the old one's code signature does not apply to it
/// (Apple, "Updating Mac Software": replace the file, don't write into it).
fn swap(new: &Path, restart: &Restart) -> io::Result<()> {
    let (program, previous) = (&restart.program, restart.previous());
    match fs::remove_file(&previous) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(program, &previous)?;
    fs::rename(new, program)?;
    File::open(program.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Puts the previous program back to its place.
fn put_back(restart: &Restart) {
    if let Err(error) = fs::rename(restart.previous(), &restart.program) {
        error!("the previous program can't be put back: {error}");
    }
}

/// Executes the program at the path in this process. The process id stays, so a service manager sees no restart. Returns
/// the system's error.
fn execute(restart: &Restart) -> io::Error {
    Command::new(&restart.program).args(&restart.arguments).exec()
}

#[cfg(test)]
mod tests {
    use super::{put_back, swap};
    use crate::upgrade::{FileId, Restart};
    use std::fs;

    #[test]
    fn the_previous_program_is_kept_and_can_come_back() {
        let place = tempfile::tempdir().expect("a directory");
        let program = place.path().join("buildpool");
        fs::write(&program, "1").expect("written");
        let file = FileId::at(&program).expect("it exists");
        let restart = Restart { program, arguments: Vec::new(), file };
        assert!(restart.is_unchanged());
        let read = || fs::read_to_string(&restart.program).expect("a program");
        for (new, old) in [("2", "1"), ("3", "2")] {
            let staged = place.path().join("new");
            fs::write(&staged, new).expect("written");
            swap(&staged, &restart).expect("swapped");
            assert_eq!((read().as_str(), staged.exists()), (new, false));
            assert!(!restart.is_unchanged(), "another file is at the path");
            assert_eq!(fs::read_to_string(restart.previous()).expect("kept"), old);
        }
        put_back(&restart);
        assert_eq!(read(), "2");
    }
}
