//! Wait statuses, taken from the kernel as they are.

use buildpool_protocol::outcome::Ending;
use buildpool_protocol::report::Usage;
use nix::libc;
use nix::sys::signal::Signal;
use std::io;
use std::mem;

/// How a child ended and what it and its own waited-for children used.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reaped {
    pub(super) pid: i32,
    pub(super) ending: Ending,
    pub(super) usage: Usage,
}

/// What a look at the children gave.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Look {
    /// One has ended.
    Reaped(Reaped),
    /// There are some, none has ended.
    Alive,
    /// There is none.
    Childless,
}

/// Takes the status of one child that has ended, without waiting.
pub(super) fn reap_one() -> io::Result<Look> {
    let mut status = 0;
    // SAFETY: an all-zero value is valid for this plain C structure.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    loop {
        // SAFETY: both places are owned by this frame and of the types that wait4(2) writes.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid > 0 {
            return Ok(Look::Reaped(Reaped { pid, ending: ending(status), usage: convert(&usage) }));
        }
        if pid == 0 {
            return Ok(Look::Alive);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ECHILD) => return Ok(Look::Childless),
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

/// The name that the signal has on this platform.
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

/// Adds what another part of the tree used.
pub(super) fn add(total: &mut Usage, part: &Usage) {
    total.user_secs += part.user_secs;
    total.system_secs += part.system_secs;
    total.max_rss_bytes = total.max_rss_bytes.max(part.max_rss_bytes);
}

#[cfg(test)]
mod tests {
    use super::{ending, signal_name};
    use buildpool_protocol::outcome::Ending;

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
