//! History of tests: the results of each test in the last jobs of its project and command.
//!
//! A thread with low priority writes to `tests.db`. With several coordinators, it also adds each run to the shared records,
//! and a new leader copies the runs of earlier ones from there. The end of a job only puts its results in a queue; if the queue is
//! full, they are dropped and counted. So the history never delays a job, and a lost history costs no result.

mod shared;
mod stats;
mod table;

pub(crate) use stats::{Flaky, Point, TestOutcome};
use table::AGE_MS;
pub(crate) use table::{HistoryQuery, Position, Scope, TESTS_FILE, Table, Test};

use crate::priority::{Niceness, give_way};
use crate::store::{JobRecord, StoreError, TestRuns};
use buildpool_digest::{Digest, TestResult};
use buildpool_protocol::evidence::TestStatus;
use buildpool_protocol::report::{TestCounts, Verdict};
use buildpool_protocol::spec::{JobSpec, Source};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit on runs that wait for the thread.
const QUEUED_RUNS: usize = 32;
/// Runs after which old rows are removed.
const PRUNE_EVERY: u32 = 200;
/// Bytes of results after which old rows are removed.
const PRUNE_EVERY_BYTES: usize = 64 << 20;
/// Limit on the notes about flaky tests in one answer.
const NOTES_MAX: usize = 5;

/// Sentence that the cause gets if all failed tests are quarantined.
const QUARANTINED: &str =
    "Each failed test is quarantined: it is known to be flaky. Run the job again before you change the code.";

/// Branch of a run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Branch {
    /// The thread looks up the branch of this job's snapshot.
    Of(Arc<JobSpec>),
    Known(Option<String>),
}

/// Results of one job.
#[derive(Clone, Debug)]
pub(crate) struct TestRun {
    pub(crate) job: [u8; 16],
    /// End of the job, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    pub(crate) project: String,
    pub(crate) command: String,
    pub(crate) submitter: String,
    pub(crate) worker: String,
    pub(crate) branch: Branch,
    /// Id of the snapshot, if the job had one.
    pub(crate) tree: Option<String>,
    /// The whole command passed.
    pub(crate) passed: bool,
    /// The tool counts passed tests and no others.
    pub(crate) all_passed: bool,
    pub(crate) results: Vec<TestResult>,
}

impl TestRun {
    fn known_branch(&self) -> Option<&str> {
        match &self.branch {
            Branch::Known(branch) => branch.as_deref(),
            Branch::Of(_) => None,
        }
    }

    /// Returns the length of its texts, in bytes. Each result has the project and the command in the table.
    fn bytes(&self) -> usize {
        let of_each = self.project.len() + self.command.len();
        self.results.iter().map(|result| result.name.len() + of_each).sum()
    }

    /// Returns the results of a job, or `None` if it ran no tests.
    pub(crate) fn from_record(record: &JobRecord, results: Vec<TestResult>) -> Option<Self> {
        let done = record.done.as_ref()?;
        let counts = done.tests.as_ref();
        if results.is_empty() && counts.is_none() {
            return None;
        }
        let is_good = |counts: &TestCounts| counts.passed > 0 && counts.passed == counts.total;
        Some(Self {
            job: *record.job.as_uuid().as_bytes(),
            at_ms: done.finished_at_ms,
            project: project(&record.spec).to_owned(),
            command: record.spec.command.to_string(),
            submitter: record.principal.clone(),
            worker: record.attempts.last().map(|attempt| attempt.worker_name.clone()).unwrap_or_default(),
            branch: Branch::Of(record.spec.clone()),
            tree: tree(&record.spec),
            passed: done.verdict == Verdict::Passed,
            all_passed: counts.is_some_and(is_good),
            results,
        })
    }
}

/// Returns the project that the history of a job belongs to. Each clone of a repository is the same project, if a
/// snapshot names it.
pub(crate) fn project(spec: &JobSpec) -> &str {
    match &spec.source {
        Source::Snapshot { project, .. } => project,
        Source::InPlace { .. } | Source::Empty => &spec.project,
    }
}

fn tree(spec: &JobSpec) -> Option<String> {
    match &spec.source {
        Source::Snapshot { id, directory, .. } => Some(format!("{id}:{directory}")),
        Source::InPlace { .. } | Source::Empty => None,
    }
}

