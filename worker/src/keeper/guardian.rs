//! What stands behind a keeper where orphans can be adopted (Linux): its parent, which does nothing but wait for it. When a
//! keeper dies with its attempt, the tree comes to its guardian and is ended at once, whether or not the worker's daemon lives.

use super::tree::Tree;
use crate::platform;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::io;

/// Exit code when the keeper died of a signal.
const KEEPER_DIED: i32 = 1;

/// Splits this process, which must have one thread, in two: returns in the one that becomes the keeper, and never in the other.
/// True when orphans come to the keeper; without that there is no guardian.
///
/// # Errors
/// When no process can be made.
pub(super) fn stand_behind() -> io::Result<bool> {
    if !platform::adopt_orphans() {
        return Ok(false);
    }
    // SAFETY: there is one thread, so that no lock is held by another in either of the two.
    match unsafe { fork() }? {
        // What comes to the guardian does not come to its children by itself.
        ForkResult::Child => Ok(platform::adopt_orphans()),
        ForkResult::Parent { child } => std::process::exit(guard(child)),
    }
}

fn guard(keeper: Pid) -> i32 {
    // The worker must see the end of its connection when the keeper is gone. What fails here holds up nothing else.
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty());
    let _ = null.and_then(|null| nix::unistd::dup2_stdin(&null));
    let _ = std::env::set_current_dir("/");
    let code = loop {
        match waitpid(keeper, None) {
            Ok(WaitStatus::Exited(_, code)) => break code,
            Ok(WaitStatus::Signaled(..)) => break KEEPER_DIED,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break KEEPER_DIED,
        }
    };
    Tree::of_orphans().kill_until_gone();
    code
}
