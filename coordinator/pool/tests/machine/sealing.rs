//! Jobs whose command has ended: their logs arrive, and the coordinator digests them.

use crate::scene::*;
use buildpool_pool::{Effect, Input};
use buildpool_protocol::limits;
use buildpool_protocol::outcome::{EndReason, Ending};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::{HeldState, Register};
use std::time::Duration;

/// How long a cancel may take at most.
const CANCELLED_WITHIN: Duration =
    Duration::from_secs(limits::GRACE.as_secs() + 60 + limits::CANCEL_MARGIN.as_secs());

fn cuts(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::CutDigest { .. })).count()
}

#[test]
fn a_confirmed_end_is_no_reason_for_a_quarantine() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.cancel(1, "a");
    scene.report(session, vec![held(lease, HeldState::Ended)]);
    scene.pass(CANCELLED_WITHIN - SECOND);
    assert_eq!(scene.pool.workers()[0].quarantined, None);
    assert_eq!(granted(&scene.plain(2)), [2]);
}

#[test]
fn a_cancelled_job_whose_log_has_arrived_keeps_its_result() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.cancel(1, "a");
    scene.report(session, vec![held(lease, HeldState::Ended)]);
    scene.step(Input::LogArrived { lease });
    assert_eq!(scene.reason(1), "the coordinator digests its log");
    assert_eq!(cuts(&scene.pass(CANCELLED_WITHIN - SECOND)), 0);
    assert_eq!(cuts(&scene.pass(SECOND)), 1, "the digest ends with what it has read");
    assert_eq!((scene.verdict(1), scene.pool.workers()[0].quarantined.clone()), (None, None));
    scene.complete(
        lease,
        Ending::Exited { code: 0 },
        Some(EndReason::Cancelled { by: "a".into(), reason: "enough".into() }),
    );
    let done = &scene.disk.done[&job(1)];
    assert!(done.outcome.is_some(), "the facts of the worker are in the record");
    assert_eq!(done.attempt, 1);
}

#[test]
fn an_arrived_log_is_digested_without_its_worker() {
    for comes_back in [false, true] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 1);
        scene.mac(2, 1);
        scene.plain(1);
        let lease = scene.lease(1);
        scene.report(session, vec![held(lease, HeldState::Ended)]);
        scene.step(Input::LogArrived { lease });
        scene.gone(session);
        assert_eq!(scene.reason(1), "the coordinator digests its log");
        if comes_back {
            // With an empty disk.
            scene.join(Register { boot: boot(7), earlier: vec![boot(1)], ..register(1, 1) });
        }
        assert_eq!(granted(&scene.pass(LOST_AFTER * 2)), [0; 0], "it does not run again");
        scene.pass_job(lease);
        assert_eq!(scene.verdict(1), Some(Verdict::Passed));
    }
}

#[test]
fn a_log_of_an_old_lease_changes_nothing() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let mut lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    lease.epoch += 1;
    assert_eq!(scene.step(Input::LogArrived { lease }), []);
    scene.cancel(1, "a");
    scene.pass(CANCELLED_WITHIN);
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled));
}

#[test]
fn a_cancelled_job_whose_digest_does_not_end_ends_without_it() {
    let digest_within = Duration::from_secs(60);
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Ended)]);
    scene.step(Input::LogArrived { lease });
    scene.cancel(1, "a");
    assert_eq!(cuts(&scene.pass(CANCELLED_WITHIN)), 1);
    assert_eq!(cuts(&scene.pass(digest_within - SECOND)), 0);
    assert_eq!(scene.verdict(1), None, "the digest has its time");
    scene.pass(SECOND);
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled));
    assert!(scene.cause(1).contains("did not digest its log in time"), "{}", scene.cause(1));
    assert_eq!(scene.pool.workers()[0].quarantined, None, "its worker confirmed the end");
    scene.pass_job(lease);
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled), "a late result changes nothing");
    assert_eq!(granted(&scene.plain(2)), [2]);
}

#[test]
fn an_older_attempt_that_has_ended_confirms_no_end_of_a_newer_one() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.send(submit(1, "a", JobSpec { on_lost: OnLost::Rerun, ..spec() }));
    let first = scene.lease(1);
    scene.report(session, vec![held(first, HeldState::Running)]);
    scene.complete(first, Ending::Exited { code: 1 }, Some(EndReason::Drained));
    let second = scene.lease(1);
    assert_ne!(first, second, "it runs again");
    let both = vec![held(first, HeldState::Ended), held(second, HeldState::Running)];
    scene.report(session, both.clone());
    scene.cancel(1, "a");
    scene.pass(limits::GRACE + Duration::from_secs(60));
    assert!(scene.pool.workers()[0].quarantined.is_some());
    scene.report(session, both);
    assert!(scene.pool.workers()[0].quarantined.is_some(), "the newer attempt still runs");
    scene.report(session, vec![held(first, HeldState::Ended), held(second, HeldState::Ended)]);
    assert_eq!(scene.pool.workers()[0].quarantined, None);
}
