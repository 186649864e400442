//! The pool machine by what goes in and what comes out: inputs are sent, effects are read, nothing else is looked at.

mod cancelling;
mod draining;
mod fairness;
mod guarding;
mod losing;
mod placing;
mod restarting;
mod scene;
mod submitting;
mod workers;
