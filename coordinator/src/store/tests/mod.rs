//! What a store must do, from outside its parts.

mod crash;
mod faults;
mod keeping;
mod logs;
mod records;
pub(crate) mod support;
