//! Crash reports of a job.

use serde::{Deserialize, Serialize};

/// Crash indicators in the log. An indicator is not a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each is named after the line that sets it; docs/endings.md lists the lines")]
pub struct CrashIndicators {
    pub test_runner_crashed: bool,
    pub connection_interrupted: bool,
    pub early_exit: bool,
    pub never_began_testing: bool,
    pub bundle_load_failed: bool,
    pub simulator_boot_timeout: bool,
    pub test_process_crashed: bool,
    pub restarted_after_crash: bool,
    pub fatal_error: bool,
    pub uncaught_exception: bool,
    pub unexpected_signal: bool,
    pub runner_error: bool,
    pub runner_not_launched: bool,
    pub sanitizer: bool,
    pub panic: bool,
    pub killed: bool,
    pub out_of_memory: bool,
    pub tests_unfinished: bool,
    pub test_count_collapsed: bool,
}

/// Fields of a crash report file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CrashReport {
    /// `procName`.
    pub process_name: String,
    /// `procPath`.
    pub process_path: Option<String>,
    /// Process id.
    pub pid: Option<i64>,
    /// `EXC_BREAKPOINT`.
    pub exception_type: Option<String>,
    /// `SIGTRAP`.
    pub signal: Option<String>,
    /// Termination reason as reported by the system.
    pub termination: Option<Termination>,
    /// RFC 3339.
    pub timestamp: Option<String>,
    /// Path on the worker.
    pub file_path: String,
    /// Frames of the faulting thread, innermost first.
    pub top_frames: Vec<String>,
    /// `Fatal error: …` and other last messages of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The process fact that matches it to the job: `pid`, `parent_pid`, `responsible_pid`,
    /// `simulator_device`, `process_path`, `attached`, `named`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_by: Option<String>,
}

/// A termination reason. The code is a signal only in namespace `SIGNAL`, and can be wider than 32
/// bits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Termination {
    /// `SIGNAL`, `DYLD`, `CODESIGNING`…
    pub namespace: Option<String>,
    /// Code in this namespace.
    pub code: Option<i64>,
    /// Text form of the code.
    pub indicator: Option<String>,
}
