//! Reaps wait statuses from the kernel.

use crate::limits::REAP_MAX;
use crate::platform::Now;
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::report::Usage;
use nix::libc;
use nix::sys::signal::Signal;
use std::io;
use std::mem;
use std::time::Duration;

/// Wait status of a child, and the resource usage of it and its own reaped children.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reaped {
    pub(super) pid: i32,
    pub(super) ending: Ending,
    pub(super) usage: Usage,
}

/// Result of one check of the children.
#[derive(Clone, PartialEq, Debug)]
enum WaitResult {
    /// A child has ended.
    Reaped(Reaped),
    /// There are children, but no ended one.
    Running,
    /// There are no children.
    NoChildren,
}

/// The remaining children after a reap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChildrenLeft {
    /// No child.
    NoChildren,
    /// Only running children.
    Running,
    /// Children, and more of them may have ended.
    Unchecked,
}

/// Reaps the available statuses. It reaps at least one, stops at `until` by the running clock, and
/// stops after [`REAP_MAX`]. More children may end continuously. The system returns the oldest
/// child first (wait4(2) on Linux), which is the command.
pub(super) fn reap_all(until: Duration, reaped: impl FnMut(Reaped)) -> io::Result<ChildrenLeft> {
    reap_with(until, reap_one, reaped)
}

fn reap_with(
    until: Duration,
    mut wait_once: impl FnMut() -> io::Result<WaitResult>,
    mut reaped: impl FnMut(Reaped),
) -> io::Result<ChildrenLeft> {
    for _ in 0..REAP_MAX {
        match wait_once()? {
            WaitResult::Reaped(one) => reaped(one),
            WaitResult::Running => return Ok(ChildrenLeft::Running),
            WaitResult::NoChildren => return Ok(ChildrenLeft::NoChildren),
        }
        if Now::read().running >= until {
            break;
        }
    }
    Ok(ChildrenLeft::Unchecked)
}

/// Reaps one ended child without blocking.
fn reap_one() -> io::Result<WaitResult> {
    let mut status = 0;
    // SAFETY: an all-zero value is valid for this plain C structure.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    loop {
        // SAFETY: both places are owned by this frame and of the types that wait4(2) writes.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid > 0 {
            return Ok(WaitResult::Reaped(Reaped { pid, ending: ending(status), usage: convert(&usage) }));
        }
        if pid == 0 {
            return Ok(WaitResult::Running);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ECHILD) => return Ok(WaitResult::NoChildren),
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

fn ending(status: i32) -> Ending {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        Ending::Signaled { signal, name: signal_name(signal), core_dump: libc::WCOREDUMP(status) }
    } else {
        Ending::Exited { code: libc::WEXITSTATUS(status) }
    }
}

/// Returns the signal's name on this platform.
fn signal_name(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("SIG{signal}"),
    }
}

fn convert(usage: &libc::rusage) -> Usage {
    #[allow(clippy::cast_precision_loss, reason = "seconds fit a double for longer than jobs run")]
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Usage {
        user_secs: seconds(usage.ru_utime),
        system_secs: seconds(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * crate::platform::RSS_UNIT_BYTES,
    }
}

/// Adds the usage of another part of the tree.
pub(super) fn add(total: &mut Usage, part: &Usage) {
    total.user_secs += part.user_secs;
    total.system_secs += part.system_secs;
    total.max_rss_bytes = total.max_rss_bytes.max(part.max_rss_bytes);
}

#[cfg(test)]
mod tests {
    use super::{ChildrenLeft, Reaped, WaitResult, ending, reap_with, signal_name};
    use crate::limits::REAP_MAX;
    use buildpool_protocol::outcome::Ending;
    use buildpool_protocol::report::Usage;
    use std::time::Duration;

    #[test]
    fn statuses_that_come_without_end_hold_nobody_up() {
        let reaped_count = |until: Duration, there: usize| {
            let mut count = 0;
            let mut left_there = there;
            let wait_once = || {
                Ok(match left_there.checked_sub(1) {
                    Some(left) => {
                        left_there = left;
                        let ending = Ending::Exited { code: 0 };
                        WaitResult::Reaped(Reaped { pid: 7, ending, usage: Usage::default() })
                    }
                    None => WaitResult::NoChildren,
                })
            };
            let left = reap_with(until, wait_once, |_| count += 1).expect("no look fails");
            (left, count)
        };
        // One status is reaped even after the time limit: the first may belong to the command.
        assert_eq!(reaped_count(Duration::ZERO, usize::MAX), (ChildrenLeft::Unchecked, 1));
        assert_eq!(reaped_count(Duration::MAX, usize::MAX), (ChildrenLeft::Unchecked, REAP_MAX));
        assert_eq!(reaped_count(Duration::MAX, 3), (ChildrenLeft::NoChildren, 3));
        assert_eq!(reaped_count(Duration::ZERO, 0), (ChildrenLeft::NoChildren, 0));
    }

    #[test]
    fn statuses_are_told_apart() {
        assert_eq!(ending(0), Ending::Exited { code: 0 });
        assert_eq!(ending(255 << 8), Ending::Exited { code: 255 });
        assert_eq!(
            ending(11 | 0x80),
            Ending::Signaled { signal: 11, name: "SIGSEGV".into(), core_dump: true }
        );
        assert_eq!(ending(9), Ending::Signaled { signal: 9, name: "SIGKILL".into(), core_dump: false });
        assert_eq!(signal_name(63), "SIG63");
    }
}