/// Returns the result that the history stores.
pub(crate) const fn outcome(result: &TestResult) -> TestOutcome {
    match result.status {
        TestStatus::Passed if result.flaky => TestOutcome::PassedLater,
        TestStatus::Passed | TestStatus::ExpectedFailure => TestOutcome::Passed,
        TestStatus::Failed => TestOutcome::Failed,
        TestStatus::Skipped => TestOutcome::Skipped,
    }
}

/// The history of a data directory. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TestHistory {
    queue: SyncSender<TestRun>,
    /// Connection for lists.
    lists: Arc<Mutex<Table>>,
    /// Connection for the end of a job, which must not wait for a list.
    notes: Arc<Mutex<Table>>,
}

impl TestHistory {
    /// Opens the history of a data directory, and starts its thread, which first copies the shared runs of earlier leaders.
    /// The thread ends with the last handle.
    ///
    /// # Errors
    /// [`StoreError`] if the database can't be opened or the thread can't be started.
    pub(crate) fn open(
        directory: &Path,
        shared: SharedRuns,
        branch: impl Fn(&JobSpec) -> Option<String> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (queue, runs) = sync_channel(QUEUED_RUNS);
        let [table, lists, notes] =
            [Table::open(directory)?, Table::open(directory)?, Table::open(directory)?];
        std::thread::Builder::new()
            .name("test-history".to_owned())
            .spawn(move || {
                // The first run after a start removes old rows.
                let unpruned = (PRUNE_EVERY, 0);
                Writer { table, shared, branch, is_copied: false, unpruned }.write_all(&runs);
            })
            .map_err(StoreError::file("start a thread for", directory))?;
        Ok(Self { queue, lists: Arc::new(Mutex::new(lists)), notes: Arc::new(Mutex::new(notes)) })
    }

    /// Records the results of a job that has ended. Never blocks. Returns false if the queue is full.
    pub(crate) fn record(&self, run: TestRun) -> bool {
        self.queue.try_send(run).is_ok()
    }

    /// Returns tests with their results. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub(crate) fn list(&self, wanted: &HistoryQuery) -> Result<(Vec<Test>, Option<Position>), StoreError> {
        locked(&self.lists).list(wanted)
    }

    /// Takes the results of tests out of a digest. Adds a note for each failed test that is known to be flaky. If the
    /// project requests it and every failed test is flaky, the cause states this; the verdict stays. Blocks.
    pub(crate) fn annotate(&self, spec: &JobSpec, digest: &mut Digest) -> Vec<TestResult> {
        let results = std::mem::take(&mut digest.test_results);
        let known = self.known_flaky(spec, &results);
        digest.notes.extend(notes(&known));
        let failed = digest.tests.as_ref().map_or(0, |tests| tests.failed);
        if spec.quarantine
            && digest.verdict == Verdict::Failed
            && failed > 0
            && known.len() as u64 == failed
            && let Some(cause) = &mut digest.cause
        {
            cause.text = format!("{} {QUARANTINED}", cause.text.trim_end());
        }
        results
    }

    /// Returns the failed tests of a job that are known to be flaky. Blocks for an indexed read.
    fn known_flaky(&self, spec: &JobSpec, results: &[TestResult]) -> Vec<(String, Flaky)> {
        let failed = results.iter().filter(|result| result.status == TestStatus::Failed);
        let names: Vec<&str> = failed.map(|result| result.name.as_str()).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let scope = Scope { submitter: spec.access.only_submitter().map(str::to_owned), ..Scope::default() };
        let known = locked(&self.notes).known_flaky(project(spec), &spec.command.to_string(), &names, &scope);
        known.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "the history of tests can't be read");
            Vec::new()
        })
    }
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns one note for each of these tests, as far as the limit allows.
fn notes(known: &[(String, Flaky)]) -> Vec<String> {
    let mut notes: Vec<String> =
        known.iter().take(NOTES_MAX).map(|(test, flaky)| flaky.sentence(test)).collect();
    if known.len() > NOTES_MAX {
        notes.push(format!(
            "{} more failed tests are flaky; `buildpool tests --flaky` lists them",
            known.len() - NOTES_MAX
        ));
    }
    notes
}

