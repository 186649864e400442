//! Messages of several lines: opens a problem, adds the lines that belong to it, and makes a finding of it.

use super::{Digester, Line, StreamState, context_lines, is_blank, shown, shown_text};
use crate::configure_probes::{is_of_probe, is_probing};
use crate::findings::RawFinding;
use crate::limits::{MESSAGE_BYTES_MAX, MESSAGE_LINES_MAX};
use crate::noise::is_noise;
use crate::rules::{Diagnostic, Effect, Fails, Groups, Kind, Level, Next, Problem, Rule, severity_of_word};
use crate::text::{LinePrefix, front_length, lossy};
use buildpool_protocol::limits::{POST_CONTEXT_LINES, PRE_CONTEXT_LINES};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{Location, Severity};

/// Minimum confidence, in percent, of an error that names a file.
const SURE_WITH_PLACE: u8 = 72;
/// Maximum confidence, in percent, that a failed probe of a configure step is the cause.
const PROBE_SURE: u8 = 55;
/// Limit on lines held back until a later line shows whether they belong to the message.
const MAYBE_LINES_MAX: usize = 12;

/// A problem that may get further lines.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) problem: Problem,
    found: RawFinding,
    diagnostic: Diagnostic,
    /// Prefix of the first line, before its own text.
    front: String,
    /// Task that printed the message; empty if the log names none.
    task: Vec<u8>,
    bytes: usize,
    maybe: Vec<(String, u64)>,
    after: After,
    /// Number of the first line that may be part of it.
    number: u64,
    /// It has lines from further above.
    has_logs: bool,
}

/// Lines after the last line of an open problem: its context, unless a later line belongs to it.
#[derive(Debug, Default)]
struct After {
    /// Number of non-empty lines.
    passed: usize,
    /// Number of these lines that may be context.
    waited: usize,
    post: Vec<String>,
}

impl After {
    fn pass(&mut self, line: &[u8], own: &[u8], is_match: bool) {
        if line.is_empty() {
            return;
        }
        self.passed += 1;
        if !is_match && self.waited < POST_CONTEXT_LINES {
            self.waited += 1;
            if !is_noise(own) {
                self.post.push(shown(line));
            }
        }
    }
}

impl Open {
    /// Whether a task other than `task` printed the message.
    pub(super) fn is_of_another(&self, task: &[u8]) -> bool {
        !self.task.is_empty() && self.task != task
    }

    /// Whether it is an error of a compiler or a linter with a file.
    pub(super) const fn is_placed_error(&self) -> bool {
        self.diagnostic.file.is_some() && matches!(self.problem.kind, Kind::Build | Kind::Lint)
    }

    /// Whether one of its lines, held lines included, contains `text`.
    pub(super) fn says(&self, text: &str) -> bool {
        let held = self.maybe.iter().map(|(line, _)| line);
        self.diagnostic.lines.iter().chain(held).any(|line| line.contains(text))
    }
}

impl StreamState {
    /// Whether one of the lines from this number on, or one of the recent ones, may name a probe of a configuration.
    const fn may_name_probe(&self, from: u64) -> bool {
        self.probe_at > 0 && self.probe_at + context_lines::LINES_MAX as u64 >= from
    }
}

impl Digester {
    /// Opens the problem that a rule finds at a line.
    pub(super) fn open(
        &mut self,
        rule: &'static Rule,
        problem: Problem,
        groups: &Groups<'_>,
        line: &Line<'_>,
    ) {
        let (severity, remark) = match problem.level {
            Level::Is(severity) => (severity, false),
            Level::Word => (groups.text("s").map_or(Severity::Error, |word| severity_of_word(&word)), false),
            Level::Remark => (Severity::Info, true),
        };
        let number = |name: &str, other: &str| {
            groups.text(name).or_else(|| groups.text(other)).and_then(|text| text.parse().ok())
        };
        let diagnostic = Diagnostic {
            lines: vec![shown(&line.text[line.front.length..])],
            test: groups.text("t").map(|test| test.trim().to_owned()),
            file: groups.text("f").map(|file| file.trim().to_owned()),
            line: number("l", "l2"),
            column: number("c", "c2"),
            ..Diagnostic::default()
        };
        let is_word = |act: &Effect| matches!(act, Effect::Crash(said) if said.is_word());
        let word = rule.effects.iter().any(is_word);
        self.begin(rule.name, problem, diagnostic, (severity, remark, word), line);
    }

