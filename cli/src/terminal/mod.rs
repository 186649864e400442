//! Everything that is printed, and what depends on whether a person looks.

pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod table;

use crate::failure::{self, Failure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

/// Prints a result on stdout.
///
/// # Errors
/// When stdout can't be written; quietly when only nobody reads.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    printed.map_err(|error| failure::of_stdout(&error))
}

/// Says on stderr what the caller should know and nothing depends on.
pub(crate) fn warn(text: &str) {
    // With stderr closed there is nobody left to tell.
    let _ = writeln!(io::stderr(), "buildpool: {text}");
}

/// Whether standard input is a file or a pipe with something to read in it at this moment.
pub(crate) fn is_given_input() -> bool {
    let stdin = io::stdin();
    let Ok(stat) = fstat(&stdin) else { return false };
    let is = |kind: SFlag| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind;
    let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if is(SFlag::S_IFREG) {
        return stat.st_size > 0;
    }
    // At the end of a pipe that others have closed there is nothing to read.
    let can_read =
        |asked: &[PollFd<'_>; 1]| asked[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN));
    is(SFlag::S_IFIFO) && poll(&mut asked, PollTimeout::ZERO).is_ok() && can_read(&asked)
}

/// Prints a result on stdout as JSON: one line for programs, indented for people.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    let text = text.expect("results have string keys and no fallible serializers");
    print(&format!("{text}\n"))
}

/// Colours of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Colour {
    Plain,
    Green,
    Red,
    Yellow,
    Dim,
}

impl Colour {
    /// The text in this colour.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Green => 32,
            Self::Red => 31,
            Self::Yellow => 33,
            Self::Dim => 2,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether stdout takes colours: it is a terminal and the user has not said otherwise (<https://no-color.org>).
pub(crate) fn is_colourful() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A name that somebody else gave, as it may go to a terminal: what would move its cursor is escaped.
pub(crate) fn name(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// A text on one line, without anything that would move a terminal's cursor.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}
