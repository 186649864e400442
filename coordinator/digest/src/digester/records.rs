//! Applies the events of records and documents in JSON.

use super::{Digester, Line, LineMatcher, RECENT_BYTES_MAX, shown};
use crate::answer_text::counted;
use crate::limits::{FILE_BYTES_MAX, MESSAGE_LINES_MAX};
use crate::records::Event;
use crate::rules::{Diagnostic, Level, Problem};
use crate::tally::LinePosition;
use crate::text::{Cleaner, LinePrefix, front};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::Severity;

/// Place of a record in the log: the stream, the bytes before it in its line, and its first and last offset.
#[derive(Clone, Copy)]
pub(super) struct RecordPlace<'l> {
    pub(super) stream: Stream,
    pub(super) front: &'l [u8],
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Digester {
    /// Applies the events of a record, in the format with this name. Each has a place of its own in the order of lines.
    pub(super) fn events(
        &mut self,
        matcher: &mut LineMatcher<'_>,
        place: RecordPlace<'_>,
        (format, events): (&'static str, Vec<Event>),
    ) {
        if !self.matched_formats.contains(&format) {
            self.matched_formats.push(format);
        }
        for event in events {
            match event {
                Event::Text(text) => self.carried_lines(matcher, place, &text),
                Event::Output(output) => self.part_output(matcher, place, output),
                Event::Problem(problem, diagnostic) => self.reported(place, format, problem, *diagnostic),
                Event::Test(tool, test, event) => {
                    let test = cleaned(&test);
                    self.at_record(place, &test, |digester, line| {
                        digester.at_work(tool, line);
                        digester.test(tool, &test, event, line);
                    });
                }
                Event::Planned(tool, tests) => self.at_record(place, "", |digester, line| {
                    digester.session(tool, tests);
                    digester.at_work(tool, line);
                    digester.tally.announce(tool, tests, line.position);
                }),
                Event::Failed(tool, text) => self.at_record(place, &cleaned(&text), |digester, line| {
                    digester.tally.other_failure(tool);
                    digester.failed(tool.reporting_tool(), line);
                }),
                Event::Total(tool, counts, text) => {
                    self.at_record(place, &cleaned(&text), |digester, line| {
                        digester.tally.announces_total(tool, line.position);
                        digester.run_total(tool, counts, line, true);
                        digester.summary(line.stream, line.body, line.from);
                    })
                }
            }
        }
    }

    /// Calls the function with a line of this text at the place of a record.
    fn at_record(&mut self, place: RecordPlace<'_>, text: &str, apply: impl FnOnce(&mut Self, &Line<'_>)) {
        self.order += 1;
        let text = [place.front, text.as_bytes()].concat();
        let prefix = LinePrefix { length: place.front.len(), ..front(place.front) };
        let number = self.streams[place.stream.index()].count;
        let line = Line {
            stream: place.stream,
            body: &text[place.front.len()..],
            text: &text,
            front: prefix,
            printed: false,
            position: LinePosition { number, after_blank: true, task: None },
            from: place.from,
            to: place.to,
        };
        apply(self, &line);
        if !line.body.is_empty() {
            self.last_text = self.order;
            self.last_statement = self.order;
            self.last_line.clear();
            self.last_line.extend_from_slice(&text[..text.len().min(RECENT_BYTES_MAX)]);
        }
    }

    /// Makes a finding of a complete problem.
    fn reported(
        &mut self,
        place: RecordPlace<'_>,
        format: &'static str,
        problem: Problem,
        diagnostic: Diagnostic,
    ) {
        let (severity, remark) = match problem.level {
            Level::Is(severity) => (severity, false),
            Level::Word => (Severity::Error, false),
            Level::Remark => (Severity::Info, true),
        };
        let cut = diagnostic.lines.len().saturating_sub(MESSAGE_LINES_MAX);
        let mut lines: Vec<_> =
            diagnostic.lines.iter().take(MESSAGE_LINES_MAX).map(|line| cleaned(line)).collect();
        lines.extend((cut > 0).then(|| format!("… {}", counted(cut as u64, "more line"))));
        let test = diagnostic.test.as_deref().map(cleaned);
        let is_plain = |file: &String| file.len() <= FILE_BYTES_MAX && !file.contains(char::is_control);
        let file = diagnostic.file.filter(is_plain);
        let diagnostic = Diagnostic { lines, test, file, ..diagnostic };
        let first = diagnostic.first().to_owned();
        self.at_record(place, &first, |digester, line| {
            digester.begin(format, problem, diagnostic, (severity, remark, false), line);
        });
    }

    /// Takes text of a record. Each of its lines has a place of its own in the order of lines.
    fn carried_lines(&mut self, matcher: &mut LineMatcher<'_>, place: RecordPlace<'_>, text: &str) {
        let mut cleaner = Cleaner::default();
        for part in text.lines() {
            self.order += 1;
            let part = [place.front, part.as_bytes()].concat();
            self.match_line(matcher, place.stream, cleaner.clean(&part), place.from, place.to);
        }
    }
}

/// A text of a record as a line of the log: without control characters, and not longer than other lines.
fn cleaned(text: &str) -> String {
    shown(Cleaner::default().clean(text.as_bytes()))
}
