//! Bytes in, a digest out.

use crate::digest::Digest;
use crate::facts::Facts;
use crate::found::{Finds, Found, Slot};
use crate::limits::{
    MESSAGE_BYTES_MAX, MESSAGE_LINES_MAX, SCANNED_BYTES_MAX, SHOWN_LINE_CHARS, SUMMARY_LINES_MAX,
};
use crate::noise::is_noise;
use crate::rules::{Act, Asker, Draft, Groups, Level, Next, Problem, Rule, RuleSet, severity_of_word};
use crate::signs::Signs;
use crate::tally::Tally;
use crate::template::Capture;
use crate::text::{Cleaner, Lines, RawLine, Tail, clip_chars, stamp_length};
use buildpool_protocol::limits::{POST_CONTEXT_LINES, PRE_CONTEXT_LINES};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{GapEntry, Location, Severity};
use buildpool_protocol::spec::TemplateSpec;
use std::collections::VecDeque;
use std::sync::Arc;

/// Longest line kept as possible context, in bytes.
const RECENT_BYTES_MAX: usize = 600;
/// Most lines held back until it is known whether they belong to a message.
const MAYBE_LINES_MAX: usize = 12;
/// Most holes that are kept.
const GAPS_MAX: usize = 64;

/// What a digester must know before the first byte.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The filter that the submitter chose.
    pub template: Option<TemplateSpec>,
    /// Directories that paths are shown relative to: the workspace.
    pub roots: Vec<String>,
    /// The command in one line.
    pub command: String,
    /// The job's id, or its name in a build; empty when there is only a log.
    pub job: String,
    /// Leaves out the recogniser with this name, or all of a tool's: `go.fail`, `go`. Shows what each is worth.
    pub without_rules: Option<String>,
}

/// What is known while the job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Complete lines of both streams.
    pub lines: u64,
    /// Different errors so far.
    pub errors: u64,
    /// Tests that ended.
    pub tests_done: u64,
    /// Tests that will run, where a tool says so.
    pub tests_total: Option<u64>,
    /// The last line that says something.
    pub last_line: String,
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
    recent: VecDeque<Vec<u8>>,
    open: Option<Open>,
    awaiting: Option<(Slot, u64)>,
    count: u64,
}

/// A problem whose lines still come.
#[derive(Debug)]
struct Open {
    problem: Problem,
    found: Found,
    draft: Draft,
    bytes: usize,
    maybe: Vec<(String, u64)>,
}

/// A cleaned line.
struct Line<'l> {
    stream: Stream,
    text: &'l [u8],
    /// What the rules look at.
    body: &'l [u8],
    /// Offset of its first byte in the stream.
    from: u64,
    /// Offset one past its last byte.
    to: u64,
}

/// Digests one attempt's log. Push bytes in the order in which they were written, at any chunking; [`live`](Self::live)
/// tells at any time, [`finish`](Self::finish) once.
#[derive(Debug)]
pub struct Digester {
    options: Options,
    rules: Arc<RuleSet>,
    /// Indices of the rules that are left out.
    left_out: Arc<[u16]>,
    /// Which rules spoke to a line.
    heard: Vec<bool>,
    streams: [StreamState; 2],
    cleaner: Cleaner,
    finds: Finds,
    tally: Tally,
    signs: Signs,
    summary: VecDeque<SummaryLine>,
    summary_dropped: u64,
    capture: Option<Capture>,
    gaps: Vec<GapEntry>,
    order: u64,
    last_line: Vec<u8>,
}

impl Digester {
    /// A digester for one attempt.
    pub fn new(options: Options) -> Self {
        let rules = RuleSet::all();
        let left_out = options.without_rules.as_deref().map_or_else(Vec::new, |name| rules.named(name));
        let capture = options.template.as_ref().and_then(Capture::new);
        Self {
            options,
            heard: vec![false; rules.rules().count()],
            left_out: left_out.into(),
            rules,
            streams: Default::default(),
            cleaner: Cleaner::default(),
            finds: Finds::default(),
            tally: Tally::default(),
            signs: Signs::default(),
            summary: VecDeque::new(),
            summary_dropped: 0,
            capture,
            gaps: Vec::new(),
            order: 0,
            last_line: Vec::new(),
        }
    }

