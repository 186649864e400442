//! Rows of the lists, their order and their selection.

use super::{Lists, Panel};
use crate::durations;
use crate::terminal::{Colour, one_line};
use buildpool_protocol::client_link::{JobSummary, WorkerSummary};
use buildpool_protocol::report::{JobState, Verdict};
use buildpool_protocol::shown::output_line;
use jiff::Timestamp;
use std::cmp::Ordering;
use std::time::Duration;

/// Maximum length of a cell, in characters. No terminal is wider.
const CELL_MAX: usize = 500;

/// A row of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// Id of the job or worker.
    pub(super) key: String,
    pub(super) cells: Vec<(String, Colour)>,
}

/// The selected row of a list: its key, and its index in case the key disappears.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    key: Option<String>,
    index: usize,
}

impl Selection {
    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns the index of the selected row.
    pub(super) const fn index(&self) -> usize {
        self.index
    }

    /// Moves the selection, within the list.
    pub(super) fn step(&mut self, rows: &[Row], by: isize) {
        let last = rows.len().saturating_sub(1);
        let found = rows.iter().position(|row| Some(&row.key) == self.key.as_ref());
        self.index = found.unwrap_or(self.index).saturating_add_signed(by).min(last);
        self.key = rows.get(self.index).map(|row| row.key.clone());
    }
}

/// Sorts workers: those in trouble first, then by name with numbers in numeric order.
pub(super) fn sort(lists: &mut Lists) {
    lists
        .workers
        .sort_by(|one, other| rank(one).cmp(&rank(other)).then_with(|| natural(&one.name, &other.name)));
}

