//! Output on stdout and stderr, and behaviour that depends on a terminal.

mod job_text;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod table;

use crate::failure::{self, Failure};
use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use buildpool_protocol::report::{Verdict, answer};
use buildpool_protocol::shown;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Prints a result on stdout.
///
/// # Errors
/// If stdout can't be written. If its reader has closed it, the failure has no message.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    printed.map_err(|error| failure::of_stdout(&error))
}

/// Prints the progress of a command on stderr, so that its output stays for programs.
pub(crate) fn print_progress(text: &str) {
    // An error means that stderr is closed.
    let _ = io::stderr().write_all(text.as_bytes());
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
    let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if is(SFlag::S_IFREG) {
        return stat.st_size > 0;
    }
    if !is(SFlag::S_IFIFO) && !is(SFlag::S_IFSOCK) {
        return false;
    }
    // A pipe that all writers have closed, with nothing left in it, is at its end.
    let is_at_end = |polled: &[PollFd<'_>; 1]| {
        let events = polled[0].revents().unwrap_or(PollFlags::empty());
        events.contains(PollFlags::POLLHUP) && !events.contains(PollFlags::POLLIN)
    };
    poll(&mut polled, PollTimeout::ZERO).is_ok() && !is_at_end(&polled)
}

/// Returns true if standard input is a directory, which no program can read.
pub(crate) fn has_directory_as_input() -> bool {
    fstat(io::stdin())
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
}

/// Prints a result on stdout as JSON: on one line for programs, indented on a terminal. Members without
/// information are left out, as in [`answer`].
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<(), Failure> {
    print_value(&answer(value))
}

/// Prints JSON on stdout with all its members. Hidden characters of a text are escaped.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_value(value: &Value) -> Result<(), Failure> {
    let text = if io::stdout().is_terminal() { format!("{value:#}\n") } else { format!("{value}\n") };
    print(&shown::json(text))
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
    /// Returns the colour of a verdict.
    pub(crate) const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Passed => Self::Green,
            Verdict::Cancelled => Self::Yellow,
            Verdict::Failed
            | Verdict::Crashed
            | Verdict::TimedOut
            | Verdict::Lost
            | Verdict::Rejected
            | Verdict::Inconclusive => Self::Red,
        }
    }

    /// Returns the text in this colour.
    pub(crate) fn paint(self, text: &str) -> String {
        let style = match self {
            Self::Plain => return text.to_owned(),
            Self::Green => AnsiColor::Green.on_default(),
            Self::Red => AnsiColor::Red.on_default(),
            Self::Yellow => AnsiColor::Yellow.on_default(),
            Self::Dim => Style::new().dimmed(),
        };
        format!("{style}{text}{style:#}")
    }
}

/// Returns an answer about a job with its first word, the verdict, in colour.
pub(crate) fn paint_verdict(text: &str, verdict: Option<Verdict>, is_colourful: bool) -> String {
    let Some(verdict) = verdict.filter(|_| is_colourful) else { return text.to_owned() };
    let end = text.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    format!("{}{rest}", Colour::of(verdict).paint(word))
}

/// Sets the choice of `--color` for the whole program.
pub(crate) fn set_colours(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// Returns true if texts on a stream have colours: `--color`, else `NO_COLOR` (<https://no-color.org>)
/// and its relatives, else whether it is a terminal.
pub(crate) fn is_colourful(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// Returns the width of a terminal in columns, or `None` if this is not a terminal.
pub(crate) fn columns(file: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(file).ok()?;
    // A terminal of unknown size has 0 columns.
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Returns the text, cut at a width with an ellipsis.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        shown.push('…');
    }
    shown
}

/// Escapes control characters in a name from another user, so that it can't control the terminal.
pub(crate) fn name(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Returns a text of another party on one line, without terminal sequences and hidden characters.
pub(crate) fn one_line(text: &str) -> String {
    shown::one_line(text).replace('\t', " ")
}
