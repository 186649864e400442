//! Results of the tally: unfinished tests, counts, and results by name.

use super::{Counts, Tally, ToolCounts, test_names};
use crate::tool::ToolId;
use buildpool_protocol::evidence::TestStatus;
use buildpool_protocol::report::TestCounts;
use std::collections::{BTreeMap, BTreeSet};

impl Tally {
    /// Tests that began and have not ended.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        let known = self.running.of_families().filter(|(tool, _)| self.knows(*tool));
        let known = known.flat_map(|(_, tests)| tests.keys().map(String::as_str));
        known.chain(self.cut.iter().map(|(_, test)| test.as_str()))
    }

    /// The test that began last and has not ended.
    pub(crate) fn latest_running(&self) -> Option<&str> {
        let latest = self.running.latest().filter(|((tool, _), _)| self.knows(*tool));
        latest.map(|(_, test)| test).or_else(|| self.running().next())
    }

    /// Returns the number of tests that began or were announced and have not ended. It is 0 for a tool with a total of all
    /// started tests: the line with an end was not recognized.
    pub(crate) fn unfinished(&self) -> u64 {
        let mut running: BTreeMap<ToolId, u64> = BTreeMap::new();
        for (tool, tests) in self.running.of_families().filter(|(tool, _)| self.knows(*tool)) {
            let times: u64 = tests.values().copied().map(u64::from).sum();
            if times > 0 {
                *running.entry(tool).or_default() += times;
            }
        }
        let is_complete = |tool: &ToolId, running: u64| {
            self.accounts.get(tool).is_some_and(|account| {
                account.own.summaries > 0
                    && account.own.sum().total() >= account.by_test.total().saturating_add(running)
            })
        };
        running.retain(|tool, count| !is_complete(tool, *count));
        for (tool, account) in &self.accounts {
            let left = account.left();
            if left > 0 && account.known && !self.is_driven(*tool) {
                let count = running.entry(*tool).or_default();
                *count = left.max(*count);
            }
        }
        running.into_values().fold(self.cut.len() as u64, u64::saturating_add)
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

    /// Number of tests that the tools announced.
    pub(crate) const fn expected_total(&self) -> Option<u64> {
        self.expected_total
    }

    /// Adds to the number of tests that the tools announced.
    pub(crate) fn expect(&mut self, total: u64) {
        if total > 0 {
            self.expected_total = Some(self.expected_total.unwrap_or(0).saturating_add(total));
        }
    }

    /// Returns the tools with counts, without tools that another one drives.
    pub(super) fn tools(&self) -> impl Iterator<Item = (ToolId, &ToolCounts)> {
        self.accounts
            .iter()
            .filter(|(tool, _)| !tool.counts_no_tests)
            .filter(|(_, account)| account.summaries() > 0 || account.by_test.total() > 0)
            .map(|(tool, account)| (*tool, account))
            .filter(|(tool, _)| !self.is_driven(*tool) && !self.is_borrowed(*tool))
    }

    /// Whether unannounced lines like cargo's `test it adds ... ok` come from another runner.
    fn is_borrowed(&self, tool: ToolId) -> bool {
        let counts = |(other, account): (&ToolId, &ToolCounts)| *other != tool && account.summaries() > 0;
        let is_bare = |account: &ToolCounts| {
            account.summaries() == 0 && account.announced == 0 && account.by_test.failed == 0
        };
        tool.shares_format
            && self.accounts.get(&tool).is_some_and(is_bare)
            && self.accounts.iter().any(counts)
    }

    /// Whether another tool with counts ran this tool's tests: it can run this tool, and it had
    /// begun before these tests were reported.
    fn is_driven(&self, tool: ToolId) -> bool {
        let told_at = self.accounts.get(&tool).map_or(0, |account| account.told_at);
        self.accounts.iter().any(|(driver, other)| {
            let began_after = other.heading_at.is_some_and(|at| at > told_at);
            other.summaries() > 0 && tool.is_inside(*driver) && !began_after
        })
    }

    /// Whether each tool that counts failed tests has a later total of the same tests that counts none.
    pub(crate) fn failures_are_past(&self) -> bool {
        let mut failed = self.tools().filter(|(tool, account)| account.believed(*tool).failed > 0);
        failed.all(|(tool, account)| account.failures_are_past(tool))
    }

    /// Returns tools with a failed run that no later run of the same tests took back.
    pub(crate) fn failed_apart(&self) -> impl Iterator<Item = ToolId> {
        self.accounts
            .iter()
            .filter(|(tool, account)| !account.failures_are_past(**tool))
            .map(|(tool, _)| tool.reporting_tool())
    }

    /// Returns the last result of each named test, of the tools that count.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&str, TestStatus)> {
        let counting: BTreeSet<ToolId> = self.tools().map(|(tool, _)| tool).collect();
        self.named.tests().filter(move |(_, tool, _)| counting.contains(tool)).filter_map(|(id, _, test)| {
            let (event, _) = self.last.get(&id)?;
            Some((test, test_names::status(*event)?))
        })
    }

    /// Returns each tool that counted tests, with its counts.
    fn counted(&self) -> impl Iterator<Item = (ToolId, Counts)> {
        self.tools().filter_map(|(tool, account)| {
            let believed = account.believed(tool);
            let believed = if tool.counts_targets { self.targets_alone(tool, believed) } else { believed };
            let is_told = account.summaries() > 0 && self.targets.is_empty();
            (believed.total() > 0 || is_told).then_some((tool, believed))
        })
    }

    /// Returns the tools that counted tests.
    pub(crate) fn counting_tools(&self) -> impl Iterator<Item = ToolId> {
        self.counted().map(|(tool, _)| tool)
    }

    /// Returns the counts for the result, or `None` if no tool counted.
    pub(crate) fn counts(&self) -> Option<TestCounts> {
        let mut sum = Counts::default();
        let mut names = Vec::new();
        for (tool, counts) in self.counted() {
            sum.add(&counts);
            names.push(tool.name);
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
