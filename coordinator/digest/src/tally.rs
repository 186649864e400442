//! Counts of tests: each named test once with its last result, else the tool's own summaries
//! summed over suites and targets.

mod bazel_targets;
mod failed_by_part;
mod failed_totals;
mod line_position;
mod results;
mod running_tests;
mod test_names;
mod tool_counts;

pub(crate) use failed_by_part::FailedByPart;
pub(crate) use line_position::{LinePosition, Task};
pub(crate) use tool_counts::Counts;

use crate::command::Command;
use crate::hashing::{ByHash, hashed};
use crate::limits::{NAMED_TEST_BYTES_MAX, RUNNING_TESTS_MAX, TESTS_MAX};
use crate::rules::TestEvent;
use crate::tool::{Announced, ToolId};
use bazel_targets::BazelTargets;
use running_tests::{RunningTests, TestPlace};
use std::collections::{BTreeMap, BTreeSet};
use test_names::{TestNames, test_key};
use tool_counts::ToolCounts;

/// Limit on lines between a heading and its total.
const HEADING_LINES_MAX: u64 = 4;

/// A test, with the part of the run that the tally keeps it under.
type FailedTest = (Option<u64>, String);

/// Counts of tests so far, by tool.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    accounts: BTreeMap<ToolId, ToolCounts>,
    /// The last result of each test by a hash of its name, and the number of totals before it.
    last: ByHash<(TestEvent, u64)>,
    named: TestNames,
    running: RunningTests,
    /// Targets of Bazel whose output with tests is in the log.
    targets: BazelTargets,
    /// Tests that were interrupted, each with its part of the run.
    cut: Vec<((ToolId, Option<u64>), String)>,
    flaky: u64,
    flaky_tests: BTreeSet<String>,
    done: u64,
    expected_total: Option<u64>,
    /// Tools of which the command runs one invocation several times.
    repeated: BTreeMap<ToolId, FailedByPart<FailedTest>>,
    /// A tool with an open session, inside which lines of another one are part of a test's output.
    host: Option<ToolId>,
    /// Logical clock: counts headings, results and totals to order them.
    clock: u64,
}

impl Tally {
    /// The tally of a job that runs this command.
    pub(crate) fn of(command: &Command) -> Self {
        let mut tally = Self::default();
        for tool in ToolId::all().filter(|tool| tool.one_total || tool.units_of_command) {
            if command.repeats(tool.commands()) {
                tally.repeated.insert(tool, FailedByPart::default());
                tally.accounts.entry(tool).or_default().repeats(tool.one_total);
            }
        }
        tally
    }

    /// Whether this tool's lines are currently another tool's output.
    pub(crate) fn ignores(&self, tool: ToolId) -> bool {
        self.host.is_some_and(|host| host.hosts == Some(tool))
    }

