//! Converts a bundle to a test report: each test once, with details of failed, flaky and skipped
//! tests.

use super::{Bundle, Failure, Run, Test, TestResult};
use crate::tally::{Parsed, Tally, TestRun};
use crate::{infrastructure, text};
use buildpool_protocol::evidence::{ReportIssue, TestStatus};
use buildpool_protocol::report::{Location, Severity};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

impl From<TestResult> for TestStatus {
    fn from(result: TestResult) -> Self {
        match result {
            TestResult::Passed => Self::Passed,
            TestResult::Failed => Self::Failed,
            TestResult::Skipped => Self::Skipped,
            TestResult::ExpectedFailure => Self::ExpectedFailure,
        }
    }
}

/// Returns the report, and the problems outside tests.
pub(crate) fn to_parsed(bundle: Bundle, root: Option<&Path>) -> (Parsed, Vec<ReportIssue>) {
    // The same suite may be compiled into two test bundles. Then the bundle name makes the test
    // name unique.
    let mut bundles_of: HashMap<&str, &str> = HashMap::new();
    let mut ambiguous: Vec<String> = Vec::new();
    for test in &bundle.tests {
        let first = *bundles_of.entry(&test.identifier).or_insert(&test.bundle);
        if first != test.bundle {
            ambiguous.push(test.identifier.clone());
        }
    }
    let mut tally = Tally::default();
    for test in bundle.tests {
        let name = if ambiguous.contains(&test.identifier) {
            format!("{}/{}", test.bundle, test.identifier)
        } else {
            test.identifier.clone()
        };
        add(&mut tally, &name, test, root);
    }
    let mut parsed = tally.finish("xcresult");
    parsed.report.destinations =
        bundle.destinations.iter().map(|place| text::name(&place.to_string())).collect();
    parsed.notes.extend(bundle.notes);
    parsed.notes.extend(bundle.cut.clone());
    parsed.report.cut = bundle.cut;
    let issues = bundle
        .issues
        .into_iter()
        .map(|issue| {
            let kind = if issue.kind.is_empty() || issue.kind == "Uncategorized" {
                String::new()
            } else {
                format!("{}: ", issue.kind)
            };
            let target = issue.target.map_or_else(String::new, |target| format!(" (target {target})"));
            let mut found = ReportIssue {
                path: String::new(),
                severity: if issue.error { Severity::Error } else { Severity::Warning },
                message: text::message(&format!("{kind}{}{target}", issue.message)),
                location: issue.file.map(|file| Location {
                    file: text::relative(&file, root),
                    line: issue.line,
                    column: issue.column,
                }),
                category: None,
                advice: None,
            };
            infrastructure::label(&mut found);
            found
        })
        .collect();
    (parsed, issues)
}

fn add(tally: &mut Tally, name: &str, test: Test, root: Option<&Path>) {
    if test.runs.is_empty() && test.result.is_none() {
        tally.unfinished(name);
        return;
    }
    for run in test.runs {
        tally.record(TestRun {
            name: name.to_owned(),
            within: Arc::default(),
            display_name: Some(test.display_name.clone()),
            status: run.result.into(),
            duration_secs: run.duration_secs,
            messages: messages(&run),
            location: run.failures.iter().find_map(|failure| place(failure, root)),
            arguments: run.arguments,
            place: run.place,
            attachments: run.attachments.into_iter().map(|attachment| attachment.name).collect(),
        });
    }
    if let Some(result) = test.result {
        tally.roll_up(name, result.into());
    }
}

fn messages(run: &Run) -> Vec<String> {
    let mut messages: Vec<String> = run.failures.iter().map(|failure| failure.message.clone()).collect();
    messages.extend(run.skip_reason.clone());
    messages
}

fn place(failure: &Failure, root: Option<&Path>) -> Option<Location> {
    let file = failure.file.as_deref()?;
    Some(Location { file: text::relative(file, root), line: failure.line, column: None })
}