    /// Takes the next bytes of a stream.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let state = &mut self.streams[stream.index()];
        state.tail.push(bytes);
        let mut lines = std::mem::take(&mut state.lines);
        let (rules, left_out) = (Arc::clone(&self.rules), Arc::clone(&self.left_out));
        let mut asker = rules.asker(&left_out);
        lines.push(bytes, |raw| self.raw_line(&mut asker, stream, raw));
        self.streams[stream.index()].lines = lines;
    }

    /// Passes over bytes that the process wrote and nobody has.
    pub fn gap(&mut self, stream: Stream, missing_bytes: u64, reason: &str) {
        let state = &mut self.streams[stream.index()];
        let offset = state.lines.at();
        state.tail.skip(missing_bytes);
        let mut lines = std::mem::take(&mut state.lines);
        let (rules, left_out) = (Arc::clone(&self.rules), Arc::clone(&self.left_out));
        let mut asker = rules.asker(&left_out);
        lines.skip(missing_bytes, |raw| self.raw_line(&mut asker, stream, raw));
        self.streams[stream.index()].lines = lines;
        self.close(stream);
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(GapEntry { stream, offset, bytes: missing_bytes, reason: reason.to_owned() });
        }
    }

    /// Names of the recognisers that spoke to a line so far.
    pub fn heard(&self) -> impl Iterator<Item = &'static str> {
        self.rules.rules().zip(&self.heard).filter(|(_, heard)| **heard).map(|(rule, _)| rule.name)
    }

    /// What is known so far.
    pub fn live(&self) -> Live {
        Live {
            lines: self.order,
            errors: self.finds.errors_total,
            tests_done: self.tally.done(),
            tests_total: self.tally.expected_total(),
            last_line: clip_chars(&String::from_utf8_lossy(&self.last_line), 200).into_owned(),
        }
    }

    /// The digest, given how the attempt ended.
    pub fn finish(mut self, facts: &Facts) -> Digest {
        let (rules, left_out) = (Arc::clone(&self.rules), Arc::clone(&self.left_out));
        let mut asker = rules.asker(&left_out);
        for stream in Stream::ALL {
            let mut lines = std::mem::take(&mut self.streams[stream.index()].lines);
            lines.finish(|raw| self.raw_line(&mut asker, stream, raw));
            self.streams[stream.index()].lines = lines;
            self.close(stream);
        }
        self.options.roots.extend(facts.roots.iter().cloned());
        let mut cleaner = Cleaner::default();
        let tails = Stream::ALL.map(|stream| self.streams[stream.index()].tail.last_lines(&mut cleaner));
        let counts = Stream::ALL.map(|stream| {
            let state = &self.streams[stream.index()];
            (state.count, state.tail.length())
        });
        Digest::new(
            Gathered {
                options: self.options,
                finds: self.finds.into_ordered(),
                tally: self.tally,
                signs: self.signs,
                summary: self.summary.into(),
                capture: self.capture,
                gaps: self.gaps,
                tails,
                counts,
            },
            facts,
        )
    }

    fn raw_line(&mut self, asker: &mut Asker<'_>, stream: Stream, raw: RawLine<'_>) {
        let mut cleaner = std::mem::take(&mut self.cleaner);
        self.streams[stream.index()].count += 1;
        if memchr::memchr(b'\r', raw.bytes.strip_suffix(b"\r").unwrap_or(raw.bytes)).is_some() {
            self.overwritten(asker, &mut cleaner, stream, &raw);
        }
        if raw.tail.is_empty() {
            let line = cleaner.clean(raw.bytes);
            self.line(asker, stream, line, raw.from, raw.to);
        } else {
            let mut whole = cleaner.clean(raw.bytes).to_vec();
            whole.extend_from_slice(format!(" …[{} bytes]… ", raw.skipped).as_bytes());
            whole.extend_from_slice(cleaner.clean(raw.tail));
            self.line(asker, stream, &whole, raw.from, raw.to);
        }
        self.cleaner = cleaner;
    }

    /// Progress that was drawn over: only what a rule speaks to is looked at.
    fn overwritten(
        &mut self,
        asker: &mut Asker<'_>,
        cleaner: &mut Cleaner,
        stream: Stream,
        raw: &RawLine<'_>,
    ) {
        let Some(last) = memchr::memrchr(b'\r', raw.bytes.strip_suffix(b"\r").unwrap_or(raw.bytes)) else {
            return;
        };
        for segment in raw.bytes[..last].split(|byte| *byte == b'\r') {
            let line = cleaner.clean(segment);
            let body = scanned(line);
            if !body.is_empty() && asker.speaks(body) {
                self.line(asker, stream, line, raw.from, raw.to);
            }
        }
    }

    fn line(&mut self, asker: &mut Asker<'_>, stream: Stream, line: &[u8], from: u64, to: u64) {
        self.order += 1;
        if let Some(capture) = &mut self.capture {
            capture.line(stream, self.order, line);
        }
        let body = scanned(line);
        let speaks = !body.is_empty() && asker.speaks(body);
        let mut part = false;
        if self.streams[stream.index()].open.is_some() {
            part = self.follow(stream, line, to, speaks);
        }
        if speaks {
            self.interpret(asker, &Line { stream, text: line, body, from, to }, part);
        }
        let state = &mut self.streams[stream.index()];
        if line.is_empty() || part {
            return;
        }
        if !speaks && let Some((slot, left)) = state.awaiting.take() {
            let text = shown(line);
            if !is_noise(body)
                && let Some(found) = self.finds.get_mut(slot)
            {
                found.post.push(text);
            }
            if left > 1 {
                state.awaiting = Some((slot, left - 1));
            }
        }
        remember(&mut state.recent, line);
        if !is_blank(line) {
            self.last_line.clear();
            self.last_line.extend_from_slice(&line[..line.len().min(RECENT_BYTES_MAX)]);
        }
    }

    /// Whether the line belongs to the open problem; closes it if it does not.
    fn follow(&mut self, stream: Stream, line: &[u8], to: u64, speaks: bool) -> bool {
        let Some(open) = &mut self.streams[stream.index()].open else { return false };
        let Some(follow) = open.problem.follow else {
            self.close(stream);
            return false;
        };
        let full =
            open.draft.lines.len() + open.maybe.len() >= MESSAGE_LINES_MAX || open.bytes >= MESSAGE_BYTES_MAX;
        let text = shown(line);
        let next = follow(&open.draft.lines, &text);
        match next {
            Next::Part | Next::Last => {
                if full {
                    open.found.lines_cut += 1;
                    // The last lines of a long message say most: they push out the middle.
                    // Of the middle, what is indented goes before what is not.
                    let from = (MESSAGE_LINES_MAX / 3).min(open.draft.lines.len() - 1);
                    let deep = |line: &String| line.starts_with([' ', '\t']);
                    let at = open.draft.lines[from..].iter().position(deep).map_or(from, |at| from + at);
                    let dropped = open.draft.lines.remove(at);
                    open.bytes -= dropped.len().min(open.bytes);
                }
                for (held, _) in open.maybe.drain(..) {
                    open.bytes += held.len();
                    open.draft.lines.push(held);
                }
                open.bytes += text.len();
                open.draft.lines.push(text);
                open.found.to = to;
                if next == Next::Last {
                    self.close(stream);
                }
                true
            }
            Next::Maybe if open.maybe.len() < MAYBE_LINES_MAX && (open.problem.owns || !speaks) => {
                open.maybe.push((text, to));
                false
            }
            Next::Maybe | Next::Beyond => {
                self.close(stream);
                false
            }
        }
    }

    /// Does what the rules say about a line.
    fn interpret(&mut self, asker: &Asker<'_>, line: &Line<'_>, part: bool) {
        let Line { stream, body, from, .. } = *line;
        let owned = self.streams[stream.index()].open.as_ref().is_some_and(|open| open.problem.owns);
        let mut problem_seen = part || owned;
        asker.each(body, |index, rule, groups| {
            self.heard[index] = true;
            for act in rule.acts {
                match act {
                    Act::Problem(problem) => {
                        if !problem_seen {
                            problem_seen = true;
                            self.open(rule, *problem, groups, line);
                        }
                    }
                    Act::Test(family, event) => {
                        if let Some(test) = groups.text("t") {
                            self.tally.event(*family, &test, *event);
                        }
                    }
                    Act::Counts(family, count) => {
                        if let Some(counts) = count(groups) {
                            self.signs.counted(counts.failed, &String::from_utf8_lossy(body));
                            self.tally.summary(*family, counts);
                        }
                    }
                    Act::Adds(family, count) => {
                        if let Some(counts) = count(groups) {
                            self.tally.adds(*family, counts);
                        }
                    }
                    Act::Moves(family, count) => {
                        if let Some(counts) = count(groups) {
                            self.tally.moves(*family, counts);
                        }
                    }
                    Act::Session(family) => {
                        self.tally.session(*family);
                        self.tally.expect(groups.number("n"));
                    }
                    Act::Sign(sign) => {
                        self.signs.add(*sign, &String::from_utf8_lossy(body), stream, from, self.order);
                    }
                    Act::Summary => self.summary(stream, body, from),
                    Act::Harmless => problem_seen = true,
                }
            }
        });
    }

    fn summary(&mut self, stream: Stream, body: &[u8], from: u64) {
        let text = clip_chars(&String::from_utf8_lossy(body), 600).trim_end().to_owned();
        if let Some(last) = self.summary.iter_mut().rev().take(8).find(|last| last.text == text) {
            last.repeated += 1;
            return;
        }
        if self.summary.len() == SUMMARY_LINES_MAX {
            self.summary.pop_front();
            self.summary_dropped += 1;
        }
        self.summary.push_back(SummaryLine { text, stream, from, repeated: 1 });
    }

    fn open(&mut self, rule: &'static Rule, problem: Problem, groups: &Groups<'_>, line: &Line<'_>) {
        let Line { stream, text, from, to, .. } = *line;
        self.close(stream);
        let (severity, remark) = match problem.level {
            Level::Is(severity) => (severity, false),
            Level::Word => (groups.text("s").map_or(Severity::Error, |word| severity_of_word(&word)), false),
            Level::Remark => (Severity::Info, true),
        };
        let number = |name: &str, other: &str| {
            groups.text(name).or_else(|| groups.text(other)).and_then(|text| text.parse().ok())
        };
        let draft = Draft {
            lines: vec![shown(text)],
            test: groups.text("t").map(|test| test.trim().to_owned()),
            file: groups.text("f").map(|file| file.trim().to_owned()),
            line: number("l", "l2"),
            column: number("c", "c2"),
            severity: None,
            spurious: false,
            join: None,
        };
        let mut draft = draft;
        if draft.test.is_none() && problem.kind == crate::rules::Kind::Test {
            draft.test = self.tally.latest_running().map(str::to_owned);
        }
        let state = &mut self.streams[stream.index()];
        state.awaiting = None;
        let mut head = 0;
        if let Some(lead) = problem.lead {
            while let Some(line) = state.recent.pop_back() {
                let text = shown(&line);
                if !lead(&text) {
                    state.recent.push_back(line);
                    break;
                }
                draft.lines.insert(0, text);
                head += 1;
            }
        }
        let pre = state
            .recent
            .iter()
            .filter(|line| !is_blank(line) && !is_noise(&line[stamp_length(line)..]))
            .map(|line| shown(line))
            .collect();
        let found = Found {
            rule: rule.name,
            kind: problem.kind,
            severity,
            sure: problem.sure,
            remark,
            bare: problem.bare,
            lines: Vec::new(),
            head,
            join: None,
            lines_cut: 0,
            test: None,
            location: None,
            stream: Some(stream),
            report: None,
            from,
            to,
            order: self.order,
            recurrence: 1,
            pre,
            post: Vec::new(),
        };
        let bytes = draft.lines[0].len();
        state.open = Some(Open { problem, found, draft, bytes, maybe: Vec::new() });
        if problem.follow.is_none() {
            self.close(stream);
        }
    }

    /// Completes the open problem of a stream, if there is one.
    fn close(&mut self, stream: Stream) {
        let state = &mut self.streams[stream.index()];
        let Some(Open { mut found, mut draft, problem, .. }) = state.open.take() else { return };
        if let Some(refine) = problem.refine {
            refine(&mut draft);
        }
        if draft.spurious {
            return;
        }
        while draft.lines.last().is_some_and(|line| line.trim().is_empty()) {
            draft.lines.pop();
        }
        found.join = draft.join;
        found.severity = draft.severity.unwrap_or(found.severity);
        found.lines = draft.lines;
        found.test = draft.test.filter(|test| !test.is_empty());
        found.location = draft.file.map(|file| Location { file, line: draft.line, column: draft.column });
        state.recent.clear();
        state.awaiting = self.finds.add(found).map(|slot| (slot, POST_CONTEXT_LINES as u64));
    }
}

