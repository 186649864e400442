//! Tests counted: each test once with its last result where a tool names them, else the tool's own summaries summed over
//! suites and targets.

use crate::limits::{RUNNING_TESTS_MAX, TESTS_MAX};
use crate::rules::TestEvent;
use buildpool_protocol::report::TestCounts;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Who counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Family {
    XcTest,
    SwiftTesting,
    Cargo,
    Nextest,
    Go,
    GoogleTest,
    CTest,
    Pytest,
    Unittest,
    Regrtest,
    Jest,
    Vitest,
    Mocha,
    NodeTest,
    Maven,
    Gradle,
    RSpec,
    Minitest,
    ExUnit,
    Bats,
    Tap,
    DotNet,
    PhpUnit,
    ScalaTest,
    Bazel,
    Flutter,
    Playwright,
    Deno,
    Bun,
    Cucumber,
    Behave,
    Robot,
    TestThat,
    JUnit,
    Busted,
}

impl Family {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::XcTest => "XCTest",
            Self::SwiftTesting => "Swift Testing",
            Self::Cargo => "cargo test",
            Self::Nextest => "cargo nextest",
            Self::Go => "go test",
            Self::GoogleTest => "GoogleTest",
            Self::CTest => "ctest",
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Regrtest => "regrtest",
            Self::Jest => "jest",
            Self::Vitest => "vitest",
            Self::Mocha => "mocha",
            Self::NodeTest => "node --test",
            Self::Maven => "maven surefire",
            Self::Gradle => "gradle",
            Self::RSpec => "rspec",
            Self::Minitest => "minitest",
            Self::ExUnit => "ExUnit",
            Self::Bats => "bats",
            Self::Tap => "TAP",
            Self::DotNet => "dotnet test",
            Self::PhpUnit => "PHPUnit",
            Self::ScalaTest => "ScalaTest",
            Self::Bazel => "bazel test",
            Self::Flutter => "flutter test",
            Self::Playwright => "Playwright",
            Self::Deno => "deno test",
            Self::Bun => "bun test",
            Self::Cucumber => "cucumber",
            Self::Behave => "behave",
            Self::Robot => "Robot Framework",
            Self::TestThat => "testthat",
            Self::JUnit => "JUnit",
            Self::Busted => "busted",
        }
    }

    /// Whether the tool names each test as it ends, so that its results can be counted one by one.
    const fn by_test(self) -> bool {
        matches!(self, Self::XcTest | Self::Tap | Self::Go | Self::Bazel)
    }

    /// Whether this family's tests are run by a driver whose own count is the one that is asked for.
    const fn inside(self, driver: Self) -> bool {
        match driver {
            Self::CTest => !matches!(self, Self::CTest),
            Self::Regrtest => !matches!(self, Self::Regrtest),
            Self::Gradle => matches!(self, Self::Maven),
            Self::Bats | Self::NodeTest => matches!(self, Self::Tap),
            _ => false,
        }
    }
}

/// Counts of one summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) expected: u64,
}

impl Counts {
    pub(crate) const fn total(&self) -> u64 {
        self.passed.saturating_add(self.failed).saturating_add(self.skipped).saturating_add(self.expected)
    }

    fn add(&mut self, other: &Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.expected = self.expected.saturating_add(other.expected);
    }

    fn slot(&mut self, event: TestEvent) -> Option<&mut u64> {
        match event {
            TestEvent::Started => None,
            TestEvent::Passed => Some(&mut self.passed),
            TestEvent::Failed => Some(&mut self.failed),
            TestEvent::Skipped => Some(&mut self.skipped),
            TestEvent::ExpectedFailure => Some(&mut self.expected),
        }
    }
}

#[derive(Debug, Default)]
struct Account {
    /// Results by test.
    by_test: Counts,
    /// Summaries of closed sessions, added up.
    closed: Counts,
    /// The latest summary of the open session.
    open: Option<Counts>,
    /// A session header came after the latest summary.
    fresh: bool,
    summaries: u64,
}

/// What is known of the tests so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    accounts: BTreeMap<Family, Account>,
    last: HashMap<u64, TestEvent>,
    running: BTreeMap<(Family, String), u32>,
    flaky: u64,
    done: u64,
    expected_total: Option<u64>,
    latest_running: Option<(Family, String)>,
}

