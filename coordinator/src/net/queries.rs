//! Read access to the pool, for links and for the web page. Nothing here changes state.

use super::natural;
use crate::app_state::{AppState, internal, internal_log, rfc3339, wall_ms};
use crate::auth::Principal;
use crate::digesting;
use crate::logtext;
use crate::priority::{Niceness, give_way};
use crate::recent_jobs::FinishedJob;
use crate::result;
use crate::runtime::{ListQuery, ListedJob};
use crate::store::{JobFilter, JobRecord, LogError};
use buildpool_digest::Digest;
use buildpool_digest::manifest::{Manifest, Part, manifest};
use buildpool_pool::{LiveJob, WorkerView};
use buildpool_protocol::client_link::{
    JobCursor, JobQuery, JobSummary, LogQuery, StreamChoice, View, WorkerSummary,
};
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::ids::{BuildId, JobId};
use buildpool_protocol::limits::{BUILD_JOBS_MAX, CONTROL_MESSAGE_BYTES_MAX, JOBS_PAGE_MAX};
use buildpool_protocol::report::{EARLIER_OUTPUT, JobResult, JobState, Omission};
use buildpool_protocol::spec::{Purpose, Reads};
use std::cmp::Reverse;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Number of output lines in the answer about a running job.
const LAST_LINES: u64 = 10;
/// Limit on their characters.
const LAST_LINES_CHARS: usize = 2_000;
/// Factor by which a test runner's JSON records are longer than their text.
const LINES_OF_RECORDS: usize = 6;
/// Limit on the bytes of each line.
const LAST_LINE_BYTES: usize = 200;

/// Returns the result of a finished job to the reader of this name. Uses the digest in memory if it has the requested
/// template; otherwise digests the log again.
pub(crate) async fn rendered(
    shared: &Arc<AppState>,
    reader: &str,
    finished: &Arc<FinishedJob>,
    view: &View,
) -> JobResult {
    let mut result = from_digest(shared, reader, finished, view).await;
    result.short_id = shared.reader.short_id(finished.record.job).ok();
    result
}

/// Returns the state of an unfinished job. If it runs: with its last lines, its silence and the
/// running test.
pub(crate) async fn live(shared: &Arc<AppState>, reader: &str, live: &LiveJob) -> JobResult {
    let short_id = shared.reader.short_id(live.record.job).ok();
    let mut result = JobResult { short_id, ..result::of_live(live, wall_ms()) };
    if result.state == JobState::Running {
        let progress = result::progress(live, &shared.connections);
        (result.running_test, result.silent_secs) = (progress.running_test, progress.silent_secs);
        let (lines, earlier) = last_lines(shared, reader, live.record.job, live.record.spec.purpose).await;
        (result.last_lines, result.omitted) = (lines, earlier.into_iter().collect());
    }
    result
}

/// Returns the last lines of a running job, both streams in order, and the omission of the output before
/// them. If the log can't be read, the result is empty, because the state does not depend on it.
async fn last_lines(
    shared: &Arc<AppState>,
    reader: &str,
    job: JobId,
    purpose: Purpose,
) -> (Vec<String>, Option<Omission>) {
    let is_records = purpose == Purpose::Tests;
    let raw = if is_records { LINES_OF_RECORDS } else { 1 };
    let query = LogQuery {
        stream: StreamChoice::Interleaved,
        tail: Some(LAST_LINES * raw as u64),
        characters_max: Some(LAST_LINES_CHARS * raw),
        ..LogQuery::default()
    };
    let answer = logtext::answer(shared, reader, job, &query).await.unwrap_or_default();
    let text = answer.interleaved.unwrap_or_default();
    let clipped = |line: &str| line[..line.floor_char_boundary(LAST_LINE_BYTES)].to_owned();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut lines = if is_records { buildpool_digest::readable(lines) } else { lines };
    let mut chars = 0;
    let fits = |line: &&String| {
        chars += line.chars().count() + 1;
        chars <= LAST_LINES_CHARS
    };
    let kept = lines.iter().rev().take(LAST_LINES as usize).take_while(fits).count();
    let gone = lines.drain(..lines.len() - kept).count() as u64;
    let shown: Vec<String> = lines.iter().map(|line| clipped(line)).collect();
    let clipped: usize = lines.iter().zip(&shown).map(|(line, shown)| line.len() - shown.len()).sum();
    let before = answer
        .omitted
        .iter()
        .fold((gone, clipped as u64), |(lines, bytes), cut| (lines + cut.lines, bytes + cut.bytes));
    let get = format!("buildpool logs {job} --stream interleaved");
    let earlier = Omission { what: EARLIER_OUTPUT.to_owned(), lines: before.0, bytes: before.1, get };
    (shown, Some(earlier).filter(|_| before != (0, 0)))
}

