//! Queries for parts of logs, and cursors into logs.

use crate::output::Stream;
use crate::report::JobState;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A position in the log of a job, between two chunks. Its text form is `attempt:position`, with
/// `:bytes` for a position inside the next chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cursor {
    /// Number of the attempt.
    pub attempt: u32,
    /// Bytes of the log, chunk headers included.
    pub position: u64,
    /// Bytes already read of the next chunk's payload.
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

/// Error: the text is not a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a cursor has the form ATTEMPT:POSITION, as an earlier answer gave it")]
pub struct CursorError;

/// A position in one text of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct TextPlace {
    /// As in [`Cursor`].
    pub position: u64,
    /// As in [`Cursor`].
    pub within: u32,
    /// Number of lines still to show after the last match before this position.
    pub after: u32,
}

/// The position after an answer about a log, for each of its texts. If both positions are equal,
/// the text form is `attempt:position`, `attempt:position:within` or
/// `attempt:position:within:after`. Otherwise it is `attempt` and all three numbers of both. An end follows as
/// `-position:within` for each text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogCursor {
    /// Number of the attempt.
    pub attempt: u32,
    /// Positions in stdout and stderr. An interleaved text continues at the lower one.
    pub texts: [TextPlace; 2],
    /// Positions where the reading ends: the lines from there on are known. `after` has no meaning here.
    pub until: Option<[TextPlace; 2]>,
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
        for end in self.until.iter().flatten() {
            write!(f, "-{}:{}", end.position, end.within)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for LogCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let numbers = |text: &str| {
            text.splitn(8, ':').map(str::parse).collect::<Result<Vec<u64>, _>>().map_err(|_| CursorError)
        };
        let short = |number: u64| u32::try_from(number).map_err(|_| CursorError);
        let place = |position: u64, within: u64, after: u64| {
            Ok(TextPlace { position, within: short(within)?, after: short(after)? })
        };
        let mut parts = text.split('-');
        let (attempt, texts) = match numbers(parts.next().unwrap_or_default())?[..] {
            [attempt, position] => (attempt, [place(position, 0, 0)?; 2]),
            [attempt, position, within] => (attempt, [place(position, within, 0)?; 2]),
            [attempt, position, within, after] => (attempt, [place(position, within, after)?; 2]),
            [attempt, position, within, after, other, inside, due] => {
                (attempt, [place(position, within, after)?, place(other, inside, due)?])
            }
            _ => return Err(CursorError),
        };
        let mut end = || match numbers(parts.next()?) {
            Ok(numbers) if numbers.len() == 2 => Some(place(numbers[0], numbers[1], 0)),
            _ => Some(Err(CursorError)),
        };
        let until = match (end(), end()) {
            (None, _) => None,
            (Some(first), Some(second)) => Some([first?, second?]),
            (Some(_), None) => return Err(CursorError),
        };
        if parts.next().is_some() {
            return Err(CursorError);
        }
        Ok(Self { attempt: short(attempt)?, texts, until })
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

/// Selection of streams of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamChoice {
    /// Only stdout.
    Stdout,
    /// Only stderr.
    Stderr,
    /// Both, as two texts.
    #[default]
    Both,
    /// Both, as one text in the original order.
    Interleaved,
}

impl StreamChoice {
    /// Returns true if this stream is selected.
    pub const fn wants(self, stream: Stream) -> bool {
        match (self, stream) {
            (Self::Stdout, Stream::Stdout) | (Self::Stderr, Stream::Stderr) => true,
            (Self::Stdout, Stream::Stderr) | (Self::Stderr, Stream::Stdout) => false,
            (Self::Both | Self::Interleaved, _) => true,
        }
    }

    /// Returns the stream, if exactly one is selected.
    pub const fn only(self) -> Option<Stream> {
        match self {
            Self::Stdout => Some(Stream::Stdout),
            Self::Stderr => Some(Stream::Stderr),
            Self::Both | Self::Interleaved => None,
        }
    }
}

/// A query for a part of a log as text.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    /// An id or a unique prefix of one.
    pub job: String,
    /// Number of the attempt. The newest if absent.
    pub attempt: Option<u32>,
    /// Requested streams.
    pub stream: StreamChoice,
    /// Number of lines from the end.
    pub tail: Option<u64>,
    /// Position after an earlier answer.
    pub cursor: Option<LogCursor>,
    /// First line, from 0.
    pub offset: Option<u64>,
    /// Number of lines from there, or from the cursor.
    pub limit: Option<u64>,
    /// Only lines that match this pattern: the first matches from the start of the query, or the
    /// last matches of a tail.
    pub grep: Option<String>,
    /// Lines of context around each match.
    pub context: u32,
    /// A lower limit on the characters of an answer. They are counted as transferred: in bytes,
    /// either escaped as in JSON or with a mark of two per line. The longer form counts.
    pub characters_max: Option<usize>,
    /// The same limit for both texts together, instead of `characters_max`. One text may use the
    /// space that the other leaves. Neither gets less than half because of the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub characters_together: Option<usize>,
}

/// A part of a log.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogAnswer {
    /// Id of the job, so that the caller can verify it.
    pub job_id: String,
    /// The shortest unique id of at least 12 digits, for texts. No JSON answer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub short_id: Option<String>,
    /// Number of the attempt.
    pub attempt: u32,
    /// State of the job. The log of a running job continues to grow.
    pub state: JobState,
    /// Set if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Set if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Set if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaved: Option<String>,
    /// Position of the next part. For the tail of a finished log it is the position of the part
    /// before it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub next_cursor: Option<LogCursor>,
    /// Position of the first requested line that was left out. All lines that are not in this
    /// answer follow from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub rest_cursor: Option<LogCursor>,
    /// The omitted parts.
    pub omitted: Vec<crate::report::Omission>,
}

impl LogAnswer {
    /// Returns the id for texts: the short id if the coordinator sent it.
    pub fn shown_id(&self) -> &str {
        self.short_id.as_deref().unwrap_or(&self.job_id)
    }
}
