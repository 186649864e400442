//! Text of a log: bytes into lines, lines into the text that a terminal would show.

mod clean;
mod document;
mod front;
mod lines;
mod record;
mod tail;

pub(crate) use clean::{Cleaner, clip_chars, lossy, stamp_length};
pub(crate) use document::told as document;
pub(crate) use front::{Front, front, front_length};
pub(crate) use lines::{Lines, RawLine};
pub(crate) use record::{Carried, PackageOutput, carried};
pub(crate) use tail::{Tail, TailLine};
