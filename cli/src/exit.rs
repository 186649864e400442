//! Exit code of `run`: that of the command, if it has one and the verdict agrees.

use crate::failure::{INTERRUPTED, POOL};
use crate::terminal;
use buildpool_protocol::report::{JobResult, SetupResult, Verdict};

/// The command exited 0, but the verdict is not `passed`.
const NOT_PASSED: u8 = 1;
/// The job exceeded its timeout.
const TIMED_OUT: u8 = 124;

/// Returns the exit code for a finished job.
pub(crate) fn code(result: &JobResult) -> u8 {
    match result.verdict {
        Some(Verdict::Passed) => 0,
        Some(Verdict::TimedOut) => TIMED_OUT,
        Some(Verdict::Cancelled) => INTERRUPTED,
        Some(Verdict::Lost | Verdict::Rejected) | None => POOL,
        Some(Verdict::Failed | Verdict::Crashed | Verdict::Inconclusive) => of_process(result),
    }
}

/// Lines of the output of a failed setup that `run` prints.
const SETUP_LINES_MAX: usize = 20;

/// Returns the setup of a job whose command did not run because of it.
fn failed_setup(result: &JobResult) -> Option<&SetupResult> {
    result.setup.as_ref().filter(|setup| setup.ran && setup.exit_code != Some(0))
}

fn of_process(result: &JobResult) -> u8 {
    if let Some(setup) = failed_setup(result) {
        let code = setup.exit_code.and_then(|code| u8::try_from(code).ok());
        return code.unwrap_or(NOT_PASSED);
    }
    if let Some(signal) = result.process_state.signal {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    match result.exit_code {
        Some(0) => NOT_PASSED,
        // Exit codes of processes are 0 to 255.
        Some(code) => u8::try_from(code).unwrap_or(u8::MAX),
        None => POOL,
    }
}

/// Returns the warnings to print if the digest is not shown.
pub(crate) fn warnings(result: &JobResult) -> Vec<String> {
    let mut warnings = setup_output(result);
    warnings.extend(warning(result));
    if !result.survivors.is_empty() {
        let pids: Vec<String> = result
            .survivors
            .iter()
            .map(|survivor| format!("{} ({})", survivor.pid, survivor.command))
            .collect();
        warnings.push(format!("processes of the job could not be ended: {}", pids.join(", ")));
    }
    warnings.extend(result.notes.iter().map(|note| terminal::one_line(note)));
    warnings
}

/// Returns the last lines that a failed setup printed. They are not in the log of the job.
fn setup_output(result: &JobResult) -> Vec<String> {
    let log = failed_setup(result).and_then(|setup| setup.log.as_deref()).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(SETUP_LINES_MAX)..];
    last.iter().map(|line| format!("setup: {}", terminal::one_line(line))).collect()
}

fn warning(result: &JobResult) -> Option<String> {
    let verdict = result.verdict?;
    let cause = result.cause.as_ref().map_or("no cause is known", |cause| cause.text.as_str());
    let id = &result.job_id;
    match verdict {
        Verdict::Passed => None,
        Verdict::Failed | Verdict::Crashed | Verdict::Inconclusive => match result.exit_code {
            Some(0) => Some(format!("the command exited 0, the verdict is {verdict}: {cause}")),
            Some(_) if result.process_state.exited => None,
            // The command was not started (126, 127), or a signal ended it.
            Some(_) | None => Some(format!("{verdict}: {cause}")),
        },
        Verdict::TimedOut => Some(format!("timed out: {cause}")),
        Verdict::Cancelled => Some(format!("job {id} was cancelled: {cause}")),
        Verdict::Lost => Some(format!("job {id} was lost, which is not the command's fault: {cause}")),
        Verdict::Rejected => Some(format!("the job was rejected: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{code, warnings};
    use buildpool_protocol::outcome::ProcessState;
    use buildpool_protocol::report::{JobResult, SetupResult, Verdict};

    fn result(verdict: Verdict, exit_code: Option<i32>, signal: Option<i32>) -> JobResult {
        JobResult {
            verdict: Some(verdict),
            exit_code,
            process_state: ProcessState {
                exited: exit_code.is_some_and(|code| code != 127),
                signal,
                signaled: signal.is_some(),
                ..ProcessState::default()
            },
            ..JobResult::default()
        }
    }

    #[test]
    fn the_exit_code_is_the_commands_own_unless_that_would_lie() {
        use Verdict::{Cancelled, Crashed, Failed, Inconclusive, Lost, Passed, Rejected, TimedOut};
        for (verdict, exit, signal, expected) in [
            (Passed, Some(0), None, 0),
            (Failed, Some(1), None, 1),
            (Failed, Some(65), None, 65),
            (Failed, Some(127), None, 127),
            (Failed, Some(255), None, 255),
            (Failed, Some(0), None, 1),
            (Inconclusive, Some(0), None, 1),
            (Crashed, Some(0), None, 1),
            (Crashed, Some(139), None, 139),
            (Crashed, None, Some(11), 139),
            (Crashed, None, Some(9), 137),
            (Failed, None, Some(15), 143),
            (TimedOut, None, Some(15), 124),
            (TimedOut, Some(0), None, 124),
            (Cancelled, None, Some(9), 130),
            (Cancelled, None, None, 130),
            (Lost, None, None, 125),
            (Rejected, None, None, 125),
            (Failed, None, None, 125),
        ] {
            let result = result(verdict, exit, signal);
            assert_eq!(code(&result), expected, "{verdict} {exit:?} {signal:?}");
            // An exit code that is not from the process needs a warning.
            let is_own = exit == Some(i32::from(expected)) && result.process_state.exited;
            let is_told = !warnings(&result).is_empty();
            assert_eq!(is_told, !is_own, "{verdict} {exit:?} {signal:?}");
        }
        assert_eq!(code(&JobResult::default()), 125);
    }

    #[test]
    fn a_failed_setup_is_told_with_its_output_and_its_code() {
        for (exit_code, expected) in [(Some(5), 5), (None, 1)] {
            let log = (0..30).map(|line| format!("line {line}\n")).collect();
            let setup = SetupResult { ran: true, exit_code, log: Some(log), ..SetupResult::default() };
            let failed = JobResult { setup: Some(setup), ..result(Verdict::Failed, None, None) };
            assert_eq!(code(&failed), expected);
            let told = warnings(&failed);
            assert_eq!((told.len(), told[0].as_str()), (21, "setup: line 10"), "{told:?}");
            assert!(told[20].starts_with("failed: "), "{told:?}");
        }
        let setup = SetupResult { ran: true, exit_code: Some(0), ..SetupResult::default() };
        let failed = JobResult { setup: Some(setup), ..result(Verdict::Failed, Some(7), None) };
        assert_eq!((code(&failed), warnings(&failed).len()), (7, 0), "it passed, the command failed");
    }
}
