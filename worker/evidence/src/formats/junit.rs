//! Parses JUnit XML in the dialects of surefire, gradle, pytest, jest, gtest, nextest, Swift and
//! fastlane. It expands only the five predefined XML entities and numeric characters. A document
//! type is ignored.

mod repeats;
mod suite;
mod xml;

use crate::formats::runner_problem;
use crate::limits::{ISSUES_MAX, MESSAGE_BYTES_MAX, MESSAGES_MAX, NOTES_MAX, SUITE_CASES_MAX, XML_DEPTH_MAX};
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::Location;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use suite::{Suite, declared};
use xml::{attribute, is_suite, number, resolved, rest};

/// Parses a report.
///
/// # Errors
///
/// Returns the reason if the content is not JUnit XML. A truncated report returns its complete
/// part, with a note.
pub(crate) fn parse(bytes: &[u8], root: Option<&Path>) -> Result<(Parsed, Vec<ReportIssue>), String> {
    let content = text::lossy(bytes);
    let mut reader = Reader::from_str(&content);
    let mut walk = Walk { root, ..Walk::default() };
    let mut cut_short = None;
    loop {
        match reader.read_event() {
            Ok(Event::Eof) => break,
            Ok(event) => {
                if let Err(reason) = walk.event(&event) {
                    return Err(format!("{reason} (byte {})", reader.buffer_position()));
                }
            }
            // Text after the end of the report is ignored, unless it contains another report.
            Err(_) if walk.is_over() && !rest(&content, reader.error_position()).contains("<testsuite") => {
                break;
            }
            Err(error) => {
                cut_short = Some(format!("{error} (byte {})", reader.error_position()));
                break;
            }
        }
    }
    if !walk.seen_root {
        return Err(cut_short.unwrap_or_else(|| "there is no <testsuite> or <testsuites>".to_owned()));
    }
    if cut_short.is_none() && walk.depth > 0 {
        cut_short = Some("the file ends inside an element".to_owned());
    }
    Ok(walk.finish(cut_short))
}

/// Kind of the element that the current text belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CaseProblem {
    Failed,
    Skipped,
    ExpectedFailure,
    /// A test that is not done yet, as Node marks it. Its failure does not count.
    Todo,
    /// A failure of an earlier run that a later run replaced.
    Earlier,
}

#[derive(Default)]
struct Walk<'a> {
    root: Option<&'a Path>,
    tally: Tally,
    issues: Vec<ReportIssue>,
    depth: usize,
    seen_root: bool,
    declared: Option<u64>,
    counted: u64,
    /// Runs listed inside the case of a test that ran again.
    earlier: u64,
    /// The open suites, with the root `<testsuites>`.
    suites: Vec<Suite>,
    /// Number of cases that wait for the end of their suite.
    held: usize,
    /// Number of suites per path so far.
    suites_named: HashMap<String, u32>,
    notes: Vec<String>,
    /// Number of failures in the comments at the end.
    failures_counted: u64,
    /// The reason why the report is incomplete.
    cut: Option<String>,
    case: Option<Case>,
    problem: Option<(CaseProblem, String, String)>,
}

#[derive(Default)]
struct Case {
    run: TestRun,
    class: String,
    earlier: Vec<String>,
    is_todo: bool,
    /// True if the case is marked as one of several runs of a test.
    is_repetition: bool,
    /// File and line of the test, if the case has them.
    place: String,
    /// Number of failures and errors in this case. Some tools count each of them in the suite.
    failures: u64,
}

