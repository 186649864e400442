//! One attempt, from its start to the proof that its process tree is empty. Pure: no clock, no
//! system call.
//!
//! ```text
//! Starting ──Started──▶ Running ──a limit, a cancel──▶ Terminating ──grace over──▶ Killing
//!    │                     │                                │  ▲                     │ │
//!    │NotStarted           │Exited                     empty│  │left behind          │ │too long
//!    ▼                     ▼                                │  │                     │ ▼
//!   Done ◀──pipes closed── Settling ◀───────────────────────┘──┘◀──────empty─────────┘ Done with survivors
//! ```
//!
//! After a timeout, `PrintingStacks` lies between `Running` and `Terminating`, unless the grace is zero:
//! for a limited time, processes print their stacks.
//!
//! `Settling` is the end of each path: the command has exited and the tree is checked. When the
//! tree is empty and the pipes are closed, or were waited for long enough, the attempt is done.
//! Each decision of the pool becomes an [`Effect::Record`] before the first signal, so that a
//! timeout is never mistaken for a kill from outside.

mod machine;
#[cfg(test)]
mod tests;

pub use machine::Supervisor;

use crate::platform::Now;
use buildpool_protocol::outcome::EndReason;
use std::time::Duration;

/// The limits of one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Limit on the run time.
    pub timeout: Option<Duration>,
    /// Limit on the time without output on both streams.
    pub idle_timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL. Zero kills immediately.
    pub grace: Duration,
    /// The same for a disconnected worker: the tree must end before the job may run on another
    /// worker.
    pub cut_off_grace: Duration,
    /// Limit on the time without contact to the coordinator, after which the job may run on another
    /// worker.
    pub cut_off_after: Option<Duration>,
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The command's process exists.
    Started,
    /// The process could not be created.
    NotStarted,
    /// Output was read.
    Output,
    /// Output is not read for now: the process blocks on its pipe, so its idle time does not count.
    Blocked,
    /// Output is read again.
    Unblocked,
    /// The command's own process has ended and is reaped.
    Exited,
    /// Both pipes are at their end, or were given up.
    PipesClosed,
    /// Number of living processes in the tree, as far as it was counted.
    TreeCounted {
        /// 0 if the tree is certainly empty.
        left: usize,
    },
    /// The stacks of processes were requested.
    StacksRequested {
        /// Number of these processes.
        processes: usize,
        /// Whether a debugger prints some of them. It is silent between its questions.
        has_debugger: bool,
    },
    /// The worker had contact with the coordinator.
    Contact {
        /// Age of the contact.
        age: Duration,
        /// New value of [`Plan::cut_off_after`], if sent. A shorter value than before is ignored.
        cut_off_after: Option<Duration>,
    },
    /// Ends the attempt for this reason.
    End(EndReason),
    /// Skips the remaining grace period.
    SkipGrace,
    /// Time has passed.
    Tick,
}

/// An action. Effects must be carried out in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Store the reason durably before the next effect.
    Record(EndReason),
    /// Record the processes that outlived the command.
    NoteLeaked,
    /// Ask processes for their stacks and answer with [`Input::StacksRequested`].
    RequestStacks,
    /// Send SIGTERM to the whole tree.
    Terminate,
    /// Stop and kill the whole tree.
    Kill,
    /// Count the tree and answer with [`Input::TreeCounted`].
    CountTree,
    /// Give up the pipes and answer with [`Input::PipesClosed`].
    ClosePipes,
    /// The attempt has ended.
    Finish {
        /// True if processes could not be ended.
        survivors: bool,
    },
}

/// The next deadlines, by each clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deadlines {
    /// By the clock that stops during sleep.
    pub running: Option<Duration>,
    /// By the clock that includes sleep.
    pub continuous: Option<Duration>,
}

impl Deadlines {
    /// Returns the time until the earlier one, or `None` if there is no deadline.
    pub fn until(&self, now: Now) -> Option<Duration> {
        let running = self.running.map(|at| at.saturating_sub(now.running));
        let continuous = self.continuous.map(|at| at.saturating_sub(now.continuous));
        match (running, continuous) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}
