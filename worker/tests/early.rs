//! Tests of grants that arrive before a slot is free.

mod support;

use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::{EndReason, Ending};
use support::{Coordinator, Worker, config, shell, until};

/// A coordinator with a worker that has one slot.
async fn pool() -> (Coordinator, Worker, tempfile::TempDir) {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    let mut config = config(&coordinator, data.path());
    config.slots = 1;
    let worker = Worker::start(config);
    coordinator.registered(1).await;
    (coordinator, worker, data)
}

/// The reason of the worker that declined this grant, once it has.
fn declined(coordinator: &Coordinator, lease: Lease) -> Option<String> {
    let of_lease = |(declined, reason): &(Lease, String)| (*declined == lease).then(|| reason.clone());
    coordinator.read(|book| book.declined.iter().find_map(of_lease))
}

/// Rounds in which a slow machine may be too late.
const ROUNDS_MAX: usize = 20;

/// Sends so many grants and then an order about the last one, until the worker declines that one for this reason. On a slow
/// machine, its time can be over before the order arrives.
async fn is_declined_as(coordinator: &Coordinator, reason: &str, grants: usize, order: impl Fn(Lease)) {
    let mut reasons = Vec::new();
    while !reasons.iter().any(|given: &String| given == reason) {
        assert!(reasons.len() < ROUNDS_MAX, "expected `{reason}`: {reasons:?}");
        let leases: Vec<Lease> = (0..grants).map(|_| coordinator.grant(shell("true"))).collect();
        order(leases[grants - 1]);
        let mut last = String::new();
        for lease in leases {
            last = until("the early grant to be declined", || declined(coordinator, lease)).await;
        }
        reasons.push(last);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_without_a_free_slot_starts_when_the_running_job_ends() {
    let (coordinator, _worker, _data) = pool().await;
    for _ in 0..ROUNDS_MAX {
        let leases = [(); 2].map(|()| coordinator.grant(shell("true")));
        assert_eq!(coordinator.outcome(leases[0]).await.ending, Ending::Exited { code: 0 });
        let has_ended = until("the early grant to start or to be declined", || {
            let has_ended = coordinator.read(|book| book.outcomes.contains_key(&leases[1]));
            (has_ended || declined(&coordinator, leases[1]).is_some()).then_some(has_ended)
        });
        if has_ended.await {
            return;
        }
        // On a slow machine, the first job does not always end in time.
    }
    panic!("no early grant started: {:?}", coordinator.read(|book| book.declined.clone()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_can_not_start_soon_is_declined() {
    let (coordinator, _worker, _data) = pool().await;
    let running = coordinator.grant(shell("echo begun; exec sleep 1000"));
    coordinator.until_output(running, "begun").await;
    is_declined_as(&coordinator, "the worker had no free slot in time", 1, |_| {}).await;
    let cancel = |lease| coordinator.cancel(lease);
    is_declined_as(&coordinator, "it was ended before it started", 1, cancel).await;
    // There are two for each slot.
    is_declined_as(&coordinator, "the worker has no free slot", 3, |_| {}).await;
    coordinator.cancel(running);
    let acted = coordinator.outcome(running).await.acted;
    assert!(matches!(acted, Some(EndReason::Cancelled { .. })), "{acted:?}");
    assert_eq!(coordinator.read(|book| book.outcomes.len()), 1, "no other job ran");
}
