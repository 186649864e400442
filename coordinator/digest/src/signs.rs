//! Signs about the whole run, with the line that gave each.

use crate::command::Command;
use crate::rules::{Indicator, Sign};
use crate::tally::{Counts, Family};
use crate::toolbox::{self, Apart, JUNIT_CONTAINERS, MAKE_RECIPE};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::CrashIndicators;
use std::collections::{BTreeMap, BTreeSet};

/// A sign and the line that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen<T> {
    pub(crate) what: T,
    pub(crate) line: String,
    pub(crate) stream: Stream,
    pub(crate) from: u64,
    pub(crate) order: u64,
    /// The order of the last line of this sort.
    pub(crate) last: u64,
}

/// All signs, bounded: the last word of each kind and the first crash signs.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    pub(crate) success: Option<Seen<&'static str>>,
    /// The last one, until it is known which stand: see [`standing_failure`](Self::standing_failure).
    pub(crate) failure: Option<Seen<&'static str>>,
    /// The last one that another tool had said before it.
    failure_before: Option<Seen<&'static str>>,
    /// The last word of failure of each tool whose failure stands for itself.
    apart: BTreeMap<&'static str, Seen<&'static str>>,
    /// Tools that failed after an error with a place was told.
    shown: BTreeSet<&'static str>,
    /// Tools whose own success, if there is one, is of other tests than those that failed.
    pub(crate) of_others: BTreeSet<&'static str>,
    /// The only tool that the command runs.
    alone: Option<&'static str>,
    /// The order of each tool's last word of success, and of the line with which that run began, if it had one.
    successes: BTreeMap<&'static str, (u64, Option<u64>)>,
    /// The order of the last word of failure that some tool said.
    last_failure: u64,
    /// The order of the line with which a tool's run began that has not ended.
    began: BTreeMap<&'static str, u64>,
    pub(crate) crashes: Vec<Seen<Indicator>>,
    pub(crate) tools: BTreeSet<&'static str>,
    /// Lines that said success, each once: what is to be contradicted where something knows better.
    pub(crate) claims: BTreeSet<String>,
    /// The last line that counted tests, where it counts no failure. Those before it speak of parts of the run.
    pub(crate) count_claim: Option<String>,
    /// The first line in which a test runner said that it found no tests.
    pub(crate) no_tests: Option<Seen<()>>,
    /// The last line that counted failed tests, where the tool that ran them counted.
    pub(crate) failed_total: u64,
    /// Words of death before this line are of a program that has ended since.
    settled: u64,
    /// What tells of a crash only if this family's tool was at work.
    under: Option<(Family, Seen<Indicator>)>,
    /// What the exception says that was raised last.
    raised: Option<Seen<Indicator>>,
}

/// Most crash signs that are kept; their kinds are few, and one of each kind is kept.
const CRASHES_MAX: usize = 64;

/// Longest line that is kept, in characters.
const LINE_CHARS_MAX: usize = 400;
/// Most different claims of success that are kept; a run ends with a few.
const CLAIMS_MAX: usize = 64;

impl Signs {
    /// A sign in a line. `is_shown` if an error with a place was told before it.
    pub(crate) fn add(&mut self, sign: Sign, place: (&str, Stream, u64, u64), is_shown: bool) {
        let (line, stream, from, order) = place;
        let line = crate::text::clip_chars(line, LINE_CHARS_MAX).into_owned();
        match sign {
            Sign::Success(tool) => {
                self.tools.insert(tool);
                if self.claims.len() < CLAIMS_MAX {
                    self.claims.insert(line.trim().to_owned());
                }
                // A total has several lines.
                let same = self.successes.get(tool).filter(|(order, _)| *order > self.last_failure);
                let began = self.began.remove(tool).or(same.and_then(|(_, began)| *began));
                self.successes.insert(tool, (order, began));
                self.success = Some(Seen { what: tool, line, stream, from, order, last: order });
            }
            Sign::Failure(tool) => {
                self.tools.insert(tool);
                if is_shown {
                    self.shown.insert(tool);
                }
                let seen = Seen { what: tool, line, stream, from, order, last: order };
                if toolbox::of(tool).apart != Apart::Never {
                    self.apart.insert(tool, seen.clone());
                }
                self.began.remove(tool);
                self.last_failure = order;
                if let Some(other) = self.failure.take_if(|failure| failure.what != tool) {
                    self.failure_before = Some(other);
                }
                self.failure = Some(seen);
            }
            Sign::FailureToo(tool) => {
                let success = self.success.as_ref().map_or(0, |seen| seen.order);
                match self.failure.as_mut().filter(|seen| seen.what == tool && seen.order > success) {
                    Some(failure) => {
                        failure.order = order;
                        self.last_failure = order;
                    }
                    None => self.add(Sign::Failure(tool), place, is_shown),
                }
            }
            Sign::StillFailure(tool) => {
                if let Some(failure) = self.failure.as_mut().filter(|failure| failure.what == tool) {
                    failure.order = order;
                }
            }
            Sign::TakesBack(tool) => {
                self.apart.remove(tool);
                if self.failure.take_if(|failure| failure.what == tool).is_some() {
                    self.failure = self.failure_before.take();
                }
            }
            // What it counts on is known where lines are heard.
            Sign::TotalOfErrors(_) | Sign::FailureUnder(_) => {}
            Sign::Tool(tool) => {
                self.tools.insert(tool);
            }
            Sign::Begins(tool) => {
                self.began.insert(tool, order);
            }
            Sign::NoTests => {
                let line = line.trim().to_owned();
                self.no_tests.get_or_insert(Seen { what: (), line, stream, from, order, last: order });
            }
            Sign::CrashUnder(family, what) => {
                self.under.get_or_insert((family, Seen { what, line, stream, from, order, last: order }));
            }
            Sign::Raised(what) => {
                self.raised = Some(Seen { what, line, stream, from, order, last: order });
            }
            Sign::Trace => self.raised = None,
            Sign::Crash(indicator) => {
                if let Some(known) = self.crashes.iter_mut().find(|seen| seen.what == indicator) {
                    known.last = order;
                } else if self.crashes.len() < CRASHES_MAX {
                    self.crashes.push(Seen { what: indicator, line, stream, from, order, last: order });
                }
            }
        }
    }

