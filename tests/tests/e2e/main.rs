//! End-to-end tests of the real binary. They are one test binary, because each test binary links
//! everything.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod api;
mod backups;
mod commands;
mod doctor;
mod documented;
mod events;
mod evidence;
mod guarding;
mod installing;
mod interrupts;
mod limits;
mod local_pool;
mod observing;
mod page;
mod pool;
mod quotas;
mod reading;
mod retrying;
mod setup;
mod stacks;
mod stdin;
mod streams;
mod terminals;
mod test_history;
mod top;
mod traces;
mod trust;
mod upgrading;
mod users;
mod waiting;
mod webhooks;
