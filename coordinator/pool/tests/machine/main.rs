//! Tests of the pool machine through its interface: they send inputs and read effects only.

mod cancelling;
mod dispatching;
mod draining;
mod early;
mod fairness;
mod guarding;
mod losing;
mod placing;
mod restarting;
mod scene;
mod sealing;
mod submitting;
mod trusting;
mod upgrading;
mod workers;