/// Returns 0 for a worker that can't take jobs although it should.
fn rank(worker: &WorkerSummary) -> u8 {
    match (is_in_trouble(worker), worker.draining) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

pub(super) fn is_in_trouble(worker: &WorkerSummary) -> bool {
    !worker.connected || worker.quarantined.is_some()
}

/// Compares names so that `mini-9` comes before `mini-10`.
fn natural(one: &str, other: &str) -> Ordering {
    // Each part is a number and the character after it; either can be missing.
    let parts = |text: &str| -> Vec<(u64, String)> {
        let parts = text.split_inclusive(|c: char| !c.is_ascii_digit());
        let parts =
            parts.map(|part| part.split_at(part.trim_end_matches(|c: char| !c.is_ascii_digit()).len()));
        parts.map(|(digits, rest)| (digits.parse().unwrap_or(0), rest.to_owned())).collect()
    };
    parts(one).cmp(&parts(other)).then_with(|| one.cmp(other))
}

/// Returns the rows of a list that match the filter.
pub(super) fn rows(lists: &Lists, panel: Panel, filter: &str, now: Timestamp) -> Vec<Row> {
    let filter = filter.to_lowercase();
    let all: Vec<Row> = match panel {
        Panel::Workers => lists.workers.iter().map(|worker| worker_row(lists, worker, now)).collect(),
        Panel::Running => jobs(lists, is_active).map(|job| running_row(lists, job)).collect(),
        Panel::Queue => queue(lists).into_iter().map(|job| queue_row(job, now)).collect(),
        Panel::Failed => jobs(lists, has_failed).map(|job| failed_row(job, now)).collect(),
    };
    let matches = |row: &Row| {
        filter.is_empty() || row.cells.iter().any(|(text, _)| text.to_lowercase().contains(&filter))
    };
    all.into_iter().filter(matches).collect()
}

fn jobs(lists: &Lists, is_wanted: fn(&JobSummary) -> bool) -> impl Iterator<Item = &JobSummary> {
    lists.jobs.iter().filter(move |job| is_wanted(job))
}

/// Returns true for a job that a worker has.
pub(super) fn is_active(job: &JobSummary) -> bool {
    match job.state {
        JobState::Preparing | JobState::Running | JobState::Sealing => true,
        JobState::Queued | JobState::Done => false,
    }
}

pub(super) fn is_queued(job: &JobSummary) -> bool {
    job.state == JobState::Queued
}

pub(super) fn has_failed(job: &JobSummary) -> bool {
    !matches!(job.verdict, None | Some(Verdict::Passed | Verdict::Cancelled))
}

/// Returns the queued jobs by their position.
fn queue(lists: &Lists) -> Vec<&JobSummary> {
    let mut queued: Vec<&JobSummary> = jobs(lists, is_queued).collect();
    queued.sort_by_key(|job| {
        let position = job.waiting.as_ref().and_then(|waiting| waiting.position);
        (position.unwrap_or(u64::MAX), job.created_at.clone())
    });
    queued
}

fn worker_row(lists: &Lists, worker: &WorkerSummary, now: Timestamp) -> Row {
    let (state, colour) = match &worker.quarantined {
        _ if !worker.connected => {
            let seen = worker.last_seen.as_deref().and_then(|seen| age(seen, now));
            (
                format!("away, seen {}", seen.map_or("never".to_owned(), |age| format!("{age} ago"))),
                Colour::Red,
            )
        }
        Some(reason) => (format!("quarantined: {reason}"), Colour::Red),
        None if worker.draining => ("draining".to_owned(), Colour::Yellow),
        None => ("ready".to_owned(), Colour::Green),
    };
    let commands = worker.jobs.iter().filter_map(|id| lists.jobs.iter().find(|job| job.job_id == *id));
    let commands: Vec<&str> = commands.map(|job| job.command.as_str()).collect();
    row(
        &worker.worker_id,
        [
            (&worker.name, Colour::Plain),
            (&format!("{}/{}", worker.busy, worker.slots), Colour::Plain),
            (&state, colour),
            (&commands.join(" · "), Colour::Dim),
        ],
    )
}

fn running_row(lists: &Lists, job: &JobSummary) -> Row {
    let state = match job.state {
        JobState::Running => job.duration_secs.map_or_else(String::new, secs),
        state => state.name().to_owned(),
    };
    let last = lists.last_lines.get(&job.job_id).map_or_else(String::new, |line| output_line(line));
    row(
        &job.job_id,
        [
            (&short(job), Colour::Plain),
            (job.worker.as_deref().unwrap_or_default(), Colour::Plain),
            (&state, Colour::Yellow),
            (&job.command, Colour::Plain),
            (&last, Colour::Dim),
        ],
    )
}

fn queue_row(job: &JobSummary, now: Timestamp) -> Row {
    let waiting = job.waiting.as_ref();
    let position = waiting.and_then(|waiting| waiting.position);
    row(
        &job.job_id,
        [
            (&short(job), Colour::Plain),
            (&position.map_or_else(String::new, |position| format!("#{position}")), Colour::Yellow),
            (&age(&job.created_at, now).unwrap_or_default(), Colour::Plain),
            (&job.command, Colour::Plain),
            (waiting.map_or("", |waiting| &waiting.reason), Colour::Dim),
        ],
    )
}

fn failed_row(job: &JobSummary, now: Timestamp) -> Row {
    let verdict = job.verdict.map_or("", Verdict::name);
    let verdict = match job.exit_code.filter(|code| *code != 0) {
        Some(code) => format!("{verdict} ({code})"),
        None => verdict.to_owned(),
    };
    row(
        &job.job_id,
        [
            (&short(job), Colour::Plain),
            (&verdict, Colour::Red),
            (&age(&job.created_at, now).map_or_else(String::new, |age| format!("{age} ago")), Colour::Plain),
            (&job.command, Colour::Plain),
            (job.worker.as_deref().unwrap_or_default(), Colour::Dim),
        ],
    )
}

/// Makes a row from texts of other parties.
fn row<const N: usize>(key: &str, cells: [(&str, Colour); N]) -> Row {
    let clipped = |text: &str| one_line(text).chars().take(CELL_MAX).collect();
    let cells = cells.map(|(text, colour)| (clipped(text), colour));
    Row { key: key.to_owned(), cells: cells.into() }
}

/// Returns the first digits of a job's id: the timestamp of a UUIDv7.
pub(super) fn short(job: &JobSummary) -> String {
    one_line(&job.job_id).chars().filter(|c| *c != '-').take(12).collect()
}

/// Formats the time since a moment.
fn age(moment: &str, now: Timestamp) -> Option<String> {
    let moment: Timestamp = moment.parse().ok()?;
    Some(durations::coarse(Duration::try_from(now.duration_since(moment)).unwrap_or_default()))
}

fn secs(secs: f64) -> String {
    durations::coarse(Duration::try_from_secs_f64(secs).unwrap_or_default())
}
