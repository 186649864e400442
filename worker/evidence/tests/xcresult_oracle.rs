//! Compares the database reader with the output of Apple's own tool for the recorded bundles: every
//! test, every run.

use buildpool_evidence::xcresult::database;
use buildpool_evidence::xcresult::{Bundle, Run, Test, TestResult};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/xcresult").join(name)
}

fn bundle(name: &str) -> Bundle {
    database::read(&data(name).join("database.sqlite3")).expect("a recorded bundle can be read")
}

fn oracle(name: &str) -> Value {
    let text = std::fs::read_to_string(data(name)).expect("the recorded JSON is there");
    serde_json::from_str(&text).expect("the recorded JSON is JSON")
}

fn children(node: &Value) -> &[Value] {
    node["children"].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node[key].as_str().unwrap_or_default()
}

/// Returns the test cases, each with its test bundle.
fn cases(json: &Value) -> Vec<(String, &Value)> {
    fn walk<'a>(node: &'a Value, bundle: &str, found: &mut Vec<(String, &'a Value)>) {
        let kind = text(node, "nodeType");
        if kind == "Test Case" {
            found.push((bundle.to_owned(), node));
            return;
        }
        let bundle = if kind.ends_with("test bundle") { text(node, "name") } else { bundle };
        children(node).iter().for_each(|child| walk(child, bundle, found));
    }
    let mut found = Vec::new();
    json["testNodes"].as_array().expect("nodes").iter().for_each(|node| walk(node, "", &mut found));
    found
}

fn result(node: &Value) -> TestResult {
    TestResult::from_apple(text(node, "result")).expect("a known result")
}

fn messages(node: &Value) -> Vec<String> {
    let failures = children(node).iter().filter(|child| text(child, "nodeType") == "Failure Message");
    failures.map(|child| text(child, "name").to_owned()).collect()
}

fn run_messages(run: &Run) -> Vec<String> {
    run.failures
        .iter()
        .map(buildpool_evidence::xcresult::Failure::in_one)
        .chain(run.skip_reason.clone())
        .collect()
}

/// Counts of compared items. The test prints them and compares them with the counts of the
/// recordings.
#[derive(Default, Debug, PartialEq)]
struct Compared {
    tests: usize,
    runs: usize,
    argument_sets: usize,
    messages: usize,
    places: usize,
    durations: usize,
    flaky_or_retried: usize,
}

/// Relation of a recording to its bundle.
#[derive(Clone, Copy, PartialEq)]
enum Fit {
    /// The JSON was printed from this bundle.
    Same,
    /// The JSON was printed from another run of the same project.
    OtherRun,
}