    /// Records the start or the end of a test. Returns false if the line is a test's own output.
    pub(crate) fn event(&mut self, tool: ToolId, test: &str, event: TestEvent) -> bool {
        if self.ignores(tool) {
            return false;
        }
        self.clock += 1;
        if event != TestEvent::Started {
            self.remove_interrupted(tool, test);
        }
        if tool.counts_targets {
            self.closes_target();
        }
        let place = self.place(tool);
        let account = self.accounts.entry(tool).or_default();
        account.told_at = self.clock;
        account.known = true;
        if event == TestEvent::Started {
            account.begins = true;
            self.running.begin(place, test);
            return true;
        }
        let known = || self.running.is_full() || self.running.contains(place, test);
        if tool.begins_each && account.begins && !known() {
            return false;
        }
        self.running.end(place, test);
        self.done = self.done.saturating_add(1);
        account.ended += 1;
        if event == TestEvent::Ended {
            return true;
        }
        account.named = account.named.saturating_add(1);
        let part = account.part.filter(|_| tool.shares_names_among_parts);
        if !tool.names_repeat {
            let id = match tool.one_name {
                Some(one_name) => test_key(tool, part, &one_name(test)),
                None => test_key(tool, part, test),
            };
            let kept = self.last.len() < TESTS_MAX || self.last.contains_key(&id);
            let run = account.summaries();
            let before = if kept { self.last.insert(id, (event, run)) } else { None };
            if kept && before.is_none() {
                self.named.add(id, tool, test);
            }
            account.names.add(run, before.map(|(_, run)| run));
            if let Some((before, _)) = before {
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
        // A test with a longer name stays failed.
        let is_kept = event == TestEvent::Failed && test.len() <= NAMED_TEST_BYTES_MAX;
        if let Some(repeated) = self.repeated.get_mut(&tool).filter(|_| is_kept) {
            repeated.failed((part, test.to_owned()));
        }
        true
    }

    /// A part of the run failed, or passed without the names of its tests. If the command runs the same invocation again, the
    /// tests that failed in this part before have passed now.
    pub(crate) fn part_ended(&mut self, tool: ToolId, name: &str, passed: bool) {
        let Some(repeated) = self.repeated.get_mut(&tool) else { return };
        if !passed {
            repeated.part_failed(name);
            return;
        }
        let tests = repeated.part_passed(name, |_| true).unwrap_or_default();
        let current = self.part_of(tool).1;
        for (part, test) in tests {
            let id = test_key(tool, part, &test);
            if self.last.get(&id).is_some_and(|(event, _)| *event == TestEvent::Failed) {
                self.accounts.entry(tool).or_default().part = part;
                self.event(tool, &test, TestEvent::Passed);
            }
        }
        self.accounts.entry(tool).or_default().part = current;
    }

    /// Ends the test of a tool that started last; the line does not name it.
    pub(crate) fn ends(&mut self, tool: ToolId) {
        let place = self.place(tool);
        let latest = self.running.latest().filter(|(of, _)| *of == place);
        if let Some(test) = latest.map(|(_, test)| test.to_owned()) {
            self.running.end(place, &test);
            self.remove_interrupted(tool, &test);
            self.done = self.done.saturating_add(1);
        }
        self.accounts.entry(tool).or_default().known = true;
    }

    /// Whether the log names a part of a run, but no tests or totals follow.
    pub(crate) fn has_parts_without_tests(&self, tool: ToolId) -> bool {
        self.accounts.get(&tool).is_some_and(|account| {
            let any_told = account.heading_at.is_some() || account.told_at > 0;
            account.part.is_some()
                && (!any_told || account.summaries() > 0 && account.ledger().sum().total() == 0)
        })
    }

    /// Marks the next total of a tool as a rerun of the failed tests.
    pub(crate) fn reruns_failed(&mut self, tool: ToolId) {
        self.accounts.entry(tool).or_default().reruns_failed = true;
    }

    /// Adds a test that the runner reports as flaky.
    pub(crate) fn names_flaky(&mut self, test: &str) {
        if self.flaky_tests.len() < RUNNING_TESTS_MAX && self.flaky_tests.insert(test.to_owned()) {
            self.flaky += 1;
        }
    }

    /// Begins the output of a target of Bazel.
    pub(crate) fn opens_target(&mut self, target: &str) {
        self.closes_target();
        self.targets.open(target, self.inside_targets());
    }

    fn closes_target(&mut self) {
        let counts = self.inside_targets();
        self.targets.close(counts);
    }

    /// Counts of the tools whose tests a target of Bazel may run.
    fn inside_targets(&self) -> Counts {
        let mut sum = Counts::default();
        for (tool, account) in self.tools().filter(|(tool, _)| !tool.counts_targets) {
            sum.add(&account.believed(tool));
        }
        sum
    }

    /// Counts of Bazel's targets, without those whose own tests are counted.
    fn targets_alone(&self, tool: ToolId, mut counts: Counts) -> Counts {
        for (target, has_failures) in self.targets.of_tests(self.inside_targets()) {
            let id = test_key(tool, None, target);
            let Some((event, _)) = self.last.get(&id) else { continue };
            if (*event != TestEvent::Failed || has_failures)
                && let Some(slot) = counts.slot(*event)
            {
                *slot = slot.saturating_sub(1);
            }
        }
        counts
    }

    /// Records that the current program prints each passed test.
    pub(crate) fn tells_passes(&mut self, tool: ToolId) {
        self.accounts.entry(tool).or_default().tells_passes = true;
    }

    /// Begins a part of the run; an empty `name` means an unnamed part.
    pub(crate) fn part(&mut self, tool: ToolId, name: &str) {
        self.accounts.entry(tool).or_default().part = (!name.is_empty()).then(|| hashed(name));
    }

    /// Records a failed part. Failures without a part are assigned to it.
    pub(crate) fn failed_part(&mut self, tool: ToolId, name: &str) {
        self.accounts.entry(tool).or_default().own.failed_in(hashed(name));
    }

    /// Moves the running tests of a tool to the interrupted ones.
    pub(crate) fn cut(&mut self, tool: ToolId) {
        let (part, place) = (self.part_of(tool), self.place(tool));
        while let Some(test) = self.running.take_first(place) {
            if self.cut.len() < RUNNING_TESTS_MAX {
                self.cut.push((part, test));
            }
        }
    }

    /// Removes a finished test from the interrupted ones of this part: it was run again.
    fn remove_interrupted(&mut self, tool: ToolId, test: &str) {
        if !self.cut.is_empty() {
            let part = self.part_of(tool);
            self.cut.retain(|(of, cut)| *of != part || cut != test);
        }
    }

    /// Returns the current part of the run of a tool.
    fn part_of(&self, tool: ToolId) -> (ToolId, Option<u64>) {
        (tool, self.accounts.get(&tool).and_then(|account| account.part))
    }

    /// Returns the place of the tests of a tool that follow.
    fn place(&self, tool: ToolId) -> TestPlace {
        let part = self.part_of(tool).1.filter(|_| tool.runs_parts_at_once);
        (tool, part.unwrap_or_default())
    }

    /// Records the number of a finished test.
    pub(crate) fn numbered(&mut self, tool: ToolId, number: u64) {
        let account = self.accounts.entry(tool).or_default();
        account.numbered = account.numbered.max(number);
    }

    /// Whether this tool certainly ran.
    pub(crate) fn knows(&self, tool: ToolId) -> bool {
        self.accounts.get(&tool).is_some_and(|account| account.known)
    }

    /// Begins a session of a tool.
    pub(crate) fn session(&mut self, tool: ToolId) {
        if self.ignores(tool) {
            return;
        }
        if tool.hosts.is_some() {
            self.host = Some(tool);
        }
        let account = self.accounts.entry(tool).or_default();
        account.own.close(tool);
        (account.begins, account.other_failure, account.session_tests) = (false, false, 0);
        // The line that begins a session of cargo could also be printed by any script.
        account.known |= !tool.shares_format;
    }

    /// Ends a program of a tool. `completely`: it reports that all its tests passed.
    pub(crate) fn over(&mut self, tool: ToolId, completely: bool) {
        if self.host == Some(tool) {
            self.host = None;
        }
        if completely && self.last_one_is_open(tool) {
            self.cut(tool);
        }
        if let Some(account) = self.accounts.get_mut(&tool) {
            (account.begins, account.tells_passes) = (false, false);
            account.told();
        }
        if completely {
            let event = if tool.by_test { TestEvent::Passed } else { TestEvent::Ended };
            let place = self.place(tool);
            while let Some(test) = self.running.take_first(place) {
                self.event(tool, &test, event);
            }
            // Another part may still run.
            let is_running = self.running.has_any(tool);
            if let Some(account) = self.accounts.get_mut(&tool) {
                account.known = is_running;
            }
        }
    }

    /// Returns true if a program that prints passed tests has printed the ends of all tests but the last: that test ended its
    /// process with 0, and the program took this for the end of all. If more are open, they may be skipped tests.
    fn last_one_is_open(&self, tool: ToolId) -> bool {
        self.accounts.get(&tool).is_some_and(|account| account.begins && account.tells_passes)
            && self.running.times(self.place(tool)) == 1
            && self.running.latest().is_some_and(|(of, _)| of == self.place(tool))
    }

    /// Records a heading that announces a total.
    pub(crate) fn heading(&mut self, tool: ToolId, at: LinePosition) {
        self.clock += 1;
        let account = self.accounts.entry(tool).or_default();
        account.heading = Some(at.number);
        account.other_failure = false;
        account.heading_at.get_or_insert(self.clock);
        account.known = true;
        if tool.adds_below_a_heading {
            account.at().open = None;
        }
    }

    /// Announces the total of a document, which needs no heading.
    pub(crate) fn announces_total(&mut self, tool: ToolId, at: LinePosition) {
        self.accounts.entry(tool).or_default().heading = Some(at.number);
    }

    /// Marks the total: something besides its tests failed, so its other lines are not a success.
    pub(crate) fn other_failure(&mut self, tool: ToolId) {
        self.accounts.entry(tool).or_default().other_failure = true;
    }

    /// Whether the current total reports a failure besides its tests.
    pub(crate) fn has_other_failure(&self, tool: ToolId) -> bool {
        self.accounts.get(&tool).is_some_and(|account| account.other_failure)
    }

    /// Whether a heading at most [`HEADING_LINES_MAX`] lines before announced a total.
    pub(crate) fn is_announced(&self, tool: ToolId, at: LinePosition) -> bool {
        let heading = self.accounts.get(&tool).and_then(|account| account.heading);
        heading.is_some_and(|heading| at.number.saturating_sub(heading) <= HEADING_LINES_MAX)
    }

    /// A summary. Within a session the last one counts; a tool that has a header for each is summed over them. Gives the
    /// counts that stand now, if they are the tool's own.
    pub(crate) fn summary(&mut self, tool: ToolId, counts: Counts, at: LinePosition) -> Option<Counts> {
        if self.ignores(tool) {
            return None;
        }
        self.clock += 1;
        let account = self.accounts.entry(tool).or_default();
        account.told_at = self.clock;
        account.known = true;
        let of = std::mem::take(&mut account.session_tests);
        account.told();
        let counts = account.with_failures_told(tool, counts);
        account.at_loose = match tool.announces {
            None => false,
            Some(announced) => {
                let headed =
                    account.heading.take().is_some_and(|heading| at.number - heading <= HEADING_LINES_MAX);
                let is_own = if announced == Announced::ByBlankLine { at.after_blank } else { headed };
                if is_own {
                    account.own.close(tool)
                } else {
                    account.loose.close(tool)
                }
                !is_own
            }
        };
        let part = account.part_of(tool, at.task);
        let reruns = std::mem::take(&mut account.reruns_failed);
        let ledger = account.at();
        // The counts of one program only grow, so smaller counts belong to another one.
        let is_another = |open: Counts| counts.failed < open.failed || counts.total() < open.total();
        if !tool.nests_totals && ledger.open.is_some_and(is_another) {
            ledger.close(tool);
        }
        ledger.begin(counts, part, of);
        ledger.reruns_failed |= reruns;
        account.standing()
    }

    /// Adds a line to the open summary of a tool that prints one kind of result a line.
    /// Returns the current counts.
    pub(crate) fn adds(&mut self, tool: ToolId, counts: Counts, at: LinePosition) -> Option<Counts> {
        if self.ignores(tool) {
            return None;
        }
        let account = self.accounts.entry(tool).or_default();
        if tool.adds_below_a_heading {
            account.heading = account.heading.filter(|heading| at.number - heading <= HEADING_LINES_MAX);
            // The next one may stand below this one.
            *account.heading.as_mut()? = at.number;
        }
        let ledger = account.at();
        if tool.totals_begin && ledger.open.is_none() {
            return None;
        }
        let mut sum = ledger.open.unwrap_or_default();
        sum.add(&counts);
        account.known = true;
        let part = account.part_of(tool, at.task);
        let of = std::mem::take(&mut account.session_tests);
        account.at().begin(sum, part, of);
        account.told();
        account.standing()
    }

    /// Moves tests of the open summary from passed to other results. Returns the current counts.
    pub(crate) fn moves(&mut self, tool: ToolId, counts: Counts) -> Option<Counts> {
        let account = self.accounts.get_mut(&tool)?;
        let ledger = account.at();
        let open = ledger.open.as_mut()?;
        open.passed = open.passed.saturating_sub(counts.failed + counts.skipped + counts.expected);
        open.failed += counts.failed;
        open.skipped += counts.skipped;
        open.expected += counts.expected;
        account.standing()
    }

    /// Records an announced number of tests; a total is expected after them.
    pub(crate) fn announce(&mut self, tool: ToolId, tests: u64, at: LinePosition) {
        // Any script may print the line of cargo's runner; cargo prints a blank line before it.
        if !self.ignores(tool) && (!tool.shares_format || at.after_blank) {
            let account = self.accounts.entry(tool).or_default();
            account.announced = account.announced.saturating_add(tests);
            account.session_tests = account.session_tests.saturating_add(tests);
            account.known |= !tool.announces_in_common_words;
        }
    }

    /// Records that a test of a tool ran, so that a total must follow.
    pub(crate) fn expects_total(&mut self, tool: ToolId) {
        let account = self.accounts.entry(tool).or_default();
        account.announced = account.announced.saturating_add(1);
        account.known = true;
    }

    /// Takes such a record back: the line was not of a test.
    pub(crate) fn expects_no_total(&mut self, tool: ToolId) {
        let account = self.accounts.entry(tool).or_default();
        account.announced = account.announced.saturating_sub(1);
    }

    /// Records that all tests of a tool ran without a failure: its total may be missing.
    pub(crate) fn all_passed(&mut self, tool: ToolId) {
        self.accounts.entry(tool).or_default().told();
    }

    /// Records a plan: the number of tests whose results follow one by one.
    pub(crate) fn plan(&mut self, tool: ToolId, tests: u64) {
        let account = self.accounts.entry(tool).or_default();
        let done = account.by_test.total().saturating_sub(account.settled);
        if account.planned > 0 && done.max(account.numbered) >= account.planned {
            // The plan before was complete.
            account.settled += account.planned.min(done);
            (account.planned, account.numbered) = (0, 0);
        } else if done == 0 {
            // No test followed the plan before, so it may be an unrelated range of numbers.
            account.planned = 0;
        }
        account.planned = account.planned.saturating_add(tests);
    }

    /// Returns the results of a tool's tests once all planned tests have one.
    pub(crate) fn planned(&self, tool: ToolId) -> Option<Counts> {
        let account = self.accounts.get(&tool)?;
        let all = account.settled + account.planned;
        (account.planned > 0 && all == account.by_test.total()).then_some(account.by_test)
    }
}
