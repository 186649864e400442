//! The gateway as a process: what its clients and their launchers see of it.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod access;
mod answers;
mod long_work;
mod process;
