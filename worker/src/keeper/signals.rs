//! Makes the end of a child pollable: the signal handler writes a byte to a pipe.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

static WRITE_END: AtomicI32 = AtomicI32::new(-1);

pub(super) struct ChildSignal {
    reader: PipeReader,
    /// Stays open as long as the handler may write to it.
    _writer: PipeWriter,
}

extern "C" fn on_child(_signal: libc::c_int) {
    let before = nix::errno::Errno::last_raw();
    // SAFETY: write(2) is safe in a handler (signal-safety(7)); the descriptor stays open, and a
    // full pipe is no loss.
    unsafe {
        libc::write(WRITE_END.load(Ordering::Relaxed), c"!".as_ptr().cast(), 1);
    }
    nix::errno::Errno::set_raw(before);
}

impl ChildSignal {
    /// Installs the handler for the rest of the process's life.
    pub(super) fn install() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        set_nonblocking(&reader)?;
        set_nonblocking(&writer)?;
        WRITE_END.store(writer.as_raw_fd(), Ordering::Relaxed);
        let action = SigAction::new(
            SigHandler::Handler(on_child),
            SaFlags::SA_RESTART | SaFlags::SA_NOCLDSTOP,
            SigSet::empty(),
        );
        // SAFETY: the handler only makes a call that is safe in handlers.
        unsafe { sigaction(Signal::SIGCHLD, &action) }?;
        Ok(Self { reader, _writer: writer })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Empties the pipe, before children are checked.
    pub(super) fn clear(&mut self) {
        let mut buffer = [0; 64];
        while matches!(self.reader.read(&mut buffer), Ok(length) if length == buffer.len()) {}
    }
}

/// Ignores the signals by which a session or a service manager ends its processes. A keeper ends
/// with its attempt.
pub(super) fn ignore_requests_to_end() -> nix::Result<()> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
        Signal::SIGXFSZ,
    ] {
        // SAFETY: to ignore a signal runs no handler.
        unsafe { sigaction(signal, &ignore) }?;
    }
    Ok(())
}

fn set_nonblocking(pipe: impl AsFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(&pipe, FcntlArg::F_GETFL)?);
    fcntl(&pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(|_| ())
}
