//! The scheduler as a pure state machine: it grants jobs to workers, tracks leases, and explains
//! waits.
//!
//! This crate has no I/O, no clock and no randomness. The owner calls these functions in a loop:
//!
//! 1. [`Pool::handle`] with the current time and one input. It never blocks and never fails.
//! 2. [`Pool::poll_effect`] until it returns `None`. The effects must be carried out **in that
//!    order**: an [`Effect::Persist`] must be on disk before any later effect.
//!    An owner with many inputs at a time calls [`Pool::take`] for each of them instead, and
//!    [`Pool::dispatch`] once after them.
//! 3. [`Pool::next_deadline`] for the latest time of the next [`Input::Tick`].
//!
//! Invalid data from a peer becomes an effect (a refusal), not an error of the machine.

mod attachable;
mod audit;
mod dispatch;
mod effect;
mod estimate;
mod input;
mod job;
mod lifecycle;
mod losses;
mod naming;
mod offers;
mod placement;
mod pool;
mod queue;
mod quota;
mod reconcile;
mod reserve;
mod roster;
mod share;
mod submit;
mod upgrade;
mod view;

pub use effect::{
    AttemptRecord, Change, DesiredState, DoneRecord, Effect, JobRecord, LostAttempt, WorkerRecord,
};
pub use input::{ClientRef, Completed, Input, Measures, Now, Session, Submit, Submitter};
pub use pool::{Config, Pool};
pub use quota::{LiveJobs, Quota, Quotas};
pub use view::{LabelQueue, LiveJob, Load, WaitInfo, WorkerView};
