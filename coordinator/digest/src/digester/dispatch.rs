//! Applies the effects of the rules that match a line to the digester's state.

use super::{Digester, Line, SummaryLine};
use crate::configure_probes;
use crate::limits::SUMMARY_LINES_MAX;
use crate::machines::{MatchedLine, OwnTotal};
use crate::markers::MarkerLine;
use crate::rules::{Effect, Groups, Indicator, LineMatcher, Rule, TestEvent};
use crate::tally::{Counts, LinePosition, Task};
use crate::text::{clip_chars, lossy};
use crate::tool::ToolId;
use buildpool_protocol::output::Stream;

/// State shared by the rules that match one line, in rule order.
struct LineState {
    /// The line is part of a problem, has opened one, or is harmless: no further rule opens one.
    problem_seen: bool,
    /// The remaining rules are skipped.
    settled: bool,
}

/// Whether a line is only a count, such as `FAIL: 0` or `errors = 3`. A count is not a message.
fn is_count(body: &[u8]) -> bool {
    let body = body.trim_ascii_end();
    let digits = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = body[..body.len() - digits].trim_ascii_end();
    let Some((b':' | b'=', name)) = before.split_last() else { return false };
    digits > 0
        && name.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b' ' | b'_' | b'-' | b'\t'))
}

impl Line<'_> {
    /// Its position, with the task that printed it.
    fn counted(&self) -> LinePosition {
        LinePosition { task: Task::of(&self.text[self.front.task.clone()]), ..self.position }
    }
}

impl Digester {
    /// Applies the effects of all matching rules to a line.
    pub(super) fn interpret(&mut self, matcher: &LineMatcher<'_>, line: &Line<'_>, part: bool) {
        let task = &line.text[line.front.task.clone()];
        let open = self.streams[line.stream.index()].open.as_ref();
        let owned = open.is_some_and(|open| open.problem.owns && !open.is_of_another(task));
        let mut state = LineState { problem_seen: part || owned, settled: false };
        matcher.each(line.body, |index, rule, groups| {
            if state.settled {
                return;
            }
            let tool = ToolId::of_rule_at(index);
            for effect in rule.effects {
                if !self.is_in_scope(effect) {
                    break;
                }
                self.matched_rules[index] = true;
                self.effect(tool, *effect, rule, groups, line, &mut state);
            }
        });
    }

    fn effect(
        &mut self,
        tool: ToolId,
        effect: Effect,
        rule: &'static Rule,
        groups: &Groups<'_>,
        line: &Line<'_>,
        state: &mut LineState,
    ) {
        match effect {
            Effect::Problem(problem) => {
                if !state.problem_seen && !is_count(line.body) {
                    state.problem_seen = true;
                    self.open(rule, problem, groups, line);
                }
            }
            Effect::Harmless => state.problem_seen = true,
            Effect::Alone => state.settled = true,
            Effect::Summary => self.summary(line.stream, line.body, line.from),
            Effect::File => {
                let task = line.text[line.front.task.clone()].to_vec();
                let file = groups.text("f").map(|file| (task, file.into_owned()));
                self.streams[line.stream.index()].file = file;
            }
            Effect::WorkerDied => {
                self.crashed(Indicator::TestProcessCrashed, line);
                let death = Indicator::ChildDied("").with_signal(groups);
                if death != Indicator::ChildDied("") {
                    self.crashed(death, line);
                }
            }
            Effect::RunnerSays(indicator) => self.crashed(indicator.with_signal(groups), line),
            Effect::Of(tool, effects) => {
                for effect in effects {
                    self.effect(tool, *effect, rule, groups, line, state);
                }
            }
            Effect::Within(text, effect) => {
                let open = self.streams[line.stream.index()].open.as_ref();
                if open.is_some_and(|open| open.says(text)) {
                    self.effect(tool, *effect, rule, groups, line, state);
                }
            }
            // In a test's message, signs of death and counts belong to the test, not to the run.
            _ if line.printed => {}
            Effect::Crash(indicator) => self.crashed(indicator.with_signal(groups), line),
            Effect::Success => {
                let seen = self.seen(tool, line);
                self.markers.succeeded(seen);
            }
            Effect::Failure => self.failed(tool, line),
            Effect::ErrorTotal if configure_probes::has_own_errors(&self.findings) => self.failed(tool, line),
            _ => self.count(tool, effect, groups, line, state),
        }
    }

    /// The line as a sign of something.
    fn seen<T>(&self, what: T, line: &Line<'_>) -> MarkerLine<T> {
        MarkerLine::new(what, &lossy(line.body), line.stream, line.from, self.order)
    }

    fn crashed(&mut self, indicator: Indicator, line: &Line<'_>) {
        let seen = self.seen(indicator, line);
        self.markers.crashed(seen);
    }

    /// Records that a tool reports failure.
    pub(super) fn failed(&mut self, tool: ToolId, line: &Line<'_>) {
        let is_shown = self.has_shown_error();
        let seen = self.seen(tool, line);
        self.markers.failed(seen, is_shown);
    }

    /// Whether a compiler or a linter has reported an error with a place.
    fn has_shown_error(&self) -> bool {
        let open = self.streams.iter().filter_map(|state| state.open.as_ref());
        open.into_iter().any(|open| open.is_placed_error()) || self.findings.has_placed_error()
    }

