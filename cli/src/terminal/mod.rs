//! Output on stdout and stderr, and behaviour that depends on a terminal.

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
/// If stdout can't be written. If its reader has closed it, the failure has no message.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    printed.map_err(|error| failure::of_stdout(&error))
}

/// Prints a warning on stderr.
pub(crate) fn warn(text: &str) {
    // An error means that stderr is closed.
    let _ = writeln!(io::stderr(), "buildpool: {text}");
}

/// Whether standard input is a file, a pipe or a socket that is not known to be empty. Terminals and devices are not.
pub(crate) fn has_input() -> bool {
    let stdin = io::stdin();
    let Ok(stat) = fstat(&stdin) else { return false };
    let is = |kind: SFlag| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind;
    let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if is(SFlag::S_IFREG) {
        return stat.st_size > 0;
    }
    if !is(SFlag::S_IFIFO) && !is(SFlag::S_IFSOCK) {
        return false;
    }
    // A pipe that all writers have closed, with nothing left in it, is at its end.
    let is_at_end = |asked: &[PollFd<'_>; 1]| {
        let events = asked[0].revents().unwrap_or(PollFlags::empty());
        events.contains(PollFlags::POLLHUP) && !events.contains(PollFlags::POLLIN)
    };
    poll(&mut asked, PollTimeout::ZERO).is_ok() && !is_at_end(&asked)
}

/// Prints a result on stdout as JSON: on one line for programs, indented on a terminal.
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

/// Terminal colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Colour {
    Plain,
    Green,
    Red,
    Yellow,
    Dim,
}

impl Colour {
    /// Returns the text in this colour.
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

/// Returns true if stdout supports colours: it is a terminal and `NO_COLOR` is unset or empty
/// (<https://no-color.org>).
pub(crate) fn is_colourful() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Escapes control characters in a name from another user, so that it can't control the terminal.
pub(crate) fn name(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Returns a text on one line, with control characters replaced by spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}
