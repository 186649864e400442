//! Tests of a coordinator that restarts with the records on its disk.

use crate::scene::{
    LOST_AFTER, SECOND, Scene, accepted, boot, desired, granted, grants, held, job, register, secret,
    snapshot, spec, submit,
};
use buildpool_pool::{Change, DesiredState, Effect, Input, Submit};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::{HeldState, Register};
use std::time::Duration;

fn with_secret() -> JobSpec {
    JobSpec { secrets: vec!["KEY".into()], ..spec() }
}

#[test]
fn queue_and_running_attempts_are_rebuilt_and_deadlines_start_anew() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    for (number, priority) in [(1, 0), (2, 0), (3, 7)] {
        scene.send(submit(number, "a", JobSpec { priority, ..spec() }));
    }
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.gone(session);
    scene.pass(LOST_AFTER - SECOND);
    scene.restart();
    assert!(scene.live(1).is_some_and(|live| live.waiting.is_none() && !live.connected));
    scene.pass(LOST_AFTER - SECOND);
    assert_eq!(scene.live(1).map(|live| live.attempts[0].counted), Some(false));
    let back = Register { held: vec![held(lease, HeldState::Running)], ..register(1, 1) };
    let (_, effects) = scene.join(back);
    assert_eq!(desired(&effects), [DesiredState::Continue(lease)]);
    assert_eq!(granted(&scene.pass_job(lease)), [3]);
    assert!(scene.lease(3).epoch > lease.epoch);
    let lease = scene.lease(3);
    assert_eq!(granted(&scene.pass_job(lease)), [2]);
}

#[test]
fn a_worker_that_never_comes_back_costs_its_jobs_one_attempt() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    scene.report(session, vec![held(scene.lease(1), HeldState::Running)]);
    scene.restart();
    let (_, effects) = scene.join(register(2, 1));
    assert_eq!(granted(&effects), [0; 0]);
    assert_eq!(granted(&scene.pass(LOST_AFTER)), [1]);
}

#[test]
fn a_grant_that_was_written_and_never_sent_is_sent() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.restart();
    let (session, effects) = scene.join(register(1, 1));
    assert_eq!(grants(&effects), [(lease, session)]);
}

#[test]
fn a_grant_that_another_start_of_the_daemon_may_have_had_is_granted_anew() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.restart();
    let (_, effects) = scene.join(Register { boot: boot(7), earlier: vec![boot(1)], ..register(1, 1) });
    assert_eq!(granted(&effects), [1]);
    assert_eq!(scene.lease(1).attempt.number, lease.attempt.number + 1);
}

#[test]
fn an_attempt_that_was_lost_and_not_granted_again_is_taken_back_after_a_restart() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.gone(session);
    scene.pass(LOST_AFTER);
    scene.restart();
    let (_, effects) = scene.join(Register { held: vec![held(lease, HeldState::Ended)], ..register(1, 1) });
    assert_eq!(desired(&effects), [DesiredState::Continue(lease)]);
    scene.pass_job(lease);
    assert_eq!(scene.verdict(1), Some(Verdict::Passed));
}

#[test]
fn an_end_that_was_asked_for_just_before_is_carried_out() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    scene.plain(2);
    scene.report(session, vec![held(scene.lease(1), HeldState::Running)]);
    let lease = scene.lease(1);
    for number in [1, 2] {
        scene.disk.cancels.insert(job(number), ("a".into(), String::new()));
    }
    scene.restart();
    let back = Register { held: vec![held(lease, HeldState::Running)], ..register(1, 2) };
    let (_, effects) = scene.join(back);
    assert!(matches!(&desired(&effects)[..], [DesiredState::Continue(_), DesiredState::Cancel { .. }]));
    assert_eq!(granted(&effects), [0; 0], "a job that is to end is not granted");
    assert_eq!(scene.verdict(2), Some(Verdict::Cancelled));
    // The time limit for the confirmation also applies after a restart.
    scene.pass(Duration::from_secs(71));
    assert!(scene.pool.workers()[0].quarantined.is_some());
}

