//! Tests of the store through its public interface.

mod crash;
mod events;
mod faults;
mod keeping;
mod logs;
mod records;
pub(crate) mod support;
mod unstored;
