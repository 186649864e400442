//! Tests counted: each test once with its last result where a tool names them, else the tool's own summaries summed over
//! suites and targets.

pub(crate) use crate::family::Family;

use crate::family::Announced;
use crate::limits::{RUNNING_TESTS_MAX, TESTS_MAX};
use crate::rules::TestEvent;
use buildpool_protocol::report::TestCounts;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many lines after its heading a total may come.
const HEADING_LINES_MAX: u64 = 4;

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

    /// Whether some test ended as it should, and none as it should not.
    pub(crate) const fn is_good(&self) -> bool {
        self.failed == 0 && self.passed.saturating_add(self.expected) > 0
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

/// Where a line stands in its stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// Its number.
    pub(crate) number: u64,
    pub(crate) after_blank: bool,
}

/// Summaries, added up.
#[derive(Debug, Default)]
struct Ledger {
    /// Those of closed sessions.
    closed: Counts,
    /// The latest of the open session.
    open: Option<Counts>,
    /// The latest of all, whatever session it is of.
    latest: Counts,
    summaries: u64,
}

impl Ledger {
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.closed.add(&open);
        }
    }

    fn sum(&self) -> Counts {
        let mut sum = self.closed;
        if let Some(open) = &self.open {
            sum.add(open);
        }
        sum
    }
}

#[derive(Debug, Default)]
struct Account {
    /// Results by test.
    by_test: Counts,
    /// The tool's own totals.
    own: Ledger,
    /// Totals that nothing announced, of a tool that announces its own: counted when there are no others.
    loose: Ledger,
    /// The number of the line that announced a total.
    heading: Option<u64>,
    /// Tests that the tool says it will run.
    planned: u64,
    /// The program under way prints the beginning of each test.
    begins: bool,
    /// The latest total is a loose one.
    at_loose: bool,
}

impl Account {
    const fn ledger(&self) -> &Ledger {
        if self.own.summaries > 0 { &self.own } else { &self.loose }
    }

    const fn at(&mut self) -> &mut Ledger {
        if self.at_loose { &mut self.loose } else { &mut self.own }
    }

    const fn summaries(&self) -> u64 {
        self.own.summaries + self.loose.summaries
    }

    /// The open total, if it is the tool's own.
    fn standing(&self) -> Option<Counts> {
        self.own.open.filter(|_| !self.at_loose)
    }

    /// The counts of this family that are believed.
    fn believed(&self, family: Family) -> Counts {
        let summed = self.ledger().sum();
        if family == Family::SwiftTesting && self.summaries() > 0 {
            // The run's last line has the total only; the tests' own lines tell the rest. Issues are no tests.
            let by_test = &self.by_test;
            let other = by_test.failed + by_test.skipped + by_test.expected;
            Counts { passed: summed.total().saturating_sub(other), ..*by_test }
        } else if self.summaries() == 0 || family.by_test() && self.by_test.total() >= summed.total() {
            self.by_test
        } else {
            summed
        }
    }
}

/// What is known of the tests so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    accounts: BTreeMap<Family, Account>,
    last: HashMap<u64, TestEvent>,
    running: BTreeMap<(Family, String), u32>,
    flaky: u64,
    flaky_tests: BTreeSet<String>,
    done: u64,
    expected_total: Option<u64>,
    latest_running: Option<(Family, String)>,
    /// nextest runs each test by cargo's own runner, whose words are then part of a test's output.
    in_nextest: bool,
}

impl Tally {
    /// Whether this family's words are another tool's output at present.
    pub(crate) fn ignores(&self, family: Family) -> bool {
        self.in_nextest && family == Family::Cargo
    }

