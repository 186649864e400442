//! Parts of logs: which, and from where.

use crate::output::Stream;
use crate::report::JobState;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in the log of a job, between two chunks; `attempt:position` as text, with `:bytes` for a place inside the
/// following chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cursor {
    /// Which attempt's log.
    pub attempt: u32,
    /// Bytes of the log, chunk headers included.
    pub position: u64,
    /// Bytes of the next chunk's payload that were taken too.
    pub within: u32,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.attempt, self.position)?;
        if self.within > 0 {
            write!(f, ":{}", self.within)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let mut parts = text.split(':');
        let mut number = |default: Option<u64>| match parts.next() {
            Some(part) => part.parse::<u64>().map_err(|_| CursorError),
            None => default.ok_or(CursorError),
        };
        let attempt = u32::try_from(number(None)?).map_err(|_| CursorError)?;
        let position = number(None)?;
        let within = u32::try_from(number(Some(0))?).map_err(|_| CursorError)?;
        if parts.next().is_some() {
            return Err(CursorError);
        }
        Ok(Self { attempt, position, within })
    }
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is no cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CursorError;

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cursor has the form ATTEMPT:POSITION, as an earlier answer gave it")
    }
}

impl std::error::Error for CursorError {}

/// A place in one text of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct TextPlace {
    /// As of [`Cursor`].
    pub position: u64,
    /// As of [`Cursor`].
    pub within: u32,
    /// Lines that the match before this place yet wants after it.
    pub after: u32,
}

/// Where an answer about a log goes on, in each of its texts. As text `attempt:position`, `attempt:position:within` or
/// `attempt:position:within:after` where that is one place, else `attempt` and all three of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogCursor {
    /// Which attempt's log.
    pub attempt: u32,
    /// Of stdout and stderr; an interleaved text goes on at the first of them.
    pub texts: [TextPlace; 2],
}

impl LogCursor {
    /// The first of both places and nothing more, in a form that every version reads. Going on there repeats what one text
    /// has behind it already.
    pub fn plain(self) -> Self {
        let first = self.texts[0].min(self.texts[1]);
        Self { texts: [TextPlace { after: 0, ..first }; 2], ..self }
    }
}

impl fmt::Display for LogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [TextPlace { position, within, after }, second] = self.texts;
        write!(f, "{}:{position}", self.attempt)?;
        let is_one = self.texts[0] == second;
        if within > 0 || after > 0 || !is_one {
            write!(f, ":{within}")?;
        }
        if after > 0 || !is_one {
            write!(f, ":{after}")?;
        }
        if !is_one {
            write!(f, ":{}:{}:{}", second.position, second.within, second.after)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for LogCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let numbers: Vec<u64> =
            text.splitn(8, ':').map(str::parse).collect::<Result<_, _>>().map_err(|_| CursorError)?;
        let short = |number: u64| u32::try_from(number).map_err(|_| CursorError);
        let place = |position: u64, within: u64, after: u64| {
            Ok(TextPlace { position, within: short(within)?, after: short(after)? })
        };
        let (attempt, texts) = match numbers[..] {
            [attempt, position] => (attempt, [place(position, 0, 0)?; 2]),
            [attempt, position, within] => (attempt, [place(position, within, 0)?; 2]),
            [attempt, position, within, after] => (attempt, [place(position, within, after)?; 2]),
            [attempt, position, within, after, other, inside, due] => {
                (attempt, [place(position, within, after)?, place(other, inside, due)?])
            }
            _ => return Err(CursorError),
        };
        Ok(Self { attempt: short(attempt)?, texts })
    }
}

impl Serialize for LogCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LogCursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Which streams of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamChoice {
    /// Only stdout.
    Stdout,
    /// Only stderr.
    Stderr,
    /// Both, apart.
    #[default]
    Both,
    /// Both, as one text in true order.
    Interleaved,
}

impl StreamChoice {
    /// Whether this stream is asked for.
    pub const fn wants(self, stream: Stream) -> bool {
        match (self, stream) {
            (Self::Stdout, Stream::Stdout) | (Self::Stderr, Stream::Stderr) => true,
            (Self::Stdout, Stream::Stderr) | (Self::Stderr, Stream::Stdout) => false,
            (Self::Both | Self::Interleaved, _) => true,
        }
    }

    /// The stream, where it is a single one.
    pub const fn only(self) -> Option<Stream> {
        match self {
            Self::Stdout => Some(Stream::Stdout),
            Self::Stderr => Some(Stream::Stderr),
            Self::Both | Self::Interleaved => None,
        }
    }
}

/// A part of a log as text.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    /// An id or a unique prefix of one.
    pub job: String,
    /// The newest if absent.
    pub attempt: Option<u32>,
    /// Which streams.
    pub stream: StreamChoice,
    /// The last lines.
    pub tail: Option<u64>,
    /// From where an earlier answer ended.
    pub cursor: Option<LogCursor>,
    /// First line, from 0.
    pub offset: Option<u64>,
    /// Lines from there, or from the cursor.
    pub limit: Option<u64>,
    /// Only lines that match this pattern: the first ones from where the query begins, or the last ones of a tail.
    pub grep: Option<String>,
    /// Lines around each match.
    pub context: u32,
    /// Fewer characters than the limit of an answer; they are then counted as they are told: in bytes,
    /// escaped as in JSON or each line behind a mark of two, whichever is longer.
    pub characters_max: Option<usize>,
    /// The same for both texts together, in place of that: one has what the other leaves, and none less than half for the
    /// other's sake. Who says this takes cursors of every form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub characters_together: Option<usize>,
}

/// A part of a log.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LogAnswer {
    /// The job, so that the caller can verify.
    pub job_id: String,
    /// The attempt.
    pub attempt: u32,
    /// Its state: a running job's log goes on.
    pub state: JobState,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// If asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaved: Option<String>,
    /// Where to go on: with what comes after this part, or, for the tail of a log that is over, with what lies before it.
    pub next_cursor: Option<LogCursor>,
    /// The first line that was asked for and left out; from here on comes everything that is not in this part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_cursor: Option<LogCursor>,
    /// What was left out.
    pub omitted: Vec<crate::report::Omission>,
}
