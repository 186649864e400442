//! Builds the outcome of an attempt without a keeper's account: it was never started, or its keeper
//! died. Blocking.

use super::data_directory::DataDirectory;
use crate::keeper::spool::{self, Sealed};
use crate::keeper::tree::Tree;
use crate::limits::{KILL_FOR, ROUND_PAUSE_MAX};
use crate::platform::Now;
use crate::records::{self, StateRecord};
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::outcome::{EndReason, Ending, Outcome, StartFailure};
use buildpool_protocol::report::Survivor;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};
use tracing::warn;

/// Returns the outcome on disk. Without one, ends the remaining processes, builds an outcome
/// from the known facts, and stores it if the disk permits. "Not started" is reported only if it is
/// certain. Such an attempt is retried even if the command must not run twice.
///
/// # Errors
/// Fails if the disk cannot be read.
pub(super) fn of_dead_keeper(
    data_directory: &DataDirectory,
    attempt: AttemptId,
    has_lost_power: bool,
) -> io::Result<Outcome> {
    let directory = data_directory.attempt(attempt);
    if let Some(outcome) = records::read_outcome(&directory, records::OUTCOME, attempt)? {
        return Ok(outcome);
    }
    // Without it, the process tree is found by its ids.
    let state: Option<StateRecord> = records::read_if_whole(&directory, records::STATE).unwrap_or(None);
    let leader = state.as_ref().map(|state| (state.pid, state.process_started));
    let (had_processes, survivors) = end_tree(attempt, leader);
    let log = directory.join(records::LOG);
    // The log is created before the process. A keeper that died in between is assumed to have
    // started the process.
    let may_have_begun = log.try_exists().unwrap_or(true);
    let ending = if !directory.try_exists().unwrap_or(true) {
        Ending::Unobserved { reason: "its directory on the worker was removed while it ran".to_owned() }
    } else if state.is_some() || had_processes || may_have_begun {
        Ending::Unobserved { reason: "the process that watched it died before it ended".to_owned() }
    } else if has_lost_power {
        Ending::Unobserved { reason: "its machine was switched off, and it may have begun".to_owned() }
    } else {
        Ending::NotStarted(StartFailure::Resources {
            reason: "the worker was interrupted before the command was started".to_owned(),
        })
    };
    let sealed = spool::recover(&log, attempt)?;
    let outcome = Outcome { survivors, ..known(sealed, ending, state) };
    write_down(&directory, records::OUTCOME, attempt, &outcome);
    Ok(outcome)
}

/// Returns the outcome of an attempt that was never started. It does not depend on the disk, which
/// may be the cause.
pub(super) fn of_unstarted(
    data_directory: &DataDirectory,
    attempt: AttemptId,
    failure: StartFailure,
    acted: Option<EndReason>,
) -> Outcome {
    let outcome = Outcome { acted, ..known(Sealed::empty(), Ending::NotStarted(failure), None) };
    write_down(&data_directory.attempt(attempt), records::OUTCOME, attempt, &outcome);
    outcome
}

/// Stores an outcome if the disk permits, so that the next daemon does not need to rebuild it. A
/// failure must not block the end of the attempt. The source data still exists, and the next daemon
/// builds the same outcome. Returns false if it is not stored.
pub(super) fn write_down(directory: &Path, name: &str, attempt: AttemptId, outcome: &Outcome) -> bool {
    match records::write_outcome(directory, name, attempt, outcome) {
        Ok(()) => true,
        // The attempt has no directory yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            warn!(
                "{} can't be written; the end of the attempt is reported anyway: {error}",
                directory.join(name).display()
            );
            false
        }
    }
}

fn known(sealed: Sealed, ending: Ending, state: Option<StateRecord>) -> Outcome {
    let finished_at_ms = wall_clock_ms();
    let started_at_ms = state.as_ref().map(|state| state.started_at_ms);
    let duration = started_at_ms.map_or(0, |started| u64::try_from(finished_at_ms - started).unwrap_or(0));
    Outcome {
        acted: state.and_then(|state| state.acted),
        started_at_ms,
        duration: Duration::from_millis(duration),
        log_length: sealed.log_length,
        gaps: sealed.gaps,
        ..Outcome::new(ending, finished_at_ms, sealed.seals)
    }
}

/// Kills the remaining processes of a tree. Returns true if there were any, and the processes that
/// could not be ended.
fn end_tree(attempt: AttemptId, leader: Option<(i32, u64)>) -> (bool, Vec<Survivor>) {
    let mut tree = Tree::of_dead_keeper(attempt, leader);
    let until = Now::read().running + KILL_FOR;
    let mut had_processes = false;
    loop {
        // An unreadable process table is not proof that the tree is gone.
        let is_gone = tree.find().is_ok_and(|found| found.is_empty());
        if is_gone {
            return (had_processes, Vec::new());
        }
        had_processes |= tree.kill_from_outside();
        if Now::read().running >= until {
            return (true, tree.list());
        }
        thread::sleep(ROUND_PAUSE_MAX / 10);
    }
}

pub(super) fn wall_clock_ms() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{DataDirectory, Sealed, of_dead_keeper};
    use crate::records;
    use buildpool_protocol::ids::{AttemptId, JobId};
    use buildpool_protocol::outcome::{Ending, Outcome, StartFailure};
    use std::fs;

    #[test]
    fn that_nothing_began_is_said_only_where_it_is_certain() {
        let directory = tempfile::tempdir().expect("a directory");
        let data_directory = DataDirectory::lock(directory.path()).expect("free");
        let mut number = 0;
        let mut of = |has_log: bool, has_lost_power: bool| {
            number += 1;
            let attempt = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number };
            fs::create_dir(data_directory.attempt(attempt)).expect("a directory");
            if has_log {
                fs::write(data_directory.attempt(attempt).join(records::LOG), "").expect("a file");
            }
            of_dead_keeper(&data_directory, attempt, has_lost_power).expect("a disk").ending
        };
        assert!(matches!(of(false, false), Ending::NotStarted(StartFailure::Resources { .. })));
        assert!(matches!(of(true, false), Ending::Unobserved { .. }), "between the log and the process");
        assert!(matches!(of(false, true), Ending::Unobserved { .. }), "the log may have been there");
        let next = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number: 9 };
        let other = AttemptId { number: 8, ..next };
        let passed = Outcome::new(Ending::Exited { code: 0 }, 1, Sealed::empty().seals);
        fs::create_dir(data_directory.attempt(next)).expect("a directory");
        fs::write(data_directory.attempt(next).join(records::LOG), "").expect("a file");
        records::write_outcome(&data_directory.attempt(next), records::OUTCOME, other, &passed)
            .expect("a disk");
        let ending = of_dead_keeper(&data_directory, next, true).expect("a disk").ending;
        assert!(
            matches!(ending, Ending::Unobserved { .. }),
            "an earlier attempt has passed, not this one: {ending:?}"
        );
        let removed = AttemptId { job: JobId::from_uuid(uuid::Uuid::now_v7()), number: 1 };
        let ending = of_dead_keeper(&data_directory, removed, false).expect("a disk").ending;
        assert!(matches!(ending, Ending::Unobserved { .. }), "all its records were removed: {ending:?}");
    }
}
