//! Runs of tools. A success takes back a failure of the same invocation, and a failure inside
//! the successful run.

use crate::hashing::hashed;
use crate::markers::MarkerLine;
use crate::tool::{Apart, ToolId};
use std::collections::{BTreeMap, BTreeSet};

/// Most failures that are kept. A further one takes the place of the last.
const FAILURES_MAX: usize = 64;
/// Most successes that are kept. The oldest is dropped, so that at worst a failure stands.
const SUCCESSES_MAX: usize = 256;
/// Most units of a run that are kept. A run with more units has no known scope.
const UNITS_MAX: usize = 4096;

/// Scope of a run, as far as the log names it.
#[derive(Clone, Debug, Default)]
struct Scope {
    /// Packages, projects, targets or actions, each by a hash of its name.
    units: BTreeSet<u64>,
    /// The command line that the log announced before it.
    command: Option<AnnouncedCommand>,
}

/// Hash of a command line that the log announces, and the order of the announcing line.
type AnnouncedCommand = (u64, u64);

impl Scope {
    /// Whether `other` is of the same invocation: it has each unit, or it is of the same command line, which was announced again
    /// or which the command repeats. Units of some tools are parts of a command line and need both.
    fn is_within(&self, other: &Self, tool: ToolId, repeats: bool) -> bool {
        let has_units = self.has_units_in(other);
        let again = |command: AnnouncedCommand| {
            other.command.is_some_and(|(line, order)| line == command.0 && order > command.1)
        };
        let has_command = repeats || self.command.is_some_and(again);
        match tool.units_of_command {
            true => has_command && has_units,
            false => has_units || self.units.is_empty() && has_command,
        }
    }

    /// Whether it has units, and `other` has each of them.
    fn has_units_in(&self, other: &Self) -> bool {
        let is_known = !self.units.is_empty() && self.units.len() < UNITS_MAX;
        is_known && self.units.is_subset(&other.units)
    }
}

#[derive(Debug)]
struct Failure {
    seen: MarkerLine<ToolId>,
    scope: Scope,
    /// It is a total of tests. The tally decides whether the same tests passed later.
    counted: bool,
    /// An error with a place came before it.
    shown: bool,
    /// Units of the failed tests, if each of them was named and nothing else failed.
    tests: Option<BTreeSet<u64>>,
}

#[derive(Debug)]
struct Success {
    tool: ToolId,
    order: u64,
    /// The order of the line with which the run began, if the log has one.
    began: Option<u64>,
    scope: Scope,
}

/// Finished runs, and the state of unfinished ones.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    failures: Vec<Failure>,
    successes: Vec<Success>,
    /// The order of the line with which a tool's run began that has not ended.
    began: BTreeMap<ToolId, u64>,
    /// Units of the run under way, by the tool's program.
    units: BTreeMap<ToolId, BTreeSet<u64>>,
    /// The command line that the log announced last.
    command: Option<AnnouncedCommand>,
    /// The failed tests of the unit under way of each tool that named them all, as a unit.
    failed_tests: BTreeMap<ToolId, u64>,
    /// Tools whose failed tests did not all pass later.
    of_others: BTreeSet<ToolId>,
    /// Tools of which the command runs the same invocation again.
    repeated: BTreeSet<ToolId>,
    /// The only tool that the command runs.
    alone: Option<ToolId>,
}

impl Runs {
    /// Begins a run of a tool, and ends the previous one.
    pub(crate) fn begins(&mut self, tool: ToolId, order: u64) {
        self.units.remove(&tool.program());
        self.began.insert(tool, order);
    }

    /// Begins a run of a tool unless one is open.
    pub(crate) fn at_work(&mut self, tool: ToolId, order: u64) {
        self.began.entry(tool).or_insert(order);
    }

    /// Whether a run of a tool is open.
    pub(crate) fn is_open(&self, tool: ToolId) -> bool {
        self.began.contains_key(&tool)
    }

