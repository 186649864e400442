//! The passing runs of recently used commands, in memory. Each submit and each end of a job needs those of its command.

use super::limits::{HISTORY_FINDINGS, HISTORY_RUNS};
use super::records::{HistoryKey, PassingRun};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Commands whose runs are kept.
const COMMANDS_MAX: usize = 256;
/// Finding signatures that are kept, over all commands. Commands with more are read from the database.
const FINDINGS_MAX: usize = 16_384;

/// Passing runs in memory. The writer of the records adds each run that it commits, so only a process with the one
/// writer of its records may use it.
#[derive(Clone, Default, Debug)]
pub(super) struct PassingRuns {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default, Debug)]
struct Kept {
    /// Newest first.
    by_command: HashMap<HistoryKey, VecDeque<PassingRun>>,
    findings: usize,
    /// Number of commits with runs. Rows that were read before a commit do not have its runs.
    commits: u64,
}

/// The number of commits at the begin of a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen(u64);

impl PassingRuns {
    /// Returns the newest runs of a command, at most this many. `Err` if they must be read.
    pub(super) fn newest(&self, key: HistoryKey, runs_max: usize) -> Result<Vec<PassingRun>, Seen> {
        let kept = self.kept();
        let runs = kept.by_command.get(&key).ok_or(Seen(kept.commits))?;
        Ok(runs.iter().take(runs_max).cloned().collect())
    }

    /// Keeps all runs of a command as they were read, unless others were committed meanwhile.
    pub(super) fn read(&self, key: HistoryKey, runs: &[PassingRun], seen: Seen) {
        let mut kept = self.kept();
        if kept.commits == seen.0 {
            kept.insert(key, runs.iter().cloned().collect());
        }
    }

    /// Adds committed runs.
    pub(super) fn committed<'a>(&self, runs: impl Iterator<Item = &'a PassingRun>) {
        let mut runs = runs.peekable();
        if runs.peek().is_none() {
            return;
        }
        let mut kept = self.kept();
        kept.commits += 1;
        for run in runs {
            let Some(mut known) = kept.remove(run.key) else { continue };
            let mut run = run.clone();
            run.findings.truncate(HISTORY_FINDINGS);
            let key = run.key;
            // The rows that were kept may have it already: they are read while the commit ends.
            known.retain(|known| known.job != run.job);
            known.push_front(run);
            known.truncate(HISTORY_RUNS as usize);
            kept.insert(key, known);
        }
    }

    /// Forgets all runs. The database may have others after a commit whose answer was lost.
    pub(super) fn forget(&self) {
        let mut kept = self.kept();
        *kept = Kept { commits: kept.commits + 1, ..Kept::default() };
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn insert(&mut self, key: HistoryKey, runs: VecDeque<PassingRun>) {
        let findings: usize = runs.iter().map(|run| run.findings.len()).sum();
        if findings > FINDINGS_MAX {
            return;
        }
        if self.by_command.len() >= COMMANDS_MAX || self.findings + findings > FINDINGS_MAX {
            // Commands in use are read again.
            self.by_command.clear();
            self.findings = 0;
        }
        self.findings += findings;
        self.by_command.insert(key, runs);
    }

    fn remove(&mut self, key: HistoryKey) -> Option<VecDeque<PassingRun>> {
        let runs = self.by_command.remove(&key)?;
        self.findings -= runs.iter().map(|run| run.findings.len()).sum::<usize>();
        Some(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS_MAX, FINDINGS_MAX, HISTORY_RUNS, HistoryKey, PassingRun, PassingRuns};
    use buildpool_protocol::JobId;

    fn run(command: u16, number: u64, findings: usize) -> PassingRun {
        let mut key = [0; 16];
        key[..2].copy_from_slice(&command.to_le_bytes());
        PassingRun {
            key: HistoryKey(key),
            job: JobId::from_uuid(uuid::Uuid::from_u128(number.into())),
            finished_at_ms: 0,
            duration_ms: number,
            tests_total: None,
            findings: vec!["a finding".into(); findings],
        }
    }

    fn numbers(runs: &PassingRuns, command: u16) -> Option<Vec<u64>> {
        let key = run(command, 0, 0).key;
        Some(runs.newest(key, usize::MAX).ok()?.iter().map(|run| run.duration_ms).collect())
    }

    #[test]
    fn a_committed_run_is_the_newest_one_and_the_oldest_one_goes() {
        let runs = PassingRuns::default();
        let key = run(1, 0, 0).key;
        runs.committed([run(1, 1, 0)].iter());
        let seen = runs.newest(key, 1).expect_err("the rows were not read yet");
        runs.read(key, &[run(1, 1, 0)], seen);
        runs.committed([run(1, 2, 0), run(2, 3, 0), run(1, 4, 0)].iter());
        runs.committed([run(1, 4, 0)].iter());
        assert_eq!(numbers(&runs, 1), Some(vec![4, 2, 1]));
        assert_eq!(numbers(&runs, 2), None, "the older runs of this command are not known");
        assert_eq!(runs.newest(key, 1).expect("known").len(), 1);
        let more: Vec<_> = (5..5 + u64::from(HISTORY_RUNS)).map(|number| run(1, number, 0)).collect();
        runs.committed(more.iter());
        let known = numbers(&runs, 1).expect("known");
        assert_eq!((known.len(), known[0]), (HISTORY_RUNS as usize, 4 + u64::from(HISTORY_RUNS)));
    }

    #[test]
    fn rows_that_were_read_before_a_commit_are_not_kept() {
        let runs = PassingRuns::default();
        let key = run(1, 0, 0).key;
        let seen = runs.newest(key, 1).expect_err("unknown");
        runs.committed([run(1, 2, 0)].iter());
        runs.read(key, &[run(1, 1, 0)], seen);
        assert_eq!(numbers(&runs, 1), None);
        let seen = runs.newest(key, 1).expect_err("unknown");
        runs.forget();
        runs.read(key, &[run(1, 1, 0)], seen);
        assert_eq!(numbers(&runs, 1), None);
    }

    #[test]
    fn the_kept_runs_are_limited() {
        let runs = PassingRuns::default();
        for command in 0..5 * COMMANDS_MAX as u16 {
            let one = run(command, 1, 300);
            let seen = runs.newest(one.key, 1).expect_err("unknown");
            runs.read(one.key, std::slice::from_ref(&one), seen);
            let kept = runs.kept();
            let findings: usize = kept.by_command.values().flatten().map(|run| run.findings.len()).sum();
            assert_eq!(findings, kept.findings);
            assert!(kept.by_command.len() <= COMMANDS_MAX && findings <= FINDINGS_MAX);
        }
    }
}
