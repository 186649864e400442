//! Tests of the gateway process as seen by its clients and launchers.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod access;
mod answers;
mod long_work;
mod next_calls;
mod process;
