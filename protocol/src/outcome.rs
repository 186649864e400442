//! The outcome of an attempt: facts from the worker, without interpretation. The coordinator
//! computes the verdict from them.

use crate::duration;
use crate::evidence::Evidence;
use crate::report::{ArtifactEntry, GapEntry, Survivor, Usage};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Wait status of the command's own process, or the reason why it is missing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this code, 0 to 255.
    Exited {
        /// Exit code of the process itself.
        code: i32,
    },
    /// A signal killed it.
    Signaled {
        /// The number on the worker's platform.
        signal: i32,
        /// The name, which is the same on every platform: `SIGSEGV`.
        name: String,
        /// True if a core was dumped.
        core_dump: bool,
    },
    /// It could not be started.
    NotStarted(StartFailure),
    /// It was started, but the keeper died before it recorded the wait status.
    Unobserved {
        /// The known facts.
        reason: String,
    },
}

/// Reason why a command could not be started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFailure {
    /// The program does not exist: 127, as in a shell.
    NotFound {
        /// The program as requested.
        program: String,
    },
    /// The program cannot be executed: 126, as in a shell.
    NotExecutable {
        /// The program as requested.
        program: String,
        /// The system error.
        reason: String,
    },
    /// The command's directory does not exist or cannot be entered.
    Directory {
        /// Path of the directory.
        path: String,
        /// The system error.
        reason: String,
    },
    /// The workspace could not be prepared. The pool is at fault, not the command.
    Workspace {
        /// The reason.
        reason: String,
    },
    /// The worker could not create a process (memory, process limit). The pool is at fault, not the
    /// command.
    Resources {
        /// The system error.
        reason: String,
    },
}

impl StartFailure {
    /// Returns 127 or 126 as a shell would. Returns `None` if the command is not at fault.
    pub const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::NotFound { .. } => Some(127),
            Self::NotExecutable { .. } => Some(126),
            Self::Directory { .. } | Self::Workspace { .. } | Self::Resources { .. } => None,
        }
    }
}

/// Reason why the pool ended the process. It is recorded before the first signal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// It exceeded its time limit.
    Timeout {
        /// The limit.
        #[serde(with = "duration")]
        after: Duration,
        /// Set if its output was blocked for a significant part of that time, so that it could not
        /// continue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<OutputHeld>,
    },
    /// It wrote no output for longer than its limit.
    IdleTimeout {
        /// The limit.
        #[serde(with = "duration")]
        after: Duration,
    },
    /// A user cancelled it.
    Cancelled {
        /// The user: the name of a token, or `local`.
        by: String,
        /// Reason given by the user. May be empty.
        reason: String,
    },
    /// The worker is draining and its deadline has passed.
    Drained,
    /// The worker was disconnected for so long that the job may run on another worker.
    CutOff,
    /// A newer grant exists.
    Fenced,
    /// The files that it changed in its workspace are larger than its limit.
    DiskLimit {
        /// Their size in bytes.
        used_bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// The disk for its output is full, or the log exceeds its limit.
    OutputLimit {
        /// The reason.
        reason: String,
    },
}

/// Blocked output: the worker's disk refuses writes, so the command blocks on its pipe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutputHeld {
    /// Duration so far or in total.
    #[serde(with = "duration")]
    pub held_for: Duration,
    /// The system error.
    pub reason: String,
}

/// A stream declared complete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seal {
    /// Bytes in the stream, holes included.
    pub length: u64,
    /// BLAKE3 over the existing bytes, in hexadecimal.
    pub blake3: String,
}

/// How the setup of a workspace ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SetupOutcome {
    /// The configured command.
    pub command: String,
    /// The kernel's word.
    pub ending: Ending,
    /// From start to end by a clock that no one sets.
    #[serde(with = "duration")]
    pub duration: Duration,
    /// The end of its output, both streams in order, as UTF-8.
    pub log: String,
    /// Length of its whole output in bytes.
    pub log_bytes: u64,
}

impl SetupOutcome {
    /// Whether the job's command may run.
    pub fn passed(&self) -> bool {
        self.ending == Ending::Exited { code: 0 }
    }
}

