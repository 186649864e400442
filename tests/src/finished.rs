//! What a command left behind.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Output};

/// A command that ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// Byte for byte.
    pub stdout: Vec<u8>,
    /// Byte for byte.
    pub stderr: Vec<u8>,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self { status: output.status, stdout: output.stdout, stderr: output.stderr }
    }
}

impl Finished {
    /// Its exit code; 128 and the signal, if it died of one.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }

    /// Its stdout as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its stderr as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Its stdout as JSON.
    ///
    /// # Panics
    /// When it is none; the message has both streams.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("no JSON: {error}: {self}"))
    }

    /// Itself, if it exited with this code.
    ///
    /// # Panics
    /// When it did not; the message has both streams.
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
