//! Compares the database reader and the JUnit reader with the JUnit files that fastlane made from
//! the recorded bundles. Result, messages with places, and duration of every run are compared.

use buildpool_evidence::read_report;
use buildpool_evidence::xcresult::{Failure, Run, Test, TestResult, database};
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/xcresult").join(name)
}

#[derive(Default, Debug)]
struct Case {
    class: String,
    name: String,
    argument: Option<String>,
    secs: String,
    result: TestResult,
    messages: Vec<String>,
}

fn attribute(start: &BytesStart<'_>, name: &str) -> String {
    let found = start.attributes().flatten().find(|attribute| attribute.key.as_ref() == name);
    found.map_or_else(String::new, |found| unescape(&found.value).expect("escaped").into_owned())
}

fn cases(file: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(data(file)).expect("the recorded report is there");
    let mut reader = Reader::from_str(&text);
    let mut cases: Vec<Case> = Vec::new();
    loop {
        match reader.read_event().expect("XML") {
            Event::Eof => return cases,
            Event::Start(start) | Event::Empty(start) => match start.local_name().as_ref() {
                "testcase" => cases.push(Case {
                    class: attribute(&start, "classname"),
                    name: attribute(&start, "name"),
                    secs: attribute(&start, "time"),
                    ..Case::default()
                }),
                kind @ ("failure" | "skipped") => {
                    let case = cases.last_mut().expect("inside a case");
                    case.result = if kind == "failure" { TestResult::Failed } else { TestResult::Skipped };
                    case.messages.push(attribute(&start, "message"));
                }
                "property" => {
                    let case = cases.last_mut().expect("inside a case");
                    match attribute(&start, "name").as_str() {
                        "testname" => case.name = attribute(&start, "value"),
                        "argument" => case.argument = Some(attribute(&start, "value")),
                        _ => {}
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// Returns true if a duration matches Apple's output: two significant digits below a second, whole
/// seconds above, truncated.
fn fits(secs: f64, printed: &str) -> bool {
    let printed: f64 = printed.parse().expect("a number");
    let tolerance = if secs >= 1.0 { 1.0 } else { secs.max(printed) * 0.051 + 1e-6 };
    (secs - printed).abs() <= tolerance
}

fn messages(run: &Run) -> Vec<String> {
    run.failures.iter().map(Failure::in_one).chain(run.skip_reason.clone()).collect()
}

fn as_numbers(test: &Test, arguments: &str) -> bool {
    test.identifier.ends_with("testLaunch") && arguments.starts_with(|c: char| c.is_ascii_digit())
}

fn compare(name: &str) -> (usize, usize) {
    let bundle =
        database::read(&data(&format!("{name}.xcresult")).join("database.sqlite3")).expect("readable");
    let mut theirs: BTreeMap<(String, String), Vec<Case>> = BTreeMap::new();
    for case in cases(&format!("{name}-WithRetries.junit")) {
        theirs.entry((case.class.clone(), case.name.clone())).or_default().push(case);
    }
    let (mut runs, mut compared_messages) = (0, 0);
    for test in &bundle.tests {
        let suite = test.identifier.rsplit_once('/').map_or("", |(suite, _)| suite).replace('/', ".");
        let key = (suite, test.display_name.clone());
        let cases = theirs.remove(&key).unwrap_or_else(|| panic!("{key:?} is not in the report"));
        assert_eq!(cases.len(), test.runs.len(), "runs of {key:?}");
        let mut left: Vec<&Run> = test.runs.iter().collect();
        for case in cases {
            // Sets of arguments are matched by value, retries by order.
            let plain = |text: &str| unescaped(text).replace('\n', " ");
            let same = |run: &&Run| match (&run.arguments, &case.argument) {
                // The tool of Xcode 16 prints settings of a launch test as numbers.
                (Some(ours), Some(theirs)) => as_numbers(test, theirs) || plain(ours) == plain(theirs),
                (None, None) => true,
                _ => false,
            };
            // All runs of a launch test are printed with their mean duration.
            let launch = test.identifier.ends_with("testLaunch");
            let fitting = |run: &&Run| {
                same(run)
                    && run.result == case.result
                    && (launch || fits(run.duration_secs.unwrap_or(0.0), &case.secs))
            };
            let at =
                left.iter().position(fitting).unwrap_or_else(|| panic!("no run for {case:?} among {left:?}"));
            let run = left.remove(at);
            let plain: Vec<String> = case.messages.iter().map(|text| unescaped(text)).collect();
            assert_eq!(messages(run), plain, "messages of {key:?}");
            runs += 1;
            compared_messages += case.messages.len();
        }
    }
    assert!(theirs.is_empty(), "not in the bundle: {:?}", theirs.keys());
    (runs, compared_messages)
}

/// Decodes control characters, which fastlane writes as `\u0001`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\u00");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.map(char::from).expect("two digits"));
        out.push_str(&part[2..]);
    }
    out
}

#[test]
fn every_run_of_xcode_16_is_as_in_the_report() {
    assert_eq!(compare("Xcode16-Mixed-XCTest-SwiftTesting"), (368, 55));
}

#[test]
fn every_run_of_xcode_26_is_as_in_the_report() {
    assert_eq!(compare("Xcode26-Mixed-XCTest-SwiftTesting"), (368, 55));
}

#[test]
fn the_junit_reader_counts_each_test_once() {
    for name in ["Xcode16-Mixed-XCTest-SwiftTesting", "Xcode26-Mixed-XCTest-SwiftTesting"] {
        let counts = |file: &str| {
            let read = read_report(&data(file)).expect("readable");
            let report = read.evidence.test_reports.first().cloned().expect("a report");
            assert_eq!(report.cut, None, "{file}");
            (report.passed, report.failed, report.skipped, report.flaky)
        };
        let bundle = counts(&format!("{name}.xcresult"));
        assert_eq!(bundle, (28, 13, 7, 0));
        assert_eq!(counts(&format!("{name}-WithRetries.junit")), bundle);
        assert_eq!(counts(&format!("{name}-WithoutRetries.junit")), bundle);
    }
}