impl Walk<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(start) if self.is_over() && !is_suite(start) => {
                if start.contains("<testsuite") {
                    self.cut.get_or_insert_with(|| "a second report cannot be read".to_owned());
                }
                Ok(())
            }
            Event::Start(start) => {
                self.depth += 1;
                if self.depth > XML_DEPTH_MAX {
                    return Err(format!("elements nest deeper than {XML_DEPTH_MAX}"));
                }
                self.open(start)
            }
            Event::Empty(start) => {
                self.open(start)?;
                self.close(start.local_name().as_ref());
                Ok(())
            }
            Event::End(_) if self.is_over() => Ok(()),
            Event::End(end) => {
                self.depth = self.depth.saturating_sub(1);
                self.close(end.local_name().as_ref());
                Ok(())
            }
            Event::Text(found) => self.add_text(found),
            Event::CData(found) => self.add_text(found),
            Event::GeneralRef(reference) => self.add_text(&resolved(reference)),
            Event::Comment(comment) => {
                self.summary(comment);
                Ok(())
            }
            Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Eof => Ok(()),
        }
    }

    /// Returns true after the end of the root. Some files contain several reports, one after the
    /// other.
    fn is_over(&self) -> bool {
        self.seen_root && self.depth == 0
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let local = start.local_name();
        if !self.seen_root {
            if !is_suite(start) {
                return Err(format!(
                    "the first element is <{}>, not <testsuite>",
                    text::name(local.as_ref())
                ));
            }
            self.seen_root = true;
            self.declared = number(start, "tests");
        }
        match local.as_ref() {
            "testsuites" => self.suites.push(Suite { is_root: true, ..declared(start) }),
            "testsuite" => self.open_suite(start),
            "testcase" => {
                self.counted += 1;
                self.case = Some(self.new_case(start));
            }
            "failure" | "error" => self.problem = Some(problem(start, CaseProblem::Failed)),
            "skipped" => {
                let kind = match attribute(start, "type").as_deref() {
                    Some("pytest.xfail") => CaseProblem::ExpectedFailure,
                    Some("todo") => CaseProblem::Todo,
                    _ => CaseProblem::Skipped,
                };
                self.problem = Some(problem(start, kind));
            }
            "flakyFailure" | "flakyError" | "rerunFailure" | "rerunError" => {
                self.problem = Some(problem(start, CaseProblem::Earlier));
            }
            "property" => self.property(start),
            _ => {}
        }
        Ok(())
    }

    /// Opens a suite. Two suites with the same name, for example of two files, stay separate. A
    /// tool that retries a test reports it within one suite.
    fn open_suite(&mut self, start: &BytesStart<'_>) {
        let name = attribute(start, "name").unwrap_or_default();
        let file = attribute(start, "file").or_else(|| attribute(start, "filepath")).unwrap_or_default();
        let around = self.suites.last().map_or("", |suite| &*suite.path);
        let parts = [around, name.as_str(), if name == file { "" } else { file.as_str() }];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let path = text::name(&parts.join(" > "));
        let times = self.suites_named.entry(path.clone()).or_default();
        *times += 1;
        let path = if *times == 1 { path } else { format!("{path} #{times}").trim_start().to_owned() };
        self.suites.push(Suite { name, path: path.into(), ..declared(start) });
    }

    /// Closes the innermost suite. A truncated suite (`is_whole` is false) is not checked for
    /// missing cases.
    fn close_suite(&mut self, is_whole: bool) {
        let Some(mut suite) = self.suites.pop() else { return };
        let mut cases = std::mem::take(&mut suite.cases);
        self.held = self.held.saturating_sub(cases.len());
        let (own, remark) = repeats::distinguish(&mut cases, &suite);
        self.note(remark);
        cases.into_iter().for_each(|case| self.record(case));
        let left_out = if is_whole { suite.left_out() } else { None };
        if let Some(note) = left_out {
            self.cut.get_or_insert_with(|| note.clone());
            self.note(Some(note));
        }
        if let Some(around) = self.suites.last_mut() {
            around.cases_listed += suite.cases_listed;
            around.earlier += suite.earlier;
            // Failures that this suite does not count cannot account for failures that the
            // surrounding suite declares.
            let last_runs = suite.listed.saturating_sub(own.taken_back);
            let listed = suite.declared.map_or(suite.listed, |declared| declared.max(last_runs));
            around.listed += listed.min(suite.listed);
            around.inner.tests += own.tests + suite.inner.tests;
            around.inner.failed += own.failed + suite.inner.failed;
        }
    }

    fn note(&mut self, note: Option<String>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.extend(note);
        }
    }

    fn new_case(&self, start: &BytesStart<'_>) -> Case {
        let suite = self.suites.last();
        let mut name = attribute(start, "name").unwrap_or_default();
        let class = attribute(start, "classname").or_else(|| Some(suite?.name.clone())).unwrap_or_default();
        if name.is_empty() && (class.is_empty() || attribute(start, "classname").is_none()) {
            name = format!("test {}", self.counted);
        }
        let word = |key| attribute(start, key).unwrap_or_default().to_ascii_lowercase();
        let words = [word("status"), word("result")];
        let any = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        let status = if any(&["failed", "failure", "fail", "error"]) {
            TestStatus::Failed
        } else if any(&["notrun", "disabled", "suppressed", "skipped"]) {
            TestStatus::Skipped
        } else {
            TestStatus::Passed
        };
        let location = attribute(start, "file").filter(|file| !file.is_empty()).map(|file| Location {
            file: text::relative(&file, self.root),
            // pytest counts from 0 in this attribute, other tools from 1. A difference of one line
            // is acceptable.
            line: attribute(start, "line").and_then(|line| line.parse().ok()).filter(|line| *line > 0),
            column: None,
        });
        let run = TestRun {
            name: full_name(&class, name),
            within: suite.map(|suite| Arc::clone(&suite.path)).unwrap_or_default(),
            status,
            duration_secs: attribute(start, "time").and_then(|secs| secs.replace(',', "").parse().ok()),
            location,
            ..TestRun::default()
        };
        let word = |key| attribute(start, key).unwrap_or_default();
        let place = format!("{}:{}", word("file"), word("line"));
        Case { run, class, place, ..Case::default() }
    }

    /// Reads a property of fastlane. It writes one case per set of arguments, with name and
    /// arguments as properties. It writes each run of a test as a case with the property
    /// `repetition`.
    fn property(&mut self, start: &BytesStart<'_>) {
        let Some(case) = &mut self.case else { return };
        match attribute(start, "name").as_deref() {
            Some("repetition") => case.is_repetition = true,
            Some("argument") => case.run.arguments = attribute(start, "value"),
            Some("testname") => {
                if let Some(name) = attribute(start, "value") {
                    case.run.name = full_name(&case.class, name);
                }
            }
            _ => {}
        }
    }

    /// Reads a count from a comment. Node counts failures in comments, including tests that it does
    /// not list: tests with subtests.
    fn summary(&mut self, comment: &str) {
        let count = |word: &str| comment.trim().strip_prefix(word)?.trim().parse::<u64>().ok();
        if let (Some(count), None) = (count("fail ").or_else(|| count("cancelled ")), &self.case) {
            self.failures_counted = self.failures_counted.saturating_add(count);
        }
    }

    fn add_text(&mut self, found: &str) -> Result<(), String> {
        if let Some((_, _, body)) = &mut self.problem
            && body.len() < 4 * MESSAGE_BYTES_MAX
        {
            let room = found.floor_char_boundary(4 * MESSAGE_BYTES_MAX);
            body.push_str(&found[..room]);
        }
        Ok(())
    }

    fn close(&mut self, local: &str) {
        match local {
            "failure" | "error" | "skipped" | "flakyFailure" | "flakyError" | "rerunFailure"
            | "rerunError" => {
                if let Some((kind, message, body)) = self.problem.take() {
                    self.settle(kind, &message, &body);
                }
            }
            "testcase" => {
                if let Some(case) = self.case.take() {
                    self.hold(case);
                }
            }
            "testsuite" | "testsuites" => self.close_suite(true),
            _ => {}
        }
    }

    fn settle(&mut self, kind: CaseProblem, message: &str, body: &str) {
        let whole = joined(message, body);
        let Some(case) = &mut self.case else {
            // The suite failed outside any test: set-up, loading.
            if kind == CaseProblem::Failed && self.issues.len() < ISSUES_MAX {
                let suite = match self.suites.last_mut() {
                    Some(suite) => {
                        suite.listed += 1;
                        suite.name.as_str()
                    }
                    None => "",
                };
                let which = format!("suite {}", text::name(suite));
                self.issues
                    .push(runner_problem(&format!("{which}: {}", text::cause_first(&whole)), self.root));
            }
            return;
        };
        match kind {
            CaseProblem::Earlier => case.earlier.push(whole),
            CaseProblem::Failed => {
                case.failures += 1;
                case.run.status = if case.is_todo { TestStatus::ExpectedFailure } else { TestStatus::Failed };
                if let Some(place) = text::place_in(&whole, self.root) {
                    case.run.location = Some(place);
                }
            }
            CaseProblem::Todo => {
                case.is_todo = true;
                case.run.status =
                    if case.failures > 0 { TestStatus::ExpectedFailure } else { TestStatus::Skipped };
            }
            CaseProblem::Skipped if case.run.status != TestStatus::Failed => {
                case.run.status = TestStatus::Skipped
            }
            CaseProblem::ExpectedFailure if case.run.status != TestStatus::Failed => {
                case.run.status = TestStatus::ExpectedFailure;
            }
            CaseProblem::Skipped | CaseProblem::ExpectedFailure => {}
        }
        let has_text = !message.is_empty() || !body.trim().is_empty();
        if kind != CaseProblem::Earlier && has_text && case.run.messages.len() < MESSAGES_MAX {
            case.run.messages.push(joined(message, body));
        }
    }

    /// Keeps a case until its suite ends. Above the limit, each case is a separate test.
    fn hold(&mut self, mut case: Case) {
        self.earlier += case.earlier.len() as u64;
        let Some(suite) = self.suites.last_mut() else { return self.record(case) };
        suite.listed += case.listed();
        suite.cases_listed += 1;
        suite.earlier += case.earlier.len() as u64;
        if let Some(last) = suite.cases.last_mut().filter(|last| case.is_teardown_of(last)) {
            last.failures += case.failures;
            let room = MESSAGES_MAX.saturating_sub(last.run.messages.len());
            return last.run.messages.extend(case.run.messages.into_iter().take(room));
        }
        if self.held < SUITE_CASES_MAX {
            self.held += 1;
            return suite.cases.push(case);
        }
        case.run.within = repeats::apart_within(&suite.path, self.counted);
        self.record(case);
    }

    fn record(&mut self, case: Case) {
        for message in case.earlier.into_iter().take(MESSAGES_MAX) {
            self.tally.record(TestRun {
                name: case.run.name.clone(),
                within: Arc::clone(&case.run.within),
                status: TestStatus::Failed,
                location: text::place_in(&message, self.root),
                messages: vec![message],
                ..TestRun::default()
            });
        }
        self.tally.record(case.run);
    }

    fn finish(mut self, cut_short: Option<String>) -> (Parsed, Vec<ReportIssue>) {
        // A report truncated inside a failure counts as failed. An open case without a failure has
        // no result.
        if let Some((kind, message, body)) = self.problem.take() {
            self.settle(kind, &message, &body);
        }
        match self.case.take() {
            Some(case) if case.run.status == TestStatus::Failed => self.hold(case),
            Some(case) => self.tally.unfinished(&case.run.name),
            None => {}
        }
        while !self.suites.is_empty() {
            self.close_suite(false);
        }
        let mut parsed = self.tally.finish("junit");
        if self.failures_counted > parsed.report.failed {
            let (counted, listed) = (self.failures_counted, parsed.report.failed);
            let counted = text::counted(counted, "failure", "failures");
            let note = format!("the report counts {counted} and lists {listed}");
            self.cut.get_or_insert_with(|| note.clone());
            self.notes.push(note);
        }
        parsed.notes.append(&mut self.notes);
        if let Some(reason) = cut_short {
            let note = format!("the report is incomplete: {reason}; the part before is counted");
            parsed.notes.push(note.clone());
            self.cut = Some(note);
        }
        let runs = self.counted.saturating_add(self.earlier);
        if let Some(declared) = self.declared.filter(|declared| *declared > runs) {
            let declared = text::counted(declared, "test", "tests");
            parsed.notes.push(format!("the report declares {declared} and lists {}", self.counted));
        }
        parsed.report.cut = self.cut;
        (parsed, self.issues)
    }
}

