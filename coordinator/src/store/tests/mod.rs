//! What a store must do, from outside its parts.

mod logs;
mod records;
mod support;