    /// The run under way is of this unit: a package, a project, a target.
    pub(crate) fn works_on(&mut self, tool: ToolId, unit: &str) {
        let units = self.units.entry(tool.program()).or_default();
        if units.len() < UNITS_MAX {
            units.insert(hashed(unit));
        }
    }

    /// The run under way failed at this unit.
    pub(crate) fn fails_at(&mut self, tool: ToolId, unit: &str) {
        self.units.insert(tool.program(), BTreeSet::from([hashed(unit)]));
    }

    /// The next failure of the tool is that of tests in this unit which the log names.
    pub(crate) fn tests_failed(&mut self, tool: ToolId, unit: &str) {
        self.failed_tests.insert(tool, hashed(("tests", unit)));
    }

    /// All tests of this unit that failed before, by name, pass in the run under way.
    pub(crate) fn tests_passed(&mut self, tool: ToolId, unit: &str) {
        let units = self.units.entry(tool.program()).or_default();
        if units.len() < UNITS_MAX {
            units.insert(hashed(("tests", unit)));
        }
    }

    /// Begins a retry of the last failure by the same process, which watches its files.
    pub(crate) fn tries_again(&mut self, tool: ToolId, order: u64) {
        let again = hashed(("again", order));
        if let Some(last) = self.failures.last_mut().filter(|last| last.seen.what == tool) {
            last.scope.units = BTreeSet::from([again]);
            self.units.entry(tool.program()).or_default().insert(again);
        }
    }

    /// Records a command line that the log announces.
    pub(crate) fn announces(&mut self, command: &str, order: u64) {
        self.command = Some((hashed(command), order));
    }

    /// Ends the run under way and gives its scope. A result may have several lines: a later one without a run of its own is of
    /// the run that ended last.
    fn ended(&mut self, tool: ToolId) -> Scope {
        Scope { units: self.units.get(&tool.program()).cloned().unwrap_or_default(), command: self.command }
    }

    /// Records a success of a tool.
    pub(crate) fn succeeded(&mut self, tool: ToolId, order: u64) {
        let scope = self.ended(tool);
        let began = self.began.remove(&tool);
        let last_failure = self.last_failure();
        let same = self.successes.iter_mut().rev().find(|success| success.tool == tool);
        // A total has several lines.
        if let Some(same) = same.filter(|same| began.is_none() && same.order > last_failure) {
            same.order = order;
            same.scope.units.extend(scope.units);
        } else {
            if self.successes.len() == SUCCESSES_MAX {
                self.successes.remove(0);
            }
            // A driver without a line at its start began after its last result.
            let silent = tool.drives && tool.begins_in_silence;
            let began = began.or_else(|| silent.then(|| self.last_result(tool)));
            self.successes.push(Success { tool, order, began, scope });
        }
        self.units.remove(&tool.program());
    }

    /// The order of the last result of a tool, 0 if there is none.
    fn last_result(&self, tool: ToolId) -> u64 {
        let same = |other: ToolId| other.is_of_program(tool);
        let failed = self.failures.iter().filter(|failure| same(failure.seen.what) && !failure.counted);
        let succeeded = self.successes.iter().filter(|success| same(success.tool));
        let orders = failed.map(|failure| failure.seen.order).chain(succeeded.map(|success| success.order));
        orders.max().unwrap_or(0)
    }

    /// Records a failure of a tool.
    pub(crate) fn failed(&mut self, seen: MarkerLine<ToolId>, shown: bool, counted: bool) {
        let tool = seen.what;
        let scope = self.ended(tool);
        if counted {
            // Only the tests have ended, not the tool that runs them.
            self.began.remove(&tool);
        } else {
            self.began.retain(|other, _| !other.is_of_program(tool));
            self.units.remove(&tool.program());
        }
        let last_success = self.successes.last().map_or(0, |success| success.order);
        let counted = counted || tool.names_failed_part;
        let tests = self.failed_tests.remove(&tool).map(|unit| BTreeSet::from([unit]));
        let mut failure = Failure { seen, scope, counted, shown, tests };
        let full = self.failures.len() == FAILURES_MAX;
        if let Some(last) = self.failures.last_mut()
            && (full || last.seen.what == tool && last.seen.order > last_success)
        {
            // Keep the last failure of the same run, with all units named by earlier ones.
            failure.scope.units.extend(std::mem::take(&mut last.scope.units));
            failure.counted |= last.counted;
            failure.shown |= last.shown;
            failure.tests = failure.tests.zip(last.tests.take()).map(|(tests, others)| &tests | &others);
            *last = failure;
        } else {
            self.failures.push(failure);
        }
    }

