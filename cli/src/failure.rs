//! What ends a command early: one sentence for stderr and an exit code.

use buildpool_gateway::client::{ClientError, chain};
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The pool said no.
pub(crate) const REFUSED: u8 = 1;
/// The arguments make no sense.
pub(crate) const USAGE: u8 = 2;
/// The pool, not a command, failed.
pub(crate) const POOL: u8 = 125;
/// Cancelled by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM: what a shell reports for a death by it.
pub(crate) const TERMINATED: u8 = 143;
/// Nobody reads: what a shell reports for a death by SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// Why a command could not do as it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Said on stderr behind `buildpool: `; nothing is said when it is empty.
    message: String,
    code: u8,
}

impl Failure {
    /// With a message of its own.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), code }
    }

    /// Of an error, with everything that caused it.
    pub(crate) fn of(code: u8, error: &dyn Error) -> Self {
        Self::new(code, chain(error))
    }

    /// What was being done, and why it did not come about.
    pub(crate) fn while_doing(code: u8, what: impl Display, error: &dyn Error) -> Self {
        Self::new(code, format!("{what}: {}", chain(error)))
    }

    /// The same, with more to be said behind it.
    pub(crate) fn and(self, more: &str) -> Self {
        Self { message: format!("{}; {more}", self.message()), ..self }
    }

    /// What is said.
    pub(crate) fn message(&self) -> &str {
        self.message.trim_end()
    }

    /// In `run`, whatever is not the command's is the pool's.
    pub(crate) fn of_run(self) -> Self {
        match self.code {
            REFUSED | USAGE => Self { code: POOL, ..self },
            _ => self,
        }
    }

    /// Says it and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            // With stderr closed there is nobody left to tell.
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
        Self::of(code, &error)
    }
}

/// What a failed write to stdout means.
pub(crate) fn of_stdout(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(BROKEN_PIPE, ""),
        _ => Failure::while_doing(REFUSED, "stdout can't be written", error),
    }
}
