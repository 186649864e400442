//! Reads `database.sqlite3` of a result bundle. Xcode 16 and 26 name some columns differently, so
//! each column is looked up first. Tables are read one after the other and joined in this module.
//! The database has no indexes, and an untrusted schema could make a SQL join extremely slow.

use super::table::{Row, Tables};
use super::{Attachment, Bundle, BundleIssue, Destination, Failure, Run, Test, TestResult};
use crate::error::EvidenceError;
use std::collections::{HashMap, HashSet};
use std::path::Path;

type Map<T> = HashMap<i64, T>;

/// Reads a bundle's database.
///
/// # Errors
///
/// Fails if the file cannot be read or is not a result bundle database.
pub fn read(database: &Path) -> Result<Bundle, EvidenceError> {
    let tables = Tables::open(database)?;
    if !tables.has("TestCaseRuns") && !tables.has("BuildIssues") {
        return Err(EvidenceError::malformed(
            database,
            "result bundle",
            "it has neither a table TestCaseRuns nor BuildIssues",
        ));
    }
    let mut bundle = Bundle { destinations: destinations(&tables)?, ..Bundle::default() };
    let mut runs = runs(&tables, &mut bundle.notes)?;
    let loose = attach_failures(&tables, &mut runs)?;
    attach_arguments(&tables, &mut runs)?;
    attach_files(&tables, &mut runs)?;
    let (tests, orphans) = tests(&tables, runs)?;
    bundle.tests = tests;
    bundle.issues = build_issues(&tables)?;
    bundle.issues.extend(loose);
    bundle.cut = missing(&tables, &bundle, orphans)?;
    Ok(bundle)
}

struct RawRun {
    test: i64,
    order: (i64, u32, i64),
    run: Run,
}

/// Returns the runs by row id.
fn runs(tables: &Tables, notes: &mut Vec<String>) -> Result<Map<RawRun>, EvidenceError> {
    let mut repetitions = Map::new();
    tables.each("RepetitionPolicies", &["repetition"], |row| {
        repetitions.insert(row.id, row.integer(0).and_then(|number| u32::try_from(number).ok()).unwrap_or(1));
    })?;
    let skips = tables.texts("SkipNotices", "message")?;
    let places = places(tables)?;
    let mut runs = Map::new();
    let mut unknown = HashSet::new();
    let columns = [
        "result",
        "duration",
        "testSuiteRun_fk",
        "testCase_fk",
        "skipNotice_fk",
        "repetitionPolicy_fk",
        "orderInTestSuiteRun",
    ];
    tables.each("TestCaseRuns", &columns, |mut row| {
        let Some(test) = row.integer(3) else { return };
        let word = row.text(0).unwrap_or_default();
        let result = TestResult::from_apple(&word).unwrap_or_else(|| {
            // An unknown result must not pass as a success.
            unknown.insert(word);
            TestResult::Failed
        });
        let place = row.integer(2).and_then(|suite_run| places.get(&suite_run)).copied().unwrap_or(0);
        let repetition = row.integer(5).and_then(|policy| repetitions.get(&policy)).copied().unwrap_or(1);
        let run = Run {
            repetition,
            place: u64::try_from(place).unwrap_or(0),
            result,
            duration_secs: row.real(1),
            skip_reason: row.integer(4).and_then(|notice| skips.get(&notice)).cloned(),
            ..Run::default()
        };
        runs.insert(row.id, RawRun { test, order: (place, repetition, row.id), run });
    })?;
    if !unknown.is_empty() {
        let mut words: Vec<_> = unknown.into_iter().map(|word| format!("{word:?}")).collect();
        words.sort();
        words.truncate(5);
        notes.push(format!("results in unknown words are taken as failures: {}", words.join(", ")));
    }
    Ok(runs)
}