async fn from_digest(
    shared: &Arc<AppState>,
    reader: &str,
    finished: &Arc<FinishedJob>,
    view: &View,
) -> JobResult {
    let is_at_hand = finished.digest.is_some()
        && view.template.as_ref().is_none_or(|wanted| Some(wanted) == finished.record.spec.template.as_ref());
    if is_at_hand || finished.record.done.as_ref().is_none_or(|done| done.outcome.is_none()) {
        return result::of_finished(finished, finished.digest.as_deref(), view);
    }
    match digest_of(shared, reader, finished, view).await {
        Ok(digest) => result::of_finished(finished, digest.as_ref(), view),
        Err(error) => {
            let mut result = result::of_finished(finished, None, view);
            result.warnings.count += 1;
            result.warnings.shown.push(error.message);
            result
        }
    }
}

/// Digests the log of a finished job again, with a permit of the reader of this name. Returns `None` if nothing ran.
pub(crate) async fn digest_of(
    shared: &Arc<AppState>,
    reader: &str,
    finished: &Arc<FinishedJob>,
    view: &View,
) -> Result<Option<Digest>, LinkError> {
    let permit = shared.request_limits.log(reader).await;
    let (shared, finished, template) = (shared.clone(), finished.clone(), view.template.clone());
    tokio::task::spawn_blocking(move || {
        // The work goes on if its request is given up.
        let _permit = permit;
        let history = shared.history(&finished.record.spec);
        let mut digest = digesting::again(&shared.logs, &finished.record, history, template)?;
        if let Some(digest) = &mut digest {
            shared.tests.annotate(&finished.record.spec, digest);
        }
        Ok(digest)
    })
    .await
    .unwrap_or(Err(LogError::Broken))
    .map_err(|error| internal_log(&error))
}

/// Returns the manifest of a build, with job ids as names.
pub(crate) async fn build(
    shared: &Arc<AppState>,
    principal: &Principal,
    build: BuildId,
) -> Result<Manifest, LinkError> {
    let query = JobQuery { build: Some(build), ..JobQuery::default() };
    let mut jobs = jobs(shared, principal, ListQuery { query, limit: BUILD_JOBS_MAX }).await?.jobs;
    jobs.reverse();
    let Some(first) = jobs.first() else {
        let text =
            format!("no job of {} is known; `buildpool jobs` lists the known jobs", build.request_id());
        return Err(LinkError::new(ErrorCode::UnknownJob, text));
    };
    let mut timestamp = first.created_at.clone();
    let mut digests: Vec<Option<Arc<Digest>>> = Vec::new();
    for job in &jobs {
        let mut digest = None;
        if job.verdict.is_some() {
            let finished = shared.finished(shared.resolve(principal, &job.job_id)?)?;
            if let Some(done) = &finished.record.done {
                timestamp = timestamp.max(rfc3339(done.finished_at_ms));
            }
            digest = match &finished.digest {
                Some(digest) => Some(digest.clone()),
                None => digest_of(shared, &principal.name, &finished, &View::default()).await?.map(Arc::new),
            };
        }
        digests.push(digest);
    }
    let parts: Vec<Part<'_>> = jobs
        .iter()
        .zip(&digests)
        .map(|(job, digest)| Part { name: &job.job_id, verdict: job.verdict, digest: digest.as_deref() })
        .collect();
    Ok(manifest(&build.request_id(), &parts, &timestamp, None))
}

