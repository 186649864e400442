//! Reads bundles without a database with Apple's `xcresulttool` on a Mac: the commands, and parsers
//! for their output.
//!
//! Since Xcode 16 the tool has `get test-results tests` and `get build-results`. Bundles of Xcode
//! 15 and before need `get object --legacy`, which contains build problems and counts.

use super::database::document_place;
use super::{Bundle, BundleIssue, Destination, Failure, Run, Test, TestResult};
use serde::Deserialize;
use std::path::Path;

/// A query to the tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Tests, as a tree.
    Tests,
    /// Errors and warnings of the build.
    Build,
    /// The root object of an old bundle.
    Legacy,
}

/// Returns the command line for a query.
pub fn command(question: Question, bundle: &Path) -> Vec<std::ffi::OsString> {
    let words: &[&str] = match question {
        Question::Tests => &["xcrun", "xcresulttool", "get", "test-results", "tests", "--compact", "--path"],
        Question::Build => &["xcrun", "xcresulttool", "get", "build-results", "--compact", "--path"],
        Question::Legacy => {
            &["xcrun", "xcresulttool", "get", "object", "--legacy", "--format", "json", "--path"]
        }
    };
    words.iter().map(Into::into).chain([bundle.as_os_str().to_owned()]).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tests {
    #[serde(default)]
    devices: Vec<Device>,
    test_nodes: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    #[serde(default)]
    device_name: String,
    #[serde(default)]
    device_id: String,
    #[serde(default)]
    os_version: String,
    #[serde(default)]
    platform: String,
    #[serde(default)]
    architecture: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    #[serde(default)]
    name: String,
    #[serde(default)]
    node_type: String,
    #[serde(default)]
    node_identifier: Option<String>,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    duration: Option<String>,
    #[serde(default)]
    duration_in_seconds: Option<f64>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    children: Vec<Node>,
}

/// Parses the output of `get test-results tests`.
///
/// # Errors
///
/// Fails if the input is not this JSON or is nested too deeply.
pub fn parse_tests(json: &[u8]) -> Result<Bundle, serde_json::Error> {
    let parsed: Tests = serde_json::from_slice(json)?;
    let destinations = parsed
        .devices
        .into_iter()
        .map(|device| Destination {
            name: device.device_name,
            platform: device.platform,
            os_version: device.os_version,
            architecture: device.architecture,
            device_id: device.device_id,
        })
        .collect();
    let mut bundle = Bundle { destinations, ..Bundle::default() };
    parsed.test_nodes.into_iter().for_each(|node| walk(node, "", &mut bundle));
    Ok(bundle)
}

/// Collects test cases from a tree. The JSON parser already limits the depth.
fn walk(node: Node, in_bundle: &str, bundle: &mut Bundle) {
    match node.node_type.as_str() {
        "Test Case" => bundle.tests.push(test(node, in_bundle)),
        kind if kind.ends_with("test bundle") => {
            node.children.into_iter().for_each(|child| walk(child, &node.name, bundle));
        }
        _ => node.children.into_iter().for_each(|child| walk(child, in_bundle, bundle)),
    }
}

fn test(node: Node, bundle: &str) -> Test {
    let mut test = Test {
        identifier: node.node_identifier.clone().unwrap_or_else(|| node.name.clone()),
        display_name: node.name.clone(),
        bundle: bundle.to_owned(),
        tags: node.tags.clone(),
        result: node.result.as_deref().and_then(TestResult::from_apple),
        runs: Vec::new(),
    };
    let mut context = RunContext::default();
    collect_runs(&node, &mut context, &mut test.runs);
    test
}

#[derive(Clone, Default)]
struct RunContext {
    arguments: Option<String>,
    place: u64,
    repetition: u32,
}

/// Collects the runs below a test. Devices, configurations, sets of arguments and repetitions can
/// nest in any order. Each level exists only if it has several values.
fn collect_runs(node: &Node, context: &mut RunContext, runs: &mut Vec<Run>) {
    let nested =
        |kind: &str| matches!(kind, "Arguments" | "Repetition" | "Device" | "Test Plan Configuration");
    let mut any = false;
    for (index, child) in node.children.iter().enumerate() {
        if !nested(&child.node_type) {
            continue;
        }
        any = true;
        let mut inner = context.clone();
        match child.node_type.as_str() {
            "Arguments" => inner.arguments = Some(child.name.clone()),
            "Repetition" => {
                let number = child.node_identifier.as_deref().and_then(|number| number.parse().ok());
                inner.repetition = number.unwrap_or_else(|| u32::try_from(index + 1).unwrap_or(u32::MAX));
            }
            _ => inner.place = inner.place.saturating_mul(1_000).saturating_add(index as u64 + 1),
        }
        collect_runs(child, &mut inner, runs);
    }
    if !any {
        runs.push(run(node, context));
    }
}

fn run(node: &Node, context: &RunContext) -> Run {
    let result = node.result.as_deref().and_then(TestResult::from_apple).unwrap_or(TestResult::Failed);
    let messages: Vec<&str> = node
        .children
        .iter()
        .filter(|child| child.node_type == "Failure Message")
        .map(|child| child.name.as_str())
        .collect();
    let mut run = Run {
        arguments: context.arguments.clone(),
        repetition: context.repetition.max(1),
        place: context.place,
        result,
        duration_secs: node.duration_in_seconds.or_else(|| node.duration.as_deref().and_then(seconds)),
        ..Run::default()
    };
    if result == TestResult::Skipped {
        run.skip_reason = messages.first().map(|&reason| reason.to_owned());
    } else {
        run.failures = messages.iter().map(|message| failure(message, result)).collect();
    }
    run
}

/// Parses a failure: `File.swift:12: message`.
fn failure(text: &str, result: TestResult) -> Failure {
    let expected = result == TestResult::ExpectedFailure;
    let split = text.split_once(": ").and_then(|(place, message)| {
        let (file, line) = place.rsplit_once(':')?;
        let fits = file.contains('.') && !file.contains(' ');
        fits.then_some((file, line.parse().ok()?, message))
    });
    match split {
        Some((file, line, message)) => {
            Failure { message: message.to_owned(), file: Some(file.to_owned()), line: Some(line), expected }
        }
        None => Failure { message: text.to_owned(), file: None, line: None, expected },
    }
}

/// Parses a duration in the user's locale: `5s`, `0,011s`, `1m 2s`.
fn seconds(text: &str) -> Option<f64> {
    let mut sum = 0.0;
    for part in text.split_whitespace() {
        let digits = part.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: f64 = digits.replace(',', ".").parse().ok()?;
        sum += number
            * match part.get(digits.len()..)? {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
    }
    Some(sum)
}

#[derive(Deserialize)]
struct Build {
    #[serde(default)]
    errors: Vec<BuildProblem>,
    #[serde(default)]
    warnings: Vec<BuildProblem>,
    #[serde(default, rename = "analyzerWarnings")]
    analyzer: Vec<BuildProblem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildProblem {
    #[serde(default)]
    issue_type: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    target_name: Option<String>,
    #[serde(default, rename = "sourceURL")]
    source_url: Option<String>,
}

/// Parses the output of `get build-results`.
///
/// # Errors
///
/// Fails if the input is not this JSON.
pub fn parse_build(json: &[u8]) -> Result<Vec<BundleIssue>, serde_json::Error> {
    let build: Build = serde_json::from_slice(json)?;
    let errors = build.errors.into_iter().map(|problem| (problem, true));
    let warnings = build.warnings.into_iter().chain(build.analyzer).map(|problem| (problem, false));
    Ok(errors.chain(warnings).map(|(problem, error)| issue(problem, error)).collect())
}

fn issue(problem: BuildProblem, error: bool) -> BundleIssue {
    let (file, line, column) = problem.source_url.as_deref().map_or((None, None, None), document_place);
    BundleIssue {
        kind: problem.issue_type,
        message: problem.message,
        error,
        target: problem.target_name,
        file,
        line,
        column,
    }
}

#[derive(Deserialize)]
struct LegacyRoot {
    #[serde(default)]
    issues: LegacyIssues,
    #[serde(default)]
    actions: List<LegacyAction>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct LegacyIssues {
    #[serde(default)]
    error_summaries: List<LegacyIssue>,
    #[serde(default)]
    warning_summaries: List<LegacyIssue>,
    #[serde(default)]
    test_failure_summaries: List<LegacyIssue>,
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(rename = "_values", default = "Vec::new")]
    values: Vec<T>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { values: Vec::new() }
    }
}

#[derive(Deserialize)]
struct Value {
    #[serde(rename = "_value")]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyIssue {
    issue_type: Option<Value>,
    message: Option<Value>,
    producing_target: Option<Value>,
    test_case_name: Option<Value>,
    document_location_in_creating_workspace: Option<LegacyPlace>,
}

#[derive(Deserialize)]
struct LegacyPlace {
    url: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyAction {
    #[serde(default)]
    action_result: LegacyResult,
}

#[derive(Deserialize, Default)]
struct LegacyResult {
    #[serde(default)]
    metrics: LegacyMetrics,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct LegacyMetrics {
    tests_count: Option<Value>,
    tests_failed_count: Option<Value>,
}

/// Parses the root object of `get object --legacy`: build problems, and failed tests by name.
/// Passed tests are only counted, in a note, because their names are in other objects.
///
/// # Errors
///
/// Fails if the input is not this JSON.
pub fn parse_legacy(json: &[u8]) -> Result<Bundle, serde_json::Error> {
    let root: LegacyRoot = serde_json::from_slice(json)?;
    let value = |value: Option<Value>| value.map(|value| value.value);
    let mut bundle = Bundle::default();
    let errors = root.issues.error_summaries.values.into_iter().map(|issue| (issue, true));
    let warnings = root.issues.warning_summaries.values.into_iter().map(|issue| (issue, false));
    for (found, error) in errors.chain(warnings) {
        let url = found.document_location_in_creating_workspace.and_then(|place| place.url);
        let problem = BuildProblem {
            issue_type: value(found.issue_type).unwrap_or_default(),
            message: value(found.message).unwrap_or_default(),
            target_name: value(found.producing_target),
            source_url: value(url),
        };
        bundle.issues.push(issue(problem, error));
    }
    for found in root.issues.test_failure_summaries.values {
        let url = value(found.document_location_in_creating_workspace.and_then(|place| place.url));
        let (file, line, _) = url.as_deref().map_or((None, None, None), document_place);
        let message = value(found.message).unwrap_or_default();
        let name = value(found.test_case_name).unwrap_or_default().replacen('.', "/", 1);
        let failures = vec![Failure { message, file, line, expected: false }];
        let run = Run { repetition: 1, result: TestResult::Failed, failures, ..Run::default() };
        bundle.tests.push(Test {
            identifier: name.clone(),
            display_name: name,
            runs: vec![run],
            ..Test::default()
        });
    }
    let sum = |count: fn(&LegacyMetrics) -> Option<&Value>| -> u64 {
        root.actions
            .values
            .iter()
            .filter_map(|action| count(&action.action_result.metrics)?.value.parse::<u64>().ok())
            .sum()
    };
    let (all, failed) =
        (sum(|metrics| metrics.tests_count.as_ref()), sum(|metrics| metrics.tests_failed_count.as_ref()));
    if all > 0 {
        bundle.notes.push(format!(
            "the old bundle counts {all} tests, {failed} of them failed; only the failed ones are named"
        ));
    }
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_the_current_ones() {
        let shown = |question| {
            let words = command(question, Path::new("/a b.xcresult"));
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join("|")
        };
        assert_eq!(
            shown(Question::Tests),
            "xcrun|xcresulttool|get|test-results|tests|--compact|--path|/a b.xcresult"
        );
        assert_eq!(
            shown(Question::Build),
            "xcrun|xcresulttool|get|build-results|--compact|--path|/a b.xcresult"
        );
        assert!(shown(Question::Legacy).contains("--legacy"));
    }

    #[test]
    fn durations_of_any_locale() {
        assert_eq!(seconds("0,011s"), Some(0.011));
        assert_eq!(seconds("1m 2s"), Some(62.0));
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn build_results_and_the_legacy_object() {
        let build = br#"{"errorCount":1,"errors":[{"issueType":"Swift Compiler Error","message":"no x","targetName":"T","sourceURL":"file:///a/b%20c.swift#StartingLineNumber=4&StartingColumnNumber=2"}],"warnings":[{"message":"w"}]}"#;
        let issues = parse_build(build).expect("JSON");
        assert_eq!(
            (issues[0].file.as_deref(), issues[0].line, issues[0].column),
            (Some("/a/b c.swift"), Some(5), Some(3))
        );
        assert_eq!((issues[0].error, issues[1].error), (true, false));
        let legacy = br#"{"_type":{"_name":"ActionsInvocationRecord"},"issues":{"errorSummaries":{"_values":[{"message":{"_value":"bad"},"issueType":{"_value":"Swift Compiler Error"},"documentLocationInCreatingWorkspace":{"url":{"_value":"file:///a.swift#StartingLineNumber=0"}}}]},"testFailureSummaries":{"_values":[{"testCaseName":{"_value":"ATests.testB()"},"message":{"_value":"XCTAssertTrue failed"}}]}},"actions":{"_values":[{"actionResult":{"metrics":{"testsCount":{"_value":"3"},"testsFailedCount":{"_value":"1"}}}}]}}"#;
        let bundle = parse_legacy(legacy).expect("JSON");
        assert_eq!(bundle.issues[0].line, Some(1));
        assert_eq!(bundle.tests[0].identifier, "ATests/testB()");
        assert_eq!(bundle.notes.len(), 1);
    }
}