/// Maps each suite run to its test plan run: one configuration on one destination.
fn places(tables: &Tables) -> Result<Map<i64>, EvidenceError> {
    let mut plan_of_testable = Map::new();
    tables.each("TestableRuns", &["testPlanRun_fk"], |row| {
        plan_of_testable.insert(row.id, row.integer(0).unwrap_or(0));
    })?;
    let mut parents = Map::new();
    tables.each("TestSuiteRuns", &["testableRun_fk", "parentSuiteRun_fk"], |row| {
        parents.insert(row.id, (row.integer(0), row.integer(1)));
    })?;
    let mut places = Map::new();
    for suite in parents.keys() {
        let mut at = *suite;
        // Suites nest a few levels deep. The limit also stops at a cycle in a hostile file.
        for _ in 0..64 {
            match parents.get(&at) {
                Some((Some(testable), _)) => {
                    places.insert(*suite, plan_of_testable.get(testable).copied().unwrap_or(0));
                    break;
                }
                Some((None, Some(parent))) => at = *parent,
                Some((None, None)) | None => break,
            }
        }
    }
    Ok(places)
}

/// Adds failures to their runs. Returns failures of suites, and failures without a run, as problems
/// of the bundle.
fn attach_failures(tables: &Tables, runs: &mut Map<RawRun>) -> Result<Vec<BundleIssue>, EvidenceError> {
    let mut locations = Map::new();
    tables.each("SourceCodeLocations", &["filePath", "lineNumber"], |mut row| {
        locations.insert(row.id, (row.text(0), row.position(1)));
    })?;
    let mut contexts = Map::new();
    tables.each("SourceCodeContexts", &["location_fk"], |row| {
        if let Some(location) = row.integer(0).and_then(|location| locations.get(&location)) {
            contexts.insert(row.id, location.clone());
        }
    })?;
    let mut expected: Map<Option<String>> = Map::new();
    tables.each("ExpectedFailures", &["issue_fk", "failureReason"], |mut row| {
        if let Some(issue) = row.integer(0) {
            expected.insert(issue, row.text(1));
        }
    })?;
    let mut found: Vec<(i64, i64, bool, Failure)> = Vec::new();
    let mut loose = Vec::new();
    let mut spans: Map<(f64, f64)> = Map::new();
    let columns = [
        "testCaseRun_fk",
        "orderInOwner",
        "compactDescription",
        "detailedDescription",
        "sourceCodeContext_fk",
        "isTopLevel",
        "isTopLevelFailure",
        "issueType",
        "timestamp",
    ];
    tables.each("TestIssues", &columns, |mut row| {
        let (file, line) =
            row.integer(4).and_then(|context| contexts.get(&context)).cloned().unwrap_or((None, None));
        let mut message =
            row.text(2).filter(|text| !text.is_empty()).or_else(|| row.text(3)).unwrap_or_default();
        let reason = expected.get(&row.id);
        if let Some(Some(reason)) = reason
            && !reason.is_empty()
        {
            message = format!("{reason}: {message}");
        }
        let top = row.integer(5).or_else(|| row.integer(6)).is_none_or(|top| top != 0);
        let failure = Failure { message, file, line, expected: reason.is_some() };
        match row.integer(0) {
            Some(run) => {
                if let Some(at) = row.real(8) {
                    let span = spans.entry(run).or_insert((at, at));
                    *span = (span.0.min(at), span.1.max(at));
                }
                found.push((run, row.integer(1).unwrap_or(0), top, failure));
            }
            None if !failure.expected => loose.push(loose_issue(row.text(7), failure)),
            None => {}
        }
    })?;
    for (run, (first, last)) in spans {
        // Apple's tool never reports a run as shorter than the time between its failures.
        if let Some(duration) = runs.get_mut(&run).and_then(|raw| raw.run.duration_secs.as_mut()) {
            *duration = duration.max(last - first);
        }
    }
    found.sort_by_key(|(run, order, ..)| (*run, *order));
    for (run, _, top, failure) in found {
        if let Some(raw) = runs.get_mut(&run)
            && top
        {
            raw.run.failures.push(failure);
        }
    }
    Ok(loose)
}