    /// Moves the last failure if it is this tool's and was printed after `after`: the tool repeats it. False if there is none.
    pub(crate) fn fails_still(&mut self, tool: ToolId, after: u64, order: u64) -> bool {
        let last = self.failures.last_mut().filter(|last| last.seen.what == tool && last.seen.order > after);
        last.map(|last| last.seen.order = order).is_some()
    }

    /// Removes a tool's failures after its success. A failure that was not counted is removed if it is
    /// within the run that has just ended. Counted failures are removed unless they belong to other tests.
    pub(crate) fn takes_back(&mut self, tool: ToolId) {
        let scope = self.ended(tool);
        self.units.remove(&tool.program());
        let of_others = &self.of_others;
        self.failures.retain(|failure| {
            let is_past = if failure.counted {
                !of_others.contains(&tool)
            } else {
                failure.scope.is_within(&scope, tool, self.repeated.contains(&tool))
            };
            failure.seen.what != tool || !is_past
        });
    }

    /// Returns the order of the last failure, or 0.
    pub(crate) fn last_failure(&self) -> u64 {
        self.failures.last().map_or(0, |failure| failure.seen.order)
    }

    /// Returns the last failure, whether it stands or not.
    pub(crate) fn last(&self) -> Option<&MarkerLine<ToolId>> {
        self.failures.last().map(|failure| &failure.seen)
    }

    /// Applies facts from outside the log: tools with failed tests that did not pass later, tools with failures that the command
    /// ignores, tools of which it runs one invocation again, and the command's only tool.
    pub(crate) fn resolve(
        &mut self,
        of_others: impl Iterator<Item = ToolId>,
        forgives: impl Fn(ToolId) -> bool,
        repeats: impl Fn(ToolId) -> bool,
        is_only: impl Fn(ToolId) -> bool,
    ) {
        self.of_others.extend(of_others);
        let tools = self.failures.iter().map(|failure| failure.seen.what);
        self.repeated = tools.filter(|tool| repeats(*tool)).collect();
        let success = self.successes.last().map_or(0, |success| success.order);
        self.failures.retain(|failure| failure.seen.order > success || !forgives(failure.seen.what));
        self.alone = self.successes.iter().map(|success| success.tool).find(|tool| is_only(*tool));
    }

    /// Removes all failures, because the exit code of the command accepts them.
    pub(crate) fn accepts_failures(&mut self) {
        self.failures.clear();
    }

    /// Removes the failures of tools whose exit code accepts their remarks.
    pub(crate) fn accepts_failures_of(&mut self, accepts: impl Fn(ToolId) -> bool) {
        self.failures.retain(|failure| !accepts(failure.seen.what));
    }

    /// Returns the last failure of tools of this kind that no success cleared. With `trusts`, text that a test may have printed
    /// counts as a test's output.
    pub(crate) fn standing(&self, is: fn(Apart) -> bool, trusts: bool) -> Option<&MarkerLine<ToolId>> {
        let stands = |failure: &&Failure| is(failure.seen.what.apart) && !self.is_taken_back(failure, trusts);
        self.failures.iter().filter(stands).map(|failure| &failure.seen).max_by_key(|seen| seen.order)
    }

    /// Whether a tool that builds failed, and did not take that back.
    pub(crate) fn build_failed(&self) -> bool {
        let builds = |failure: &&Failure| failure.seen.what.builds;
        self.failures.iter().filter(builds).any(|failure| !self.is_taken_back(failure, false))
    }

