//! Parts of logs as text: tails, ranges, cursors and matches. Memory use depends on the size of the
//! answer, not of the log.

use crate::app_state::{AppState, internal_log};
use crate::store::{LogError, LogReader};
use buildpool_protocol::client_link::{LogAnswer, LogCursor, LogQuery, StreamChoice, TextPlace};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::limits::LOG_ANSWER_CHARS;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Stream};
use buildpool_protocol::report::{JobState, Omission};
use buildpool_protocol::shown::{is_plain, printable};
use regex::bytes::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::sync::{Arc, PoisonError};

mod collector;
mod last_lines;
mod lines;

use collector::{Collector, TextPart};
pub(crate) use last_lines::tail_start;
pub(crate) use lines::{LINES_MAX, Line, LineIndex, LineIndexes, Matches};

/// Log bytes that are read at a time.
const STEP_BYTES: usize = 256 << 10;
/// Limit on lines of context around a match.
const CONTEXT_LINES_MAX: u32 = 100;
/// Limit on a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Size of an escaped control character in JSON: `\\u{85}`.
const CONTROL_SIZE: usize = 7;
/// Number of lines that always exceeds the characters of an answer, because each line has at least
/// its newline.
const LINES_ENOUGH: u64 = LOG_ANSWER_CHARS as u64;

/// Answers a query about the log of one attempt of this job. The job in the query was resolved to it.
pub(crate) async fn answer(
    shared: &Arc<AppState>,
    reader: &str,
    job: JobId,
    query: &LogQuery,
) -> Result<LogAnswer, LinkError> {
    let (state, newest) = newest_attempt(shared, job).await?;
    let short_id = shared.reader.short_id(job).ok();
    let by_cursor = query.cursor.is_some();
    let named = query.cursor.map(|cursor| cursor.attempt).or(query.attempt);
    let Some(number) = named.or(newest) else {
        return Ok(LogAnswer { short_id, ..empty(job, state, query.stream) });
    };
    let plan = TextPlan::new(query)?;
    let permit = shared.request_limits.log(reader).await;
    let (shared, stream) = (shared.clone(), query.stream);
    let read = tokio::task::spawn_blocking(move || {
        // The work goes on if its request is given up.
        let _permit = permit;
        let mut reader = shared.logs.reader(AttemptId { job, number })?;
        read(&mut reader, &plan, stream, job, number, state)
    });
    let answer = read.await.unwrap_or(Err(LogError::Broken));
    answer.map(|answer| LogAnswer { short_id, ..answer }).map_err(|error| {
        let missing = MissingAttempt { job, number, newest };
        if by_cursor { missing.of_cursor(&error) } else { missing.of_query(&error) }
    })
}

/// Returns the state of a job, and the number of the attempt that counts, if there is one.
async fn newest_attempt(shared: &Arc<AppState>, job: JobId) -> Result<(JobState, Option<u32>), LinkError> {
    if let Some(live) = shared.runtime.live(job).await {
        return Ok((live.state, live.attempts.last().map(|attempt| attempt.number)));
    }
    let finished = shared.finished(job)?;
    let done = finished.record.done.as_ref().and_then(|done| done.attempt);
    Ok((JobState::Done, done.or_else(|| finished.record.attempts.last().map(|attempt| attempt.number))))
}

/// A log whose lines are numbered.
pub(crate) struct Numbered {
    pub(crate) state: JobState,
    /// Number of the attempt; 0 if no attempt has a log yet.
    pub(crate) attempt: u32,
    /// Number of all lines.
    pub(crate) total: u64,
}

