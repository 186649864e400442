//! Maps each test to its binary, and checks the totals that suites report at their end.

use crate::limits::TESTS_MAX;
use crate::text;
use buildpool_protocol::evidence::TestStatus;
use std::collections::HashMap;

/// Maps each result to its binary. libtest never runs a test twice, so a repeated name belongs to
/// another binary.
#[derive(Default)]
pub(super) struct Binaries {
    /// Number of binaries that started.
    latest: u64,
    /// Running tests, each with the binaries it runs in.
    open: HashMap<String, Vec<u64>>,
    /// The binary of the last result for each name.
    ended: HashMap<String, u64>,
}

impl Binaries {
    pub(super) fn begin_binary(&mut self) {
        self.latest += 1;
    }

    pub(super) fn began(&mut self, name: String) {
        if self.open.len() < TESTS_MAX {
            self.open.entry(name).or_default().push(self.latest);
        }
    }

    /// Returns the test name of a result and its number of runs. nextest appends `#N` to the name
    /// of a test that it retried.
    pub(super) fn runs_of(&self, name: String) -> (String, u32) {
        let again = name.rsplit_once('#').and_then(|(bare, runs)| {
            let is_known = self.open.contains_key(bare) || bare.contains('$');
            (is_known && !self.open.contains_key(&name)).then_some((bare, runs.parse::<u32>().ok()?))
        });
        match again {
            Some((bare, runs)) => (bare.to_owned(), runs),
            None => (name, 1),
        }
    }

    /// Returns the binary in which this test ended.
    pub(super) fn ended(&mut self, name: &str) -> u64 {
        let mut binary = self.latest;
        if let Some(running) = self.open.get_mut(name) {
            binary = running.pop().unwrap_or(binary);
            if running.is_empty() {
                self.open.remove(name);
            }
        }
        if self.ended.get(name) == Some(&binary) {
            self.latest += 1;
            binary = self.latest;
        }
        if self.ended.len() < TESTS_MAX {
            self.ended.insert(name.to_owned(), binary);
        }
        binary
    }

    /// Returns the tests without a result, each with its binary.
    pub(super) fn still_open(self) -> Vec<(String, u64)> {
        let tests = self.open.into_iter();
        let mut left: Vec<(String, u64)> = tests
            .flat_map(|(name, running)| running.into_iter().map(move |binary| (name.clone(), binary)))
            .collect();
        left.sort();
        left
    }
}

/// A test and its binary.
type TestInBinary = (String, u64);

/// Totals and counters of suites, in addition to the results of tests.
#[derive(Default)]
pub(super) struct Suites {
    began: u64,
    ended: u64,
    /// True if a test has a result.
    has_results: bool,
    /// Number of failed tests: declared at the end of suites, and listed as results.
    failed_declared: u64,
    failed_listed: u64,
    /// True if a suite failed without a count of failed tests.
    failed_without: bool,
    /// The nextest binary of the last test. The end of a suite without a name applies to this
    /// binary.
    latest: String,
    /// Ignored tests per nextest binary: declared at the end of suites, and listed as results.
    ignored: HashMap<String, (u64, u64)>,
}

impl Suites {
    pub(super) fn began(&mut self) {
        self.began += 1;
    }

    pub(super) fn saw(&mut self, name: &str) {
        if let Some(binary) = nextest_binary(name) {
            binary.clone_into(&mut self.latest);
        }
    }

    pub(super) fn result(&mut self, name: &str, status: TestStatus) {
        self.saw(name);
        self.has_results = true;
        self.failed_listed += u64::from(status == TestStatus::Failed);
        if let (Some(binary), TestStatus::Skipped) = (nextest_binary(name), status) {
            self.ignored_in(binary).1 += 1;
        }
    }

    pub(super) fn ended(&mut self, is_failed: bool, failed: u64, ignored: u64, binary: Option<String>) {
        self.ended += 1;
        self.failed_declared = self.failed_declared.saturating_add(failed);
        self.failed_without |= is_failed && failed == 0;
        let binary = binary.unwrap_or_else(|| self.latest.clone());
        // nextest ends the suite of a binary with ignored tests early, starts it again and counts
        // them again.
        let known = self.ignored_in(&binary);
        known.0 = known.0.max(ignored);
    }

    fn ignored_in(&mut self, binary: &str) -> &mut (u64, u64) {
        let key = if self.ignored.len() < TESTS_MAX { binary } else { "" };
        self.ignored.entry(key.to_owned()).or_default()
    }

    /// Splits tests without a result into ignored and unfinished tests. nextest reports an ignored
    /// test as started. If no other test of its binary ends later, nextest only counts it.
    pub(super) fn sort_out(&self, open: Vec<TestInBinary>) -> (Vec<TestInBinary>, Vec<String>) {
        let mut of_binary: HashMap<String, u64> = HashMap::new();
        for (name, _) in &open {
            *of_binary.entry(nextest_binary(name).unwrap_or_default().to_owned()).or_default() += 1;
        }
        let is_ignored = |name: &str| {
            let Some(binary) = nextest_binary(name) else { return false };
            let (counted, listed) = self.ignored.get(binary).copied().unwrap_or_default();
            of_binary.get(binary).is_some_and(|open| *open <= counted.saturating_sub(listed))
        };
        let (ignored, unfinished): (Vec<TestInBinary>, Vec<TestInBinary>) =
            open.into_iter().partition(|(name, _)| is_ignored(name));
        (ignored, unfinished.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the reason why the stream is incomplete, or `None` if it is complete.
    pub(super) fn cut(&self) -> Option<String> {
        let open = self.began.saturating_sub(self.ended);
        if open > 0 {
            let suites = text::counted(self.began, "suite", "suites");
            return Some(format!("{open} of {suites} {} no end", if open == 1 { "has" } else { "have" }));
        }
        if self.ended > self.began {
            return Some("a suite ends that did not begin: the stream lacks its beginning".to_owned());
        }
        if self.began == 0 && self.has_results {
            return Some("tests are of no suite: the stream lacks its beginning and its end".to_owned());
        }
        if self.failed_declared > self.failed_listed {
            let declared = text::counted(self.failed_declared, "failed test", "failed tests");
            return Some(format!("suites count {declared} and list {}", self.failed_listed));
        }
        (self.failed_without && self.failed_listed == 0)
            .then(|| "a suite reports a failure and names no test".to_owned())
    }
}

/// Returns `package::binary` of `package::binary$test`.
fn nextest_binary(name: &str) -> Option<&str> {
    name.split_once('$').map(|(binary, _)| binary.split("@stress-").next().unwrap_or(binary))
}
