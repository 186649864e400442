//! JUnit XML in the dialects of surefire, gradle, pytest, jest, gtest, nextest, Swift and fastlane. No entity but XML's
//! own five and characters by number is expanded; a document type is passed over.

use crate::limits::{ISSUES_MAX, MESSAGE_BYTES_MAX, MESSAGES_MAX, XML_DEPTH_MAX};
use crate::tally::{Parsed, Tally, TestRun};
use crate::text;
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::{Location, Severity};
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesRef, BytesStart, Event};
use std::path::Path;

/// Parses a report.
///
/// # Errors
///
/// Why it is not JUnit XML. A report that breaks off gives what it had, with a note.
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

/// What the text of the innermost element belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Problem {
    Failed,
    Skipped,
    ExpectedFailure,
    /// A failure that a later run took back.
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
    suites: Vec<String>,
    case: Option<Case>,
    problem: Option<(Problem, String, String)>,
}

#[derive(Default)]
struct Case {
    run: TestRun,
    class: String,
    earlier: Vec<String>,
}

impl Walk<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
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
            Event::End(end) => {
                self.depth = self.depth.saturating_sub(1);
                self.close(end.local_name().as_ref());
                Ok(())
            }
            Event::Text(found) => self.add_text(found),
            Event::CData(found) => self.add_text(found),
            Event::GeneralRef(reference) => self.add_text(&resolved(reference)),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Eof => Ok(()),
        }
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let local = start.local_name();
        if !self.seen_root {
            if !matches!(local.as_ref(), "testsuite" | "testsuites") {
                return Err(format!(
                    "the first element is <{}>, not <testsuite>",
                    text::name(local.as_ref())
                ));
            }
            self.seen_root = true;
            self.declared = attribute(start, "tests").and_then(|number| number.parse().ok());
        }
        match local.as_ref() {
            "testsuite" => self.suites.push(attribute(start, "name").unwrap_or_default()),
            "testcase" => {
                self.counted += 1;
                self.case = Some(self.new_case(start));
            }
            "failure" | "error" => self.problem = Some(problem(start, Problem::Failed)),
            "skipped" => {
                let expected = attribute(start, "type").as_deref() == Some("pytest.xfail");
                let kind = if expected { Problem::ExpectedFailure } else { Problem::Skipped };
                self.problem = Some(problem(start, kind));
            }
            "flakyFailure" | "flakyError" | "rerunFailure" | "rerunError" => {
                self.problem = Some(problem(start, Problem::Earlier));
            }
            "property" => self.property(start),
            _ => {}
        }
        Ok(())
    }

    fn new_case(&self, start: &BytesStart<'_>) -> Case {
        let name = attribute(start, "name").unwrap_or_default();
        let class = attribute(start, "classname").or_else(|| self.suites.last().cloned()).unwrap_or_default();
        let not_run = attribute(start, "status")
            .is_some_and(|status| matches!(status.as_str(), "notrun" | "disabled"))
            || attribute(start, "result")
                .is_some_and(|result| matches!(result.as_str(), "suppressed" | "skipped"));
        let location = attribute(start, "file").filter(|file| !file.is_empty()).map(|file| Location {
            file: text::relative(&file, self.root),
            // pytest counts from 0 in this attribute and the others from 1; a line that is one off still leads there.
            line: attribute(start, "line").and_then(|line| line.parse().ok()).filter(|line| *line > 0),
            column: None,
        });
        let run = TestRun {
            name: full_name(&class, name),
            status: if not_run { TestStatus::Skipped } else { TestStatus::Passed },
            duration_secs: attribute(start, "time").and_then(|secs| secs.replace(',', "").parse().ok()),
            location,
            ..TestRun::default()
        };
        Case { run, class, earlier: Vec::new() }
    }

    /// fastlane writes a parametrised test as one case a set of arguments, with name and arguments as properties.
    fn property(&mut self, start: &BytesStart<'_>) {
        let Some(case) = &mut self.case else { return };
        match attribute(start, "name").as_deref() {
            Some("argument") => case.run.arguments = attribute(start, "value"),
            Some("testname") => {
                if let Some(name) = attribute(start, "value") {
                    case.run.name = full_name(&case.class, name);
                }
            }
            _ => {}
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
                    self.record(case);
                }
            }
            "testsuite" => {
                self.suites.pop();
            }
            _ => {}
        }
    }

    fn settle(&mut self, kind: Problem, message: &str, body: &str) {
        let whole = joined(message, body);
        let Some(case) = &mut self.case else {
            // A suite that failed outside any test: set-up, loading.
            if kind == Problem::Failed && self.issues.len() < ISSUES_MAX {
                let suite = self.suites.last().map_or("", String::as_str);
                self.issues.push(ReportIssue {
                    path: String::new(),
                    severity: Severity::Error,
                    message: text::message(&format!("suite {}: {whole}", text::name(suite))),
                    location: text::place_in(&whole, self.root),
                    category: None,
                    advice: None,
                });
            }
            return;
        };
        match kind {
            Problem::Earlier => case.earlier.push(whole),
            Problem::Failed => {
                case.run.status = TestStatus::Failed;
                if let Some(place) = text::place_in(&whole, self.root) {
                    case.run.location = Some(place);
                }
            }
            Problem::Skipped if case.run.status != TestStatus::Failed => {
                case.run.status = TestStatus::Skipped
            }
            Problem::ExpectedFailure if case.run.status != TestStatus::Failed => {
                case.run.status = TestStatus::ExpectedFailure;
            }
            Problem::Skipped | Problem::ExpectedFailure => {}
        }
        let told = !message.is_empty() || !body.trim().is_empty();
        if kind != Problem::Earlier && told && case.run.messages.len() < MESSAGES_MAX {
            case.run.messages.push(joined(message, body));
        }
    }

    fn record(&mut self, case: Case) {
        for message in case.earlier.into_iter().take(MESSAGES_MAX) {
            let location = text::place_in(&message, self.root);
            let name = case.run.name.clone();
            let status = TestStatus::Failed;
            self.tally.record(TestRun {
                name,
                status,
                messages: vec![message],
                location,
                ..TestRun::default()
            });
        }
        self.tally.record(case.run);
    }

    fn finish(mut self, cut_short: Option<String>) -> (Parsed, Vec<ReportIssue>) {
        if let Some(case) = self.case.take().filter(|_| cut_short.is_some()) {
            self.tally.unfinished(&case.run.name);
        }
        let mut parsed = self.tally.finish("junit");
        if let Some(reason) = cut_short {
            parsed.notes.push(format!("the report breaks off: {reason}; what came before is counted"));
        }
        if let Some(declared) = self.declared.filter(|declared| *declared > self.counted) {
            parsed.notes.push(format!("the report declares {declared} tests and lists {}", self.counted));
        }
        (parsed, self.issues)
    }
}