/// All facts of the worker about the end of an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Wait status of the command.
    pub ending: Ending,
    /// Set if the pool ended the process.
    #[serde(default)]
    pub acted: Option<EndReason>,
    /// Start in milliseconds since 1970 by the worker's clock. Absent if no process was started.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// End in milliseconds since 1970 by the worker's clock.
    pub finished_at_ms: i64,
    /// Run time by a monotonic clock.
    #[serde(with = "duration")]
    pub duration: Duration,
    /// Seals of stdout and stderr.
    pub seals: [Seal; 2],
    /// Length of the log, chunk headers included.
    pub log_length: u64,
    /// Resource usage of the process tree.
    #[serde(default)]
    pub usage: Usage,
    /// Processes of the job that could not be ended.
    #[serde(default)]
    pub survivors: Vec<Survivor>,
    /// Processes that outlived the command and were ended.
    #[serde(default)]
    pub leaked: Vec<Survivor>,
    /// Gaps in the log.
    #[serde(default)]
    pub gaps: Vec<GapEntry>,
    /// Evidence from files and the kernel.
    #[serde(default)]
    pub evidence: Evidence,
    /// Artifacts to transfer.
    #[serde(default)]
    pub artifacts: Vec<ArtifactEntry>,
    /// Root directory of the files on the worker. Paths in the output are shown relative to it.
    #[serde(default)]
    pub root: Option<String>,
    /// How the setup of the workspace ended, if it ran. Unless it passed, the command did not run, and the fields above are
    /// about the setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupOutcome>,
}

impl Outcome {
    /// Returns the outcome of an attempt that ended like this, with empty logs that have these seals. All other facts are
    /// absent.
    pub fn new(ending: Ending, finished_at_ms: i64, seals: [Seal; 2]) -> Self {
        Self {
            ending,
            acted: None,
            started_at_ms: None,
            finished_at_ms,
            duration: Duration::ZERO,
            seals,
            log_length: 0,
            usage: Usage::default(),
            survivors: Vec::new(),
            leaked: Vec::new(),
            gaps: Vec::new(),
            evidence: Evidence::default(),
            artifacts: Vec::new(),
            root: None,
            setup: None,
        }
    }
}

/// Process state derived from the wait status.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ProcessState {
    /// True if the process exited.
    pub exited: bool,
    /// True if a signal killed the process.
    pub signaled: bool,
    /// The number on the worker's platform.
    pub signal: Option<i32>,
    /// The name, the same on every platform.
    pub signal_name: Option<String>,
    /// True if a core was dumped.
    pub core_dump: bool,
}

impl From<&Ending> for ProcessState {
    fn from(ending: &Ending) -> Self {
        match ending {
            Ending::Exited { .. } => Self { exited: true, ..Self::default() },
            Ending::Signaled { signal, name, core_dump } => Self {
                signaled: true,
                signal: Some(*signal),
                signal_name: Some(name.clone()),
                core_dump: *core_dump,
                ..Self::default()
            },
            Ending::NotStarted(_) | Ending::Unobserved { .. } => Self::default(),
        }
    }
}

/// Category of an abnormal end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashType {
    /// No crash.
    #[default]
    None,
    /// SIGSEGV.
    SegmentationFault,
    /// SIGABRT.
    Abort,
    /// SIGKILL that the pool did not send.
    Killed,
    /// SIGINT.
    Interrupted,
    /// SIGTERM that the pool did not send.
    Terminated,
    /// The pool ended it at its time limit.
    Timeout,
    /// The build failed.
    BuildFailure,
    /// Tests failed.
    TestFailure,
    /// The simulator or the app in it crashed.
    SimulatorCrash,
    /// An abnormal end without a further explanation.
    Unknown,
    /// SIGTRAP: on arm64 also Swift's `fatalError`.
    Trap,
    /// SIGILL: on x86-64 also Swift's `fatalError`.
    IllegalInstruction,
    /// SIGBUS.
    BusError,
    /// SIGFPE.
    FloatingPointException,
    /// SIGSYS.
    BadSystemCall,
    /// The kernel killed it because of its memory use.
    OutOfMemory,
    /// The pool ended it because a user cancelled it.
    Cancelled,
}

impl CrashType {
    /// Returns the name in JSON: `segmentation_fault`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SegmentationFault => "segmentation_fault",
            Self::Abort => "abort",
            Self::Killed => "killed",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
            Self::Timeout => "timeout",
            Self::BuildFailure => "build_failure",
            Self::TestFailure => "test_failure",
            Self::SimulatorCrash => "simulator_crash",
            Self::Unknown => "unknown",
            Self::Trap => "trap",
            Self::IllegalInstruction => "illegal_instruction",
            Self::BusError => "bus_error",
            Self::FloatingPointException => "floating_point_exception",
            Self::BadSystemCall => "bad_system_call",
            Self::OutOfMemory => "out_of_memory",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the type for a killing signal; `Unknown` for signals without their own type.
    pub fn of_signal(name: &str) -> Self {
        match name {
            "SIGSEGV" => Self::SegmentationFault,
            "SIGABRT" => Self::Abort,
            "SIGKILL" => Self::Killed,
            "SIGINT" => Self::Interrupted,
            "SIGTERM" => Self::Terminated,
            "SIGTRAP" => Self::Trap,
            "SIGILL" => Self::IllegalInstruction,
            "SIGBUS" => Self::BusError,
            "SIGFPE" => Self::FloatingPointException,
            "SIGSYS" => Self::BadSystemCall,
            _ => Self::Unknown,
        }
    }
}