impl Tally {
    /// A test began or ended.
    pub(crate) fn event(&mut self, family: Family, test: &str, event: TestEvent) {
        let key = (family, test.to_owned());
        if event == TestEvent::Started {
            if self.running.len() < RUNNING_TESTS_MAX {
                *self.running.entry(key.clone()).or_default() += 1;
                self.latest_running = Some(key);
            }
            return;
        }
        if let Some(count) = self.running.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&key);
            }
        }
        self.done = self.done.saturating_add(1);
        let mut hasher = DefaultHasher::new();
        (family, test).hash(&mut hasher);
        let id = hasher.finish();
        let account = self.accounts.entry(family).or_default();
        let kept = self.last.len() < TESTS_MAX || self.last.contains_key(&id);
        if kept && let Some(before) = self.last.insert(id, event) {
            if let Some(slot) = account.by_test.slot(before) {
                *slot = slot.saturating_sub(1);
            }
            self.flaky += u64::from(before == TestEvent::Failed && event == TestEvent::Passed);
        }
        if let Some(slot) = account.by_test.slot(event) {
            *slot = slot.saturating_add(1);
        }
    }

    /// A session begins.
    pub(crate) fn session(&mut self, family: Family) {
        let account = self.accounts.entry(family).or_default();
        if let Some(open) = account.open.take() {
            account.closed.add(&open);
        }
        account.fresh = true;
    }

    /// A summary. Within a session the last one counts; a tool that has a header for each is summed over them.
    pub(crate) fn summary(&mut self, family: Family, counts: Counts) {
        let account = self.accounts.entry(family).or_default();
        account.open = Some(counts);
        account.fresh = false;
        account.summaries += 1;
    }

    /// More of the open summary: the tool prints each sort on a line of its own.
    pub(crate) fn adds(&mut self, family: Family, counts: Counts) {
        let account = self.accounts.entry(family).or_default();
        account.summaries += 1;
        account.open.get_or_insert_default().add(&counts);
    }

    /// Of the open summary's tests, so many did not simply pass.
    pub(crate) fn moves(&mut self, family: Family, counts: Counts) {
        let account = self.accounts.entry(family).or_default();
        let Some(open) = &mut account.open else { return };
        open.passed = open.passed.saturating_sub(counts.failed + counts.skipped + counts.expected);
        open.failed += counts.failed;
        open.skipped += counts.skipped;
        open.expected += counts.expected;
    }

    /// Tests that began and have not ended.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        self.running.keys().map(|(_, test)| test.as_str())
    }

    /// The test that began last and has not ended.
    pub(crate) fn latest_running(&self) -> Option<&str> {
        self.latest_running
            .as_ref()
            .filter(|key| self.running.contains_key(*key))
            .map(|(_, test)| test.as_str())
            .or_else(|| self.running().next())
    }

    /// How many tests began and have not ended.
    pub(crate) fn unfinished(&self) -> u64 {
        self.running.values().map(|count| u64::from(*count)).sum()
    }

    /// Tests that ended, each run counted.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// Tests that passed only after they failed.
    pub(crate) const fn flaky(&self) -> u64 {
        self.flaky
    }

    /// How many tests a tool says it will run.
    pub(crate) const fn expected_total(&self) -> Option<u64> {
        self.expected_total
    }

    /// A tool says how many tests it will run.
    pub(crate) fn expect(&mut self, total: u64) {
        self.expected_total = Some(self.expected_total.unwrap_or(0).saturating_add(total));
    }

    /// The counts that are believed, or none if no tool counted.
    pub(crate) fn counts(&self) -> Option<TestCounts> {
        let families: Vec<Family> = self
            .accounts
            .iter()
            .filter(|(_, account)| account.summaries > 0 || account.by_test.total() > 0)
            .map(|(family, _)| *family)
            .filter(|family| {
                !self.accounts.iter().any(|(driver, account)| account.summaries > 0 && family.inside(*driver))
            })
            .collect();
        let mut sum = Counts::default();
        let mut names = Vec::new();
        for family in families {
            let account = &self.accounts[&family];
            let mut summed = account.closed;
            if let Some(open) = &account.open {
                summed.add(open);
            }
            let believed = if family == Family::SwiftTesting && account.summaries > 0 {
                // The run's last line has the total only; the tests' own lines tell the rest. Issues are no tests.
                let by_test = &account.by_test;
                let other = by_test.failed + by_test.skipped + by_test.expected;
                Counts { passed: summed.total().saturating_sub(other), ..*by_test }
            } else if account.summaries == 0 || family.by_test() && account.by_test.total() >= summed.total()
            {
                account.by_test
            } else {
                summed
            };
            if believed.total() > 0 || account.summaries > 0 {
                sum.add(&believed);
                names.push(family.name());
            }
        }
        (!names.is_empty()).then(|| TestCounts {
            passed: sum.passed,
            failed: sum.failed,
            skipped: sum.skipped,
            expected_failures: sum.expected,
            total: sum.total(),
            source: format!("{} output", names.join(" and ")),
        })
    }
}
