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
/// The most that one byte measures; see [`Plan::measure`].
const LONGEST_SIZE_OF_BYTE: usize = 3;
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

/// Where the wanted lines are.
#[derive(Clone, Debug)]
enum Choice {
    /// The last ones: this many, or as many as fit.
    Tail(Option<u64>),
    /// From this line on.
    Range { offset: u64 },
    /// From a cursor on; what does not fit is for the next answer and not counted.
    From(Cursor),
}

/// Which of them are wanted.
#[derive(Clone, Debug)]
struct Filter {
    pattern: Regex,
    /// Lines around a match.
    context: usize,
}

#[derive(Clone, Debug)]
struct Plan {
    choice: Choice,
    filter: Option<Filter>,
    /// Most lines of a text.
    limit: u64,
    /// Most characters of a text, or what they measure where it is told; see [`Plan::measure`].
    characters: usize,
    is_told: bool,
}

impl Plan {
    fn new(query: &LogQuery) -> Result<Self, LinkError> {
        let choice = match (query.cursor, query.offset, query.tail) {
            (Some(cursor), ..) => Choice::From(cursor),
            (None, Some(offset), _) => Choice::Range { offset },
            (None, None, Some(lines)) => Choice::Tail(Some(lines)),
            (None, None, None) if query.limit.is_some() || query.grep.is_some() => {
                Choice::Range { offset: 0 }
            }
            (None, None, None) => Choice::Tail(None),
        };
        Ok(Self {
            choice,
            filter: query.grep.as_deref().map(|pattern| Filter::new(pattern, query.context)).transpose()?,
            limit: query.limit.unwrap_or(u64::MAX),
            characters: query.characters_max.unwrap_or(LOG_ANSWER_CHARS).min(LOG_ANSWER_CHARS),
            is_told: query.characters_max.is_some(),
        })
    }

    /// How many of the bytes fit into `room`, whole characters only, and what those measure: their number or, where they
    /// are to be told, their bytes, escaped as in JSON or behind a mark of two on each line, whichever is longer.
    fn measure(&self, bytes: &[u8], room: usize) -> (usize, usize) {
        let (mut taken, mut used) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid().chars().map(|character| (character.len_utf8(), size_told(character)));
            let broken = Some(chunk.invalid().len()).filter(|length| *length > 0);
            let broken = broken.map(|length| (length, size_told(char::REPLACEMENT_CHARACTER)));
            for (length, told) in valid.chain(broken) {
                let size = if self.is_told { told } else { 1 };
                if used + size > room {
                    return (taken, used);
                }
                taken += length;
                used += size;
            }
        }
        (taken, used)
    }

    /// What all of it measures.
    fn size_of(&self, bytes: &[u8]) -> usize {
        self.measure(bytes, usize::MAX).1
    }

    /// From where on lines can be among those wanted: what a tail has before is only counted.
    fn start(&self, reader: &mut LogReader, stream: StreamChoice) -> Result<u64, LogError> {
        match &self.choice {
            // The last matches may be anywhere.
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
            Choice::From(cursor) => Ok(cursor.position),
            Choice::Range { .. } => Ok(0),
        }
    }
}

impl Filter {
    fn new(pattern: &str, context: u32) -> Result<Self, LinkError> {
        let wrong = |error: regex::Error| {
            LinkError::new(ErrorCode::Invalid, format!("grep: `{pattern}` is no valid pattern: {error}"))
        };
        let pattern = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().map_err(wrong)?;
        Ok(Self { pattern, context: context.min(CONTEXT_LINES_MAX) as usize })
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
        Choice::Tail(_) | Choice::Range { .. } => (0, 0),
    };
    let place = |position: u64, within: usize| Cursor {
        attempt: number,
        position,
        within: u32::try_from(within).unwrap_or(u32::MAX),
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
            let index = if is_interleaved { 0 } else { header.stream.index() };
            let other = texts[1 - index].last_at;
            let text = &mut texts[index];
            if stream.wants(header.stream) {
                let payload = &payload[within.min(payload.len())..];
                let at = place(position, within);
                let taken = match header.kind {
                    ChunkKind::Data if position < start => text.pass(payload, at),
                    ChunkKind::Data => text.take(payload, at, other),
                    ChunkKind::Gap => text.gap(payload, at),
                };
                within += taken;
                if taken < payload.len() || text.is_full() {
                    break 'log;
                }
            }
            within = 0;
            position += header.size();
            rest = &rest[usize::try_from(header.size()).unwrap_or(rest.len()).min(rest.len())..];
        }
    }
    let is_done = state == JobState::Done;
    let is_whole = position >= reader.length() && within == 0;
    let end = (!is_whole || !is_done).then_some(place(position, within));
    let mut answer = empty(job, state, stream);
    answer.attempt = number;
    let [first, second] = texts.map(|text| text.finish(is_done));
    answer.rest_cursor = first.left.into_iter().chain(second.left).min();
    let resume = first.resume.into_iter().chain(second.resume).min();
    answer.next_cursor = match plan.choice {
        // What a tail leaves out lies before it; what comes after it, only a log that goes on has.
        Choice::Tail(_) => end.or(answer.rest_cursor),
        Choice::Range { .. } | Choice::From(_) => resume.or(end),
    };
    for (text, shown, what) in [
        (
            first,
            if is_interleaved { &mut answer.interleaved } else { &mut answer.stdout },
            if is_interleaved { "interleaved" } else { "stdout" },
        ),
        (second, &mut answer.stderr, "stderr"),
    ] {
        if let Some(shown) = shown {
            let Part { text, lines, bytes, .. } = text;
            *shown = text;
            if lines > 0 || bytes > 0 {
                let get = format!("buildpool logs {job} --stream {what} --attempt {number}");
                answer.omitted.push(Omission { what: what.to_owned(), lines, bytes, get });
            }
        }
    }
    Ok(answer)
}

