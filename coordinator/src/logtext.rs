//! Parts of logs as text: tails, ranges, cursors, matches. Memory is bounded by the answer, not by the log.

use crate::shared::{Shared, internal_log};
use crate::store::{LogError, LogReader};
use buildpool_protocol::client_link::{Cursor, LogAnswer, LogQuery, StreamChoice};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{AttemptId, JobId};
use buildpool_protocol::limits::LOG_ANSWER_CHARS;
use buildpool_protocol::output::{ChunkHeader, ChunkKind, Gap, Stream};
use buildpool_protocol::report::{JobState, Omission};
use regex::bytes::{Regex, RegexBuilder};
use std::collections::VecDeque;
use std::sync::Arc;

/// Log bytes that are read at a time.
const STEP_BYTES: usize = 256 << 10;
/// Longest line that is shown; the rest of it is counted as left out.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Most lines of context around a match.
const CONTEXT_LINES_MAX: u32 = 100;
/// Largest compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Lines that surely hold as many characters as an answer shows: the shortest line is its end.
const LINES_ENOUGH: u64 = LOG_ANSWER_CHARS as u64;

/// Answers a query about the log of one attempt.
pub(crate) async fn answer(shared: &Arc<Shared>, query: &LogQuery) -> Result<LogAnswer, LinkError> {
    let job = shared.resolve(&query.job)?;
    let (state, newest) = match shared.runtime.live(job).await {
        Some(live) => (live.state, live.attempts.last().map(|attempt| attempt.number)),
        None => {
            let finished = shared.finished(job)?;
            let done = finished.record.done.as_ref().and_then(|done| done.attempt);
            (JobState::Done, done.or_else(|| finished.record.attempts.last().map(|attempt| attempt.number)))
        }
    };
    let named = query.cursor.map(|cursor| cursor.attempt).or(query.attempt);
    let Some(number) = named.or(newest) else {
        return Ok(empty(job, state, query.stream));
    };
    let plan = Plan::new(query)?;
    let (shared, stream) = (shared.clone(), query.stream);
    let read = tokio::task::spawn_blocking(move || {
        let mut reader = shared.logs.reader(AttemptId { job, number })?;
        read(&mut reader, &plan, stream, job, number, state)
    });
    read.await.unwrap_or(Err(LogError::Broken)).map_err(|error| internal_log(&error))
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

/// Which lines are wanted.
#[derive(Clone, Debug)]
enum Choice {
    /// The last ones: this many, or as many as fit.
    Tail(Option<u64>),
    /// From this line on, this many.
    Range { offset: u64, limit: u64 },
    /// Everything from a cursor on, until the answer is full.
    From(Cursor),
    /// Lines that match, with lines around them.
    Matching { pattern: Regex, context: usize },
}

#[derive(Clone, Debug)]
struct Plan {
    choice: Choice,
    characters: usize,
}

impl Plan {
    fn new(query: &LogQuery) -> Result<Self, LinkError> {
        let choice = match (&query.grep, query.cursor, query.offset, query.limit, query.tail) {
            (Some(pattern), ..) => Choice::Matching {
                pattern: RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().map_err(
                    |error| {
                        LinkError::new(
                            ErrorCode::Invalid,
                            format!("grep: `{pattern}` is no valid pattern: {error}"),
                        )
                    },
                )?,
                context: query.context.min(CONTEXT_LINES_MAX) as usize,
            },
            (None, Some(cursor), ..) => Choice::From(cursor),
            (None, None, Some(offset), limit, _) => {
                Choice::Range { offset, limit: limit.unwrap_or(u64::MAX) }
            }
            (None, None, None, Some(limit), None) => Choice::Range { offset: 0, limit },
            (None, None, None, _, tail) => Choice::Tail(tail),
        };
        Ok(Self {
            choice,
            characters: query.characters_max.unwrap_or(LOG_ANSWER_CHARS).min(LOG_ANSWER_CHARS),
        })
    }

    /// From where on lines can be among those wanted: what a tail has before is only counted.
    fn start(&self, reader: &mut LogReader, stream: StreamChoice) -> Result<u64, LogError> {
        match &self.choice {
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
            Choice::From(cursor) => Ok(cursor.position),
            Choice::Range { .. } | Choice::Matching { .. } => Ok(0),
        }
    }
}

fn read(
    reader: &mut LogReader,
    plan: &Plan,
    stream: StreamChoice,
    job: JobId,
    number: u32,
    state: JobState,
) -> Result<LogAnswer, LogError> {
    let start = plan.start(reader, stream)?;
    let (mut position, mut within) = match &plan.choice {
        Choice::From(cursor) => (cursor.position, cursor.within as usize),
        Choice::Tail(_) | Choice::Range { .. } | Choice::Matching { .. } => (0, 0),
    };
    let mut texts = [Collector::new(plan), Collector::new(plan)];
    let is_interleaved = stream == StreamChoice::Interleaved;
    'log: loop {
        let chunks = reader.read(position, STEP_BYTES)?;
        if chunks.is_empty() {
            break;
        }
        let mut rest = &chunks[..];
        while let Ok((header, payload)) = ChunkHeader::decode(rest) {
            let text = &mut texts[if is_interleaved { 0 } else { header.stream.index() }];
            if stream.wants(header.stream) {
                let payload = &payload[within.min(payload.len())..];
                let taken = match header.kind {
                    ChunkKind::Data if position < start => text.pass(payload),
                    ChunkKind::Data => text.take(payload),
                    ChunkKind::Gap => text.gap(payload),
                };
                if taken < payload.len() {
                    within += taken;
                    break 'log;
                }
            }
            within = 0;
            position += header.size();
            rest = &rest[usize::try_from(header.size()).unwrap_or(rest.len()).min(rest.len())..];
        }
    }
    let is_whole = position >= reader.length() && within == 0;
    let cursor = Cursor { attempt: number, position, within: u32::try_from(within).unwrap_or(u32::MAX) };
    let mut answer = empty(job, state, stream);
    answer.attempt = number;
    answer.next_cursor = (!is_whole || state != JobState::Done).then_some(cursor);
    let [first, second] = texts;
    for (text, shown, what) in [
        (
            first,
            if is_interleaved { &mut answer.interleaved } else { &mut answer.stdout },
            if is_interleaved { "interleaved" } else { "stdout" },
        ),
        (second, &mut answer.stderr, "stderr"),
    ] {
        if let Some(shown) = shown {
            let (found, lines, bytes) = text.finish();
            *shown = found;
            if lines > 0 || bytes > 0 {
                let get = format!("buildpool logs {job} --stream {what} --attempt {number}");
                answer.omitted.push(Omission { what: what.to_owned(), lines, bytes, get });
            }
        }
    }
    Ok(answer)
}