/// Reads the log of an attempt, or of the newest one, by line numbers. If no attempt has a log yet, the result is the
/// default.
///
/// # Errors
/// [`ErrorCode::NotFound`] if there is no such attempt; the log can't be read.
pub(crate) async fn numbered<T: Default + Send + 'static>(
    shared: &Arc<AppState>,
    reader: &str,
    job: JobId,
    attempt: Option<u32>,
    read: impl FnOnce(&LineIndex, &mut LogReader, u64) -> Result<T, LogError> + Send + 'static,
) -> Result<(Numbered, T), LinkError> {
    let (state, newest) = newest_attempt(shared, job).await?;
    let Some(number) = attempt.or(newest) else {
        return Ok((Numbered { state, attempt: 0, total: 0 }, T::default()));
    };
    let permit = shared.request_limits.log(reader).await;
    let shared = Arc::clone(shared);
    let done = tokio::task::spawn_blocking(move || {
        // The work goes on if its request is given up.
        let _permit = permit;
        let attempt = AttemptId { job, number };
        let mut reader = shared.logs.reader(attempt)?;
        let index = shared.line_indexes.of(attempt);
        let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
        let total = index.extend(&mut reader)?;
        Ok((Numbered { state, attempt: number, total }, read(&index, &mut reader, total)?))
    });
    let done = done.await.unwrap_or(Err(LogError::Broken));
    done.map_err(|error| MissingAttempt { job, number, newest }.of_query(&error))
}

/// Returns the lines of a log that match a regular expression.
///
/// # Errors
/// [`ErrorCode::Invalid`] for the expression; as [`numbered`].
pub(crate) async fn matching(
    shared: &Arc<AppState>,
    reader: &str,
    job: JobId,
    attempt: Option<u32>,
    pattern: &str,
) -> Result<(Numbered, Matches), LinkError> {
    let filter = PatternFilter::new(pattern, 0)?;
    numbered(shared, reader, job, attempt, move |_, reader, _| lines::matches(reader, &filter)).await
}

/// An attempt of a job that may have no log. It words the errors of a reader of that log.
pub(crate) struct MissingAttempt {
    pub(crate) job: JobId,
    pub(crate) number: u32,
    /// The newest attempt, if there is one.
    pub(crate) newest: Option<u32>,
}

impl MissingAttempt {
    /// Returns the error for a reader that named the attempt, or the newest one.
    pub(crate) fn of_query(&self, error: &LogError) -> LinkError {
        self.of(error, ErrorCode::NotFound, "attempt")
    }

    /// Returns the error for a reader with a cursor, which names the attempt.
    pub(crate) fn of_cursor(&self, error: &LogError) -> LinkError {
        self.of(error, ErrorCode::Invalid, "cursor")
    }

    fn of(&self, error: &LogError, code: ErrorCode, field: &str) -> LinkError {
        let Self { job, number, newest } = self;
        if !matches!(error, LogError::Unknown) {
            return internal_log(error);
        }
        let there_are = match newest.unwrap_or_default() {
            0 => "no attempt has one yet".to_owned(),
            1 => "attempt 1 is the only one".to_owned(),
            newest => format!("there are attempts 1 to {newest}"),
        };
        let text = format!("{field}: there is no log of attempt {number} of job {job}; {there_are}");
        LinkError::new(code, text)
    }
}

fn empty(job: JobId, state: JobState, stream: StreamChoice) -> LogAnswer {
    let text = |wanted: bool| wanted.then(String::new);
    let is_interleaved = stream == StreamChoice::Interleaved;
    LogAnswer {
        job_id: job.to_string(),
        state,
        stdout: text(!is_interleaved && stream.wants(Stream::Stdout)),
        stderr: text(!is_interleaved && stream.wants(Stream::Stderr)),
        interleaved: text(is_interleaved),
        ..LogAnswer::default()
    }
}

/// Position of the requested lines.
#[derive(Clone, Debug)]
enum Choice {
    /// The last lines: this many, or as many as fit.
    Tail(Option<u64>),
    /// All lines from this one on.
    Range { offset: u64 },
    /// All lines from a place in each text on. Lines that do not fit are left to the next answer
    /// and are not counted as omitted.
    From([TextPlace; 2]),
}