/// Removes line numbers and process ids, which differ in another run.
fn without_place(message: &str) -> String {
    let message = message.split("element pid:").next().unwrap_or(message);
    match message.split_once(".swift:") {
        Some((file, rest)) => {
            format!("{file}.swift:#{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => message.to_owned(),
    }
}

fn check_messages(ours: Vec<String>, node: &Value, fit: Fit, compared: &mut Compared, which: &str) {
    let apple = messages(node);
    compared.messages += apple.len();
    compared.places += apple.iter().filter(|message| message.contains(".swift:")).count();
    if fit == Fit::Same {
        assert_eq!(ours, apple, "messages of {which}");
    } else {
        let plain = |list: Vec<String>| list.iter().map(|message| without_place(message)).collect::<Vec<_>>();
        assert_eq!(plain(ours), plain(apple), "messages of {which}");
    }
}

fn check_run(run: &Run, node: &Value, fit: Fit, compared: &mut Compared, which: &str) {
    compared.runs += 1;
    assert_eq!(run.result, result(node), "result of {which}");
    assert_eq!(run.repetition.to_string(), text(node, "nodeIdentifier"), "repetition of {which}");
    check_messages(run_messages(run), node, fit, compared, which);
    if fit == Fit::Same {
        let apple = node["durationInSeconds"].as_f64().expect("a duration");
        let ours = run.duration_secs.expect("a duration");
        assert!((ours - apple).abs() < 1e-9, "duration of {which}: {ours} and {apple}");
        compared.durations += 1;
    }
}

fn check_test(test: &Test, node: &Value, fit: Fit, compared: &mut Compared) {
    let which = &test.identifier;
    compared.tests += 1;
    assert_eq!(test.result, Some(result(node)), "result of {which}");
    assert_eq!(test.display_name, text(node, "name"));
    let mut tags: Vec<&str> = test.tags.iter().map(String::as_str).collect();
    tags.sort_unstable();
    let mut apple_tags: Vec<&str> =
        node["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    apple_tags.sort_unstable();
    assert_eq!(tags, apple_tags, "tags of {which}");

    let of_kind =
        |kind: &'static str| children(node).iter().filter(move |child| text(child, "nodeType") == kind);
    let repetitions: Vec<&Value> = of_kind("Repetition").collect();
    let argument_sets: Vec<&Value> = of_kind("Arguments").collect();
    if !repetitions.is_empty() {
        assert_eq!(test.runs.len(), repetitions.len(), "runs of {which}");
        compared.flaky_or_retried += usize::from(repetitions.len() > 1);
        test.runs
            .iter()
            .zip(&repetitions)
            .for_each(|(run, apple)| check_run(run, apple, fit, compared, which));
    } else if !argument_sets.is_empty() {
        check_arguments(test, &argument_sets, fit, compared);
    } else {
        compared.runs += 1;
        assert_eq!(test.runs.len(), 1, "runs of {which}");
        let run = test.runs.first().expect("one");
        check_messages(run_messages(run), node, fit, compared, which);
        if fit == Fit::Same {
            let (ours, apple) = (run.duration_secs.expect("a duration"), node["durationInSeconds"].as_f64());
            assert!((ours - apple.expect("a duration")).abs() < 1e-9, "duration of {which}");
            compared.durations += 1;
        }
    }
}

/// Compares sets of arguments. Apple sorts them by name and joins sets with the same name.
fn check_arguments(test: &Test, sets: &[&Value], fit: Fit, compared: &mut Compared) {
    let mut ours: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &test.runs {
        ours.entry(run.arguments.as_deref().expect("arguments")).or_default().push(run);
    }
    let in_other_words = fit == Fit::OtherRun && test.identifier.ends_with("testLaunch");
    for set in sets {
        compared.argument_sets += 1;
        let name = text(set, "name");
        let which = format!("{} with {name:?}", test.identifier);
        if in_other_words {
            // The tool of Xcode 16 prints settings of a launch test as numbers.
            compared.runs += 1;
            continue;
        }
        // Apple prints a line break in a name as a space, so two sets can have the same name.
        let runs = ours.remove(name).or_else(|| ours.remove(name.replace(' ', "\n").as_str()));
        let runs = runs.unwrap_or_else(|| panic!("no run of {which}"));
        assert_eq!(runs.last().map(|run| run.result), Some(result(set)), "result of {which}");
        let apple: Vec<&Value> =
            children(set).iter().filter(|child| text(child, "nodeType") == "Repetition").collect();
        if apple.is_empty() {
            compared.runs += runs.len();
            assert_eq!(runs.len(), 1, "runs of {which}");
            if fit == Fit::Same {
                let apple = set["durationInSeconds"].as_f64().expect("a duration");
                assert!(
                    (runs[0].duration_secs.expect("a duration") - apple).abs() < 1e-9,
                    "duration of {which}"
                );
                compared.durations += 1;
            }
            continue;
        }
        assert_eq!(runs.len(), apple.len(), "runs of {which}");
        runs.iter().zip(apple).for_each(|(run, apple)| check_run(run, apple, fit, compared, &which));
    }
    assert!(in_other_words || ours.is_empty(), "sets that Apple does not know: {:?}", ours.keys());
}

fn compare(name: &str, fit: Fit) -> (Compared, Vec<String>) {
    let bundle = bundle(&format!("{name}.xcresult"));
    assert_eq!(bundle.notes, Vec::<String>::new());
    let json = oracle(&format!("{name}.json"));
    let mut apple: HashMap<(String, String), &Value> = cases(&json)
        .into_iter()
        .map(|(bundle, node)| ((bundle, text(node, "nodeIdentifier").to_owned()), node))
        .collect();
    let mut compared = Compared::default();
    let mut only_ours = Vec::new();
    for test in &bundle.tests {
        match apple.remove(&(test.bundle.clone(), test.identifier.clone())) {
            Some(node) => check_test(test, node, fit, &mut compared),
            None => only_ours.push(test.identifier.clone()),
        }
    }
    assert!(apple.is_empty(), "tests that were not read: {:?}", apple.keys());
    let device = &json["devices"][0];
    let ours = bundle.destinations.first().expect("a destination");
    assert_eq!(ours.device_id, text(device, "deviceId"));
    assert_eq!(ours.name, text(device, "deviceName"));
    assert_eq!(ours.os_version, text(device, "osVersion"));
    assert_eq!(ours.platform, text(device, "platform"));
    assert_eq!(ours.architecture, text(device, "architecture"));
    (compared, only_ours)
}

#[test]
fn xcode_26_is_read_as_apple_reads_it() {
    let (compared, only_ours) = compare("Xcode26-Mixed-XCTest-SwiftTesting", Fit::Same);
    assert_eq!(only_ours, Vec::<String>::new());
    assert_eq!(
        compared,
        Compared {
            tests: 48,
            runs: 368,
            argument_sets: 153,
            messages: 55,
            places: 42,
            durations: 368,
            flaky_or_retried: 27
        }
    );
}

#[test]
fn xcode_16_is_read_as_apple_reads_it() {
    let (compared, only_ours) = compare("Xcode16-Mixed-XCTest-SwiftTesting", Fit::OtherRun);
    assert_eq!(only_ours.len(), 1, "one test was added between the two runs: {only_ours:?}");
    assert_eq!(
        compared,
        Compared {
            tests: 47,
            runs: 112,
            argument_sets: 25,
            messages: 41,
            places: 28,
            durations: 0,
            flaky_or_retried: 27
        }
    );
}

#[test]
fn the_roll_up_is_what_the_runs_say() {
    for name in ["Xcode16-Mixed-XCTest-SwiftTesting.xcresult", "Xcode26-Mixed-XCTest-SwiftTesting.xcresult"] {
        for test in bundle(name).tests {
            let mut last: BTreeMap<(Option<String>, u64), TestResult> = BTreeMap::new();
            for run in &test.runs {
                last.insert((run.arguments.clone(), run.place), run.result);
            }
            let any = |result| last.values().any(|last| *last == result);
            let expected = [TestResult::Failed, TestResult::Passed, TestResult::Skipped]
                .into_iter()
                .find(|result| any(*result));
            assert_eq!(test.result, expected, "{}", test.identifier);
        }
    }
}

#[test]
fn a_failed_build_leaves_its_errors_with_places() {
    let bundle = bundle("resultWithCompileError.xcresult");
    assert!(bundle.tests.is_empty());
    assert_eq!(bundle.issues.len(), 2);
    let error = &bundle.issues[0];
    assert_eq!(error.message, "Cannot find 'xmlString1' in scope");
    assert_eq!(error.kind, "Swift Compiler Error");
    assert_eq!(error.target.as_deref(), Some("XcresultparserLib"));
    assert!(error.error);
    // The compiler's own line in the bundle's build log is `CoberturaCoverageConverter.swift:40:24:
    // error: …`.
    assert!(error.file.as_deref().is_some_and(|file| file.ends_with("/CoberturaCoverageConverter.swift")));
    assert_eq!((error.line, error.column), (Some(40), Some(24)));
}

#[test]
fn warnings_attachments_and_the_debuggers_word_are_read() {
    let bundle = bundle("Xcode26-Mixed-XCTest-SwiftTesting.xcresult");
    assert_eq!(bundle.issues.len(), 2);
    assert!(bundle.issues.iter().all(|issue| !issue.error));
    assert_eq!(bundle.issues[1].message, "Message from debugger: killed");
    let attached: usize =
        bundle.tests.iter().flat_map(|test| &test.runs).map(|run| run.attachments.len()).sum();
    assert_eq!(attached, 8);
}
