//! Selects the crash indicator that decides a verdict, and the type of the crash.

use super::{Decision, VerdictInput, VerdictRow, decision, doing};
use crate::rules::Indicator;
use buildpool_protocol::outcome::CrashType;
use buildpool_protocol::report::{KnownFrom, Verdict};

/// Beginning of the cause if a process below the command crashed.
pub(crate) const CHILD_CRASHED: &str = "A process started by the command crashed";

/// Returns a crash ruling if the log or a crash report shows a crash. A crash report of the job is
/// enough, unless `runner_only` limits the search to messages of a test runner.
pub(super) fn death(case: &VerdictInput<'_>, rule: VerdictRow, runner_only: bool) -> Option<Decision> {
    let sign = case
        .crashes
        .iter()
        .filter(|seen| {
            if runner_only {
                is_runner_death(seen.what)
            } else {
                is_death(seen.what, case.tests.panics_are_tests)
            }
        })
        .rev()
        .max_by_key(|seen| telling(seen.what));
    if sign.is_none() && (runner_only || case.crash_report.is_none()) {
        return None;
    }
    let doing = doing(case);
    let words = last_words(case).unwrap_or_default();
    let (text, known_from) = match case.crash_report {
        Some(report) => (
            format!(
                "`{}` crashed{doing}{}{}",
                report.process_name,
                report.signal.as_deref().map_or(String::new(), |signal| format!(" with {signal}")),
                match report.message.as_deref().unwrap_or(&words) {
                    "" => ".".to_owned(),
                    words => format!(": {words}"),
                }
            ),
            KnownFrom::CrashReport,
        ),
        None => (format!("{CHILD_CRASHED}{doing}: {words}"), KnownFrom::Marker),
    };
    let mut decision = decision(rule, Verdict::Crashed, death_type(case), known_from, text);
    decision.line = sign.map(|sign| sign.line.clone());
    Some(decision)
}

/// Type of the crash that the indicators show.
fn death_type(case: &VerdictInput<'_>) -> CrashType {
    if case.out_of_memory().is_some() {
        return CrashType::OutOfMemory;
    }
    if let Some(signal) = case.crash_report.and_then(|report| report.signal.as_deref()) {
        return CrashType::of_signal(signal);
    }
    for seen in case.crashes {
        if let Indicator::Died(signal) | Indicator::ChildDied(signal) = seen.what
            && !signal.is_empty()
        {
            return CrashType::of_signal(signal);
        }
    }
    let has = |indicator| case.crashes.iter().any(|seen| seen.what == indicator);
    if has(Indicator::OutOfMemory) {
        CrashType::OutOfMemory
    } else if has(Indicator::Killed) {
        CrashType::Killed
    } else if case.tools.iter().any(|tool| tool.uses_simulator)
        && case.crashes.iter().any(|seen| is_runner_death(seen.what))
    {
        CrashType::SimulatorCrash
    } else {
        CrashType::Unknown
    }
}

/// Returns true if this sign alone proves a crash in a run that did not end well.
pub(super) const fn is_death(indicator: Indicator, panics_are_tests: bool) -> bool {
    match indicator {
        Indicator::TestRunnerCrashed
        | Indicator::EarlyExit
        | Indicator::TestProcessCrashed
        | Indicator::RestartedAfterCrash
        | Indicator::FatalError
        | Indicator::UncaughtException
        | Indicator::UnexpectedSignal
        | Indicator::Sanitizer
        | Indicator::Killed
        | Indicator::OutOfMemory
        | Indicator::Died(_)
        | Indicator::ChildDied(_) => true,
        Indicator::Panic => !panics_are_tests,
        Indicator::ConnectionInterrupted
        | Indicator::NeverBeganTesting
        | Indicator::BundleLoadFailed
        | Indicator::SimulatorBootTimeout
        | Indicator::RunnerError
        | Indicator::RunnerNotLaunched => false,
    }
}

/// Returns true if a test runner reports that the tested program crashed. Such a sign counts even
/// if the run ended well.
const fn is_runner_death(indicator: Indicator) -> bool {
    matches!(
        indicator,
        Indicator::TestRunnerCrashed
            | Indicator::TestProcessCrashed
            | Indicator::RestartedAfterCrash
            | Indicator::EarlyExit
    )
}

/// Rank of a sign. A higher rank means more information about the cause.
const fn telling(indicator: Indicator) -> u8 {
    match indicator {
        Indicator::FatalError | Indicator::UncaughtException | Indicator::Sanitizer => 9,
        Indicator::OutOfMemory | Indicator::Panic => 8,
        Indicator::UnexpectedSignal | Indicator::Died(_) => 7,
        Indicator::TestRunnerCrashed
        | Indicator::TestProcessCrashed
        | Indicator::EarlyExit
        | Indicator::ChildDied(_) => 6,
        Indicator::RunnerError | Indicator::RunnerNotLaunched | Indicator::NeverBeganTesting => 5,
        Indicator::RestartedAfterCrash | Indicator::BundleLoadFailed | Indicator::SimulatorBootTimeout => 4,
        Indicator::Killed => 3,
        Indicator::ConnectionInterrupted => 1,
    }
}

/// Line of the crash indicator with the highest rank. Of equal ranks it is the first, because the others
/// follow from it.
pub(super) fn last_words(case: &VerdictInput<'_>) -> Option<String> {
    case.crashes.iter().rev().max_by_key(|seen| telling(seen.what)).map(|seen| seen.line.trim().to_owned())
}