/// Maximum length of a command, a project and a headline in a list, in bytes. A list of [`JOBS_PAGE_MAX`] jobs must fit into a message.
const LISTED_TEXT_BYTES_MAX: usize = 512;
/// Maximum records that are read for one list.
const RECORDS_READ_MAX: usize = 20 * JOBS_PAGE_MAX;

/// A part of a list of jobs.
pub(crate) struct Page {
    /// Newest first.
    pub(crate) jobs: Vec<JobSummary>,
    /// The list continues after this place. `None` if all jobs that match are in this page or in earlier ones.
    pub(crate) next_cursor: Option<JobCursor>,
}

/// Returns jobs that match and that the principal may read, live and finished, newest first.
pub(crate) async fn jobs(
    shared: &Arc<AppState>,
    principal: &Principal,
    mut wanted: ListQuery,
) -> Result<Page, LinkError> {
    if principal.only.reads == Reads::Own {
        wanted.query.submitter = Some(own_name(principal, wanted.query.submitter)?);
    }
    wanted.limit = wanted.limit.clamp(1, JOBS_PAGE_MAX);
    let now = wall_ms();
    let live = match wanted.query.verdict {
        None => shared.runtime.newest_live(wanted.clone()).await,
        Some(_) => Vec::new(),
    };
    let shared = Arc::clone(shared);
    run_blocking(move || merged(&shared, &wanted, &live, now)).await?
}

/// Returns the jobs that wait longest and that the principal may read, in the order of their positions.
pub(crate) async fn queue(shared: &AppState, principal: &Principal) -> Vec<JobSummary> {
    let submitter = (principal.only.reads == Reads::Own).then(|| principal.name.clone());
    let waiting = shared.runtime.longest_waiting(submitter).await;
    let now = wall_ms();
    let mut jobs: Vec<JobSummary> =
        waiting.iter().map(|live| shortened(result::summary_of_live(live, now))).collect();
    let position = |job: &JobSummary| job.waiting.as_ref().and_then(|waiting| waiting.position);
    jobs.sort_by_key(|job| position(job).unwrap_or(u64::MAX));
    jobs
}

/// Does long work on a thread of its own, which gives way to those that serve connections and jobs. [`RequestLimits`] limits how
/// many there are.
///
/// [`RequestLimits`]: super::request_limits::RequestLimits
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LinkError> {
    let failed = || {
        LinkError::new(ErrorCode::Internal, "the answer can't be made; the coordinator's log has the reason")
    };
    let (made, answer) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        give_way(Niceness::Answer);
        // Reads from a PostgreSQL server need it.
        let _runtime = runtime.enter();
        // The receiver is dropped if the request is given up.
        let _ = made.send(work());
    };
    if let Err(error) = std::thread::Builder::new().name("answer".into()).spawn(work) {
        tracing::warn!(%error, "no thread for a long answer");
        return Err(failed());
    }
    answer.await.map_err(|_| failed())
}

