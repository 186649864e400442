//! Bytes in, a digest out.

mod context_lines;
mod dispatch;
mod gathered;
mod message;
mod part_outputs;
mod records;
mod test_output;

use crate::attempt_facts::Facts;
use crate::command::Command;
use crate::digest::Digest;
use crate::findings::{Findings, Slot};
use crate::keyword_lines::KeywordLines;
use crate::limits::{SCANNED_BYTES_MAX, SHOWN_LINE_CHARS};
use crate::machines::Machines;
use crate::markers::Markers;
use crate::missing_total::MissingTotal;
use crate::noise::is_noise;
use crate::records::{document_events, events, may_be_record};
use crate::rules::{Kind, LineMatcher, RuleSet};
use crate::tally::{LinePosition, Tally};
use crate::template::Capture;
use crate::text::{
    Cleaner, JsonLines, LinePrefix, Lines, RawLine, Tail, ci_prefix, clip_chars, closed_json, front,
    front_length, lossy,
};
use crate::trailing_context::is_trailing_context;
use crate::transcript::Transcript;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::GapEntry;
use buildpool_protocol::spec::{Purpose, TemplateSpec};
use context_lines::{ContextLines, LinesBefore};
pub(crate) use gathered::Gathered;
use message::Open;
use part_outputs::PartOutputs;
use records::RecordPlace;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
pub(crate) use test_output::TestOutput;

/// Longest line kept as possible context, in bytes.
const RECENT_BYTES_MAX: usize = 600;
/// Most holes that are kept.
const GAPS_MAX: usize = 64;

/// Settings that a digester needs before the first byte.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Purpose of the command. It selects the content of the answer to a passed job.
    pub purpose: Purpose,
    /// The filter that the submitter chose.
    pub template: Option<TemplateSpec>,
    /// Directories that paths are shown relative to: the workspace.
    pub roots: Vec<String>,
    /// The command in one line.
    pub command: String,
    /// The job's id, or its name in a build; empty when there is only a log.
    pub job: String,
    /// Leaves out the recognizer with this name, or all of a tool's: `go.fail`, `go`. Used to measure the value of each.
    pub without_rules: Option<String>,
}

/// State of the digest while the job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Complete lines of both streams.
    pub lines: u64,
    /// Different errors so far.
    pub errors: u64,
    /// Tests that ended.
    pub tests_done: u64,
    /// Number of tests that will run, if a tool prints it.
    pub tests_total: Option<u64>,
    /// The last line with content.
    pub last_line: String,
    /// The test that runs, if the log shows it.
    pub running_test: Option<String>,
}

/// A summary line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummaryLine {
    pub(crate) text: String,
    pub(crate) stream: Stream,
    pub(crate) from: u64,
    pub(crate) repeated: u64,
}

#[derive(Debug, Default)]
struct StreamState {
    lines: Lines,
    tail: Tail,
    recent: ContextLines,
    /// Lines before the open message.
    before: LinesBefore,
    open: Option<Open>,
    awaiting: Option<(Slot, u64)>,
    count: u64,
    /// The last line was blank.
    blank: bool,
    /// The stream ended inside the last line.
    is_cut: bool,
    /// The message that began last is of something that a configuration tried out.
    probing: bool,
    /// Number of the last line that may name such a probe; 0 without one.
    probe_at: u64,
    /// The JSON document that the last lines belong to.
    document: JsonLines,
    /// The file that failures are in, where a tool names it once.
    file: Option<(Vec<u8>, String)>,
}

/// A cleaned line.
struct Line<'l> {
    stream: Stream,
    text: &'l [u8],
    front: LinePrefix,
    /// Text that the rules match.
    body: &'l [u8],
    /// True if the line is part of the message of a failed test, so it is the test's output.
    printed: bool,
    position: LinePosition,
    /// Offset of its first byte in the stream.
    from: u64,
    /// Offset one past its last byte.
    to: u64,
}

