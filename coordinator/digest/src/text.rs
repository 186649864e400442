//! Text of a log: bytes into lines, lines into the text that a terminal would show.

mod clean;
mod json_lines;
mod line_prefix;
mod lines;
mod tail;

pub(crate) use clean::{Cleaner, ci_prefix, clip_chars, clipped, has_control, lossy, stamp_length};
pub(crate) use json_lines::{JsonLines, closed_json};
pub(crate) use line_prefix::{LinePrefix, front, front_length};
pub(crate) use lines::{Lines, RawLine};
pub(crate) use tail::{Tail, TailLines};