fn loose_issue(kind: Option<String>, failure: Failure) -> BundleIssue {
    BundleIssue {
        kind: kind.unwrap_or_default(),
        message: failure.message,
        error: true,
        target: None,
        file: failure.file,
        line: failure.line,
        column: None,
    }
}

fn attach_arguments(tables: &Tables, runs: &mut Map<RawRun>) -> Result<(), EvidenceError> {
    let mut values = Map::new();
    tables.each("TestValues", &["description", "debugDescription", "label"], |mut row| {
        let text = row.text(0).or_else(|| row.text(1)).or_else(|| row.text(2)).unwrap_or_default();
        values.insert(row.id, text);
    })?;
    let names = tables.texts("Parameters", "name")?;
    let labels = tables.texts("Parameters", "label")?;
    let mut found: Vec<(i64, i64, Option<String>, String)> = Vec::new();
    let columns = ["testCaseRun_fk", "orderInTestCaseRun", "testValue_fk", "parameter_fk", "identifier"];
    tables.each("Arguments", &columns, |mut row| {
        let Some(run) = row.integer(0) else { return };
        let value = row.integer(2).and_then(|value| values.get(&value)).cloned();
        let value = value.or_else(|| row.text(4)).unwrap_or_default();
        let parameter = row.integer(3).and_then(|parameter| {
            names.get(&parameter).filter(|name| !name.is_empty()).or_else(|| labels.get(&parameter)).cloned()
        });
        found.push((run, row.integer(1).unwrap_or(0), parameter, value));
    })?;
    found.sort_by_key(|(run, order, ..)| (*run, *order));
    for run in found.chunk_by(|a, b| a.0 == b.0) {
        let Some(raw) = run.first().and_then(|(run, ..)| runs.get_mut(run)) else { continue };
        let mut parts: Vec<(Option<&str>, String)> = run
            .iter()
            .map(|(_, _, name, value)| (name.as_deref(), spelled(name.as_deref(), value)))
            .collect();
        // UI launch tests list their settings in any order. Apple shows the appearance first.
        if parts.iter().all(|(name, _)| name.is_some_and(|name| name.starts_with("XCUI"))) {
            parts.sort();
        }
        raw.run.arguments = Some(parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

/// Returns the text for a setting of a launch test. The database stores numbers
/// (`XCUIAppearanceMode`, `UIDeviceOrientation`).
fn spelled(parameter: Option<&str>, value: &str) -> String {
    let word = match (parameter, value) {
        (Some("XCUIAppearanceMode"), "1") => "Light Appearance",
        (Some("XCUIAppearanceMode"), "2") => "Dark Appearance",
        (Some("XCUIDeviceOrientation"), "1") => "Portrait",
        (Some("XCUIDeviceOrientation"), "2") => "Portrait Upside Down",
        (Some("XCUIDeviceOrientation"), "3") => "Landscape Left",
        (Some("XCUIDeviceOrientation"), "4") => "Landscape Right",
        _ => value,
    };
    word.to_owned()
}

fn attach_files(tables: &Tables, runs: &mut Map<RawRun>) -> Result<(), EvidenceError> {
    if !tables.has("Attachments") {
        return Ok(());
    }
    let mut owners = Map::new();
    tables.each("TestIssues", &["testCaseRun_fk"], |row| {
        if let Some(run) = row.integer(0) {
            owners.insert(row.id, run);
        }
    })?;
    let mut activities = Map::new();
    tables.each("Activities", &["testCaseRun_fk", "parent_fk"], |row| {
        activities.insert(row.id, (row.integer(0), row.integer(1)));
    })?;
    let run_of = |mut activity: i64| {
        for _ in 0..256 {
            match activities.get(&activity)? {
                (Some(run), _) => return Some(*run),
                (None, Some(parent)) => activity = *parent,
                (None, None) => return None,
            }
        }
        None
    };
    let columns = ["name", "filenameOverride", "testIssue_fk", "activity_fk", "xcResultKitPayloadRefId"];
    tables.each("Attachments", &columns, |mut row| {
        let run = row
            .integer(2)
            .and_then(|issue| owners.get(&issue).copied())
            .or_else(|| row.integer(3).and_then(run_of));
        let name = row.text(1).filter(|name| !name.is_empty()).or_else(|| row.text(0)).unwrap_or_default();
        if let Some(raw) = run.and_then(|run| runs.get_mut(&run)) {
            raw.run.attachments.push(Attachment { name, payload_id: row.text(4) });
        }
    })
}

/// Returns the reason why a bundle is emptied or truncated. Signs: results of unknown tests, suites
/// without a test, and a test action without a test or an error.
fn missing(tables: &Tables, bundle: &Bundle, orphans: u64) -> Result<Option<String>, EvidenceError> {
    if orphans > 0 {
        return Ok(Some(format!("{orphans} runs and results belong to tests that the bundle does not name")));
    }
    let mut suites = 0_u64;
    for table in ["TestSuiteRuns", "TestableRuns", "TestPlanRuns"] {
        tables.each(table, &["name"], |_| suites += 1)?;
    }
    if bundle.tests.iter().any(|test| !test.runs.is_empty() || test.result.is_some()) {
        return Ok(None);
    }
    let (mut actions, mut is_test) = (0_u64, false);
    tables.each("Actions", &["name"], |mut row| {
        actions += 1;
        is_test |= row.text(0).is_some_and(|name| name.starts_with("Test"));
    })?;
    let says_why = bundle.issues.iter().any(|issue| issue.error);
    Ok(if suites > 0 {
        Some("the bundle has runs of suites and no run of a test".to_owned())
    } else if is_test && !says_why {
        Some("the bundle is of an action that tests, and has no test".to_owned())
    } else if actions == 0 && !says_why && tables.has("Actions") {
        Some("the bundle has no action: it is empty".to_owned())
    } else {
        None
    })
}

/// Returns every test with its runs, and the number of runs and results without a test.
fn tests(tables: &Tables, runs: Map<RawRun>) -> Result<(Vec<Test>, u64), EvidenceError> {
    let bundles = bundle_of_suite(tables)?;
    let mut tests: Map<Test> = Map::new();
    let mut order = Vec::new();
    tables.each("TestCases", &["identifier", "name", "summary", "testSuite_fk"], |mut row| {
        let name = row.text(1).unwrap_or_default();
        let test = Test {
            identifier: row
                .text(0)
                .filter(|identifier| !identifier.is_empty())
                .unwrap_or_else(|| name.clone()),
            display_name: row.text(2).filter(|summary| !summary.is_empty()).unwrap_or(name),
            bundle: row.integer(3).and_then(|suite| bundles.get(&suite)).cloned().unwrap_or_default(),
            ..Test::default()
        };
        order.push(row.id);
        tests.insert(row.id, test);
    })?;
    tables.each("TestTags", &["testCase_fk", "name"], |mut row| {
        if let (Some(test), Some(tag)) = (row.integer(0).and_then(|test| tests.get_mut(&test)), row.text(1)) {
            test.tags.push(tag);
        }
    })?;
    // Each test has three kinds of rows: per destination and configuration, per destination, and
    // over all. Only the last kind is used.
    let columns = ["testCase_fk", "result", "destination_fk", "configuration_fk"];
    let mut orphans = 0_u64;
    tables.each("TestCaseResultsByDestinationAndConfiguration", &columns, |mut row| {
        let over_all = row.integer(2).is_none() && row.integer(3).is_none();
        match row.integer(0).and_then(|test| tests.get_mut(&test)) {
            Some(test) if over_all => test.result = row.text(1).as_deref().and_then(TestResult::from_apple),
            Some(_) => {}
            None => orphans += 1,
        }
    })?;
    let mut raw: Vec<RawRun> = runs.into_values().collect();
    raw.sort_by_key(|raw| raw.order);
    for raw in raw {
        match tests.get_mut(&raw.test) {
            Some(test) => test.runs.push(raw.run),
            None => orphans += 1,
        }
    }
    Ok((order.into_iter().filter_map(|id| tests.remove(&id)).collect(), orphans))
}

fn bundle_of_suite(tables: &Tables) -> Result<Map<String>, EvidenceError> {
    let testables = tables.texts("Testables", "name")?;
    let mut parents = Map::new();
    tables.each("TestSuites", &["testable_fk", "parentSuite_fk"], |row| {
        parents.insert(row.id, (row.integer(0), row.integer(1)));
    })?;
    let mut names = Map::new();
    for suite in parents.keys() {
        let mut at = *suite;
        for _ in 0..64 {
            match parents.get(&at) {
                Some((Some(testable), _)) => {
                    names.insert(*suite, testables.get(testable).cloned().unwrap_or_default());
                    break;
                }
                Some((None, Some(parent))) => at = *parent,
                Some((None, None)) | None => break,
            }
        }
    }
    Ok(names)
}

fn build_issues(tables: &Tables) -> Result<Vec<BundleIssue>, EvidenceError> {
    let places = tables.texts("DocumentLocations", "url")?;
    let mut issues = Vec::new();
    let columns = ["issueType", "message", "severity", "producingTarget", "documentLocation_fk"];
    tables.each("BuildIssues", &columns, |mut row| {
        let url = row.integer(4).and_then(|place| places.get(&place));
        let (file, line, column) = url.map_or((None, None, None), |url| document_place(url));
        issues.push(BundleIssue {
            kind: row.text(0).unwrap_or_default(),
            message: row.text(1).unwrap_or_default(),
            // 0 is an error, 1 an analyser warning, 2 a warning.
            error: row.integer(2).is_none_or(|severity| severity == 0),
            target: row.text(3).filter(|target| !target.is_empty()),
            file,
            line,
            column,
        });
    })?;
    Ok(issues)
}

/// Parses `file:///path/File.swift#StartingLineNumber=38&StartingColumnNumber=22&…`, numbered from
/// 0.
pub(crate) fn document_place(url: &str) -> (Option<String>, Option<u32>, Option<u32>) {
    let (path, fragment) = url.split_once('#').unwrap_or((url, ""));
    let Some(path) = path.strip_prefix("file://") else { return (None, None, None) };
    let number = |key: &str| {
        let value = fragment.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
        value.parse::<u32>().ok()?.checked_add(1)
    };
    (Some(percent_decoded(path)), number("StartingLineNumber"), number("StartingColumnNumber"))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn destinations(tables: &Tables) -> Result<Vec<Destination>, EvidenceError> {
    let platforms = tables.texts("Platforms", "userDescription")?;
    let mut devices = Map::new();
    let columns = ["name", "operatingSystemVersion", "identifier", "platform_fk"];
    tables.each("Devices", &columns, |mut row| {
        let platform =
            row.integer(3).and_then(|platform| platforms.get(&platform)).cloned().unwrap_or_default();
        devices.insert(row.id, (row.text(0), row.text(1), row.text(2), platform));
    })?;
    let mut found = Vec::new();
    tables.each("RunDestinations", &["name", "architecture", "device_fk"], |mut row: Row| {
        let device = row.integer(2).and_then(|device| devices.get(&device)).cloned();
        let (name, os_version, device_id, platform) = device.unwrap_or_default();
        let destination = Destination {
            name: row.text(0).filter(|name| !name.is_empty()).or(name).unwrap_or_default(),
            platform,
            os_version: os_version.unwrap_or_default(),
            architecture: row.text(1).unwrap_or_default(),
            device_id: device_id.unwrap_or_default(),
        };
        if found.len() < 64 && !found.contains(&destination) {
            found.push(destination);
        }
    })?;
    Ok(found)
}
