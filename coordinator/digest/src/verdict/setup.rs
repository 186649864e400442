//! Ruling for a setup that did not pass, so that the command did not run.

use super::{Decision, VerdictRow, decision};
use crate::text::clip_chars;
use buildpool_protocol::outcome::{CrashType, Ending, SetupOutcome, StartFailure};
use buildpool_protocol::report::{KnownFrom, Verdict};

/// Maximum length of a command in a cause, in characters.
const COMMAND_CHARS_MAX: usize = 100;

/// Text for a setup with its command.
pub(super) fn named(setup: &SetupOutcome) -> String {
    format!("setup (`{}`)", clip_chars(setup.command.trim(), COMMAND_CHARS_MAX))
}

/// Ruling for a setup that failed by itself, without an action of the pool.
pub(super) fn failed(setup: &SetupOutcome) -> Decision {
    let how = match &setup.ending {
        Ending::Exited { code } => format!("exited with code {code}"),
        Ending::Signaled { name, .. } => format!("died of {name}"),
        Ending::NotStarted(failure) => format!("could not be started: {}", reason(failure)),
        Ending::Unobserved { reason } => format!("did not end as it should: {reason}"),
    };
    let last = setup.log.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    let text = format!(
        "The {} {how} after {:.1} s, so the command did not run.",
        named(setup),
        setup.duration.as_secs_f64()
    );
    let mut decision =
        decision(VerdictRow::SetupFailed, Verdict::Failed, CrashType::Unknown, KnownFrom::WaitStatus, text);
    decision.line = Some(last.unwrap_or_else(|| setup.command.clone()));
    decision
}

fn reason(failure: &StartFailure) -> &str {
    match failure {
        StartFailure::NotFound { program } => program,
        StartFailure::NotExecutable { reason, .. }
        | StartFailure::Directory { reason, .. }
        | StartFailure::Workspace { reason }
        | StartFailure::Resources { reason } => reason,
    }
}
