//! What follows from what the rules say about a line.

use super::{Digester, Line, SummaryLine};
use crate::limits::SUMMARY_LINES_MAX;
use crate::rules::{Act, Asker, Groups, Rule, Sign};
use crate::tally::{Counts, Family};
use crate::text::clip_chars;
use buildpool_protocol::output::Stream;

/// What the rules that spoke to a line so far leave for those after them.
struct Hearing {
    /// It begins a problem, or is known to be none.
    problem_seen: bool,
    /// No other rule is heard.
    settled: bool,
}

/// `FAIL: 0`, `errors = 3`: a count is no message.
fn is_count(body: &[u8]) -> bool {
    let Some(at) = body.iter().rposition(|byte| matches!(byte, b':' | b'=')) else { return false };
    let (name, count) = (&body[..at], body[at + 1..].trim_ascii());
    let digits = !count.is_empty() && count.iter().all(u8::is_ascii_digit);
    digits && name.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b' ' | b'_' | b'-' | b'\t'))
}

impl Digester {
    /// Does what the rules say about a line.
    pub(super) fn interpret(&mut self, asker: &Asker<'_>, line: &Line<'_>, part: bool) {
        let task = &line.text[line.front.task.clone()];
        let open = self.streams[line.stream.index()].open.as_ref();
        let owned = open.is_some_and(|open| open.problem.owns && !open.is_of_another(task));
        let mut heard = Hearing { problem_seen: part || owned, settled: false };
        asker.each(line.body, |index, rule, groups| {
            if heard.settled {
                return;
            }
            self.heard[index] = true;
            for act in rule.acts {
                self.act(*act, rule, groups, line, &mut heard);
            }
        });
    }

    fn act(
        &mut self,
        act: Act,
        rule: &'static Rule,
        groups: &Groups<'_>,
        line: &Line<'_>,
        heard: &mut Hearing,
    ) {
        match act {
            Act::Problem(problem) => {
                if !heard.problem_seen && !is_count(line.body) {
                    heard.problem_seen = true;
                    self.open(rule, problem, groups, line);
                }
            }
            Act::Harmless => heard.problem_seen = true,
            Act::Alone => heard.settled = true,
            Act::Summary => self.summary(line.stream, line.body, line.from),
            Act::File => {
                let task = line.text[line.front.task.clone()].to_vec();
                let file = groups.text("f").map(|file| (task, file.into_owned()));
                self.streams[line.stream.index()].file = file;
            }
            // A word of death in a test's message is the test's. So is whatever counts.
            _ if line.printed => {}
            Act::Sign(sign) => self.sign(sign, line),
            _ => self.count(act, groups, line, heard),
        }
    }

    fn sign(&mut self, sign: Sign, line: &Line<'_>) {
        self.signs.add(sign, &String::from_utf8_lossy(line.body), line.stream, line.from, self.order);
    }

    /// Does what a rule says about tests.
    fn count(&mut self, act: Act, groups: &Groups<'_>, line: &Line<'_>, heard: &mut Hearing) {
        match act {
            Act::Test(family, event) => {
                let Some(test) = groups.text("t") else { return };
                if !self.tally.event(family, &test, event) {
                    heard.problem_seen = true;
                } else if family.runs_them_itself() && self.signs.survived() {
                    self.finds.take_back_words(self.signs.settled(), self.order);
                }
                self.total(family, self.tally.planned(family), line);
            }
            Act::Ends(family) => self.tally.ends(family),
            Act::Plan(family) => {
                self.tally.plan(family, groups.number("n"));
                self.total(family, self.tally.planned(family), line);
            }
            Act::Heading(family) => self.tally.heading(family, line.standing),
            Act::Counts(family, count) | Act::Partial(family, count) => {
                let Some(counts) = count(groups) else { return };
                self.signs.counted(counts.failed, &String::from_utf8_lossy(line.body));
                let standing = self.tally.summary(family, counts, line.standing);
                if matches!(act, Act::Counts(..)) {
                    self.total(family, standing, line);
                }
            }
            Act::Adds(family, count) => {
                let standing = count(groups).and_then(|counts| self.tally.adds(family, counts));
                self.total(family, standing, line);
            }
            Act::Moves(family, count) => {
                let standing = count(groups).and_then(|counts| self.tally.moves(family, counts));
                self.total(family, standing, line);
            }
            Act::Session(family) => {
                self.tally.session(family);
                self.tally.expect(groups.number("n"));
                if family.runs_them_itself() {
                    self.signs.settle(self.order);
                }
            }
            Act::Over(family, completely) => {
                self.tally.over(family, completely);
                self.signs.settle(self.order);
            }
            _ => {}
        }
    }

    /// What a tool's counts say about the run, if they are its own.
    fn total(&mut self, family: Family, counts: Option<Counts>, line: &Line<'_>) {
        if let Some(counts) = counts {
            let text = String::from_utf8_lossy(line.body);
            self.signs.total(family, counts, (&text, line.stream, line.from, self.order));
        }
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
}
