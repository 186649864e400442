//! Tests of draining and resuming a worker.

use crate::scene::{Scene, desired, drains, granted, held, refusal, refused_as, register, spec, submit};
use buildpool_pool::{DesiredState, Input};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::outcome::{EndReason, Ending};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::{Condition, HeldState, Register};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_draining_worker_finishes_what_it_has_and_takes_nothing_new() {
    let mut scene = Scene::new();
    scene.mac(1, 2);
    scene.plain(1);
    let effects = scene.drain("mac-1", true, None);
    assert_eq!(drains(&effects), [(true, None)]);
    assert_eq!(granted(&scene.plain(2)), [0; 0]);
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [0; 0]);
    assert_eq!(granted(&scene.drain("mac-1", false, None)), [2]);
}

#[test]
fn what_a_drain_ended_goes_back_and_does_not_count_as_a_loss() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.drain("mac-1", true, Some(MINUTE));
    let effects = scene.pass(MINUTE);
    assert_eq!(drains(&effects), [(true, Some(Duration::ZERO))], "the worker is reminded");
    let killed = Ending::Signaled { signal: 15, name: "SIGTERM".into(), core_dump: false };
    scene.complete(lease, killed, Some(EndReason::Drained));
    let live = scene.live(1).expect("queued again");
    assert!(live.waiting.is_some());
    assert!(live.attempts.iter().all(|attempt| !attempt.counted));
    scene.mac(2, 1);
    assert_eq!(scene.lease(1).attempt.number, 2);
}

#[test]
fn what_a_drain_ended_does_not_run_twice_when_it_may_not() {
    for on_lost in [OnLost::Fail, OnLost::Wait] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 1);
        scene.send(submit(1, "a", JobSpec { on_lost, ..spec() }));
        let lease = scene.lease(1);
        scene.report(session, vec![held(lease, HeldState::Running)]);
        scene.drain("mac-1", true, Some(MINUTE));
        let killed = Ending::Signaled { signal: 15, name: "SIGTERM".into(), core_dump: false };
        scene.complete(lease, killed, Some(EndReason::Drained));
        assert_eq!(scene.verdict(1), Some(Verdict::Lost), "{on_lost:?}");
        assert!(scene.cause(1).contains("its worker was drained"), "{}", scene.cause(1));
    }
}

#[test]
fn a_grant_on_its_way_to_a_drained_worker_is_not_given_to_another() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.mac(2, 1);
    scene.drain("mac-1", true, Some(MINUTE));
    assert_eq!(granted(&scene.pass(MINUTE * 2)), [0; 0]);
    let answer = desired(&scene.report(session, vec![held(lease, HeldState::Running)]));
    assert_eq!(answer, [DesiredState::Continue(lease)], "it began, and ends by its worker's own word");
}

#[test]
fn a_worker_that_is_away_hears_of_its_drain_when_it_is_back() {
    for (draining, deadline, told) in [
        (true, None, vec![]),
        (true, Some(MINUTE), vec![(true, Some(Duration::from_secs(20)))]),
        (false, None, vec![(false, None)]),
    ] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 1);
        if !draining {
            scene.drain("mac-1", true, None);
        }
        scene.gone(session);
        scene.drain("mac-1", draining, deadline);
        scene.pass(Duration::from_secs(40));
        let (session, effects) = scene.join(Register { condition: drained(), ..register(1, 1) });
        assert_eq!(drains(&effects), told, "draining {draining}");
        assert_eq!(granted(&scene.plain(1)), [0; 0], "it has not reported that it takes jobs");
        assert_eq!(granted(&scene.report(session, Vec::new())).is_empty(), draining);
        scene.gone(session);
        let (_, effects) = scene.join(register(1, 1));
        assert_eq!(drains(&effects).is_empty(), !draining, "a resume is not sent any more, a drain is");
    }
}

/// Condition of a worker that drains.
fn drained() -> Condition {
    Condition { draining: true, ..Condition::default() }
}

#[test]
fn a_resume_is_told_until_the_worker_takes_jobs_again_over_restarts_too() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.drain("mac-1", true, None);
    scene.report(session, Vec::new());
    scene.gone(session);
    scene.drain("mac-1", false, None);
    for _ in 0..2 {
        scene.restart();
        // The message is lost with its connection.
        let (session, effects) = scene.join(Register { condition: drained(), ..register(1, 1) });
        assert_eq!(drains(&effects), [(false, None)]);
        scene.gone(session);
    }
    let (session, effects) = scene.join(register(1, 1));
    assert_eq!(drains(&effects), []);
    scene.gone(session);
    let (_, effects) = scene.join(Register { condition: drained(), ..register(1, 1) });
    assert_eq!(drains(&effects), [], "from now on a drain is its own");
}