/// Some tools repeat the class in the name.
fn full_name(class: &str, name: String) -> String {
    let repeated = name == class || name.strip_prefix(class).is_some_and(|rest| rest.starts_with('.'));
    if class.is_empty() || repeated { name } else { format!("{class}.{name}") }
}

fn problem(start: &BytesStart<'_>, kind: Problem) -> (Problem, String, String) {
    let message = attribute(start, "message").unwrap_or_default();
    let message = if message.is_empty() && kind == Problem::Failed {
        attribute(start, "type").unwrap_or_default()
    } else {
        message
    };
    (kind, message, String::new())
}

/// The message attribute often repeats the beginning of the body.
fn joined(message: &str, body: &str) -> String {
    let (message, body) = (message.trim_end(), body.trim_matches('\n').trim_end());
    if body.is_empty() {
        message.to_owned()
    } else if message.is_empty() || body.contains(message) {
        body.to_owned()
    } else {
        format!("{message}\n{body}")
    }
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let found =
        start.attributes().with_checks(false).flatten().find(|attribute| attribute.key.as_ref() == name)?;
    // Line breaks stay, although XML would make spaces of them: in messages they carry meaning.
    Some(unescape(&found.value).map_or_else(|_| found.value.to_string(), std::borrow::Cow::into_owned))
}