#[test]
fn secrets_are_lost_and_come_back_with_their_client_or_the_job_is_given_up() {
    for returns in [true, false] {
        let mut scene = Scene::new();
        let keeper = Submit { secrets: secret("KEY"), ..submit(1, "a", with_secret()) };
        let session = scene.mac(1, 1);
        scene.gone(session);
        scene.send(keeper.clone());
        scene.plain(2);
        scene.restart();
        let (_, effects) = scene.join(register(1, 1));
        assert_eq!(granted(&effects), [2], "it holds up no other job");
        let lease = scene.lease(2);
        scene.pass_job(lease);
        assert!(scene.reason(1).contains("KEY"), "{}", scene.reason(1));
        if returns {
            let effects = scene.send(keeper);
            assert_eq!(accepted(&effects), Some((job(1), true)));
            assert_eq!(granted(&effects), [1]);
        } else {
            scene.pass(LOST_AFTER - SECOND);
            assert_eq!(scene.verdict(1), None);
            scene.pass(SECOND);
            assert_eq!(scene.verdict(1), Some(Verdict::Rejected));
            assert!(scene.cause(1).contains("KEY"), "{}", scene.cause(1));
        }
    }
}

#[test]
fn a_running_job_does_not_need_its_secrets_again_before_it_is_lost() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.send(Submit { secrets: secret("KEY"), ..submit(1, "a", with_secret()) });
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.restart();
    let (session, effects) =
        scene.join(Register { held: vec![held(lease, HeldState::Running)], ..register(1, 1) });
    assert_eq!(desired(&effects), [DesiredState::Continue(lease)]);
    scene.gone(session);
    scene.pass(LOST_AFTER);
    assert!(scene.reason(1).contains("KEY"), "{}", scene.reason(1));
    scene.pass(LOST_AFTER);
    assert_eq!(scene.verdict(1), Some(Verdict::Rejected));
}

#[test]
fn a_grant_with_secrets_that_never_arrived_waits_for_their_values() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.send(Submit { secrets: secret("KEY"), ..submit(1, "a", with_secret()) });
    scene.restart();
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(granted(&effects), [0; 0]);
    assert!(scene.reason(1).contains("KEY"), "{}", scene.reason(1));
    let effects = scene.send(Submit { secrets: secret("KEY"), ..submit(1, "a", with_secret()) });
    assert_eq!(granted(&effects), [1]);
}

#[test]
fn the_wait_for_an_unknown_worker_starts_anew() {
    let mut scene = Scene::new();
    let patient = JobSpec { wait_for_worker: Some(LOST_AFTER * 4), ..spec() };
    scene.send(submit(1, "a", patient));
    scene.restart();
    scene.pass(LOST_AFTER * 4 - SECOND);
    assert_eq!(scene.verdict(1), None);
    scene.pass(SECOND);
    assert_eq!(scene.verdict(1), Some(Verdict::Rejected));
}

#[test]
fn an_attempt_on_a_worker_that_the_store_does_not_know_is_lost_like_any_other() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    scene.disk.workers.clear();
    scene.restart();
    scene.mac(2, 1);
    assert_eq!(granted(&scene.pass(LOST_AFTER)), [1]);
    assert_eq!(scene.pool.workers().len(), 1, "its placeholder is gone");
}

#[test]
fn on_lost_wait_still_waits_after_a_restart() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.send(submit(1, "a", JobSpec { on_lost: OnLost::Wait, ..spec() }));
    scene.report(session, vec![held(scene.lease(1), HeldState::Running)]);
    scene.restart();
    scene.mac(2, 1);
    assert_eq!(granted(&scene.pass(LOST_AFTER * 2)), [0; 0]);
    assert!(scene.live(1).is_some_and(|live| live.waiting.is_none()));
}