/// Digests one attempt's log. Push bytes in the order in which they were written, at any chunking; [`live`](Self::live)
/// returns the state at any time, [`finish`](Self::finish) the digest once.
#[derive(Debug)]
pub struct Digester {
    options: Options,
    command: Command,
    rules: Arc<RuleSet>,
    /// Indices of the rules that are left out.
    left_out: Arc<[u16]>,
    /// Which rules had an effect.
    matched_rules: Vec<bool>,
    /// Formats of the records and documents so far.
    matched_formats: Vec<&'static str>,
    streams: [StreamState; 2],
    cleaner: Cleaner,
    findings: Findings,
    keyword_lines: KeywordLines,
    missing_total: MissingTotal,
    tally: Tally,
    markers: Markers,
    summary: VecDeque<SummaryLine>,
    summary_dropped: u64,
    capture: Option<Capture>,
    gaps: Vec<GapEntry>,
    transcript: Transcript,
    order: u64,
    /// The last line below a blank one that is indented as the heading of mocha's suites is.
    suite: Option<u64>,
    test_output: TestOutput,
    parts: PartOutputs,
    machines: Machines,
    /// Where the test began that runs now, of a runner that runs one at a time.
    test_began: Option<u64>,
    last_line: Vec<u8>,
    /// Its order.
    last_text: u64,
    /// Order of the last such line that does not look like the context of an error above it.
    last_statement: u64,
}

impl Digester {
    /// A digester for one attempt.
    pub fn new(options: Options) -> Self {
        let rules = RuleSet::all();
        let left_out = options.without_rules.as_deref().map_or_else(Vec::new, |name| rules.named(name));
        let capture = options.template.as_ref().and_then(Capture::new);
        let command = Command::new(&options.command);
        let missing_total = MissingTotal::new(&command);
        let tally = Tally::of(&command);
        Self {
            options,
            command,
            matched_rules: vec![false; rules.rules().count()],
            matched_formats: Vec::new(),
            left_out: left_out.into(),
            rules,
            streams: Default::default(),
            cleaner: Cleaner::default(),
            findings: Findings::default(),
            keyword_lines: KeywordLines::default(),
            missing_total,
            tally,
            markers: Markers::default(),
            summary: VecDeque::new(),
            summary_dropped: 0,
            capture,
            gaps: Vec::new(),
            transcript: Transcript::default(),
            order: 0,
            suite: None,
            test_output: TestOutput::default(),
            parts: PartOutputs::default(),
            machines: Machines::default(),
            test_began: None,
            last_line: Vec::new(),
            last_text: 0,
            last_statement: 0,
        }
    }

