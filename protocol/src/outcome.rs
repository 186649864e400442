//! How an attempt ended: facts from the worker, and no judgement. The verdict is made of them elsewhere.

use crate::duration;
use crate::evidence::Evidence;
use crate::report::{ArtifactEntry, GapEntry, Survivor, Usage};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the kernel said of the command's own process, or why there was none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It ended by itself with this code, 0 to 255.
    Exited {
        /// The process's own.
        code: i32,
    },
    /// It died of a signal.
    Signaled {
        /// The number on the worker's platform.
        signal: i32,
        /// The name, which is the same on every platform: `SIGSEGV`.
        name: String,
        /// Whether a core was dumped.
        core_dump: bool,
    },
    /// It could not be started.
    NotStarted(StartFailure),
    /// It was started, and whoever watched it died without writing down how it ended.
    Unobserved {
        /// What is known.
        reason: String,
    },
}

/// Why a command could not be started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFailure {
    /// No such program: 127, as from a shell.
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// It is there and can't be executed: 126, as from a shell.
    NotExecutable {
        /// As it was asked for.
        program: String,
        /// The system's reason.
        reason: String,
    },
    /// The command's directory is not there or can't be entered.
    Directory {
        /// Which.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The files could not be laid out. The pool's fault, not the command's.
    Workspace {
        /// What went wrong.
        reason: String,
    },
    /// The worker could not make a process (memory, process limit). The pool's fault, not the command's.
    Resources {
        /// The system's reason.
        reason: String,
    },
}

impl StartFailure {
    /// 127 or 126 where a shell would give them; none for what is not the command's fault.
    pub const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::NotFound { .. } => Some(127),
            Self::NotExecutable { .. } => Some(126),
            Self::Directory { .. } | Self::Workspace { .. } | Self::Resources { .. } => None,
        }
    }
}

/// Why the pool itself ended the process; written down before the first signal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acted {
    /// It ran longer than asked.
    Timeout {
        /// The limit.
        #[serde(with = "duration")]
        after: Duration,
        /// A good part of that time its output was held, so that it could not go on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<OutputHeld>,
    },
    /// It wrote nothing for longer than asked.
    IdleTimeout {
        /// The limit.
        #[serde(with = "duration")]
        after: Duration,
    },
    /// Somebody cancelled it.
    Cancelled {
        /// Who: a token's name or `local`.
        by: String,
        /// In their words; may be empty.
        reason: String,
    },
    /// The worker is being emptied and its deadline came.
    Drained,
    /// The worker was cut off for so long that the job may run elsewhere.
    CutOff,
    /// A newer grant exists.
    Fenced,
    /// The disk for its output is full, or the log is over its limit.
    OutputLimit {
        /// Which.
        reason: String,
    },
}

/// Output that nobody takes because the worker's disk refuses it: the command waits at its pipe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutputHeld {
    /// How long, so far or in all.
    #[serde(with = "duration")]
    pub held_for: Duration,
    /// The system's word.
    pub reason: String,
}

/// A stream declared complete.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seal {
    /// Bytes in the stream, holes included.
    pub length: u64,
    /// BLAKE3 over the bytes that there are, in hexadecimal.
    pub blake3: String,
}

/// Everything that the worker knows about how an attempt ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The kernel's word.
    pub ending: Ending,
    /// Why the pool ended it, if it did.
    #[serde(default)]
    pub acted: Option<Acted>,
    /// Milliseconds since 1970 by the worker's clock; absent if no process was started.
    #[serde(default)]
    pub started_at_ms: Option<i64>,
    /// Milliseconds since 1970 by the worker's clock.
    pub finished_at_ms: i64,
    /// From start to end by a clock that no one sets.
    #[serde(with = "duration")]
    pub duration: Duration,
    /// Seals of stdout and stderr.
    pub seals: [Seal; 2],
    /// Where the log ends: its whole length, chunk headers included.
    pub log_length: u64,
    /// What the process tree used.
    #[serde(default)]
    pub usage: Usage,
    /// Processes of the job that could not be ended.
    #[serde(default)]
    pub survivors: Vec<Survivor>,
    /// Processes that outlived the command and were ended.
    #[serde(default)]
    pub leaked: Vec<Survivor>,
    /// Holes in the log.
    #[serde(default)]
    pub gaps: Vec<GapEntry>,
    /// What files said.
    #[serde(default)]
    pub evidence: Evidence,
    /// Files to bring back.
    #[serde(default)]
    pub artifacts: Vec<ArtifactEntry>,
    /// The top of the files on the worker: places in the output are shown relative to it.
    #[serde(default)]
    pub root: Option<String>,
}

/// From the wait status, for people and programs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ProcessState {
    /// It ended by itself.
    pub exited: bool,
    /// It died of a signal.
    pub signaled: bool,
    /// The number on the worker's platform.
    pub signal: Option<i32>,
    /// The name, the same on every platform.
    pub signal_name: Option<String>,
    /// Whether a core was dumped.
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

/// What kind of bad end it was.
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
    /// SIGKILL that was not ours.
    Killed,
    /// SIGINT.
    Interrupted,
    /// SIGTERM that was not ours.
    Terminated,
    /// Ended by us for its time.
    Timeout,
    /// It did not build.
    BuildFailure,
    /// Tests failed.
    TestFailure,
    /// The simulator or the app in it crashed.
    SimulatorCrash,
    /// A bad end that nothing explains further.
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
    /// The kernel ended it for its memory.
    OutOfMemory,
    /// Ended by us because somebody asked.
    Cancelled,
}

impl CrashType {
    /// The name in JSON: `segmentation_fault`.
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

    /// The type of a death by this signal; `Unknown` for signals without a type of their own.
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