#[test]
fn request_ids_are_known_after_a_restart() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.gone(session);
    let of = |number| Submit {
        client_request_id: Some("again".into()),
        ..submit(number, "a", JobSpec { source: snapshot("p"), ..spec() })
    };
    scene.send(of(1));
    scene.restart();
    assert_eq!(accepted(&scene.send(of(2))), Some((job(1), true)));
}

#[test]
fn an_equal_submit_finds_its_job_after_a_restart_until_the_answer_is_delivered() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let of =
        |number| Submit { attach: true, ..submit(number, "a", JobSpec { source: snapshot("p"), ..spec() }) };
    scene.send(of(1));
    scene.restart();
    assert_eq!(accepted(&scene.send(of(2))), Some((job(1), true)), "a live job");
    let lease = scene.lease(1);
    scene.mac(1, 1);
    scene.pass_job(lease);
    scene.restart();
    assert_eq!(accepted(&scene.send(of(3))), Some((job(1), true)), "one that is over and was not delivered");
    scene.step(Input::Delivered { job: job(1) });
    scene.step(Input::Delivered { job: job(1) });
    scene.restart();
    assert_eq!(accepted(&scene.send(of(4))), Some((job(4), false)), "one that was delivered");
}

#[test]
fn nothing_is_said_before_it_is_on_disk() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    let mut effects = scene.plain(1);
    let lease = scene.lease(1);
    effects.extend(scene.report(session, vec![held(lease, HeldState::Running)]));
    effects.extend(scene.cancel(1, "a"));
    effects.extend(scene.pass_job(lease));
    let mut written = (false, false, false, false);
    for effect in &effects {
        match effect {
            Effect::Persist(Change::Submitted(_)) => written.0 = true,
            Effect::Persist(Change::Attempt { .. }) => written.1 = true,
            Effect::Persist(Change::CancelRequested { .. }) => written.2 = true,
            Effect::Persist(Change::Done { .. }) => written.3 = true,
            Effect::Accepted { .. } => assert!(written.0),
            Effect::Grant { .. } | Effect::OpenLog { .. } => assert!(written.1),
            Effect::Acknowledged { .. } => assert!(written.2),
            Effect::Done { .. } => assert!(written.3),
            _ => {}
        }
    }
    assert_eq!(written, (true, true, true, true));
}

#[test]
fn a_group_that_was_granted_anew_stays_with_the_newer_grant() {
    for (lost, newer) in [(1, 2), (2, 1)] {
        let mut scene = Scene::new();
        let gpu = || Register { labels: [("gpu".to_owned(), String::new())].into(), ..register(1, 1) };
        let (session, _) = scene.join(gpu());
        scene.gone(session);
        for number in [1, 2] {
            let spec = JobSpec { concurrency_group: Some("deploy".into()), ..spec() };
            let picky = || JobSpec {
                selectors: vec!["gpu".parse().expect("a selector")],
                priority: 1,
                ..spec.clone()
            };
            scene.send(submit(number, "a", if number == lost { picky() } else { spec.clone() }));
        }
        let (session, effects) = scene.join(gpu());
        assert_eq!(granted(&effects), [lost]);
        let old = scene.lease(lost);
        scene.report(session, vec![held(old, HeldState::Running)]);
        scene.gone(session);
        scene.pass(LOST_AFTER);
        assert_eq!(granted(&scene.join(register(2, 1)).1), [newer]);
        scene.restart();
        let running = held(scene.lease(newer), HeldState::Running);
        let (_, effects) = scene.join(Register { held: vec![running], ..register(2, 1) });
        assert_eq!(desired(&effects), [DesiredState::Continue(scene.lease(newer))]);
        let (_, effects) = scene.join(Register { held: vec![held(old, HeldState::Ended)], ..gpu() });
        assert_eq!(desired(&effects), [DesiredState::Continue(old)], "its result still counts");
    }
}
