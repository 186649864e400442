//! Signs about the whole run, with the line that gave each.

use crate::rules::{Indicator, Sign};
use crate::tally::{Counts, Family};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::CrashIndicators;
use std::collections::BTreeSet;

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
    pub(crate) failure: Option<Seen<&'static str>>,
    pub(crate) crashes: Vec<Seen<Indicator>>,
    pub(crate) tools: BTreeSet<&'static str>,
    /// Lines that said success, each once: what is to be contradicted where something knows better.
    pub(crate) claims: BTreeSet<String>,
    /// The last line that counted tests, where it counts no failure. Those before it speak of parts of the run.
    pub(crate) count_claim: Option<String>,
    /// The first line in which a test runner said that it found no tests.
    pub(crate) no_tests: Option<String>,
    /// The last line that counted failed tests, where the tool that ran them counted.
    pub(crate) failed_total: u64,
    /// Words of death before this line are of a program that has ended since.
    settled: u64,
}

/// Most crash signs that are kept; their kinds are few, and one of each kind is kept.
const CRASHES_MAX: usize = 64;

/// Longest line that is kept, in characters.
const LINE_CHARS_MAX: usize = 400;
/// Most different claims of success that are kept; a run ends with a few.
const CLAIMS_MAX: usize = 64;

impl Signs {
    pub(crate) fn add(&mut self, sign: Sign, line: &str, stream: Stream, from: u64, order: u64) {
        let line = crate::text::clip_chars(line, LINE_CHARS_MAX).into_owned();
        match sign {
            Sign::Success(tool) => {
                self.tools.insert(tool);
                if self.claims.len() < CLAIMS_MAX {
                    self.claims.insert(line.trim().to_owned());
                }
                self.success = Some(Seen { what: tool, line, stream, from, order, last: order });
            }
            Sign::Failure(tool) => {
                self.tools.insert(tool);
                self.failure = Some(Seen { what: tool, line, stream, from, order, last: order });
            }
            Sign::StillFailure(tool) => {
                if let Some(failure) = self.failure.as_mut().filter(|failure| failure.what == tool) {
                    failure.order = order;
                }
            }
            Sign::Tool(tool) => {
                self.tools.insert(tool);
            }
            Sign::NoTests => {
                self.no_tests.get_or_insert_with(|| line.trim().to_owned());
            }
            Sign::Crash(indicator) => {
                if let Some(known) = self.crashes.iter_mut().find(|seen| seen.what == indicator) {
                    known.last = order;
                } else if self.crashes.len() < CRASHES_MAX {
                    self.crashes.push(Seen { what: indicator, line, stream, from, order, last: order });
                }
            }
        }
    }

    /// A line has counted tests.
    pub(crate) fn counted(&mut self, failed: u64, line: &str) {
        self.count_claim =
            (failed == 0).then(|| crate::text::clip_chars(line, LINE_CHARS_MAX).trim().to_owned());
    }

    /// A tool's own counts, as they stand after a line: what they say about the run.
    pub(crate) fn total(&mut self, family: Family, counts: Counts, place: (&str, Stream, u64, u64)) {
        let (line, stream, from, order) = place;
        if counts.failed > 0 {
            self.failed_total = order;
            self.add(Sign::Failure(family.name()), line, stream, from, order);
        } else if counts.is_good() {
            self.add(Sign::Success(family.name()), line, stream, from, order);
        }
    }

    /// A program that had said a word of death went on: it did not die. True if there was such a word.
    pub(crate) fn survived(&mut self) -> bool {
        let before = self.crashes.len();
        let settled = self.settled;
        self.crashes.retain(|seen| seen.order <= settled || !seen.what.is_word());
        self.crashes.len() < before
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
