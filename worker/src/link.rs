//! The connection to the coordinator. The worker connects and reconnects. A connection has no state
//! that the next one needs: logs to send are in the [`outbox::Outbox`], and the daemon reports the
//! held attempts.

pub mod connect;
pub mod outbox;
pub mod reloading_dialler;
pub mod session;
pub mod transfers;
