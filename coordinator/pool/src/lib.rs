//! Who runs what, until when, and why not yet: the pool as a pure state machine.
//!
//! There is no I/O here, no clock and no randomness. The owner calls, in this order and for ever:
//!
//! 1. [`Pool::handle`] with the present time and one input; it never blocks and never fails,
//! 2. [`Pool::poll_effect`] until it gives none, carrying the effects out **in that order**: an [`Effect::Persist`] is on disk before any
//!    later effect is carried out,
//! 3. [`Pool::next_deadline`] for when to come back with [`Input::Tick`] at the latest.
//!
//! What a peer says wrongly becomes an effect (a refusal), not an error of the machine.

mod audit;
mod effect;
mod estimate;
mod input;
mod job;
mod lifecycle;
mod losses;
mod naming;
mod placement;
mod pool;
mod queue;
mod quota;
mod reconcile;
mod reserve;
mod roster;
mod share;
mod submit;
mod view;

pub use effect::{AttemptRecord, Change, DoneRecord, Effect, JobRecord, LostAttempt, Wish, WorkerRecord};
pub use input::{ClientRef, Completed, Input, Now, Session, Submit, Submitter};
pub use pool::{Config, Pool};
pub use quota::{Quota, Quotas};
pub use view::{LiveJob, Load, Waits, WorkerView};
