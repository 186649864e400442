//! Figures about the jobs of the last 24 hours: how long they waited, how they ended, how many ran.

use super::queries::run_blocking;
use crate::app_state::{AppState, internal, rfc3339, wall_ms};
use crate::store::{JobFilter, JobRecord, Reader};
use buildpool_protocol::client_link::JobCursor;
use buildpool_protocol::error::LinkError;
use buildpool_protocol::limits::JOBS_PAGE_MAX;
use buildpool_protocol::report::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use utoipa::ToSchema;

/// Length of a period, in milliseconds: half an hour.
const PERIOD_MS: i64 = 30 * 60 * 1_000;
/// Number of periods: a day.
const PERIODS: i64 = 48;
/// Limit on the records that are read: of all jobs, or of the jobs of one submitter. Older jobs are then left out of the
/// figures.
const RECORDS_MAX: usize = 20_000;
/// Limit on the submitters whose own figures are kept.
const OWN_KEPT_MAX: usize = 64;
/// Shortest time for which the figures are not made again.
const KEPT_AT_LEAST: Duration = Duration::from_secs(10);
/// Figures are kept for this many times the time it took to make them, so that those of all jobs, and those of each submitter,
/// cost at most 2 % of a processor.
const KEPT_TIMES: u32 = 50;

/// Figures about the finished jobs that were created in the last 24 hours.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct Load {
    /// Begin of the first period (RFC 3339). Later than 24 hours ago if there are too many jobs.
    since: String,
    /// Number of the jobs.
    jobs: u32,
    /// Jobs with verdict `failed`, `crashed` or `timed_out`.
    failed: u32,
    /// Median of the time in the queue, in seconds. Absent if no job ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p50_secs: Option<f64>,
    /// 90th percentile of the time in the queue, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p90_secs: Option<f64>,
    /// Periods of half an hour, the oldest first.
    periods: Vec<Period>,
}

/// Figures about the jobs that were created in a period.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
struct Period {
    /// Begin of the period (RFC 3339).
    from: String,
    jobs: u32,
    failed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p50_secs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p90_secs: Option<f64>,
    /// Run time of the jobs, in seconds.
    busy_secs: f64,
}

/// The facts that were read last, each until a time.
#[derive(Default)]
pub(crate) struct Loads {
    last: Mutex<Option<(Instant, Arc<Facts>)>>,
    /// Figures by submitter, while the facts about all jobs are not complete.
    own: Mutex<BTreeMap<String, (Instant, Load)>>,
}

/// Facts about the jobs of the last 24 hours.
struct Facts {
    jobs: Vec<Fact>,
    since: i64,
    now: i64,
    /// False if jobs of the last 24 hours are missing.
    is_complete: bool,
    /// Figures about all of them.
    all: Load,
}

/// Returns figures about all jobs, or about the jobs of one submitter. The records were read now or a short time ago.
///
/// # Errors
/// If the records can't be read.
pub(super) async fn load(shared: &Arc<AppState>, own: Option<&str>) -> Result<Load, LinkError> {
    let facts = facts(shared).await?;
    let Some(own) = own.map(str::to_owned) else { return Ok(facts.all.clone()) };
    if !facts.is_complete {
        return own_load(shared, own).await;
    }
    run_blocking(move || {
        let own = facts.jobs.iter().filter(|fact| *fact.submitter == *own).collect();
        figures(own, facts.since, facts.now)
    })
    .await
}

/// Returns figures about one submitter, from its own records.
async fn own_load(shared: &Arc<AppState>, own: String) -> Result<Load, LinkError> {
    {
        let mut kept = shared.loads.own.lock().await;
        kept.retain(|_, (until, _)| Instant::now() < *until);
        if let Some((_, load)) = kept.get(&own) {
            return Ok(load.clone());
        }
    }
    let begun = Instant::now();
    let (reading, submitter, now) = (Arc::clone(shared), own.clone(), wall_ms());
    let facts = run_blocking(move || read(&reading.reader, now, Some(&submitter), RECORDS_MAX)).await??;
    let load = facts.all;
    let mut kept = shared.loads.own.lock().await;
    if kept.len() >= OWN_KEPT_MAX
        && let Some(first) = kept.iter().min_by_key(|(_, (until, _))| *until).map(|(name, _)| name.clone())
    {
        kept.remove(&first);
    }
    kept.insert(own, (kept_until(begun), load.clone()));
    Ok(load)
}

/// Returns the time until which figures are kept that were begun at this time and are ready now.
fn kept_until(begun: Instant) -> Instant {
    Instant::now() + KEPT_AT_LEAST.max(KEPT_TIMES * begun.elapsed())
}

async fn facts(shared: &Arc<AppState>) -> Result<Arc<Facts>, LinkError> {
    let mut last = shared.loads.last.lock().await;
    if let Some((until, facts)) = &*last
        && Instant::now() < *until
    {
        return Ok(facts.clone());
    }
    let begun = Instant::now();
    let reading = Arc::clone(shared);
    let now = wall_ms();
    let facts = Arc::new(run_blocking(move || read(&reading.reader, now, None, RECORDS_MAX)).await??);
    *last = Some((kept_until(begun), facts.clone()));
    Ok(facts)
}