    fn is_taken_back(&self, failure: &Failure, trusts: bool) -> bool {
        self.successes.iter().any(|success| self.takes(success, failure, trusts))
    }

    /// Whether a success takes a failure back: its run contains the failure, or it is of the same invocation.
    fn takes(&self, success: &Success, failure: &Failure, trusts: bool) -> bool {
        let Failure { seen, .. } = failure;
        if success.order <= seen.order {
            return false;
        }
        let contains = self.has_begun(success, seen.order) && !seen.what.judges_by_itself;
        contains
            || trusts && self.may_be_printed_by(success, failure)
            || self.is_of_same_invocation(success, failure)
    }

    /// Returns true if a runner without a start line may have run the test that printed a failure: only the total of a linter's
    /// errors, without the errors.
    fn may_be_printed_by(&self, success: &Success, failure: &Failure) -> bool {
        let (tool, by) = (failure.seen.what, success.tool);
        let is_total = tool.apart == Apart::Always && !tool.builds && !failure.counted && !failure.shown;
        by.begins_in_silence
            && success.began.is_none()
            && is_total
            && !failure.seen.what.is_of_program(success.tool)
    }

    fn is_of_same_invocation(&self, success: &Success, failure: &Failure) -> bool {
        let tool = failure.seen.what;
        if tool.outlives_invocation || !tool.is_of_program(success.tool) {
            return false;
        }
        if failure.counted {
            return !self.of_others.contains(&tool);
        }
        let units = &success.scope.units;
        let same_tests = failure.tests.as_ref().is_some_and(|tests| tests.is_subset(units));
        same_tests && failure.scope.has_units_in(&success.scope)
            || failure.scope.is_within(&success.scope, tool, self.repeated.contains(&tool))
    }

    /// Whether a run that succeeded had begun at this line.
    fn has_begun(&self, success: &Success, order: u64) -> bool {
        self.alone == Some(success.tool) || success.began.is_some_and(|began| began < order)
    }

    /// Whether a line lies within a run that succeeded.
    pub(crate) fn contains(&self, order: u64) -> bool {
        self.successes.iter().any(|success| success.order > order && self.has_begun(success, order))
    }

    /// Returns true if an error belongs to a run with a cancelled failure: the first failure printed after the error.
    pub(crate) fn is_past(&self, order: u64) -> bool {
        let of_run = self.failures.iter().filter(|failure| failure.seen.order >= order);
        let of_run = of_run.min_by_key(|failure| failure.seen.order);
        let again = |failure: &Failure| {
            let mut later = self.successes.iter().filter(|success| success.order > failure.seen.order);
            later.any(|success| self.is_of_same_invocation(success, failure))
        };
        let between = |failure: &Failure| {
            self.successes.iter().any(|success| order < success.order && success.order < failure.seen.order)
        };
        of_run.is_some_and(|failure| again(failure) && !between(failure))
    }

    /// Whether a tool whose tests have a process of their own succeeded after this line.
    pub(crate) fn may_hide_death(&self, order: u64) -> bool {
        self.successes.iter().any(|success| success.order > order && success.tool.uses_simulator)
    }

    /// Returns a tool that prints its start and its end, if the log has only its start, and no success of a tool that runs others
    /// after it.
    pub(crate) fn cut_short(&self) -> Option<ToolId> {
        let ended =
            |began: u64| self.successes.iter().any(|success| success.tool.drives && success.order > began);
        let mut open = self.began.iter().filter(|(tool, began)| tool.reports_its_end && !ended(**began));
        open.next().map(|(tool, _)| *tool)
    }

    /// Returns a tool that runs other tools, has started and has no success.
    pub(crate) fn unended(&self) -> Option<ToolId> {
        let has_ended = |tool: ToolId| self.successes.iter().any(|success| success.tool == tool);
        self.began.keys().copied().find(|tool| tool.drives && !has_ended(*tool))
    }
}