/// Joins class and name. Some tools repeat the class in the name.
fn full_name(class: &str, name: String) -> String {
    let repeated = name == class || name.strip_prefix(class).is_some_and(|rest| rest.starts_with('.'));
    if class.is_empty() || repeated { name } else { format!("{class}.{name}") }
}

fn problem(start: &BytesStart<'_>, kind: CaseProblem) -> (CaseProblem, String, String) {
    let message = attribute(start, "message").unwrap_or_default();
    let message = if message.is_empty() && kind == CaseProblem::Failed {
        attribute(start, "type").unwrap_or_default()
    } else {
        message
    };
    (kind, message, String::new())
}

/// Joins message and body. The message is left out if the body starts with it, because the first
/// line identifies the failure.
fn joined(message: &str, body: &str) -> String {
    let (message, body) = (message.trim_end(), body.trim_matches('\n').trim_end());
    // For a file that cannot be imported, pytest writes the reason only in the body.
    let message =
        if message == "collection failure" { text::pytest_cause(body).unwrap_or(message) } else { message };
    let first_line = message.lines().next().unwrap_or_default();
    let begins_alike =
        // pytest starts with the source code.
        body.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| !line.starts_with('>') && line.contains(first_line));
    match (body, begins_alike && body.contains(message)) {
        ("", _) => message.to_owned(),
        (_, true) => body.to_owned(),
        (_, false) => format!("{message}\n{body}"),
    }
}

#[cfg(test)]
mod tests;