/// The lines of one text that were chosen.
struct Collector<'a> {
    plan: &'a Plan,
    shown: VecDeque<Vec<u8>>,
    /// Bytes in `shown`: at least as many as characters.
    size: usize,
    carry: Vec<u8>,
    /// Lines that have ended.
    lines: u64,
    omitted_lines: u64,
    omitted_bytes: u64,
    /// Lines that a match yet wants after it.
    after: usize,
    before: VecDeque<Vec<u8>>,
}

impl<'a> Collector<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            shown: VecDeque::new(),
            size: 0,
            carry: Vec::new(),
            lines: 0,
            omitted_lines: 0,
            omitted_bytes: 0,
            after: 0,
            before: VecDeque::new(),
        }
    }

    /// Takes bytes; fewer than all when the answer is full and a later one can go on from there.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if let Choice::From(_) = self.plan.choice {
            let room = self.plan.characters.saturating_sub(self.size + self.carry.len());
            let taken = bytes.len().min(room);
            self.split(&bytes[..taken]);
            return taken;
        }
        self.split(bytes);
        bytes.len()
    }

    /// Takes bytes that lie before all that can be shown: they are counted, not kept.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.lines += ends;
        self.omitted_lines += ends;
        self.omitted_bytes += bytes.len() as u64;
        bytes.len()
    }

    fn gap(&mut self, payload: &[u8]) -> usize {
        if let Ok(gap) = serde_json::from_slice::<Gap>(payload) {
            self.omitted_bytes += gap.missing_bytes;
            let note = format!("[{} bytes are missing here: {}]\n", gap.missing_bytes, gap.reason);
            self.split(note.as_bytes());
        }
        payload.len()
    }

    fn split(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.grow(&bytes[..=end]);
            let line = std::mem::take(&mut self.carry);
            self.line(line);
            bytes = &bytes[end + 1..];
        }
        self.grow(bytes);
    }

    fn grow(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.carry.len());
        let kept = bytes.len().min(room);
        self.carry.extend_from_slice(&bytes[..kept]);
        self.omitted_bytes += (bytes.len() - kept) as u64;
    }

    fn line(&mut self, line: Vec<u8>) {
        let number = self.lines;
        self.lines += 1;
        match &self.plan.choice {
            Choice::Tail(lines) => {
                let most = lines.unwrap_or(u64::MAX);
                self.show(line);
                while self.shown.len() as u64 > most || self.size > self.plan.characters {
                    self.drop_first();
                }
            }
            Choice::Range { offset, limit } => {
                if number < *offset
                    || number - offset >= *limit
                    || self.size + line.len() > self.plan.characters
                {
                    self.omit(&line);
                } else {
                    self.show(line);
                }
            }
            Choice::From(_) => self.show(line),
            Choice::Matching { pattern, context } => self.matching(line, &pattern.clone(), *context),
        }
    }

    fn matching(&mut self, line: Vec<u8>, pattern: &Regex, context: usize) {
        if pattern.is_match(line.strip_suffix(b"\n").unwrap_or(&line)) {
            let before: Vec<_> = self.before.drain(..).collect();
            for line in before.into_iter().chain([line]) {
                self.show_if_room(line);
            }
            self.after = context;
        } else if self.after > 0 {
            self.after -= 1;
            self.show_if_room(line);
        } else {
            self.before.push_back(line);
            if self.before.len() > context
                && let Some(line) = self.before.pop_front()
            {
                self.omit(&line);
            }
        }
    }

    fn show_if_room(&mut self, line: Vec<u8>) {
        if self.size + line.len() > self.plan.characters {
            self.omit(&line);
        } else {
            self.show(line);
        }
    }

    fn show(&mut self, line: Vec<u8>) {
        self.size += line.len();
        self.shown.push_back(line);
    }

    fn drop_first(&mut self) {
        if let Some(line) = self.shown.pop_front() {
            self.size -= line.len();
            self.omit(&line);
        }
    }

    fn omit(&mut self, line: &[u8]) {
        self.omitted_lines += 1;
        self.omitted_bytes += line.len() as u64;
    }

    /// The text, and the lines and bytes that were left out of what was read.
    fn finish(mut self) -> (String, u64, u64) {
        if !self.carry.is_empty() {
            let line = std::mem::take(&mut self.carry);
            self.line(line);
        }
        for line in std::mem::take(&mut self.before) {
            self.omit(&line);
        }
        let bytes: Vec<u8> = self.shown.into_iter().flatten().collect();
        (String::from_utf8_lossy(&bytes).into_owned(), self.omitted_lines, self.omitted_bytes)
    }
}

#[cfg(test)]
mod tests;