/// The most bytes that a character takes where it is told.
fn size_told(character: char) -> usize {
    match character {
        '"' | '\\' | '\t' => 2,
        // Each of these ends a line there.
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' => 3,
        other => other.len_utf8(),
    }
}

/// A line, and where it begins.
struct Line {
    bytes: Vec<u8>,
    at: Cursor,
    /// What it measures.
    size: usize,
}

/// What became of one text.
struct Part {
    text: String,
    /// Lines and bytes that were asked for and left out.
    lines: u64,
    bytes: u64,
    /// Where the first of those lines begins.
    left: Option<Cursor>,
    /// Where an answer goes on that is to have all that this one has not.
    resume: Option<Cursor>,
}

/// The lines of one text that were chosen.
struct Collector<'a> {
    plan: &'a Plan,
    shown: VecDeque<Line>,
    /// What `shown` measures: at least as much as it has characters.
    size: usize,
    carry: Vec<u8>,
    carry_at: Cursor,
    /// Bytes of the line under way that are too many for any answer.
    carry_cut: u64,
    /// Lines that have ended.
    lines: u64,
    omitted_lines: u64,
    omitted_bytes: u64,
    left: Option<Cursor>,
    /// Where it was taken from last.
    last_at: Option<Cursor>,
    /// Lines that a match yet wants after it.
    after: usize,
    before: VecDeque<(Vec<u8>, Cursor)>,
}

