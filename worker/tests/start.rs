//! Tests the start time of an attempt.
#![cfg(target_os = "linux")]

mod support;

use buildpool_protocol::outcome::Ending;
use nix::libc;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};
use support::{argv, pool, until};

/// Lease type of a file. While another process waits to open it, this is the type that the lease
/// changes to (fcntl(2), F_GETLEASE).
fn lease_of(file: &File) -> i32 {
    // SAFETY: the descriptor is open, and no memory is passed.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) }
}

fn set_lease(file: &File, kind: i32) -> std::io::Result<()> {
    // SAFETY: the descriptor is open, and no memory is passed.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_begins_before_its_command_can_do_anything() {
    // The kernel sends this signal to the holder of a lease when a process waits for the file.
    // SAFETY: ignoring a signal runs no handler.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    let (coordinator, _worker, data) = pool().await;
    let program = data.path().join("program");
    std::fs::write(&program, "#!/bin/sh\nexit 7\n").expect("a disk");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let file = File::open(&program).expect("it is there");
    if let Err(error) = set_lease(&file, libc::F_WRLCK) {
        return eprintln!("SKIPPED: only where files can be leased ({error})");
    }
    let lease = coordinator.grant(argv(&[program.to_str().expect("UTF-8")]));
    // The process exists and waits for its program. From now on it could write a report.
    until("the process", || (lease_of(&file) == libc::F_RDLCK).then_some(())).await;
    let there = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    tokio::time::sleep(Duration::from_millis(5)).await;
    set_lease(&file, libc::F_UNLCK).expect("it is ours");
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 7 });
    let started_at_ms = outcome.started_at_ms.expect("it was started");
    assert!(u128::try_from(started_at_ms).expect("it is later") <= there.as_millis(), "{started_at_ms}");
}
