//! Rulings for attempts that the pool ended, and for commands that never ran.

use super::{Decision, VerdictInput, VerdictRow, decision, doing, setup};
use buildpool_protocol::outcome::{CrashType, EndReason, StartFailure};
use buildpool_protocol::report::{KnownFrom, Verdict};
use std::time::Duration;

pub(super) fn acted_decision(acted: &EndReason, case: &VerdictInput<'_>) -> Decision {
    let doing = doing(case);
    let what = case.failed_setup.map_or_else(|| "command".to_owned(), setup::named);
    match acted {
        EndReason::Timeout { after, held: Some(held) } => decision(
            VerdictRow::ActedTimeoutHeld,
            Verdict::TimedOut,
            CrashType::Timeout,
            KnownFrom::Pool,
            format!(
                "The pool ended the {what}{doing} at its timeout of {}, for {} of which it could not go on: the worker's disk refused its output ({}). Free space there; this is the worker's failure.",
                seconds(*after),
                seconds(held.held_for.min(*after)),
                held.reason
            ),
        ),
        EndReason::Timeout { after, held: None } => decision(
            VerdictRow::ActedTimeout,
            Verdict::TimedOut,
            CrashType::Timeout,
            KnownFrom::Pool,
            format!(
                "The pool ended the {what}{doing}: it ran longer than its timeout of {}.",
                seconds(*after)
            ),
        ),
        EndReason::IdleTimeout { after } => decision(
            VerdictRow::ActedIdleTimeout,
            Verdict::TimedOut,
            CrashType::Timeout,
            KnownFrom::Pool,
            format!(
                "The pool ended the {what}{doing}: it wrote nothing for {}, its idle timeout.",
                seconds(*after)
            ),
        ),
        EndReason::Cancelled { by, reason } => {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let who = if by.is_empty() { "its submitter" } else { by };
            decision(
                VerdictRow::ActedCancelled,
                Verdict::Cancelled,
                CrashType::Cancelled,
                KnownFrom::Pool,
                format!("The job was cancelled by {who}{why}."),
            )
        }
        EndReason::Drained => decision(
            VerdictRow::ActedDrained,
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The pool ended the {what} because its worker was drained and the drain's deadline came; submit the job again."
            ),
        ),
        EndReason::CutOff => decision(
            VerdictRow::ActedCutOff,
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The worker ended the {what} because it had lost contact with the coordinator for too long; submit the job again."
            ),
        ),
        EndReason::Fenced => decision(
            VerdictRow::ActedFenced,
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            format!("The worker ended the {what} because a newer attempt of the job had been granted."),
        ),
        EndReason::DiskLimit { used_bytes, limit_bytes } => decision(
            VerdictRow::ActedDiskLimit,
            Verdict::Failed,
            CrashType::Unknown,
            KnownFrom::Pool,
            format!(
                "The pool ended the {what}{doing} at its disk limit of {} MiB: the files that it changed in its workspace have {} MiB. Write less, or ask the worker's administrator for a higher `disk_bytes_max`.",
                limit_bytes >> 20,
                used_bytes >> 20
            ),
        ),
        EndReason::OutputLimit { reason } => decision(
            VerdictRow::ActedOutputLimit,
            Verdict::Lost,
            CrashType::None,
            KnownFrom::Pool,
            format!("The pool ended the {what} because its output could not be kept: {reason}."),
        ),
    }
}

pub(super) fn not_started(failure: &StartFailure) -> Decision {
    match failure {
        StartFailure::NotFound { program } => decision(
            VerdictRow::NotFound,
            Verdict::Failed,
            CrashType::Unknown,
            KnownFrom::Pool,
            format!(
                "`{program}` was not found on the worker (127); check the name, the PATH and that the tool is installed there."
            ),
        ),
        StartFailure::NotExecutable { program, reason } => decision(
            VerdictRow::NotExecutable,
            Verdict::Failed,
            CrashType::Unknown,
            KnownFrom::Pool,
            format!("`{program}` is there but could not be executed (126): {reason}."),
        ),
        StartFailure::Directory { path, reason } => decision(
            VerdictRow::NoDirectory,
            Verdict::Rejected,
            CrashType::None,
            KnownFrom::Pool,
            format!("The command was not run: its directory `{path}` could not be entered: {reason}."),
        ),
        StartFailure::Workspace { reason } => decision(
            VerdictRow::NoWorkspace,
            Verdict::Rejected,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The command was not run: its files could not be laid out on the worker: {reason}. This is the pool's failure."
            ),
        ),
        StartFailure::Resources { reason } => decision(
            VerdictRow::NoResources,
            Verdict::Rejected,
            CrashType::None,
            KnownFrom::Pool,
            format!(
                "The command was not run: the worker could not start a process: {reason}. This is the worker's failure."
            ),
        ),
    }
}

fn seconds(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}