    /// Applies an effect that concerns tests or runs of tools.
    fn count(
        &mut self,
        tool: ToolId,
        effect: Effect,
        groups: &Groups<'_>,
        line: &Line<'_>,
        state: &mut LineState,
    ) {
        if effect.is_at_work(&tool) {
            self.at_work(tool, line);
        }
        match effect {
            Effect::Test(event) => {
                let Some(test) = groups.text("t") else { return };
                if tool.numbers_tests {
                    self.tally.numbered(tool, groups.number("k"));
                }
                state.problem_seen |= !self.test(tool, &test, event, line);
            }
            Effect::Own(change) => {
                let mut matched = MatchedLine {
                    tool,
                    groups,
                    body: line.body,
                    stream: line.stream,
                    from: line.from,
                    order: self.order,
                    position: line.position,
                    tally: &mut self.tally,
                    markers: &mut self.markers,
                    machines: &mut self.machines,
                    test_output: &mut self.test_output,
                    own_total: None,
                    standing: None,
                };
                change(&mut matched);
                let (own_total, standing) = (matched.own_total.take(), matched.standing);
                if let Some(total) = own_total {
                    self.own_total(total);
                }
                self.total(tool, standing, line);
            }
            Effect::Announces => {
                let selected = groups.text("selected").and_then(|count| count.parse().ok());
                self.tally.announce(tool, selected.unwrap_or_else(|| groups.number("n")), line.position);
            }
            Effect::Heading => self.tally.heading(tool, line.position),
            Effect::Counts(count) | Effect::Partial(count) => {
                let Some(counts) = count(groups) else { return };
                self.run_total(tool, counts, line, matches!(effect, Effect::Counts(..)));
            }
            Effect::Adds(count) => {
                let Some(counts) = count(groups) else { return };
                let standing = self.tally.adds(tool, counts, line.counted());
                // A line that counts only passed tests must not become the evidence for failed ones.
                let says = |all: &Counts| all.failed == 0 || counts.failed > 0;
                self.total(tool, standing.filter(says), line);
            }
            Effect::Session => self.session(tool, groups.number("n")),
            _ => {}
        }
    }

    /// Records that a tool is running.
    pub(super) fn at_work(&mut self, tool: ToolId, line: &Line<'_>) {
        let nested = line.body.starts_with(b"    ");
        let suite = self.suite.filter(|_| tool.begins_at_suite && nested);
        self.markers.runs.at_work(tool.reporting_tool(), suite.unwrap_or(self.order));
    }

    /// Records the beginning or the end of a test. Returns false if the line is a test's own output.
    pub(super) fn test(&mut self, tool: ToolId, test: &str, event: TestEvent, line: &Line<'_>) -> bool {
        if matches!(event, TestEvent::Passed | TestEvent::Skipped) {
            self.test_output.take(test);
        }
        let is_own = self.tally.event(tool, test, event);
        if is_own && tool.begins_each {
            self.within_test(event);
        }
        if is_own && tool.runs_them_itself && self.markers.survived() {
            self.findings.take_back_words(self.markers.settled(), self.order);
        }
        self.total(tool, self.tally.planned(tool), line);
        is_own
    }

    /// Begins a session of a tool with so many tests, 0 if it does not print their number.
    pub(super) fn session(&mut self, tool: ToolId, tests: u64) {
        self.tally.session(tool);
        self.tally.expect(tests);
        if tool.runs_them_itself {
            self.markers.settle(self.order);
            self.markers.runs.begins(tool.reporting_tool(), self.order);
        }
    }

    /// Records a tool's total: of the whole run, or only of a part of it.
    pub(super) fn run_total(&mut self, tool: ToolId, counts: Counts, line: &Line<'_>, is_whole: bool) {
        self.markers.counted(counts.failed, &lossy(line.body));
        let standing = self.tally.summary(tool, counts, line.counted());
        if is_whole {
            self.total(tool, standing, line);
        }
    }

    /// Marks the errors between the start and the end of a passed test as test output.
    fn within_test(&mut self, event: TestEvent) {
        let began = self.test_began.take();
        match event {
            TestEvent::Started => self.test_began = Some(self.order),
            TestEvent::Passed => {
                if let Some(began) = began {
                    self.findings.stand_in_test(began, self.order);
                }
            }
            _ => {}
        }
    }

    /// Returns false for a condition that is not fulfilled.
    pub(super) fn is_in_scope(&self, effect: &Effect) -> bool {
        !matches!(effect, Effect::IfKnown(tool) if !self.knows(*tool))
    }

    /// Whether the command or a line before shows that this tool runs.
    fn knows(&self, tool: ToolId) -> bool {
        self.tally.knows(tool)
            || self.markers.tools.contains(&tool.reporting_tool())
            || self.markers.runs.is_open(tool)
            || self.command.runs(tool.commands())
    }

    /// Records a total that its tool certainly printed, as a session of its own.
    fn own_total(&mut self, total: OwnTotal) {
        let OwnTotal { tool, counts, text, stream, from, order, position } = total;
        self.markers.counted(counts.failed, &text);
        self.tally.session(tool);
        if let Some(counts) = self.tally.summary(tool, counts, position) {
            if counts.failed == 0 && tool.judges_more_than_tests {
                self.markers.runs.takes_back(tool.reporting_tool());
            } else {
                let seen = MarkerLine::new(tool.reporting_tool(), &text, stream, from, order);
                self.markers.total(counts, seen);
            }
        }
        self.summary(stream, text.as_bytes(), from);
    }

    /// Records the success or failure that a tool's own counts imply.
    fn total(&mut self, tool: ToolId, counts: Option<Counts>, line: &Line<'_>) {
        // Another line of the same total reported a problem, so these counts are not a success.
        let contradicts = |counts: &Counts| counts.failed == 0 && self.tally.has_other_failure(tool);
        if let Some(counts) = counts.filter(|counts| !contradicts(counts)) {
            let seen = self.seen(tool.reporting_tool(), line);
            self.markers.total(counts, seen);
        }
    }

    pub(super) fn summary(&mut self, stream: Stream, body: &[u8], from: u64) {
        let text = clip_chars(&lossy(body), 600).trim_end().to_owned();
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
}
