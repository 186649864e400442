//! The result of a command.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Output};

/// A command that ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Raw bytes of stdout.
    pub stdout: Vec<u8>,
    /// Raw bytes of stderr.
    pub stderr: Vec<u8>,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self { status: output.status, stdout: output.stdout, stderr: output.stderr }
    }
}

impl Finished {
    /// Returns its exit code, or 128 plus the signal that killed it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }

    /// Returns its stdout as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns its stderr as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns its stdout as JSON.
    ///
    /// # Panics
    /// If stdout is not JSON. The message contains both streams.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("no JSON: {error}: {self}"))
    }

    /// Returns itself if it exited with this code.
    ///
    /// # Panics
    /// If it did not. The message contains both streams.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{self}");
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n--- stdout\n{}\n--- stderr\n{}", self.status, self.out(), self.err())
    }
}