#[test]
fn a_worker_that_is_about_to_end_is_not_resumed() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    let says =
        |scene: &mut Scene| scene.step(Input::Reported { session, held: Vec::new(), condition: drained() });
    says(&mut scene);
    assert_eq!(drains(&scene.drain("mac-1", false, None)), [(false, None)]);
    assert!(scene.pool.workers()[0].draining, "it has not reported another state");
    assert_eq!(granted(&scene.plain(1)), [0; 0]);
    assert!(scene.reason(1).contains("draining"), "{}", scene.reason(1));
    assert_eq!(granted(&says(&mut scene)), [0; 0]);
    assert_eq!(granted(&scene.report(session, Vec::new())), [1]);
}

#[test]
fn the_deadline_of_a_drain_outlives_a_restart_of_the_coordinator() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.gone(session);
    scene.pass(MINUTE);
    scene.drain("mac-1", true, Some(MINUTE));
    scene.restart_at(scene.clock + Duration::from_secs(40));
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(drains(&effects), [(true, Some(Duration::from_secs(20)))]);
    scene.restart_at(scene.clock + MINUTE);
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(drains(&effects), [(true, Some(Duration::ZERO))]);
}

#[test]
fn a_worker_may_drain_by_its_own_decision() {
    let mut scene = Scene::new();
    let condition = Condition { draining: true, ..Condition::default() };
    let (session, effects) = scene.join(Register { condition, ..register(1, 1) });
    assert_eq!(drains(&effects), []);
    assert_eq!(granted(&scene.plain(1)), [0; 0]);
    assert_eq!(granted(&scene.report(session, Vec::new())), [1]);
}

#[test]
fn a_drain_outlives_a_restart_of_the_coordinator() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.drain("mac-1", true, None);
    scene.restart();
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(drains(&effects), [(true, None)]);
    assert_eq!(granted(&scene.plain(1)), [0; 0]);
}

#[test]
fn a_worker_that_drains_keeps_the_deadline_over_a_restart() {
    for (deadline, told) in [(None, vec![]), (Some(MINUTE), vec![(true, Some(MINUTE))])] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        scene.drain("mac-1", true, deadline);
        scene.restart();
        let condition = Condition { draining: true, ..Condition::default() };
        let (_, effects) = scene.join(Register { condition, ..register(1, 1) });
        assert_eq!(drains(&effects), told);
    }
}

#[test]
fn an_unknown_worker_is_named_with_those_that_there_are() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let effects = scene.drain("mini", true, None);
    assert_eq!(refused_as(&effects), ErrorCode::NotFound);
    assert!(refusal(&effects).message.contains("`mini`; there are: mac-1"));
}

#[test]
fn a_declined_grant_goes_back_to_its_place_and_the_worker_rests_until_its_next_report() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.plain(1);
    let lease = scene.lease(1);
    let decline = |lease| Input::Declined { session, lease, reason: "no slot is free".into() };
    let effects = scene.step(decline(lease));
    assert_eq!(granted(&effects), [0; 0]);
    assert_eq!(scene.reason(1), "the one worker that fits is busy");
    let effects = scene.report(session, Vec::new());
    assert_eq!(granted(&effects), [1]);
    assert!(scene.lease(1).epoch > lease.epoch);
    assert_eq!(granted(&scene.step(decline(lease))), [0; 0], "the old lease means nothing any more");
    assert!(scene.live(1).is_some_and(|live| live.waiting.is_none()));

    scene.report(session, vec![held(scene.lease(1), HeldState::Running)]);
    scene.step(decline(scene.lease(1)));
    assert!(
        scene.live(1).is_some_and(|live| live.waiting.is_none()),
        "it can't decline an attempt that it holds"
    );
}

#[test]
fn a_worker_that_always_declines_does_not_fill_the_memory() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    for _ in 0..500 {
        let lease = scene.lease(1);
        scene.step(Input::Declined { session, lease, reason: "no".into() });
        scene.report(session, Vec::new());
    }
    let live = scene.live(1).expect("it still waits");
    assert!(live.attempts.len() <= 64, "{}", live.attempts.len());
    assert_eq!(scene.lease(1).attempt.number, 501);
}
