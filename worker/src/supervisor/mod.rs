//! One attempt, from its start to the proof that its tree is gone. Pure: no clock, no system call.
//!
//! ```text
//! Starting ──Started──▶ Running ──a limit, a cancel──▶ Terminating ──grace over──▶ Killing
//!    │                     │                                │  ▲                     │ │
//!    │NotStarted           │Exited                     empty│  │left behind          │ │too long
//!    ▼                     ▼                                │  │                     │ ▼
//!   Done ◀──pipes closed── Settling ◀───────────────────────┘──┘◀──────empty─────────┘ Done with survivors
//! ```
//!
//! `Settling` is the end of every way: the command has exited and the tree is looked at; when it is empty and the pipes
//! are closed, or were waited for long enough, the attempt is done. Whatever the pool does by its own decision comes out
//! as [`Effect::Record`] ahead of the first signal, so that a timeout can never read as a death from outside.

mod machine;
#[cfg(test)]
mod tests;

pub use machine::Supervisor;

use crate::platform::Now;
use buildpool_protocol::outcome::Acted;
use std::time::Duration;

/// The limits of one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Longest run.
    pub timeout: Option<Duration>,
    /// Longest silence of both streams.
    pub idle_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL; zero kills at once.
    pub grace: Duration,
    /// The same when the worker is cut off: the tree must be gone before the job may run elsewhere.
    pub cut_off_grace: Duration,
    /// Longest time without contact to the coordinator, where the job may then run elsewhere.
    pub cut_off_after: Option<Duration>,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The command's process exists.
    Started,
    /// It could not be made.
    NotStarted,
    /// Output was read.
    Output,
    /// Output is not read for now: the process waits at its pipe, and its silence is not its own.
    Blocked,
    /// Output is read again.
    Unblocked,
    /// The command's own process has ended and its status is taken.
    Exited,
    /// Both pipes are at their end, or were given up.
    PipesClosed,
    /// How many living processes the tree has, as far as it was counted.
    Tree {
        /// 0 when it is proven to be gone.
        left: usize,
    },
    /// The worker was in contact with the coordinator.
    Contact {
        /// How long ago.
        age: Duration,
        /// [`Plan::cut_off_after`] as it is told now, if it is; one that is shorter than before does not count.
        cut_off_after: Option<Duration>,
    },
    /// End it, for this reason.
    Act(Acted),
    /// Do not wait any longer where the end is already decided.
    Hurry,
    /// Time has passed.
    Tick,
}

/// What must be done, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Write down why, durably, before going on.
    Record(Acted),
    /// Note which processes outlived the command.
    NoteLeaked,
    /// Ask the whole tree to end.
    Terminate,
    /// Stop and kill the whole tree.
    Kill,
    /// Count the tree and answer with [`Input::Tree`].
    Look,
    /// Give up on the pipes and answer with [`Input::PipesClosed`].
    ClosePipes,
    /// The attempt is over.
    Finish {
        /// Processes are left that could not be ended.
        survivors: bool,
    },
}

/// When time matters next, by each clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deadlines {
    /// By the clock that stands still in sleep.
    pub running: Option<Duration>,
    /// By the clock that counts sleep.
    pub continuous: Option<Duration>,
}

impl Deadlines {
    /// How long until the earlier of the two; none if time does not matter.
    pub fn until(&self, now: Now) -> Option<Duration> {
        let running = self.running.map(|at| at.saturating_sub(now.running));
        let continuous = self.continuous.map(|at| at.saturating_sub(now.continuous));
        match (running, continuous) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}