    /// A test began or ended. False if the line is a test's own output.
    pub(crate) fn event(&mut self, family: Family, test: &str, event: TestEvent) -> bool {
        if self.ignores(family) {
            return false;
        }
        let key = (family, test.to_owned());
        let account = self.accounts.entry(family).or_default();
        if event == TestEvent::Started {
            account.begins = true;
            if self.running.len() < RUNNING_TESTS_MAX {
                *self.running.entry(key.clone()).or_default() += 1;
                self.latest_running = Some(key);
            }
            return true;
        }
        let known = self.running.len() == RUNNING_TESTS_MAX || self.running.contains_key(&key);
        if family.begins_each() && account.begins && !known {
            return false;
        }
        self.stop(&key);
        self.done = self.done.saturating_add(1);
        let account = self.accounts.entry(family).or_default();
        if !family.names_repeat() {
            let mut hasher = DefaultHasher::new();
            (family, test).hash(&mut hasher);
            let id = hasher.finish();
            let kept = self.last.len() < TESTS_MAX || self.last.contains_key(&id);
            if kept && let Some(before) = self.last.insert(id, event) {
                if let Some(slot) = account.by_test.slot(before) {
                    *slot = slot.saturating_sub(1);
                }
                if before == TestEvent::Failed && event == TestEvent::Passed {
                    self.flaky += 1;
                    if self.flaky_tests.len() < RUNNING_TESTS_MAX {
                        self.flaky_tests.insert(test.to_owned());
                    }
                }
            }
        }
        if let Some(slot) = account.by_test.slot(event) {
            *slot = slot.saturating_add(1);
        }
        true
    }

    /// The test of a family that began last ended; the line does not name it.
    pub(crate) fn ends(&mut self, family: Family) {
        let latest = self.latest_running.clone().filter(|key| key.0 == family);
        if let Some(key) = latest.filter(|key| self.running.contains_key(key)) {
            self.stop(&key);
            self.done = self.done.saturating_add(1);
        }
    }