/// Selection of lines by a pattern.
#[derive(Clone, Debug)]
struct PatternFilter {
    pattern: Regex,
    /// Number of context lines around a match.
    context: u32,
}

#[derive(Clone, Debug)]
struct TextPlan {
    choice: Choice,
    /// Place where each text ends. The lines from there on are known.
    until: Option<[TextPlace; 2]>,
    filter: Option<PatternFilter>,
    /// Limit on the lines of a text.
    limit: u64,
    /// Limit on the size of a text: in characters, or as measured by [`TextPlan::measure`] if `measures_transfer`
    /// is set.
    characters: usize,
    measures_transfer: bool,
    /// Whether the limit applies to both texts together.
    is_shared: bool,
}

impl TextPlan {
    fn new(query: &LogQuery) -> Result<Self, LinkError> {
        let starts = [query.tail.is_some(), query.cursor.is_some(), query.offset.is_some()];
        if starts.into_iter().filter(|is_given| *is_given).count() > 1 {
            let text = "tail, cursor, offset: each sets the start, so only one of them is valid in a query";
            return Err(LinkError::new(ErrorCode::Invalid, text));
        }
        let choice = match (query.cursor, query.offset, query.tail) {
            (Some(cursor), ..) => Choice::From(Self::places(&cursor, query.stream)),
            (None, Some(offset), _) => Choice::Range { offset },
            (None, None, Some(lines)) => Choice::Tail(Some(lines.min(query.limit.unwrap_or(lines)))),
            (None, None, None) if query.limit.is_some() || query.grep.is_some() => {
                Choice::Range { offset: 0 }
            }
            (None, None, None) => Choice::Tail(None),
        };
        let characters = query.characters_together.or(query.characters_max);
        let until = query.cursor.and_then(|cursor| cursor.until);
        Ok(Self {
            choice,
            until: until.map(|[first, second]| match query.stream {
                StreamChoice::Both => [first, second],
                StreamChoice::Interleaved => [first.max(second); 2],
                StreamChoice::Stdout => [first; 2],
                StreamChoice::Stderr => [second; 2],
            }),
            filter: query
                .grep
                .as_deref()
                .map(|pattern| PatternFilter::new(pattern, query.context))
                .transpose()?,
            limit: query.limit.unwrap_or(u64::MAX),
            characters: characters.unwrap_or(LOG_ANSWER_CHARS).min(LOG_ANSWER_CHARS),
            measures_transfer: characters.is_some(),
            is_shared: query.characters_together.is_some() && query.stream == StreamChoice::Both,
        })
    }

    /// Returns the place at which each text continues.
    fn places(cursor: &LogCursor, stream: StreamChoice) -> [TextPlace; 2] {
        let [first, second] = cursor.texts;
        match stream {
            StreamChoice::Both => [first, second],
            StreamChoice::Interleaved => [first.min(second); 2],
            StreamChoice::Stdout => [first; 2],
            StreamChoice::Stderr => [second; 2],
        }
    }

