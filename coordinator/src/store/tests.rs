//! Tests of the store through its public interface.

mod crash;
mod events;
mod faults;
mod keeping;
mod logs;
mod objects;
mod records;
mod server;
pub(crate) mod support;
mod unstored;
