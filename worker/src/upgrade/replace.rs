//! The last steps: the trial, the rename, and the start of the program in this process.

use super::trial::{self, TrialResult};
use super::{Restart, Staged, failure};
use crate::daemon::Shutdown;
use buildpool_protocol::upgrade::{UpgradeStage, UpgradeState};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tracing::{error, info, warn};

/// Time in which the runtime reads the signals that its handler has caught. They are in a pipe at that time.
const SIGNALS_READ_WITHIN: Duration = Duration::from_millis(20);

/// Carries out an upgrade after the daemon has ended. Returns only if this process should end, or if no program can be
/// started in its place.
///
/// # Errors
/// The system's error, if neither program starts. The service manager starts this one again.
pub async fn replace(staged: Staged, mut shutdown: Shutdown) -> io::Result<()> {
    let version = staged.order.version.clone();
    let is_unchanged = staged.restart.is_unchanged();
    let tried = if is_unchanged {
        info!(version, "the new program is tried");
        trial::run(&staged, &mut shutdown).await
    } else {
        TrialResult::Failed("the program was replaced while it ran; the one in its place starts".to_owned())
    };
    if tried == TrialResult::Shutdown || is_shutdown_requested(&shutdown).await {
        info!(version, "the upgrade ends, because the worker should end");
        return Ok(());
    }
    let failed = match tried {
        TrialResult::Shutdown => return Ok(()),
        TrialResult::Failed(reason) => reason,
        TrialResult::Registered => match swap(staged.path(), &staged.restart) {
            Ok(()) => {
                failure::remove(&staged.data_dir);
                info!(version, "the new program is in its place; it starts");
                let refused = execute(&staged.restart);
                put_back(&staged.restart);
                format!("the new program can't be executed: {refused}")
            }
            Err(error) => format!("{} can't be replaced: {error}", staged.restart.program.display()),
        },
    };
    error!(version, "the upgrade failed: {failed}");
    let state = UpgradeState { id: staged.order.id, version, stage: UpgradeStage::Failed, reason: failed };
    // The program at the path may be the one that was ordered.
    if is_unchanged && let Err(error) = failure::write(&staged.data_dir, &state) {
        error!("the failure can't be recorded, so the coordinator will not know it: {error}");
    }
    let restart = staged.restart.clone();
    // The new program is removed before this process executes another one.
    drop(staged);
    Err(execute(&restart))
}

/// Returns true if the shutdown of this process was requested. From then on, SIGTERM ends it at once: another program is
/// executed soon, which would not know about a signal that this one has caught. Each file is complete at each moment.
async fn is_shutdown_requested(shutdown: &Shutdown) -> bool {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // SAFETY: the default action runs no handler.
        if let Err(error) = unsafe { sigaction(signal, &default) } {
            warn!("{signal} keeps its handler: {error}");
        }
    }
    tokio::time::sleep(SIGNALS_READ_WITHIN).await;
    // The task that passes signals on may come after this one.
    tokio::task::yield_now().await;
    shutdown.is_requested()
}

/// Puts the new program in the place of the present one, which keeps a second name. At each moment the path has one of the
/// two. The new program is another file, so the kernel's record of the old one's code signature does not apply to it
/// (Apple, "Updating Mac Software": replace the file, don't write into it).
///
/// # Errors
/// Fails if the present program is still in its place.
fn swap(new: &Path, restart: &Restart) -> io::Result<()> {
    let (program, previous) = (&restart.program, restart.previous());
    match fs::remove_file(&previous) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(program, &previous)?;
    fs::rename(new, program)?;
    // Without this, a power failure may bring the present program back.
    if let Err(error) =
        File::open(program.parent().unwrap_or(Path::new("/"))).and_then(|file| file.sync_all())
    {
        warn!("the directory of the new program can't be written to the disk now: {error}");
    }
    Ok(())
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