    /// A line of a tool's run.
    pub(crate) fn at_work(&mut self, tool: &'static str, order: u64) {
        self.began.entry(tool).or_insert(order);
    }

    /// The last word of failure that no success took back: the last word of all, or that of a tool with which the success has
    /// nothing to do.
    pub(crate) fn standing_failure(&self) -> Option<&Seen<&'static str>> {
        let success = self.success.as_ref().map_or(0, |seen| seen.order);
        let last = self.failure.as_ref().filter(|seen| seen.order > success);
        last.or_else(|| self.standing_apart(|apart| apart == Apart::Always, true))
    }

    /// A failure or a word of death that only an exit code could take back: what succeeded after it had nothing to do with it.
    pub(crate) fn contradiction(&self) -> Option<&str> {
        let failure = self.standing_apart(|apart| apart != Apart::Never, false);
        let failure = failure.map(|seen| seen.line.as_str());
        failure.or_else(|| {
            let sanitizer = |seen: &&Seen<Indicator>| seen.what == Indicator::Sanitizer;
            // A run of which nothing tells when it began may have printed it, or not; a driver tells what died under it.
            let is_within = |seen: &Seen<Indicator>, tool: &str, order: u64, began: Option<u64>| {
                order > seen.last && began.map_or(toolbox::of(tool).drives, |began| began < seen.order)
            };
            let before = |seen: &&Seen<Indicator>| {
                let mut runs = self.successes.iter();
                seen.what.is_word()
                    && !runs.any(|(tool, (order, began))| is_within(seen, tool, *order, *began))
            };
            self.crashes.iter().find(|seen| sanitizer(seen) || before(seen)).map(|seen| seen.line.as_str())
        })
    }

    /// A tool that runs others was at work, and has not said how it ended.
    pub(crate) fn unended(&self) -> Option<&'static str> {
        let is_open = |tool: &&str| toolbox::of(tool).drives && !self.successes.contains_key(*tool);
        self.began.keys().copied().find(is_open)
    }

    fn standing_apart(&self, is: fn(Apart) -> bool, is_trusted: bool) -> Option<&Seen<&'static str>> {
        let stands = |seen: &&Seen<&'static str>| {
            is(toolbox::of(seen.what).apart) && !self.is_taken_back(seen, is_trusted)
        };
        self.apart.values().filter(stands).max_by_key(|seen| seen.order)
    }

    /// Of what another tool said after a failure, only the success of a run counts that had begun before it. That of a runner
    /// that says nothing at its beginning counts if it `is_trusted`, unless the tool that failed has shown what is wrong and where.
    fn is_taken_back(&self, failure: &Seen<&'static str>, is_trusted: bool) -> bool {
        let first_word = |tool: &'static str| tool.split([' ', ',']).next();
        let is_bare = !self.shown.contains(failure.what);
        let judges = toolbox::of(failure.what).judges_by_itself;
        self.successes.iter().any(|(name, (order, began))| {
            let tool = toolbox::of(name);
            let may_have_begun = tool.drives || tool.begins_in_silence && is_trusted && is_bare;
            let had_begun =
                self.alone == Some(*name) || began.map_or(may_have_begun, |began| began < failure.order);
            let is_its_own = ![MAKE_RECIPE, JUNIT_CONTAINERS].contains(&failure.what)
                && !self.of_others.contains(failure.what)
                && first_word(name) == first_word(failure.what);
            *order > failure.order && (is_its_own || had_begun && !judges)
        })
    }

    /// What the command says of the tools that it runs: the failure of one may not count where another succeeded after it, or
    /// it may be the only one.
    pub(crate) fn heed(&mut self, command: &Command) {
        let success = self.success.as_ref().map_or(0, |seen| seen.order);
        let asked = |tool: &'static str| match toolbox::of(tool).host {
            Some(host) if !command.runs(tool) => host,
            _ => tool,
        };
        self.apart.retain(|tool, seen| seen.order > success || !command.forgives(asked(tool)));
        self.alone = self.successes.keys().copied().find(|tool| command.runs_only(tool));
    }

    /// Whether a tool that builds says that it failed, and took it not back.
    pub(crate) fn build_failed(&self) -> bool {
        self.apart.values().any(|seen| toolbox::of(seen.what).builds && !self.is_taken_back(seen, false))
    }

    /// A line has counted tests.
    pub(crate) fn counted(&mut self, failed: u64, line: &str) {
        self.count_claim =
            (failed == 0).then(|| crate::text::clip_chars(line, LINE_CHARS_MAX).trim().to_owned());
    }

    /// A tool's own counts, as they stand after a line: what they say about the run.
    pub(crate) fn total(&mut self, family: Family, counts: Counts, place: (&str, Stream, u64, u64)) {
        if counts.failed > 0 {
            self.failed_total = place.3;
            self.add(Sign::Failure(family.name()), place, false);
        } else if counts.is_good() {
            self.add(Sign::Success(family.name()), place, false);
        }
    }

    /// A program that had said a word of death went on: it did not die. True if there was such a word.
    pub(crate) fn survived(&mut self) -> bool {
        let before = self.crashes.len();
        let settled = self.settled;
        self.crashes.retain(|seen| seen.order <= settled || !seen.what.is_word());
        self.crashes.len() < before
    }

    /// Makes signs of a crash of what only more than a line could tell: which tools were at work, whether the program ended badly.
    /// `ended_badly` is none where only the log is there: then an exception ended the program if those are its last words, or
    /// if a tool said after it that something failed.
    pub(crate) fn complete(
        &mut self,
        was_at_work: impl Fn(Family) -> bool,
        ended_badly: Option<bool>,
        last_text: u64,
    ) {
        let under = self.under.take();
        let under = under.filter(|(family, _)| self.tools.contains(family.name()) || was_at_work(*family));
        let last_failure = self.last_failure;
        let ends = |seen: &Seen<Indicator>| {
            ended_badly.unwrap_or(last_text <= seen.order || last_failure > seen.order)
        };
        let raised = self.raised.take().filter(ends);
        for seen in under.map(|(_, seen)| seen).into_iter().chain(raised) {
            if self.crashes.iter().all(|known| known.what != seen.what) {
                self.crashes.push(seen);
            }
        }
    }

    /// What was said up to this line is of a program that has ended: nothing that comes later takes it back.
    pub(crate) const fn settle(&mut self, order: u64) {
        self.settled = order;
    }

    /// The line up to which words of death stand.
    pub(crate) const fn settled(&self) -> u64 {
        self.settled
    }

    /// Crash signs, without words of death after which a tool counted its failed tests: it lived, and they are what a
    /// test printed.
    pub(crate) fn standing_crashes(&self) -> Vec<Seen<Indicator>> {
        let stands = |seen: &&Seen<Indicator>| !seen.what.is_word() || seen.last >= self.failed_total;
        self.crashes.iter().filter(stands).cloned().collect()
    }

    /// As in the result.
    pub(crate) fn indicators(&self) -> CrashIndicators {
        let mut set = CrashIndicators::default();
        for seen in &self.crashes {
            match seen.what {
                Indicator::TestRunnerCrashed => set.test_runner_crashed = true,
                Indicator::ConnectionInterrupted => set.connection_interrupted = true,
                Indicator::EarlyExit => set.early_exit = true,
                Indicator::NeverBeganTesting => set.never_began_testing = true,
                Indicator::BundleLoadFailed => set.bundle_load_failed = true,
                Indicator::SimulatorBootTimeout => set.simulator_boot_timeout = true,
                Indicator::TestProcessCrashed => set.test_process_crashed = true,
                Indicator::RestartedAfterCrash => set.restarted_after_crash = true,
                Indicator::FatalError => set.fatal_error = true,
                Indicator::UncaughtException => set.uncaught_exception = true,
                Indicator::UnexpectedSignal => set.unexpected_signal = true,
                Indicator::RunnerError => set.runner_error = true,
                Indicator::RunnerNotLaunched => set.runner_not_launched = true,
                Indicator::Sanitizer => set.sanitizer = true,
                Indicator::Panic => set.panic = true,
                Indicator::Killed => set.killed = true,
                Indicator::OutOfMemory => set.out_of_memory = true,
                Indicator::Died("SIGKILL") | Indicator::ChildDied("SIGKILL") => set.killed = true,
                Indicator::Died(_) | Indicator::ChildDied(_) => set.unexpected_signal = true,
            }
        }
        set
    }
}
