//! The guardian of a keeper, on systems with orphan adoption (Linux). It is the keeper's parent and
//! only waits for it. If a keeper dies with its attempt, the guardian adopts the tree and ends it
//! immediately, even if the worker's daemon is dead.

use super::tree::Tree;
use crate::platform;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::io;

/// Exit code if a signal killed the keeper.
const KEEPER_DIED: i32 = 1;

/// Forks this process, which must have only one thread. Returns only in the child, which becomes
/// the keeper. The value is true if the keeper adopts orphans. Without adoption there is no
/// guardian.
///
/// # Errors
/// Fails if no process can be created.
pub(super) fn start_guardian() -> io::Result<bool> {
    if !platform::adopt_orphans() {
        return Ok(false);
    }
    // SAFETY: there is one thread, so that no lock is held by another in either of the two.
    match unsafe { fork() }? {
        // A child does not inherit the adoption from the guardian.
        ForkResult::Child => Ok(platform::adopt_orphans()),
        ForkResult::Parent { child } => std::process::exit(run_guardian(child)),
    }
}

fn run_guardian(keeper: Pid) -> i32 {
    // The worker must see the end of its connection after the keeper ends. Errors here are ignored.
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