/// Returns the live jobs and those of the store as one list.
fn merged(shared: &AppState, wanted: &ListQuery, live: &[LiveJob], now: i64) -> Result<Page, LinkError> {
    let mut found: Vec<(JobCursor, JobSummary)> = Vec::new();
    for live in live {
        let place = JobCursor { created_at_ms: live.record.created_at_ms, job: live.record.job };
        found.push((place, result::summary_of_live(live, now)));
    }
    let mut next_cursor = None;
    if wanted.query.state.is_none_or(|state| state == JobState::Done) {
        let (records, rest) = finished(shared, wanted)?;
        next_cursor = rest;
        found.extend(records.iter().map(|record| (place(record), result::summary_of_record(record))));
    }
    found.sort_by_key(|(place, _)| Reverse(*place));
    found.dedup_by_key(|(place, _)| *place);
    if found.len() >= wanted.limit {
        found.truncate(wanted.limit);
        next_cursor = found.last().map(|(place, _)| *place);
    }
    Ok(Page { jobs: found.into_iter().map(|(_, summary)| shortened(summary)).collect(), next_cursor })
}

const fn place(record: &JobRecord) -> JobCursor {
    JobCursor { created_at_ms: record.created_at_ms, job: record.job }
}

/// Returns the only submitter whose jobs this principal may list.
fn own_name(principal: &Principal, wanted: Option<String>) -> Result<String, LinkError> {
    let name = &principal.name;
    match wanted.filter(|wanted| wanted != name) {
        None => Ok(name.clone()),
        Some(wanted) => {
            let text = format!(
                "submitter: `{}`: the token `{name}` reads its own jobs only (`reads own`); valid is `{name}`",
                wanted.escape_debug()
            );
            Err(LinkError::new(ErrorCode::Forbidden, text))
        }
    }
}

/// Returns the newest finished jobs that match. If the limit on records ends the search, also returns where it ended.
fn finished(shared: &AppState, wanted: &ListQuery) -> Result<(Vec<JobRecord>, Option<JobCursor>), LinkError> {
    let JobQuery { build, since_ms, .. } = wanted.query;
    let mut filter =
        JobFilter { done: Some(true), build, since_ms, after: wanted.after(), ..JobFilter::default() };
    // Most lists select all jobs, and then one page is enough.
    let page = if wanted.is_decided_by_store() { wanted.limit } else { JOBS_PAGE_MAX };
    let mut found: Vec<JobRecord> = Vec::new();
    for _ in 0..RECORDS_READ_MAX / JOBS_PAGE_MAX {
        let records = shared.reader.jobs(&filter, page).map_err(internal)?;
        let is_last = records.len() < page;
        filter.after = records.last().map(place);
        found.extend(records.into_iter().filter(|record| wanted.selects(&candidate(record))));
        if is_last || found.len() >= wanted.limit {
            found.truncate(wanted.limit);
            return Ok((found, None));
        }
    }
    Ok((found, filter.after))
}

fn candidate(record: &JobRecord) -> ListedJob<'_> {
    ListedJob {
        state: JobState::Done,
        verdict: record.done.as_ref().map(|done| done.verdict),
        place: place(record),
        spec: &record.spec,
        submitter: &record.submitter,
        worker: record.attempts.last().map(|attempt| attempt.worker_name.as_str()),
    }
}

/// Shortens the texts of a list entry.
fn shortened(mut summary: JobSummary) -> JobSummary {
    let texts = [Some(&mut summary.command), summary.headline.as_mut(), summary.project.as_mut()];
    for text in texts.into_iter().flatten() {
        if text.len() > LISTED_TEXT_BYTES_MAX {
            text.truncate(text.floor_char_boundary(LISTED_TEXT_BYTES_MAX));
            text.push('…');
        }
    }
    summary
}

/// Returns the workers after the first `offset` ones, in the natural order of their names, as many as fit into a
/// message, and whether more follow. Each lists those of its jobs that the principal may read.
pub(crate) async fn workers(
    shared: &Arc<AppState>,
    principal: &Principal,
    offset: usize,
) -> Result<(Vec<WorkerSummary>, bool), LinkError> {
    let mut workers = shared.runtime.workers().await;
    let (shared, principal) = (Arc::clone(shared), principal.clone());
    run_blocking(move || {
        workers.sort_by(|left, right| natural::compare(&left.record.name, &right.record.name));
        let rest = workers.into_iter().skip(offset);
        page(rest.map(|worker| summary(&shared, &principal, worker)))
    })
    .await
}