    /// Takes the next bytes of a stream.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.transcript.push(stream, bytes);
        let state = &mut self.streams[stream.index()];
        state.tail.push(bytes);
        let mut lines = std::mem::take(&mut state.lines);
        let (rules, left_out) = (Arc::clone(&self.rules), Arc::clone(&self.left_out));
        let mut matcher = rules.matcher(&left_out);
        lines.push(bytes, |raw| self.raw_line(&mut matcher, stream, raw));
        self.streams[stream.index()].lines = lines;
    }

    /// Skips bytes that the process wrote and that no part has.
    pub fn gap(&mut self, stream: Stream, missing_bytes: u64, reason: &str) {
        self.transcript.skip(stream);
        let state = &mut self.streams[stream.index()];
        let offset = state.lines.at();
        state.tail.skip(missing_bytes);
        let mut lines = std::mem::take(&mut state.lines);
        let (rules, left_out) = (Arc::clone(&self.rules), Arc::clone(&self.left_out));
        let mut matcher = rules.matcher(&left_out);
        lines.skip(missing_bytes, |raw| self.raw_line(&mut matcher, stream, raw));
        self.streams[stream.index()].lines = lines;
        self.all_parts(&mut matcher);
        self.close(stream);
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(GapEntry { stream, offset, bytes: missing_bytes, reason: reason.to_owned() });
        }
    }

    /// Names of the recognizers that had an effect so far.
    pub fn matched_rules(&self) -> impl Iterator<Item = &'static str> {
        let rules = self.rules.rules().zip(&self.matched_rules).filter(|(_, has_matched)| **has_matched);
        rules.map(|(rule, _)| rule.name).chain(self.matched_formats.iter().copied())
    }

    /// Returns the current state.
    pub fn live(&self) -> Live {
        Live {
            lines: self.streams.iter().map(|state| state.count).sum(),
            errors: self.findings.errors_total,
            tests_done: self.tally.done(),
            tests_total: self.tally.expected_total(),
            last_line: clip_chars(&lossy(&self.last_line), 200).into_owned(),
            running_test: self.tally.latest_running().map(|test| clip_chars(test, 200).into_owned()),
        }
    }

    /// The digest, given how the attempt ended.
    pub fn finish(mut self, facts: &Facts) -> Digest {
        let (rules, left_out) = (Arc::clone(&self.rules), Arc::clone(&self.left_out));
        let mut matcher = rules.matcher(&left_out);
        for stream in Stream::ALL {
            let mut lines = std::mem::take(&mut self.streams[stream.index()].lines);
            lines.finish(|raw| self.raw_line(&mut matcher, stream, raw));
            self.streams[stream.index()].lines = lines;
            self.all_parts(&mut matcher);
            self.close(stream);
        }
        self.options.roots.extend(facts.roots.iter().cloned());
        let mut cleaner = Cleaner::default();
        let is_records = self.options.purpose == Purpose::Tests;
        let tails = Stream::ALL.map(|stream| {
            let lines = self.streams[stream.index()].tail.lines();
            if is_records { part_outputs::readable_tail(lines) } else { lines }
        });
        let counts = Stream::ALL.map(|stream| {
            let state = &self.streams[stream.index()];
            (state.count, state.tail.length())
        });
        let whole = self.transcript.whole(&mut cleaner, is_records);
        let ends = Stream::ALL.map(|stream| {
            let tail = &mut self.streams[stream.index()].tail;
            let length = tail.length();
            let ends = self.transcript.ends(stream, length, tail.bytes());
            if is_records { part_outputs::readable_ends(ends) } else { ends }
        });
        Digest::new(
            Gathered {
                options: self.options,
                command: self.command,
                machines: self.machines,
                findings: self.findings.into_ordered(),
                keyword_lines: self.keyword_lines,
                missing_total: self.missing_total,
                tally: self.tally,
                markers: self.markers,
                summary: self.summary.into(),
                capture: self.capture,
                gaps: self.gaps,
                tails,
                ends,
                whole,
                counts,
                last_text: self.last_text,
                last_statement: self.last_statement,
            },
            facts,
        )
    }

    fn raw_line(&mut self, matcher: &mut LineMatcher<'_>, stream: Stream, raw: RawLine<'_>) {
        let state = &mut self.streams[stream.index()];
        state.count += 1;
        state.is_cut = raw.to - raw.from == raw.bytes.len() as u64;
        let bytes = raw.bytes.strip_suffix(b"\r").unwrap_or(raw.bytes);
        if raw.tail.is_empty() && !raw.has_control {
            let text = &bytes[ci_prefix(bytes)..];
            return self.clean_line(matcher, stream, text, raw.from, raw.to);
        }
        let mut cleaner = std::mem::take(&mut self.cleaner);
        if let Some(last) = memchr::memrchr(b'\r', bytes) {
            self.overwritten(matcher, &mut cleaner, stream, &raw, last);
        }
        if raw.tail.is_empty() {
            self.clean_line(matcher, stream, cleaner.clean(raw.bytes), raw.from, raw.to);
        } else {
            self.cut_line(matcher, &mut cleaner, stream, &raw);
        }
        self.cleaner = cleaner;
    }

    /// The recognizer, or the tool, that is left out.
    fn without(&self) -> Option<&str> {
        self.options.without_rules.as_deref()
    }

    /// Takes a line of which only the beginning and the end are known: a document in JSON, read up to the cut, or text.
    fn cut_line(
        &mut self,
        matcher: &mut LineMatcher<'_>,
        cleaner: &mut Cleaner,
        stream: Stream,
        raw: &RawLine<'_>,
    ) {
        let RawLine { from, to, .. } = *raw;
        let mut whole = cleaner.clean(raw.bytes).to_vec();
        let (front, rest) = whole.split_at(front_length(&whole));
        if let Some(events) = closed_json(rest).and_then(|document| events(&document, self.without())) {
            self.taken(stream, &whole);
            return self.events(matcher, RecordPlace { stream, front, from, to }, events);
        }
        whole.extend_from_slice(format!(" …[{} bytes]… ", raw.skipped).as_bytes());
        whole.extend_from_slice(cleaner.clean(raw.tail));
        self.line(matcher, stream, &whole, from, to);
    }

    /// Takes a line without escapes: a tool's record, a document or a part of one, or text.
    fn clean_line(&mut self, matcher: &mut LineMatcher<'_>, stream: Stream, line: &[u8], from: u64, to: u64) {
        if may_be_record(line) {
            let (front, rest) = line.split_at(front_length(line));
            if let Some(events) = events(rest, self.without()) {
                self.taken(stream, line);
                return self.events(matcher, RecordPlace { stream, front, from, to }, events);
            }
        }
        let document = self.streams[stream.index()].document.line(line, from);
        self.line(matcher, stream, line, from, to);
        if let Some((from, document)) = document
            && let Some(events) = document_events(&document, self.without())
        {
            // The log has no such lines.
            let last_line = self.last_line.clone();
            self.events(matcher, RecordPlace { stream, front: b"", from, to }, events);
            self.last_line = last_line;
        }
    }

    /// Overwritten progress, up to the CR at `last`: only lines that match a rule count.
    fn overwritten(
        &mut self,
        matcher: &mut LineMatcher<'_>,
        cleaner: &mut Cleaner,
        stream: Stream,
        raw: &RawLine<'_>,
        last: usize,
    ) {
        for segment in raw.bytes[..last].split(|byte| *byte == b'\r') {
            let line = cleaner.clean(segment);
            let body = scanned(line);
            if !body.is_empty() && matcher.is_match(body) {
                self.line(matcher, stream, line, raw.from, raw.to);
            }
        }
    }

    fn line(&mut self, matcher: &mut LineMatcher<'_>, stream: Stream, line: &[u8], from: u64, to: u64) {
        self.taken(stream, line);
        self.match_line(matcher, stream, line, from, to);
    }

    /// Counts a line, and gives it to the template.
    fn taken(&mut self, stream: Stream, line: &[u8]) {
        self.order += 1;
        if let Some(capture) = &mut self.capture {
            capture.line(stream, self.order, line);
        }
    }

    /// Applies the effects of the matched rules to a line.
    fn match_line(&mut self, matcher: &mut LineMatcher<'_>, stream: Stream, line: &[u8], from: u64, to: u64) {
        let front = front(line);
        let own = &line[front.length..];
        let body = &own[..own.len().min(SCANNED_BYTES_MAX)];
        // A rule whose tool is not known has no effect on the line.
        let is_match = !body.is_empty()
            && matcher.is_match(body)
            && matcher.rules().any(|rule| rule.effects.first().is_none_or(|first| self.is_in_scope(first)));
        if body.len() < own.len() || !body.is_empty() && matcher.may_name_probe() {
            let state = &mut self.streams[stream.index()];
            state.probe_at = state.count;
        }
        let (mut part, mut printed) = (false, false);
        if let Some(open) = &self.streams[stream.index()].open {
            let of_test = open.problem.owns && open.problem.kind == Kind::Test;
            part = self.follow(stream, line, &front, to, is_match);
            printed = part && of_test;
        }
        let state = &mut self.streams[stream.index()];
        let position = LinePosition { number: state.count, after_blank: state.blank, task: None };
        if state.blank && own.starts_with(b"  ") && own.get(2).is_some_and(|byte| !byte.is_ascii_whitespace())
        {
            self.suite = Some(self.order);
        }
        state.blank = is_blank(own);
        self.missing_total.line(own, position.after_blank, state.is_cut);
        if is_match {
            let line = Line { stream, text: line, front, body, printed, position, from, to };
            self.interpret(matcher, &line, part);
        }
        let has_text = matcher.has_error_word() && !is_match && !part;
        self.keyword_lines.line(own, has_text, (stream, from, to, self.order));
        let state = &mut self.streams[stream.index()];
        if line.is_empty() || part {
            return;
        }
        if !is_match && let Some((slot, left)) = state.awaiting.take() {
            let text = shown(line);
            if !is_noise(body)
                && let Some(found) = self.findings.get_mut(slot)
            {
                found.post.push(text);
            }
            if left > 1 {
                state.awaiting = Some((slot, left - 1));
            }
        }
        state.recent.push(&line[..line.len().min(RECENT_BYTES_MAX)]);
        if !is_blank(line) {
            self.last_text = self.order;
            if !is_trailing_context(own) {
                self.last_statement = self.order;
            }
            self.last_line.clear();
            self.last_line.extend_from_slice(&line[..line.len().min(RECENT_BYTES_MAX)]);
        }
    }
}

/// Replaces records of test output in lines of a test run's log by their text.
pub fn readable(lines: Vec<String>) -> Vec<String> {
    part_outputs::readable(lines, |line| line.as_bytes(), |_, part| part.to_owned())
}

/// Text that the rules match: the line without its time stamp, and only the beginning of a very long line.
fn scanned(line: &[u8]) -> &[u8] {
    let body = &line[front_length(line)..];
    &body[..body.len().min(SCANNED_BYTES_MAX)]
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}

fn shown(line: &[u8]) -> String {
    shown_text(line).into_owned()
}

/// As [`shown`]. Almost all lines are borrowed.
fn shown_text(line: &[u8]) -> Cow<'_, str> {
    match lossy(line) {
        Cow::Borrowed(text) if text.len() <= SHOWN_LINE_CHARS => text.trim_end().into(),
        text => clip_chars(&text, SHOWN_LINE_CHARS).trim_end().to_owned().into(),
    }
}