    fn stop(&mut self, key: &(Family, String)) {
        if let Some(count) = self.running.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(key);
            }
        }
    }

    /// A session begins.
    pub(crate) fn session(&mut self, family: Family) {
        if self.ignores(family) {
            return;
        }
        self.in_nextest |= family == Family::Nextest;
        let account = self.accounts.entry(family).or_default();
        account.own.close();
        account.begins = false;
    }

    /// A program of this family has ended; completely if it says that all its tests passed.
    pub(crate) fn over(&mut self, family: Family, completely: bool) {
        if family == Family::Nextest {
            self.in_nextest = false;
        }
        if let Some(account) = self.accounts.get_mut(&family) {
            account.begins = false;
        }
        if completely {
            while let Some(key) = self.running.keys().find(|key| key.0 == family).cloned() {
                self.running.remove(&key);
                self.event(family, &key.1, TestEvent::Passed);
            }
        }
    }

    /// A line announced a total.
    pub(crate) fn heading(&mut self, family: Family, at: Standing) {
        self.accounts.entry(family).or_default().heading = Some(at.number);
    }

    /// A summary. Within a session the last one counts; a tool that has a header for each is summed over them. Gives the
    /// counts that stand now, if they are the tool's own.
    pub(crate) fn summary(&mut self, family: Family, counts: Counts, at: Standing) -> Option<Counts> {
        if self.ignores(family) {
            return None;
        }
        let account = self.accounts.entry(family).or_default();
        account.at_loose = match family.announces() {
            None => false,
            Some(announced) => {
                let headed =
                    account.heading.take().is_some_and(|heading| at.number - heading <= HEADING_LINES_MAX);
                let is_own = if announced == Announced::ByBlankLine { at.after_blank } else { headed };
                if is_own {
                    account.own.close()
                } else {
                    account.loose.close()
                }
                !is_own
            }
        };
        let ledger = account.at();
        ledger.open = Some(counts);
        ledger.latest = counts;
        ledger.summaries += 1;
        account.standing()
    }

    /// More of the open summary: the tool prints each sort on a line of its own. Gives the counts that stand now.
    pub(crate) fn adds(&mut self, family: Family, counts: Counts) -> Option<Counts> {
        if self.ignores(family) {
            return None;
        }
        let account = self.accounts.entry(family).or_default();
        let ledger = account.at();
        if family.totals_begin() && ledger.open.is_none() {
            return None;
        }
        ledger.summaries += 1;
        let open = ledger.open.get_or_insert_default();
        open.add(&counts);
        ledger.latest = *open;
        account.standing()
    }

    /// Of the open summary's tests, so many did not simply pass. Gives the counts that stand now.
    pub(crate) fn moves(&mut self, family: Family, counts: Counts) -> Option<Counts> {
        let account = self.accounts.get_mut(&family)?;
        let ledger = account.at();
        let open = ledger.open.as_mut()?;
        open.passed = open.passed.saturating_sub(counts.failed + counts.skipped + counts.expected);
        open.failed += counts.failed;
        open.skipped += counts.skipped;
        open.expected += counts.expected;
        ledger.latest = *open;
        account.standing()
    }

    /// A tool says how many tests there are whose results it prints one by one.
    pub(crate) fn plan(&mut self, family: Family, tests: u64) {
        let account = self.accounts.entry(family).or_default();
        account.planned = account.planned.saturating_add(tests);
    }

    /// The results of a family's tests, once there are as many as were planned.
    pub(crate) fn planned(&self, family: Family) -> Option<Counts> {
        let account = self.accounts.get(&family)?;
        (account.planned > 0 && account.planned == account.by_test.total()).then_some(account.by_test)
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

    /// How many tests began and have not ended. None of a tool whose own total has all that began: the line that told of
    /// an end was not known as one.
    pub(crate) fn unfinished(&self) -> u64 {
        let mut running: BTreeMap<Family, u64> = BTreeMap::new();
        for ((family, _), count) in &self.running {
            *running.entry(*family).or_default() += u64::from(*count);
        }
        let is_complete = |family: &Family, running: u64| {
            self.accounts.get(family).is_some_and(|account| {
                account.own.summaries > 0
                    && account.own.sum().total() >= account.by_test.total().saturating_add(running)
            })
        };
        running.iter().filter(|(family, count)| !is_complete(family, **count)).map(|(_, count)| count).sum()
    }

    /// Tests that ended, each run counted.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// Tests that passed only after they failed.
    pub(crate) const fn flaky(&self) -> u64 {
        self.flaky
    }

    /// Whether this test passed after it had failed.
    pub(crate) fn is_flaky(&self, test: &str) -> bool {
        self.flaky_tests.contains(test)
    }

    /// How many tests a tool says it will run.
    pub(crate) const fn expected_total(&self) -> Option<u64> {
        self.expected_total
    }

    /// A tool says how many tests it will run.
    pub(crate) fn expect(&mut self, total: u64) {
        if total > 0 {
            self.expected_total = Some(self.expected_total.unwrap_or(0).saturating_add(total));
        }
    }

    /// Families that counted, without those whose tests another one drives.
    fn families(&self) -> impl Iterator<Item = (Family, &Account)> {
        self.accounts
            .iter()
            .filter(|(_, account)| account.summaries() > 0 || account.by_test.total() > 0)
            .map(|(family, account)| (*family, account))
            .filter(|(family, _)| {
                !self.accounts.iter().any(|(driver, other)| other.summaries() > 0 && family.inside(*driver))
            })
    }

    /// Whether each family that counts failed tests has a later total that counts none.
    pub(crate) fn failures_are_past(&self) -> bool {
        self.families()
            .filter(|(family, account)| account.believed(*family).failed > 0)
            .all(|(_, account)| account.summaries() > 0 && account.ledger().latest.failed == 0)
    }

    /// The counts that are believed, or none if no tool counted.
    pub(crate) fn counts(&self) -> Option<TestCounts> {
        let mut sum = Counts::default();
        let mut names = Vec::new();
        for (family, account) in self.families() {
            let believed = account.believed(family);
            if believed.total() > 0 || account.summaries() > 0 {
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