/// Bytes of a page of workers. The rest of the message is for its frame.
const WORKERS_PAGE_BYTES: usize = CONTROL_MESSAGE_BYTES_MAX / 2;

/// Returns the first workers that fit into a message, at least one, and whether more follow.
fn page(workers: impl Iterator<Item = WorkerSummary>) -> (Vec<WorkerSummary>, bool) {
    let mut rest = workers.peekable();
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(worker) = rest.next_if(|worker| {
        bytes += serde_json::to_vec(worker).map_or(0, |text| text.len());
        bytes <= WORKERS_PAGE_BYTES || page.is_empty()
    }) {
        page.push(worker);
    }
    (page, rest.peek().is_some())
}

fn summary(shared: &AppState, principal: &Principal, worker: WorkerView) -> WorkerSummary {
    let readable = worker.jobs.iter().filter(|job| shared.may_read(principal, **job).unwrap_or(false));
    let record = &*worker.record;
    WorkerSummary {
        name: record.name.clone(),
        worker_id: record.worker.to_string(),
        token: record.token.clone(),
        connected: worker.connected,
        draining: worker.draining,
        quarantined: worker.quarantined,
        slots: record.slots,
        busy: worker.busy,
        labels: record.labels.clone(),
        resources: record.resources.clone(),
        accepts: record.accepts.clone(),
        jobs: readable.map(ToString::to_string).collect(),
        last_seen: Some(rfc3339(if worker.connected { wall_ms() } else { record.last_seen_ms })),
        version: record.version.clone(),
        disk_free_bytes: worker.disk_free_bytes,
        disk_total_bytes: worker.disk_total_bytes,
        upgrade_target: worker.upgrade_target,
        upgrade: worker.upgrade,
    }
}

#[cfg(test)]
mod tests {
    use super::{LISTED_TEXT_BYTES_MAX, WORKERS_PAGE_BYTES, page, shortened};
    use buildpool_protocol::client_link::{JobSummary, WorkerSummary};

    #[test]
    fn workers_with_many_labels_come_in_pages_of_bytes() {
        let worker = |number: usize| -> WorkerSummary {
            serde_json::from_value(serde_json::json!({
                "name": format!("w{number}"), "worker_id": number.to_string(), "connected": true,
                "draining": false, "slots": 1, "busy": 0, "jobs": [], "resources": {},
                "labels": {"a": "x".repeat(16_000)}, "last_seen": null, "version": "1"
            }))
            .expect("a worker")
        };
        let all: Vec<WorkerSummary> = (0..300).map(worker).collect();
        let (first, more) = page(all.iter().cloned());
        let bytes = serde_json::to_vec(&first).expect("JSON").len();
        assert!(more && bytes <= WORKERS_PAGE_BYTES + first.len(), "{bytes}");
        let mut seen = Vec::new();
        loop {
            let (some, more) = page(all.iter().skip(seen.len()).cloned());
            seen.extend(some);
            if !more {
                break;
            }
        }
        assert_eq!(seen, all);
        let large = WorkerSummary { name: "x".repeat(2 * WORKERS_PAGE_BYTES), ..all[0].clone() };
        assert_eq!(page([large.clone(), all[1].clone()].into_iter()), (vec![large], true));
    }

    #[test]
    fn a_long_command_is_cut_between_characters() {
        let summary: JobSummary = serde_json::from_value(serde_json::json!({
            "job_id": "1", "command": "é".repeat(500_000), "state": "queued", "submitter": "ada",
            "created_at": "2026-01-01T00:00:00Z"
        }))
        .expect("a summary");
        let command = shortened(summary).command;
        assert!(command.len() <= LISTED_TEXT_BYTES_MAX + '…'.len_utf8(), "{}", command.len());
        assert!(command.ends_with("é…"));
    }
}