/// Runs that several coordinators share.
pub(crate) struct SharedRuns {
    /// Name of the records, so that another place is copied from its beginning.
    pub(crate) place: String,
    pub(crate) rows: TestRuns,
}

impl SharedRuns {
    /// Returns the number of the last row that this machine has. 0 means that it must copy all rows.
    fn copied(&self, table: &Table) -> Result<i64, StoreError> {
        let Some((seq, job)) = table.copied(&self.place)? else { return Ok(0) };
        // Another job means that a backup has replaced the records, and a missing row can mean that. Copying a known run
        // again changes nothing.
        Ok(if self.rows.job_of(seq)? == Some(job) { seq } else { 0 })
    }

    /// Adds a run. Returns the number of its row, if it has one.
    fn add(&mut self, run: &TestRun, branch: Option<&str>) -> Result<Option<i64>, StoreError> {
        let Some(body) = shared::encode(run, branch) else { return Ok(None) };
        self.rows.add(run.job, run.at_ms, &body)
    }
}

/// Writes the history, on the thread of its own.
struct Writer<B> {
    table: Table,
    shared: SharedRuns,
    /// Looks up the branch of a job's snapshot.
    branch: B,
    /// True if the table has all shared rows.
    is_copied: bool,
    /// Runs and their bytes since the last pruning.
    unpruned: (u32, usize),
}

impl<B: Fn(&JobSpec) -> Option<String>> Writer<B> {
    fn write_all(mut self, runs: &Receiver<TestRun>) {
        give_way(Niceness::Housekeeping);
        for run in std::iter::once(None).chain(runs.iter().map(Some)) {
            if !self.is_copied {
                // After an error, the next run tries again.
                let copied = self.copy(runs);
                self.is_copied = copied.is_ok();
                report("read from the shared records", copied);
            }
            run.into_iter().for_each(|run| self.take(&run));
        }
    }

    /// Copies the rows that this machine lacks. Runs that end meanwhile become rows too, and are copied after the earlier
    /// ones: the results of a test stay in their order.
    fn copy(&mut self, runs: &Receiver<TestRun>) -> Result<(), StoreError> {
        let mut last = self.shared.copied(&self.table)?;
        loop {
            let rows = self.shared.rows.after(last)?;
            let Some(newest) = rows.last() else { return Ok(()) };
            for row in &rows {
                match shared::decode(row) {
                    Some(TestRun { branch: Branch::Of(_), .. }) | None => {
                        tracing::warn!(row = row.seq, "a stored run of tests does not parse");
                    }
                    Some(run) => self.table.write(&run, run.known_branch())?,
                }
                // The queue is short, and the copy takes long.
                runs.try_iter().for_each(|run| self.take(&run));
            }
            last = newest.seq;
            self.table.set_copied(&self.shared.place, last, newest.job)?;
        }
    }

    /// Writes a run to the shared rows and to the table.
    fn take(&mut self, run: &TestRun) {
        let branch = match &run.branch {
            Branch::Of(spec) => (self.branch)(spec),
            Branch::Known(branch) => branch.clone(),
        };
        // Shared first: a result that is listed here is known to the next leader.
        let row = match self.shared.add(run, branch.as_deref()) {
            Ok(row) => row,
            Err(error) => {
                report("shared", Err(error));
                None
            }
        };
        // Before the copy is complete, the table gets the row by the copy.
        if row.is_none() || self.is_copied {
            let mut written = self.table.write(run, branch.as_deref());
            if let Some(seq) = row {
                written = written.and_then(|()| self.table.set_copied(&self.shared.place, seq, run.job));
                // The next run copies the rows that are missing in the table.
                self.is_copied = written.is_ok();
            }
            report("stored", written);
        }
        let (written, bytes) = self.unpruned;
        self.unpruned = (written + 1, bytes.saturating_add(run.bytes()));
        if self.unpruned.0 >= PRUNE_EVERY || self.unpruned.1 >= PRUNE_EVERY_BYTES {
            self.unpruned = (0, 0);
            report("removed", self.table.prune(run.at_ms));
            report("removed", self.shared.rows.prune(run.at_ms - AGE_MS));
        }
    }
}

fn report(doing: &str, result: Result<(), StoreError>) {
    if let Err(error) = result {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(doing, error, "the results of tests are not complete");
    }
}

#[cfg(test)]
mod tests;