    /// Returns the part of a chunk's payload before the end of its text, or nothing if the text has ended.
    fn before_end<'a>(&self, payload: &'a [u8], position: u64, index: usize) -> Option<&'a [u8]> {
        let Some(end) = self.until.map(|until| until[index]) else { return Some(payload) };
        match position.cmp(&end.position) {
            Ordering::Less => Some(payload),
            Ordering::Equal => payload.get(..end.within as usize).filter(|part| !part.is_empty()),
            Ordering::Greater => None,
        }
    }

    /// Returns true if no text has anything from this position on.
    fn is_past_end(&self, position: u64) -> bool {
        self.until.is_some_and(|until| until.iter().all(|end| position > end.position))
    }

    /// Returns the size that the other text takes from the shared limit. This applies only to reads
    /// by cursor, where both texts grow together.
    fn taken_by(&self, other: &Collector<'_>) -> usize {
        if self.is_shared && matches!(self.choice, Choice::From(_)) { other.size() } else { 0 }
    }

    /// Returns how many of the bytes fit into `room`, in whole characters, and their size. The size
    /// is the number of characters. If `measures_transfer` is set, it is the larger size of two forms:
    /// escaped as in JSON, or with a mark of two bytes on each line.
    fn measure(&self, bytes: &[u8], room: usize) -> (usize, usize) {
        let (mut taken, mut used) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            let valid =
                chunk.valid().chars().map(|character| (character.len_utf8(), transferred_size(character)));
            let broken = Some(chunk.invalid().len()).filter(|length| *length > 0);
            let broken = broken.map(|length| (length, transferred_size(char::REPLACEMENT_CHARACTER)));
            for (length, size) in valid.chain(broken) {
                let size = if self.measures_transfer { size } else { 1 };
                if used + size > room {
                    return (taken, used);
                }
                taken += length;
                used += size;
            }
        }
        (taken, used)
    }

    /// Returns the size of all the bytes.
    fn size_of(&self, bytes: &[u8]) -> usize {
        self.measure(bytes, usize::MAX).1
    }

    /// Returns the log position from which requested lines are possible. Lines before the start of
    /// a tail are only counted.
    fn start(&self, reader: &mut LogReader, stream: StreamChoice) -> Result<u64, LogError> {
        match &self.choice {
            // The last matches may be anywhere in the log.
            Choice::Tail(_) if self.filter.is_some() => Ok(0),
            Choice::Tail(lines) => {
                let lines = lines.unwrap_or(LINES_ENOUGH).min(LINES_ENOUGH);
                if stream == StreamChoice::Interleaved {
                    return reader.tail(lines, None);
                }
                let mut start = reader.length();
                for wanted in Stream::ALL.into_iter().filter(|one| stream.wants(*one)) {
                    start = start.min(reader.tail(lines, Some(wanted))?);
                }
                Ok(start)
            }
            Choice::From(_) | Choice::Range { .. } => Ok(0),
        }
    }
}

impl PatternFilter {
    fn new(pattern: &str, context: u32) -> Result<Self, LinkError> {
        let wrong = |error: regex::Error| {
            LinkError::new(ErrorCode::Invalid, format!("grep: `{pattern}` is not a valid pattern: {error}"))
        };
        let pattern = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().map_err(wrong)?;
        Ok(Self { pattern, context: context.min(CONTEXT_LINES_MAX) })
    }

