//! Early end of a command: a message for stderr and an exit code.

use buildpool_client::{ClientError, chain};
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The pool refused the request.
pub(crate) const REFUSED: u8 = 1;
/// The arguments are invalid.
pub(crate) const USAGE: u8 = 2;
/// The pool, not a command, failed.
pub(crate) const POOL: u8 = 125;
/// Cancelled by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM; the exit code that shells use for it.
pub(crate) const TERMINATED: u8 = 143;
/// Stdout is closed; the exit code that shells use for SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// Reason why a command failed, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Message for stderr after `buildpool: `. Nothing is printed if it is empty.
    message: String,
    code: u8,
}

impl Failure {
    /// Returns a failure with this message.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), code }
    }

    /// Returns a failure with an error and all of its sources.
    pub(crate) fn from_error(code: u8, error: &dyn Error) -> Self {
        Self::new(code, chain(error))
    }

    /// Returns a failure with the attempted operation and its error.
    pub(crate) fn while_doing(code: u8, operation: impl Display, error: &dyn Error) -> Self {
        Self::new(code, format!("{operation}: {}", chain(error)))
    }

    /// Appends another clause to the message.
    pub(crate) fn and(self, more: &str) -> Self {
        Self { message: format!("{}; {more}", self.message()), ..self }
    }

    /// Returns the message.
    pub(crate) fn message(&self) -> &str {
        self.message.trim_end()
    }

    /// Converts the exit code for `run`: a failure that is not from the command is one of the pool.
    pub(crate) fn of_run(self) -> Self {
        match self.code {
            REFUSED | USAGE => Self { code: POOL, ..self },
            _ => self,
        }
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            // An error means that stderr is closed.
            let _ = writeln!(io::stderr(), "buildpool: {}", self.message());
        }
        ExitCode::from(self.code)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let code = match &error {
            ClientError::PlainBeyondLoopback { .. } => USAGE,
            ClientError::Refused(error) if !error.code.is_worth_a_retry() => REFUSED,
            ClientError::Refused(_)
            | ClientError::Unreachable { .. }
            | ClientError::Untrusted { .. }
            | ClientError::Authorities { .. }
            | ClientError::NoHttp { .. }
            | ClientError::NotAPool { .. }
            | ClientError::Unauthorized { .. }
            | ClientError::VersionMismatch { .. }
            | ClientError::Misbehaved(_)
            | ClientError::Interrupted { .. }
            | ClientError::Busy { .. }
            | ClientError::Local(_)
            | ClientError::Closed => POOL,
        };
        Self::from_error(code, &error)
    }
}

/// Converts an error of writing to stdout into a failure.
pub(crate) fn of_stdout(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(BROKEN_PIPE, ""),
        _ => Failure::while_doing(REFUSED, "stdout can't be written", error),
    }
}
