//! Property tests: no failed test of a report is lost, and a truncated report is not complete.

use buildpool_evidence::read_report;
use buildpool_protocol::evidence::{Evidence, TestReport};
use buildpool_protocol::report::Severity;
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

fn read(text: &str) -> Evidence {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("report");
    fs::write(&path, text).expect("written");
    read_report(&path).map(|read| read.evidence).unwrap_or_default()
}

fn report(text: &str) -> TestReport {
    read(text).test_reports.first().cloned().unwrap_or_default()
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c d"])
}

/// A suite or a subtest: tests with name and result, and inner suites.
#[derive(Clone, Debug)]
struct Node {
    name: &'static str,
    tests: Vec<(&'static str, bool)>,
    inside: Vec<Node>,
}

impl Node {
    fn counts(&self) -> (u64, u64) {
        let own = self.tests.iter().filter(|(_, passed)| !passed).count() as u64;
        let inside = self.inside.iter().map(Self::counts);
        inside.fold((self.tests.len() as u64, own), |sum, (tests, failed)| (sum.0 + tests, sum.1 + failed))
    }

    /// Writes JUnit XML, with or without the counts of all its tests.
    fn junit(&self, counted: bool) -> String {
        let (tests, failed) = self.counts();
        let counts = if counted { format!(" tests='{tests}' failures='{failed}'") } else { String::new() };
        let case = |(name, passed): &(&str, bool)| match passed {
            true => format!("<testcase name='{name}'/>"),
            false => format!("<testcase name='{name}'><failure message='m'/></testcase>"),
        };
        let cases: String = self.tests.iter().map(case).collect();
        let inside: String = self.inside.iter().map(|node| node.junit(counted)).collect();
        format!("<testsuite name='{}'{counts}>{cases}{inside}</testsuite>", self.name)
    }

    /// Writes TAP lines at the given depth.
    fn tap(&self, depth: usize) -> Vec<String> {
        let indent = "    ".repeat(depth);
        let mut lines = Vec::new();
        let mut number = 0;
        let mut point = |passed: bool, name: &str| {
            number += 1;
            format!("{indent}{}ok {number} - {name}", if passed { "" } else { "not " })
        };
        for (name, passed) in &self.tests {
            lines.push(point(*passed, name));
        }
        for node in &self.inside {
            lines.extend(node.tap(depth + 1));
            lines.push(point(node.counts().1 == 0, node.name));
        }
        lines.push(format!("{indent}1..{number}"));
        lines
    }
}

fn node() -> impl Strategy<Value = Node> {
    let tests = || prop::collection::vec((name(), any::<bool>()), 1..4);
    let leaf = (name(), tests()).prop_map(|(name, tests)| Node { name, tests, inside: vec![] });
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (name(), tests(), prop::collection::vec(inner, 0..3)).prop_map(|(name, tests, inside)| Node {
            name,
            tests,
            inside,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn a_junit_report_has_all_that_it_lists(roots in prop::collection::vec(node(), 1..3), counted: bool) {
        let suites: String = roots.iter().map(|root| root.junit(counted)).collect();
        let report = report(&format!("<testsuites>{suites}</testsuites>"));
        let counts = roots.iter().map(Node::counts).fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
        prop_assert_eq!((report.passed + report.failed, report.failed), counts);
        prop_assert_eq!(report.cut, None);
    }

    #[test]
    fn a_tap_report_has_all_that_it_lists_and_a_part_is_no_whole(root in node(), cut in any::<prop::sample::Index>()) {
        let lines = root.tap(0);
        let whole = read(&format!("TAP version 14\n{}\n", lines.join("\n")));
        let report = whole.test_reports.first().cloned().unwrap_or_default();
        prop_assert_eq!((report.passed + report.failed, report.failed), root.counts());
        prop_assert_eq!((report.cut, whole.issues.len()), (None, 0));
        let part = &lines[..cut.index(lines.len())];
        let part = read(&format!("TAP version 14\n{}\n", part.join("\n")));
        let is_told = part.issues.iter().any(|issue| issue.severity == Severity::Error);
        prop_assert!(is_told || part.test_reports.iter().all(|report| report.cut.is_some()));
    }
}