impl<'a> Collector<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            shown: VecDeque::new(),
            size: 0,
            carry: Vec::new(),
            carry_at: Cursor::default(),
            carry_cut: 0,
            lines: 0,
            omitted_lines: 0,
            omitted_bytes: 0,
            left: None,
            last_at: None,
            after: 0,
            before: VecDeque::new(),
        }
    }

    /// Whether the answer goes no further than here.
    fn is_full(&self) -> bool {
        matches!(self.plan.choice, Choice::From(_)) && self.left.is_some()
    }

    /// Takes bytes; fewer than all when the answer is full and a later one can go on from there. `other` is where the other
    /// text was taken from last.
    fn take(&mut self, bytes: &[u8], at: Cursor, other: Option<Cursor>) -> usize {
        self.last_at = Some(at);
        let is_paged = matches!(self.plan.choice, Choice::From(_)) && self.plan.filter.is_none();
        if !is_paged {
            self.split(bytes, at);
            return bytes.len();
        }
        // The line under way is left to the next answer whole, unless that one would repeat what the other text has.
        let is_under_way = !self.carry.is_empty() && !self.shown.is_empty();
        let goes_back = is_under_way && other.is_none_or(|other| other < self.carry_at);
        let taken = self.fitting(bytes, goes_back);
        if taken == 0 && goes_back && !bytes.is_empty() {
            self.carry.clear();
            self.left.get_or_insert(self.carry_at);
            return 0;
        }
        self.split(&bytes[..taken], at);
        taken
    }

    /// How many of the bytes the answer has room for. It ends with a whole line, unless that line is longer than any answer
    /// or a part of it was taken already.
    fn fitting(&self, bytes: &[u8], goes_back: bool) -> usize {
        let mut room = self.plan.characters.saturating_sub(self.size + self.plan.size_of(&self.carry));
        let mut lines = self.plan.limit.saturating_sub(self.shown.len() as u64);
        let mut taken = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if lines == 0 {
                break;
            }
            let (fits, size) = self.plan.measure(line, room);
            if fits < line.len() {
                let is_cut = taken == 0 && (self.shown.is_empty() || (!self.carry.is_empty() && !goes_back));
                return if is_cut { fits } else { taken };
            }
            room -= size;
            taken += fits;
            lines -= u64::from(line.ends_with(b"\n"));
        }
        taken
    }

    /// Takes bytes that lie before all that can be shown: they are counted, not kept.
    fn pass(&mut self, bytes: &[u8], at: Cursor) -> usize {
        let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.lines += ends;
        self.omitted_lines += ends;
        self.omitted_bytes += bytes.len() as u64;
        self.left.get_or_insert(at);
        bytes.len()
    }

    fn gap(&mut self, payload: &[u8], at: Cursor) -> usize {
        if let Ok(gap) = serde_json::from_slice::<Gap>(payload) {
            self.omitted_bytes += gap.missing_bytes;
            let note = format!("[{} bytes are missing here: {}]\n", gap.missing_bytes, gap.reason);
            self.split(note.as_bytes(), at);
        }
        payload.len()
    }

    fn split(&mut self, bytes: &[u8], at: Cursor) {
        let mut place = at;
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.carry.is_empty() {
                self.carry_at = place;
            }
            let kept = part.len().min(LINE_BYTES_MAX.saturating_sub(self.carry.len()));
            self.carry.extend_from_slice(&part[..kept]);
            self.carry_cut += (part.len() - kept) as u64;
            if part.ends_with(b"\n") {
                self.end_line();
            }
            place.within = place.within.saturating_add(u32::try_from(part.len()).unwrap_or(u32::MAX));
        }
    }

    /// The line under way is over.
    fn end_line(&mut self) {
        let (line, at) = (std::mem::take(&mut self.carry), self.carry_at);
        self.omitted_bytes += std::mem::take(&mut self.carry_cut);
        let number = self.lines;
        self.lines += 1;
        let plan = self.plan;
        if matches!(plan.choice, Choice::Range { offset } if number < offset) {
            return;
        }
        match &plan.filter {
            Some(filter) => self.matching(line, at, filter),
            None => self.keep(line, at),
        }
    }

    fn matching(&mut self, line: Vec<u8>, at: Cursor, filter: &Filter) {
        if filter.pattern.is_match(line.strip_suffix(b"\n").unwrap_or(&line)) {
            for (line, at) in std::mem::take(&mut self.before) {
                self.keep(line, at);
            }
            self.keep(line, at);
            self.after = filter.context;
        } else if self.after > 0 {
            self.after -= 1;
            self.keep(line, at);
        } else {
            self.before.push_back((line, at));
            if self.before.len() > filter.context {
                self.before.pop_front();
            }
        }
    }

    /// Takes a line that was asked for.
    fn keep(&mut self, mut line: Vec<u8>, at: Cursor) {
        if let Choice::Tail(lines) = self.plan.choice {
            let most = lines.unwrap_or(u64::MAX);
            self.show(line, at);
            while self.shown.len() as u64 > most || self.size > self.plan.characters {
                self.drop_first();
            }
            return;
        }
        let is_full = self.left.is_some() || self.shown.len() as u64 >= self.plan.limit;
        let room = self.plan.characters.saturating_sub(self.size);
        let (fits, _) = if is_full { (0, 0) } else { self.plan.measure(&line, room) };
        if fits == line.len() {
            return self.show(line, at);
        }
        // A match that is longer than any answer would be in the way of all that come after it.
        if self.shown.is_empty() && !is_full && self.plan.filter.is_some() {
            self.omitted_bytes += (line.len() - fits) as u64;
            line.truncate(fits);
            return self.show(line, at);
        }
        self.omit(line.len(), at);
    }

    fn show(&mut self, bytes: Vec<u8>, at: Cursor) {
        let size = self.plan.size_of(&bytes);
        self.size += size;
        self.shown.push_back(Line { bytes, at, size });
    }

    /// Makes a tail shorter: by its first line, or by the beginning of its only one.
    fn drop_first(&mut self) {
        let is_only = self.shown.len() == 1 && !matches!(self.plan.choice, Choice::Tail(Some(0)));
        let Some(line) = self.shown.pop_front() else { return };
        self.size -= line.size;
        if !is_only {
            return self.omit(line.bytes.len(), line.at);
        }
        let from = line.bytes.len() - line.bytes.len().min(self.plan.characters / LONGEST_SIZE_OF_BYTE);
        let is_inside = |byte: &u8| byte & 0xc0 == 0x80;
        let from = from + line.bytes[from..].iter().take_while(|byte| is_inside(byte)).count();
        self.omitted_bytes += from as u64;
        self.left.get_or_insert(line.at);
        self.show(line.bytes[from..].to_vec(), line.at);
    }

    fn omit(&mut self, bytes: usize, at: Cursor) {
        if !matches!(self.plan.choice, Choice::From(_)) {
            self.omitted_lines += 1;
            self.omitted_bytes += bytes as u64;
        }
        self.left.get_or_insert(at);
    }

    /// The text, and what was left out of what was read. A line that is not over yet is told as far as it is there, unless
    /// it is only then known whether it is asked for.
    fn finish(mut self, is_done: bool) -> Part {
        let mut resume = None;
        if !self.carry.is_empty() {
            if self.is_full() || (self.plan.filter.is_some() && !is_done) {
                resume = Some(self.carry_at);
            } else {
                self.end_line();
            }
        }
        let bytes: Vec<u8> = self.shown.into_iter().flat_map(|line| line.bytes).collect();
        Part {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            lines: self.omitted_lines,
            bytes: self.omitted_bytes,
            left: self.left,
            resume: self.left.into_iter().chain(resume).min(),
        }
    }
}

#[cfg(test)]
mod tests;