    /// Begins a problem. `severity`, whether it is a remark, and whether it is only a word of a crash.
    pub(super) fn begin(
        &mut self,
        rule: &'static str,
        problem: Problem,
        diagnostic: Diagnostic,
        (severity, remark, word): (Severity, bool, bool),
        line: &Line<'_>,
    ) {
        let Line { stream, text, from, to, ref front, .. } = *line;
        self.close(stream);
        let mut diagnostic = Diagnostic { bare: problem.bare, fails: problem.fails, ..diagnostic };
        if diagnostic.test.is_none() && problem.kind == Kind::Test {
            diagnostic.test = self.tally.latest_running().map(str::to_owned);
        }
        let state = &mut self.streams[stream.index()];
        state.awaiting = None;
        let mut head = 0;
        if let Some(lead) = problem.lead {
            while let Some(line) = state.recent.last() {
                let text = shown_text(&line[front_length(line)..]);
                if !lead(&text) {
                    break;
                }
                diagnostic.lines.insert(0, text.into_owned());
                state.recent.drop_last();
                head += 1;
            }
        }
        let number = state.count;
        let said = diagnostic.test.as_deref().map(|test| self.test_output.take(test)).unwrap_or_default();
        let has_logs = !said.is_empty();
        if said.first().is_some_and(|first| !diagnostic.lines.contains(first)) {
            diagnostic.lines.splice(head + 1..head + 1, said);
        }
        // Without a line in between, the error belongs to the same command as the one before it.
        let near = state.may_name_probe(number);
        state.probing = state.recent.last().map_or(state.probing, |line| near && is_probing(line));
        state.before.copy(state.recent.tail(PRE_CONTEXT_LINES));
        let found = RawFinding {
            remark,
            word,
            role: problem.role,
            bare: problem.bare,
            head,
            stream: Some(stream),
            from,
            to,
            order: self.order,
            last: self.order,
            ..RawFinding::new(rule, problem.kind, severity, problem.sure)
        };
        let bytes = diagnostic.first().len();
        let task = if problem.numbered { Vec::new() } else { text[front.task.clone()].to_vec() };
        let front = lossy(&text[..front.length]).into_owned();
        state.open = Some(Open {
            problem,
            found,
            diagnostic,
            front,
            task,
            bytes,
            maybe: Vec::new(),
            after: After::default(),
            number,
            has_logs,
        });
        if problem.follow.is_none() {
            self.close(stream);
        }
    }

    /// Completes the open problem of a stream, if there is one.
    pub(super) fn close(&mut self, stream: Stream) {
        let state = &mut self.streams[stream.index()];
        let Some(open) = state.open.take() else { return };
        let Open { mut found, mut diagnostic, problem, front, task, after, number, has_logs, .. } = open;
        if let Some(refine) = problem.refine {
            refine(&mut diagnostic);
        }
        if diagnostic.spurious {
            return;
        }
        while diagnostic.lines.last().is_some_and(|line| line.trim().is_empty()) {
            diagnostic.lines.pop();
        }
        if problem.in_file && diagnostic.file.is_none() {
            diagnostic.file = state.file.as_ref().filter(|(of, _)| *of == task).map(|(_, file)| file.clone());
        }
        found.ended = problem.ended.is_some_and(|ended| ended(&diagnostic));
        if diagnostic.first().starts_with("# ") {
            diagnostic.fails = Fails::Never;
        } else if problem.ended.is_some() && !found.ended {
            diagnostic.fails = Fails::AtEnd;
        }
        if let Some(first) = diagnostic.lines.first_mut() {
            first.insert_str(0, &front);
        }
        found.kind = diagnostic.kind.unwrap_or(found.kind);
        if diagnostic.file.is_some() && found.severity == Severity::Error {
            // An error with a file is more than an error word in a line.
            found.sure = found.sure.max(SURE_WITH_PLACE);
        }
        found.head = diagnostic.head.unwrap_or(found.head);
        found.join = diagnostic.join;
        found.bare = diagnostic.bare;
        found.fails = diagnostic.fails;
        found.severity = diagnostic.severity.unwrap_or(found.severity);
        found.lines = diagnostic.lines;
        found.test = diagnostic.test.filter(|test| !test.is_empty());
        found.location =
            diagnostic.file.map(|file| Location { file, line: diagnostic.line, column: diagnostic.column });
        // A file and the logs of a test may come from far above.
        let may_probe = problem.in_file || has_logs || state.may_name_probe(number);
        state.probing |= may_probe && is_of_probe(&found);
        found.probe = state.probing;
        if found.probe {
            found.sure = found.sure.min(PROBE_SURE);
        }
        state.recent.keep_last(after.passed);
        state.awaiting = None;
        // Only a finding that is kept needs its context.
        if !self.findings.is_repeat(&mut found)
            && let Some(slot) = self.findings.add_new(found)
            && let Some(kept) = self.findings.get_mut(slot)
        {
            let is_context = |line: &&[u8]| !is_blank(line) && !is_noise(&line[front_length(line)..]);
            kept.pre = state.before.lines().filter(is_context).map(shown).collect();
            kept.post = after.post;
            let left = POST_CONTEXT_LINES - after.waited;
            state.awaiting = (left > 0).then_some((slot, left as u64));
        }
    }

