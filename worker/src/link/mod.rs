//! The connection to the coordinator. The worker dials, again and again, and a connection knows nothing that the next
//! one needs: what is to be sent is in the [`outbox::Outbox`], what is held is the daemon's to say.

pub mod address;
pub mod backoff;
pub mod connect;
pub mod outbox;
pub mod renewed;
pub mod session;
pub mod transfers;