fn resolved(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return character.to_string();
    }
    resolve_xml_entity(reference).map_or_else(|| format!("&{};", &**reference), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(xml: &str) -> (u64, u64, u64, u64) {
        let (parsed, _) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
        let report = parsed.report;
        (report.passed, report.failed, report.skipped, report.expected_failures)
    }

    const PYTEST: &str = r#"<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="5" time="0.1">
<testcase classname="tests.test_x" name="test_ok" time="0.001" />
<testcase classname="tests.test_x" name="test_bad[a-1]" time="0.002"><failure message="assert 1 == 2&#10;  +1">def test_bad():
&gt;       assert 1 == 2
E       assert 1 == 2

tests/test_x.py:7: AssertionError</failure></testcase>
<testcase classname="tests.test_x" name="test_setup" time="0.0"><error message="failed on setup">boom</error></testcase>
<testcase classname="tests.test_x" name="test_skip" time="0.0"><skipped type="pytest.skip" message="no net">x.py:3: no net</skipped></testcase>
<testcase classname="tests.test_x" name="test_xfail" time="0.0"><skipped type="pytest.xfail" message="known" /></testcase>
</testsuite></testsuites>"#;

    #[test]
    fn pytest() {
        assert_eq!(counts(PYTEST), (1, 2, 1, 1));
        let (parsed, _) = parse(PYTEST.as_bytes(), None).expect("it is JUnit XML");
        let case = &parsed.report.cases[0];
        assert_eq!(case.name, "tests.test_x.test_bad[a-1]");
        assert!(case.messages[0].starts_with("assert 1 == 2\n  +1\ndef test_bad"), "{}", case.messages[0]);
        assert_eq!(
            case.location,
            Some(Location { file: "tests/test_x.py".into(), line: Some(7), column: None })
        );
    }

    #[test]
    fn surefire_with_reruns() {
        let xml = r#"<testsuite name="com.a.BTest" tests="2" failures="0"><properties><property name="java" value="21"/></properties>
<testcase name="flaky" classname="com.a.BTest" time="1,234.5"><flakyFailure message="x" type="E"><stackTrace><![CDATA[java.lang.AssertionError: x
	at com.a.BTest.flaky(BTest.java:12)]]></stackTrace><system-out><![CDATA[noise]]></system-out></flakyFailure></testcase>
<testcase name="bad" classname="com.a.BTest"><failure message="y" type="E">E: y
	at com.a.BTest.bad(BTest.java:20)</failure><rerunFailure message="y" type="E"/></testcase></testsuite>"#;
        let (parsed, _) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
        let report = parsed.report;
        assert_eq!((report.passed, report.failed, report.flaky), (1, 1, 1));
        let flaky = report.cases.iter().find(|case| case.flaky).expect("one is flaky");
        assert_eq!(flaky.location.as_ref().and_then(|place| place.line), Some(12));
        assert_eq!((flaky.runs, flaky.duration_secs), (2, Some(1234.5)));
    }

    #[test]
    fn gtest_and_jest() {
        let gtest = r#"<testsuites tests="3" failures="1" disabled="1" name="AllTests"><testsuite name="Math" tests="3">
<testcase name="Adds" file="m_test.cc" line="9" status="run" result="completed" time="0" classname="Math"><failure message="m_test.cc:11&#x0A;Expected equality" type=""><![CDATA[m_test.cc:11
Expected equality]]></failure></testcase>
<testcase name="DISABLED_Slow" status="notrun" result="suppressed" classname="Math"/><testcase name="Skips" status="run" result="skipped" classname="Math"><skipped message="why"/></testcase></testsuite></testsuites>"#;
        assert_eq!(counts(gtest), (0, 1, 2, 0));
        let jest = r#"<testsuites name="jest tests"><testsuite name="sum"><testcase classname="sum adds" name="sum adds" time="0.002"><failure>Error: expect(received)
    at Object.&lt;anonymous&gt; (/w/src/sum.test.js:4:15)</failure></testcase></testsuite></testsuites>"#;
        let (parsed, _) = parse(jest.as_bytes(), Some(Path::new("/w"))).expect("it is JUnit XML");
        assert_eq!(parsed.report.cases[0].name, "sum adds");
        assert_eq!(
            parsed.report.cases[0].location.as_ref().map(|place| place.file.as_str()),
            Some("src/sum.test.js")
        );
    }

    #[test]
    fn hostile_or_broken_input_does_no_harm() {
        let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>
<testsuite><testcase name="&b;"><failure message="m">&f;&b;&#65;</failure></testcase></testsuite>"#;
        let (parsed, _) = parse(bomb.as_bytes(), None).expect("it is JUnit XML");
        assert_eq!(parsed.report.cases[0].messages, ["m\n&f;&b;A"]);
        let deep = format!("<testsuite>{}", "<a>".repeat(10_000));
        assert!(parse(deep.as_bytes(), None).expect_err("too deep").contains("nest deeper"));
        let (parsed, _) =
            parse(&PYTEST.as_bytes()[..PYTEST.len() / 2], None).expect("a part is still a report");
        assert!(parsed.notes.iter().any(|note| note.contains("breaks off")), "{:?}", parsed.notes);
        assert_eq!(parsed.report.passed, 1);
        assert!(parse(b"<html></html>", None).is_err());
    }

    #[test]
    fn a_suite_that_fails_outside_its_tests_is_an_issue() {
        let xml = r#"<testsuite name="s"><error message="cannot load a.rb:3: bad"/></testsuite>"#;
        let (_, issues) = parse(xml.as_bytes(), None).expect("it is JUnit XML");
        assert_eq!(issues[0].location.as_ref().and_then(|place| place.line), Some(3));
    }
}