    /// Whether the line belongs to the open problem; closes it if it does not.
    pub(super) fn follow(
        &mut self,
        stream: Stream,
        line: &[u8],
        front: &LinePrefix,
        to: u64,
        is_match: bool,
    ) -> bool {
        let Some(open) = &mut self.streams[stream.index()].open else { return false };
        let (task, own) = (&line[front.task.clone()], &line[front.length..]);
        if open.is_of_another(task) {
            open.after.pass(line, own, is_match);
            return false;
        }
        let own = match (open.task.is_empty(), task.is_empty()) {
            // No task printed the message, so an apparent task name is part of the text.
            (true, false) => &line[front.task.start..],
            _ => own,
        };
        let Some(follow) = open.problem.follow else {
            self.close(stream);
            return false;
        };
        let full = open.diagnostic.lines.len() + open.maybe.len() >= MESSAGE_LINES_MAX
            || open.bytes >= MESSAGE_BYTES_MAX;
        let text = shown_text(own);
        let is_at_margin = !text.is_empty() && !text.starts_with([' ', '\t', '+', '-']);
        let is_apart = open.problem.apart_after_blank
            && is_at_margin
            && open.maybe.iter().any(|(held, _)| held.trim().is_empty());
        let next = match follow(&open.diagnostic.lines, &text) {
            _ if is_apart && is_match => Next::Beyond,
            Next::Part if is_apart => Next::Maybe,
            next => next,
        };
        match next {
            Next::Part | Next::Last => {
                if full {
                    open.found.lines_cut += 1;
                    // The last lines of a long message are the most useful, so one from the middle goes.
                    // Indented lines are dropped first.
                    let from = (MESSAGE_LINES_MAX / 3).min(open.diagnostic.lines.len() - 1);
                    let deep = |line: &String| matches!(line.as_bytes().first(), Some(b' ' | b'\t'));
                    let rest = &open.diagnostic.lines[from..];
                    let dispensable = open.problem.dispensable;
                    let first = dispensable.and_then(|is| rest.iter().position(|line| is(line)));
                    let at = first.or_else(|| rest.iter().position(deep)).map_or(from, |at| from + at);
                    let dropped = open.diagnostic.lines.remove(at);
                    open.bytes -= dropped.len().min(open.bytes);
                }
                for (held, _) in open.maybe.drain(..) {
                    open.bytes += held.len();
                    open.diagnostic.lines.push(held);
                }
                open.after = After::default();
                open.bytes += text.len();
                open.diagnostic.lines.push(text.into_owned());
                open.found.to = to;
                open.found.last = self.order;
                if next == Next::Last {
                    self.close(stream);
                }
                true
            }
            Next::Maybe if open.maybe.len() < MAYBE_LINES_MAX && (open.problem.owns || !is_match) => {
                open.maybe.push((text.into_owned(), to));
                open.after.pass(line, own, is_match);
                false
            }
            Next::Maybe | Next::Beyond => {
                self.close(stream);
                false
            }
        }
    }
}
