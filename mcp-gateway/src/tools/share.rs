//! The share of a worker's processors that one job's build may use.

use super::Call;
use super::run::Options;
use buildpool_protocol::client_link::WorkerSummary;
use buildpool_protocol::spec::{CPUS, Selector};
use std::num::NonZeroU32;
use std::time::Duration;

/// Limit on the wait for the list of workers. Without the list, a build uses all processors of its
/// machine.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Minimum share, so that a build does not run one compiler at a time.
const SHARE_MIN: u32 = 2;

/// Returns the smallest share of the workers that can run the call. Returns `None` if the pool does
/// not answer in time or has no such worker.
pub(super) async fn of(call: &Call, options: &Options) -> Option<NonZeroU32> {
    let workers = async { call.pool.client().await.ok()?.workers().await.ok() };
    let workers = tokio::time::timeout(WAIT_MAX, workers).await.ok()??;
    let matches = |worker: &&WorkerSummary, set: &[Selector]| {
        options.selectors.iter().chain(set).all(|selector| selector.matches(&worker.labels))
    };
    let can_run = |worker: &&WorkerSummary| match options.on.as_slice() {
        [] => matches(worker, &[]),
        sets => sets.iter().any(|set| matches(worker, set)),
    };
    let is_local = call.pool.is_local();
    workers
        .iter()
        .filter(|worker| worker.connected)
        .filter(can_run)
        .filter_map(|worker| share(worker, is_local))
        .min()
}

/// Returns the share of one slot of a worker. The local pool has one slot for each processor, so
/// the share is that of the jobs that run.
fn share(worker: &WorkerSummary, is_local: bool) -> Option<NonZeroU32> {
    let processors = worker.resources.get(CPUS).copied().filter(|count| *count > 0)?;
    let jobs = if is_local { worker.busy.saturating_add(1) } else { worker.slots.max(1) };
    NonZeroU32::new((processors / jobs).max(SHARE_MIN).min(processors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_least_two_processors_if_the_worker_has_them() {
        for (processors, slots, busy, is_local, expected) in [
            (8, 2, 0, false, Some(4)),
            (8, 2, 2, false, Some(4)),
            (8, 8, 0, false, Some(2)),
            (1, 4, 0, false, Some(1)),
            (8, 8, 0, true, Some(8)),
            (8, 8, 3, true, Some(2)),
            (0, 1, 0, false, None),
        ] {
            let worker = WorkerSummary {
                name: "w".into(),
                worker_id: String::new(),
                token: None,
                connected: true,
                draining: false,
                quarantined: None,
                slots,
                busy,
                labels: std::collections::BTreeMap::new(),
                resources: [(CPUS.to_owned(), processors)].into(),
                accepts: Vec::new(),
                jobs: Vec::new(),
                last_seen: None,
                version: String::new(),
                disk_free_bytes: None,
                disk_total_bytes: None,
                upgrade_target: None,
                upgrade: None,
            };
            let share = share(&worker, is_local).map(NonZeroU32::get);
            assert_eq!(share, expected, "{processors} processors, {slots} slots");
        }
    }
}
