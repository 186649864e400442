//! Records and documents in JSON, and the events that the readers of the tools make of them.

use crate::rules::{Diagnostic, Problem, TestEvent, is_named};
use crate::tally::Counts;
use crate::tool::ToolId;

/// A format of records or documents that a tool prints.
#[derive(Debug)]
pub(crate) struct RecordFormat {
    /// Name of the rule in explanations: `tool.name`.
    pub(crate) name: &'static str,
    /// Bytes with which a line in this format begins.
    pub(crate) beginnings: &'static [&'static [u8]],
    /// Reads a line, or a document of several lines. Returns `None` if it is not in this format.
    pub(crate) read: fn(&[u8]) -> Option<Vec<Event>>,
}

/// An event that a record reports.
#[derive(Debug)]
pub(crate) enum Event {
    /// A problem, complete with its lines.
    Problem(Problem, Box<Diagnostic>),
    /// A named test begins or ends.
    Test(ToolId, String, TestEvent),
    /// A run of so many tests begins.
    Planned(ToolId, u64),
    /// The run fails, whatever its total is. The text is the evidence.
    Failed(ToolId, String),
    /// A total of the run, and its text.
    Total(ToolId, Counts, String),
    /// Text of the tool inside the record. Rules match its lines.
    Text(String),
    /// Output of one of several parts that run at the same time.
    Output(PartOutput),
}

/// Output of one of several parts that run at the same time. Its lines wait for the end of their test.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PartOutput {
    pub(crate) tool: ToolId,
    /// The part: a package.
    pub(crate) part: String,
    /// The test or subtest; empty for output of the part itself.
    pub(crate) test: String,
    pub(crate) text: String,
    /// It begins or continues a test, so it does not wait.
    pub(crate) at_once: bool,
    /// It is not shown to readers: the beginning of a test, or a test that passed.
    pub(crate) is_hidden: bool,
    /// The record ends the part or one of its tests, and no subtest.
    pub(crate) is_end: bool,
}

/// Events of a line, and the name of its format. `left_out`: a recognizer, or a tool, that is left out.
pub(crate) fn events(line: &[u8], left_out: Option<&str>) -> Option<(&'static str, Vec<Event>)> {
    if !may_be_record(line) || !begins_as_record(line) {
        return None;
    }
    let begins = |format: &&RecordFormat| format.beginnings.iter().any(|text| line.starts_with(text));
    formats(left_out).filter(begins).find_map(|format| Some((format.name, (format.read)(line)?)))
}

/// Events of a document of several lines.
pub(crate) fn document_events(document: &[u8], left_out: Option<&str>) -> Option<(&'static str, Vec<Event>)> {
    formats(left_out).find_map(|format| Some((format.name, (format.read)(document)?)))
}

fn formats(left_out: Option<&str>) -> impl Iterator<Item = &'static RecordFormat> {
    ToolId::record_formats().filter(move |format| left_out.is_none_or(|name| !is_named(format.name, name)))
}

/// Whether a line ends as records and documents do.
pub(crate) fn may_be_record(line: &[u8]) -> bool {
    line.ends_with(b"}") || line.ends_with(b"]") || line.ends_with(b"},")
}

/// Whether a line begins as records do. Most lines that end as records end do not, and need no comparison with each format.
const fn begins_as_record(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'{' | b'[' | b','))
}

/// Text of a document that has only problems and totals, for readers.
pub(crate) fn shown(line: &[u8]) -> Option<String> {
    let mut lines = Vec::new();
    for event in events(line, None)?.1 {
        match event {
            Event::Problem(_, diagnostic) => lines.extend(diagnostic.lines),
            Event::Total(_, _, text) => lines.push(text),
            Event::Planned(..) | Event::Failed(..) => {}
            Event::Test(..) | Event::Text(_) | Event::Output(_) => return None,
        }
    }
    Some(lines.join("\n"))
}

/// A problem of a test that failed: the name, then the message.
pub(crate) fn failed_test(problem: Problem, test: &str, message: &str) -> Event {
    let message = message.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let lines = std::iter::once(test).chain(message).map(str::to_owned).collect();
    Event::Problem(
        problem,
        Box::new(Diagnostic { lines, test: Some(test.to_owned()), ..Diagnostic::default() }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_each_format_begin_as_records_do() {
        let beginnings: Vec<_> = ToolId::record_formats().flat_map(|format| format.beginnings).collect();
        assert!(beginnings.len() > 5);
        beginnings.iter().for_each(|text| assert!(begins_as_record(text), "{}", text.escape_ascii()));
    }
}