/// All that the log gave.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) options: Options,
    pub(crate) finds: Finds,
    pub(crate) tally: Tally,
    pub(crate) signs: Signs,
    pub(crate) summary: Vec<SummaryLine>,
    pub(crate) capture: Option<Capture>,
    pub(crate) gaps: Vec<GapEntry>,
    pub(crate) tails: [Vec<crate::text::TailLine>; 2],
    /// Lines and bytes of each stream.
    pub(crate) counts: [(u64, u64); 2],
}

/// What the rules look at: the line without its time stamp, and of a very long one the beginning.
fn scanned(line: &[u8]) -> &[u8] {
    let body = &line[stamp_length(line)..];
    &body[..body.len().min(SCANNED_BYTES_MAX)]
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}

fn shown(line: &[u8]) -> String {
    clip_chars(&String::from_utf8_lossy(line), SHOWN_LINE_CHARS).trim_end().to_owned()
}

fn remember(recent: &mut VecDeque<Vec<u8>>, line: &[u8]) {
    let mut buffer =
        if recent.len() == PRE_CONTEXT_LINES { recent.pop_front().unwrap_or_default() } else { Vec::new() };
    buffer.clear();
    buffer.extend_from_slice(&line[..line.len().min(RECENT_BYTES_MAX)]);
    recent.push_back(buffer);
}