    /// Returns true if the pattern matches the line as displayed: without terminal sequences, and
    /// with the displayed line breaks.
    fn matches(&self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if is_plain(line) {
            return self.pattern.is_match(line);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let shown = printable(&String::from_utf8_lossy(line));
        shown.split('\n').any(|line| self.pattern.is_match(line.as_bytes()))
    }
}

fn read(
    reader: &mut LogReader,
    plan: &TextPlan,
    stream: StreamChoice,
    job: JobId,
    number: u32,
    state: JobState,
) -> Result<LogAnswer, LogError> {
    let start = plan.start(reader, stream)?;
    let from = match plan.choice {
        Choice::From(places) => places,
        Choice::Tail(_) | Choice::Range { .. } => [TextPlace::default(); 2],
    };
    let mut position = from[0].position.min(from[1].position);
    let mut texts = from.map(|place| Collector::new(plan, place));
    let is_interleaved = stream == StreamChoice::Interleaved;
    'log: loop {
        let chunks = reader.read(position, STEP_BYTES)?;
        if chunks.is_empty() {
            break;
        }
        let mut rest = &chunks[..];
        while let Ok((header, payload)) = ChunkHeader::decode(rest) {
            let index = if is_interleaved { 0 } else { header.stream.index() };
            let begin = from[index];
            if stream.wants(header.stream) && position >= begin.position {
                let within = if position == begin.position { begin.within } else { 0 };
                let payload = plan.before_end(payload, position, index);
                let payload = payload.and_then(|payload| payload.get(within as usize..)).unwrap_or_default();
                let at = TextPlace { position, within, after: 0 };
                let other = plan.taken_by(&texts[1 - index]);
                match header.kind {
                    ChunkKind::Data if position < start => texts[index].pass(payload, at),
                    ChunkKind::Data => texts[index].take(payload, at, other),
                    ChunkKind::Gap => texts[index].gap(payload, at, other),
                }
                if texts[index].is_full() {
                    break 'log;
                }
            }
            position += header.size();
            if plan.is_past_end(position) {
                break 'log;
            }
            rest = &rest[usize::try_from(header.size()).unwrap_or(rest.len()).min(rest.len())..];
        }
    }
    let is_whole = position >= reader.length() && state == JobState::Done;
    for index in [0, 1] {
        let other = plan.taken_by(&texts[1 - index]);
        texts[index].close(is_whole, other);
    }
    share(plan, &mut texts);
    let parts = texts.map(|text| text.finish(position));
    let mut answer = empty(job, state, stream);
    answer.attempt = number;
    let by_stream = |[first, second]: [TextPlace; 2]| match stream {
        StreamChoice::Both => [first, second],
        StreamChoice::Stdout | StreamChoice::Interleaved => [first; 2],
        StreamChoice::Stderr => [second; 2],
    };
    let cursor = |places: [TextPlace; 2], until: Option<[TextPlace; 2]>| LogCursor {
        attempt: number,
        texts: by_stream(places),
        until: until.map(by_stream),
    };
    let [first, second] = &parts;
    let is_tail = matches!(plan.choice, Choice::Tail(_));
    let until = if is_tail { Some([first.known_from(), second.known_from()]) } else { plan.until };
    let is_at_end = is_whole || plan.until.is_some();
    let end = (!is_at_end).then(|| cursor([first.end, second.end], None));
    let has_left = first.left.is_some() || second.left.is_some();
    let resume = [first, second].map(|part| part.left.unwrap_or(part.end));
    answer.rest_cursor = has_left.then(|| cursor(resume, until));
    // Lines that a tail omits come before it. Lines after it exist only if the log grows.
    answer.next_cursor = if is_tail { end.or(answer.rest_cursor) } else { answer.rest_cursor.or(end) };
    fill_answer(&mut answer, parts, is_interleaved);
    Ok(answer)
}

/// Shortens both texts to their common limit. Each text gets at least half of it, and the part that
/// the other text does not use. Texts that are read by cursor are short enough already.
fn share(plan: &TextPlan, texts: &mut [Collector<'_>; 2]) {
    if !plan.is_shared {
        return;
    }
    let sizes = [texts[0].size(), texts[1].size()];
    let half = plan.characters / 2;
    for (text, other) in texts.iter_mut().zip([sizes[1], sizes[0]]) {
        text.shrink(plan.characters - other.min(half));
    }
}

fn fill_answer(answer: &mut LogAnswer, parts: [TextPart; 2], is_interleaved: bool) {
    let [first, second] = parts;
    let first = match is_interleaved {
        true => (first, &mut answer.interleaved, "interleaved"),
        false => (first, &mut answer.stdout, "stdout"),
    };
    for (part, shown, stream) in [first, (second, &mut answer.stderr, "stderr")] {
        let Some(shown) = shown else { continue };
        *shown = part.text;
        if part.lines > 0 || part.bytes > 0 {
            let get =
                format!("buildpool logs {} --stream {stream} --attempt {}", answer.job_id, answer.attempt);
            answer.omitted.push(Omission {
                what: stream.to_owned(),
                lines: part.lines,
                bytes: part.bytes,
                get,
            });
        }
    }
}

/// Returns the maximum size of a character in an answer, in bytes.
fn transferred_size(character: char) -> usize {
    match character {
        '"' | '\\' | '\t' => 2,
        // Each of these ends a line in the answer.
        '\n' | '\r' => 3,
        other if other.is_control() => CONTROL_SIZE,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests;