/// Reads the newest jobs of the last 24 hours, of all submitters or of one, until there are at least `records_max`.
fn read(reader: &Reader, now: i64, principal: Option<&str>, records_max: usize) -> Result<Facts, LinkError> {
    let since = (now / PERIOD_MS - PERIODS + 1) * PERIOD_MS;
    let mut filter = JobFilter { done: Some(true), since_ms: Some(since), principal, ..JobFilter::default() };
    let mut jobs: Vec<Fact> = Vec::new();
    loop {
        let records = reader.jobs(&filter, JOBS_PAGE_MAX).map_err(internal)?;
        jobs.extend(records.iter().map(Fact::of));
        let last =
            records.last().map(|record| JobCursor { created_at_ms: record.created_at_ms, job: record.job });
        filter.after = last;
        let is_complete = records.len() < JOBS_PAGE_MAX;
        if is_complete || jobs.len() >= records_max {
            let oldest = jobs.last().filter(|_| !is_complete);
            let since = oldest.map_or(since, |oldest| oldest.created_ms / PERIOD_MS * PERIOD_MS);
            let all = figures(jobs.iter().collect(), since, now);
            return Ok(Facts { jobs, since, now, is_complete, all });
        }
    }
}

/// The values of a job that the figures need.
struct Fact {
    submitter: Box<str>,
    created_ms: i64,
    wait_secs: Option<f64>,
    busy_secs: f64,
    failed: bool,
}

impl Fact {
    fn of(record: &JobRecord) -> Self {
        let granted = record.attempts.first().map(|attempt| attempt.granted_at_ms);
        let done = record.done.as_ref();
        Self {
            submitter: record.submitter.as_str().into(),
            created_ms: record.created_at_ms,
            wait_secs: granted.map(|granted| seconds(granted - record.created_at_ms)),
            busy_secs: done
                .and_then(|done| done.duration_ms)
                .map_or(0.0, |ms| Duration::from_millis(ms).as_secs_f64()),
            failed: done.is_some_and(|done| {
                matches!(done.verdict, Verdict::Failed | Verdict::Crashed | Verdict::TimedOut)
            }),
        }
    }
}

fn seconds(ms: i64) -> f64 {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default()).as_secs_f64()
}

fn figures(facts: Vec<&Fact>, since: i64, now: i64) -> Load {
    let periods = (0..=(now - since) / PERIOD_MS).map(|number| {
        let from = since + number * PERIOD_MS;
        let within = facts.iter().filter(|fact| (from..from + PERIOD_MS).contains(&fact.created_ms));
        let within: Vec<&Fact> = within.copied().collect();
        let waits = sorted(within.iter().copied());
        Period {
            from: rfc3339(from),
            jobs: u32::try_from(within.len()).unwrap_or(u32::MAX),
            failed: failed(within.iter().copied()),
            wait_p50_secs: percentile(&waits, 50),
            wait_p90_secs: percentile(&waits, 90),
            busy_secs: within.iter().map(|fact| fact.busy_secs).sum(),
        }
    });
    let waits = sorted(facts.iter().copied());
    Load {
        since: rfc3339(since),
        jobs: u32::try_from(facts.len()).unwrap_or(u32::MAX),
        failed: failed(facts.iter().copied()),
        wait_p50_secs: percentile(&waits, 50),
        wait_p90_secs: percentile(&waits, 90),
        periods: periods.collect(),
    }
}

fn failed<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> u32 {
    u32::try_from(facts.into_iter().filter(|fact| fact.failed).count()).unwrap_or(u32::MAX)
}

fn sorted<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> Vec<f64> {
    let mut waits: Vec<f64> = facts.into_iter().filter_map(|fact| fact.wait_secs).collect();
    waits.sort_by(f64::total_cmp);
    waits
}

/// Returns the smallest value that this share of the values does not exceed (nearest rank).
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::{Fact, PERIOD_MS, PERIODS, figures, percentile, read};
    use crate::store::tests::support::{done, granted, job, scratch};
    use crate::store::{Record, Store};
    use buildpool_protocol::limits::JOBS_PAGE_MAX;
    use buildpool_protocol::report::Verdict;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[7.0], 90), Some(7.0));
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 90)), (Some(5.0), Some(9.0)));
    }

    #[test]
    fn jobs_count_in_the_period_of_their_creation() {
        let fact = |created_ms, failed| Fact {
            submitter: "a".into(),
            created_ms,
            wait_secs: Some(2.0),
            busy_secs: 3.0,
            failed,
        };
        let facts = [fact(0, false), fact(PERIOD_MS - 1, true), fact(PERIOD_MS, false)];
        let load = figures(facts.iter().collect(), 0, PERIOD_MS + 1);
        assert_eq!((load.jobs, load.failed, load.wait_p90_secs), (3, 1, Some(2.0)));
        let periods: Vec<_> = load.periods.iter().map(|one| (one.jobs, one.failed, one.busy_secs)).collect();
        assert_eq!(periods, [(2, 1, 6.0), (1, 0, 3.0)]);
    }

    #[test]
    fn the_limit_on_records_of_one_submitter_is_not_spent_on_others() {
        let directory = scratch();
        let store = Store::open(directory.path()).unwrap();
        let mut writer = store.writer().unwrap();
        let now = 3 * PERIODS * PERIOD_MS;
        let of = |principal: &str, created_ms: i64| {
            let mut job = done(granted(job(created_ms)), Verdict::Failed, 0);
            job.principal = principal.to_owned();
            Record::Job(Box::new(job))
        };
        let others = (1..=JOBS_PAGE_MAX as i64).map(|number| of("others", now - number));
        let mut records: Vec<Record> = others.collect();
        records.extend([of("ada", now - PERIOD_MS), of("ada", now - 2 * PERIOD_MS)]);
        writer.commit(&records).unwrap();
        let reader = store.reader();
        let all = read(&reader, now, None, 10).unwrap();
        assert_eq!((all.all.jobs, all.all.periods.len(), all.is_complete), (JOBS_PAGE_MAX as u32, 2, false));
        let own = read(&reader, now, Some("ada"), 10).unwrap();
        assert_eq!((own.all.jobs, own.all.failed, own.is_complete), (2, 2, true));
    }
}
