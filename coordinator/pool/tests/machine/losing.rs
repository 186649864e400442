//! Tests of workers that are lost, return, or return without their attempts.

mod retrying;

use crate::scene::{
    LOST_AFTER, SECOND, Scene, abandoned, accepted, boot, desired, granted, grants, held, place, register,
    spec, submit,
};
use buildpool_pool::{DesiredState, Effect, Input, Session};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::{HeldState, Register};
use std::time::Duration;

fn back(number: u64, lease: buildpool_protocol::ids::Lease, state: HeldState) -> Register {
    Register { held: vec![held(lease, state)], ..register(number, 1) }
}

/// A job that runs on worker 1, which then disconnects.
fn cut_off(on_lost: OnLost) -> (Scene, buildpool_protocol::ids::Lease) {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.send(submit(1, "a", JobSpec { on_lost, ..spec() }));
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.gone(session);
    (scene, lease)
}

#[test]
fn nothing_happens_before_lost_after_and_the_job_says_that_it_is_not_connected() {
    let (mut scene, lease) = cut_off(OnLost::Rerun);
    scene.mac(2, 1);
    assert_eq!(granted(&scene.pass(LOST_AFTER - SECOND)), [0; 0]);
    assert!(scene.live(1).is_some_and(|live| !live.connected && live.waiting.is_none()));
    let (_, effects) = scene.join(back(1, lease, HeldState::Running));
    assert_eq!(desired(&effects), [DesiredState::Continue(lease)]);
    assert!(scene.live(1).is_some_and(|live| live.connected));
    assert_eq!(granted(&scene.pass(LOST_AFTER)), [0; 0], "an old deadline means nothing");
}

#[test]
fn on_lost_decides_after_that() {
    for (on_lost, verdict, again) in
        [(OnLost::Rerun, None, 1), (OnLost::Wait, None, 0), (OnLost::Fail, Some(Verdict::Lost), 0)]
    {
        let (mut scene, lease) = cut_off(on_lost);
        scene.mac(2, 1);
        let effects = scene.pass(LOST_AFTER);
        assert_eq!(granted(&effects).len(), again, "{on_lost:?}");
        assert_eq!(scene.verdict(1), verdict, "{on_lost:?}");
        assert_eq!(abandoned(&effects).len(), usize::from(on_lost != OnLost::Wait), "{on_lost:?}");
        let (_, effects) = scene.join(back(1, lease, HeldState::Running));
        let expected =
            if on_lost == OnLost::Wait { DesiredState::Continue(lease) } else { DesiredState::Fenced(lease) };
        assert_eq!(desired(&effects), [expected], "{on_lost:?}");
    }
}

#[test]
fn a_lost_attempt_is_taken_back_while_nothing_newer_is_granted() {
    let (mut scene, lease) = cut_off(OnLost::Rerun);
    let effects = scene.pass(LOST_AFTER);
    assert_eq!(abandoned(&effects), [], "it may still come");
    assert!(scene.live(1).is_some_and(|live| live.waiting.is_some()));
    let (_, effects) = scene.join(back(1, lease, HeldState::Running));
    assert_eq!(desired(&effects), [DesiredState::Continue(lease)]);
    let opened =
        place(&effects, |effect| matches!(effect, Effect::OpenLog { lease: of, .. } if *of == lease));
    assert!(opened < place(&effects, |effect| matches!(effect, Effect::Welcome { .. })));
    let live = scene.live(1).expect("it runs");
    assert_eq!(live.attempts.len(), 1);
    assert!(live.attempts[0].lost.is_none() && !live.attempts[0].counted);
    scene.pass_job(lease);
    assert_eq!(scene.verdict(1), Some(Verdict::Passed));
}

#[test]
fn a_late_result_counts_unless_something_newer_was_granted() {
    for newer in [false, true] {
        let (mut scene, lease) = cut_off(OnLost::Rerun);
        scene.pass(LOST_AFTER);
        if newer {
            scene.mac(2, 1);
        }
        scene.pass_job(lease);
        assert_eq!(scene.verdict(1), (!newer).then_some(Verdict::Passed));
        if newer {
            let (_, effects) = scene.join(back(1, lease, HeldState::Ended));
            assert_eq!(desired(&effects), [DesiredState::Forget(lease)]);
            let newest = scene.lease(1);
            scene.pass_job(newest);
            assert_eq!(scene.disk.done.values().next().map(|done| done.attempt), Some(2));
        }
    }
}

#[test]
fn an_old_attempt_is_abandoned_before_the_log_of_a_newer_one_is_opened() {
    let (mut scene, lease) = cut_off(OnLost::Rerun);
    scene.pass(LOST_AFTER);
    let (_, effects) = scene.join(register(2, 1));
    assert_eq!(abandoned(&effects), [lease]);
    let left = place(&effects, |effect| matches!(effect, Effect::Abandon(_)));
    assert!(left < place(&effects, |effect| matches!(effect, Effect::OpenLog { .. })));
    assert!(scene.disk.attempts[&crate::scene::job(1)][&1].lost.is_some(), "its loss is written down");
}

#[test]
fn cancelling_a_job_whose_attempt_might_return_leaves_the_attempt() {
    let (mut scene, lease) = cut_off(OnLost::Rerun);
    scene.pass(LOST_AFTER);
    assert_eq!(abandoned(&scene.cancel(1, "a")), [lease]);
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled));
}

#[test]
fn a_group_stays_exclusive_when_a_lost_attempt_returns() {
    for (state, continues) in [(HeldState::Running, false), (HeldState::Ended, true)] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 1);
        let grouped = || JobSpec { concurrency_group: Some("deploy".into()), ..spec() };
        scene.send(submit(1, "a", grouped()));
        scene.send(submit(2, "a", JobSpec { priority: 1, ..grouped() }));
        let lease = scene.lease(1);
        scene.report(session, vec![held(lease, HeldState::Running)]);
        scene.gone(session);
        scene.pass(LOST_AFTER);
        scene.mac(2, 1);
        assert!(
            scene.live(2).is_some_and(|live| live.waiting.is_none()),
            "the other one of the group runs now"
        );
        let (_, effects) = scene.join(back(1, lease, state));
        assert_eq!(matches!(desired(&effects)[0], DesiredState::Continue(_)), continues, "{state:?}");
        if continues {
            scene.pass_job(lease);
            assert_eq!(scene.verdict(1), Some(Verdict::Passed));
            scene.send(submit(3, "a", grouped()));
            assert!(scene.live(3).is_some_and(|live| live.waiting.is_some()), "the group is still taken");
        }
    }
}

#[test]
fn a_grant_that_got_lost_is_repeated_after_the_welcome_of_the_next_connection_only() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.report(session, Vec::new())), [0; 0], "it may be on its way");
    scene.gone(session);
    let (session, effects) = scene.join(register(1, 1));
    assert_eq!(grants(&effects), [(lease, session)], "under the same lease");
    let welcome = place(&effects, |effect| matches!(effect, Effect::Welcome { .. }));
    assert!(welcome < place(&effects, |effect| matches!(effect, Effect::Grant { .. })));
    assert_eq!(scene.disk.attempts[&lease.attempt.job].len(), 1);
}

#[test]
fn a_grant_is_not_repeated_to_a_worker_that_is_about_to_decline_it() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    // The report was sent before the grant arrived, the decline after it.
    assert_eq!(granted(&scene.report(session, Vec::new())), [0; 0]);
    scene.mac(2, 1);
    let effects = scene.step(Input::Declined { session, lease, reason: "no slot is free".into() });
    assert_eq!(granted(&effects), [1]);
}

#[test]
fn an_attempt_that_its_own_daemon_does_not_know_any_more_is_lost_at_once() {
    let (mut scene, lease) = cut_off(OnLost::Rerun);
    scene.mac(2, 1);
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(abandoned(&effects), [lease]);
    assert_eq!(granted(&effects), [1]);
    assert!(scene.disk.attempts[&lease.attempt.job][&1].counted);
}

#[test]
fn an_attempt_that_another_start_of_the_daemon_does_not_know_may_run_elsewhere() {
    let (mut scene, lease) = cut_off(OnLost::Rerun);
    scene.mac(2, 1);
    let (clone, effects) = scene.join(Register { boot: boot(99), ..register(1, 1) });
    assert_eq!(granted(&effects), [0; 0]);
    assert!(scene.live(1).is_some_and(|live| !live.connected));
    scene.gone(clone);
    let (_, effects) = scene.join(back(1, lease, HeldState::Running));
    assert_eq!(desired(&effects), [DesiredState::Continue(lease)], "the original came back");
    assert_eq!(granted(&scene.pass(LOST_AFTER * 2)), [0; 0]);
    assert!(scene.live(1).is_some_and(|live| live.connected));
}

#[test]
fn it_is_lost_when_it_does_not_turn_up() {
    for (on_lost, again, verdict) in [
        (OnLost::Rerun, 1, None),
        (OnLost::Wait, 0, Some(Verdict::Lost)),
        (OnLost::Fail, 0, Some(Verdict::Lost)),
    ] {
        let (mut scene, _) = cut_off(on_lost);
        scene.mac(2, 1);
        scene.join(Register { boot: boot(99), ..register(1, 1) });
        assert_eq!(granted(&scene.pass(LOST_AFTER - SECOND)), [0; 0]);
        assert_eq!(granted(&scene.pass(SECOND)).len(), again, "{on_lost:?}");
        assert_eq!(scene.verdict(1), verdict, "{on_lost:?}");
    }
}

#[test]
fn an_attempt_that_had_not_begun_when_its_daemon_died_goes_back_at_once() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    scene.report(session, vec![held(scene.lease(1), HeldState::Preparing)]);
    scene.gone(session);
    let (_, effects) = scene.join(started_again(1));
    assert_eq!(granted(&effects), [1]);
    assert_eq!(scene.lease(1).attempt.number, 2);
    let live = scene.live(1).expect("it goes on");
    assert_eq!(live.attempts.iter().map(|attempt| attempt.counted).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_job_that_its_worker_does_not_survive_laying_out_is_given_up() {
    for on_lost in [OnLost::Rerun, OnLost::Wait, OnLost::Fail] {
        let mut scene = Scene::new();
        let mut session = scene.mac(1, 1);
        scene.send(submit(1, "a", JobSpec { on_lost, ..spec() }));
        for start in 2..=4 {
            assert_eq!(scene.verdict(1), None, "{on_lost:?}");
            scene.report(session, vec![held(scene.lease(1), HeldState::Preparing)]);
            scene.gone(session);
            let earlier = (1..start).rev().map(boot).collect();
            session = scene.join(Register { boot: boot(start), earlier, ..register(1, 1) }).0;
        }
        assert_eq!(scene.verdict(1), Some(Verdict::Lost), "{on_lost:?}");
        let cause = scene.cause(1);
        assert!(cause.contains("3 attempts lost") && cause.contains("laid out"), "{cause}");
    }
}

#[test]
fn a_grant_that_never_reached_its_worker_costs_the_job_nothing_however_often() {
    let mut scene = Scene::new();
    let mut session = scene.mac(1, 1);
    scene.plain(1);
    for start in 2..=9 {
        scene.gone(session);
        let earlier = (1..start).rev().map(boot).collect();
        session = scene.join(Register { boot: boot(start), earlier, ..register(1, 1) }).0;
    }
    assert!(scene.live(1).is_some_and(|live| live.attempts.iter().all(|attempt| !attempt.counted)));
}

/// Registration of a worker's daemon that restarted on the same machine.
fn started_again(number: u64) -> Register {
    Register { boot: boot(99), earlier: vec![boot(50), boot(number)], ..register(number, 1) }
}

#[test]
fn an_attempt_that_was_laid_out_when_its_disk_was_copied_is_not_granted_to_the_copy() {
    for confirmed in [true, false] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 1);
        scene.plain(1);
        let lease = scene.lease(1);
        if confirmed {
            scene.report(session, vec![held(lease, HeldState::Preparing)]);
        }
        scene.gone(session);
        let (copy, effects) = scene.join(Register { boot: boot(99), ..register(1, 1) });
        assert_eq!(granted(&effects), [0; 0], "the original may be about to start it");
        assert_eq!(granted(&scene.pass(LOST_AFTER - SECOND)), [0; 0]);
        assert_eq!(granted(&scene.pass(SECOND)), [1]);
        assert!(scene.lease(1).epoch > lease.epoch);
        scene.gone(copy);
    }
}

#[test]
fn a_job_that_must_not_run_twice_is_granted_again_where_it_is_certain_that_it_never_began() {
    for on_lost in [OnLost::Rerun, OnLost::Wait, OnLost::Fail] {
        for restarts in [true, false] {
            let mut scene = Scene::new();
            scene.mac(1, 1);
            scene.send(submit(1, "a", JobSpec { on_lost, ..spec() }));
            let first = scene.lease(1);
            if restarts {
                scene.restart();
            } else {
                scene.gone(Session(1));
            }
            // The same directory on the same running machine: a start would be recorded.
            let (_, effects) = scene.join(started_again(1));
            assert_eq!(granted(&effects), [1], "{on_lost:?}");
            assert_eq!(scene.lease(1).attempt.number, first.attempt.number + 1, "the two are distinct");
        }
    }
}

#[test]
fn a_job_that_must_not_run_twice_is_not_granted_again_when_its_worker_can_not_know() {
    for on_lost in [OnLost::Wait, OnLost::Fail] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        scene.send(submit(1, "a", JobSpec { on_lost, ..spec() }));
        scene.gone(Session(1));
        // Power loss during the run, or a copy: the disk contains no data of the first start.
        let (_, effects) = scene.join(Register { boot: boot(99), ..register(1, 1) });
        assert_eq!((granted(&effects), scene.verdict(1)), (vec![], None), "{on_lost:?}");
        assert_eq!(granted(&scene.pass(LOST_AFTER)), [0; 0], "{on_lost:?}");
        assert_eq!(scene.verdict(1), Some(Verdict::Lost), "{on_lost:?}");
    }
}

#[test]
fn a_worker_may_stay_away_for_as_long_as_it_was_ever_told_for_what_it_holds() {
    let (long, short) = (LOST_AFTER, Duration::from_secs(91));
    // With the value at the grant, and with a later value.
    for raised in [false, true] {
        let mut scene = Scene::new();
        if raised {
            scene.config.lost_after = short;
            scene.restart();
        }
        let session = scene.mac(1, 1);
        scene.plain(1);
        let lease = scene.lease(1);
        scene.report(session, vec![held(lease, HeldState::Running)]);
        scene.config.lost_after = long;
        scene.restart();
        let (session, _) =
            scene.join(Register { held: vec![held(lease, HeldState::Running)], ..register(1, 1) });
        scene.gone(session);
        scene.config.lost_after = short;
        scene.restart();
        let (session, effects) =
            scene.join(Register { held: vec![held(lease, HeldState::Running)], ..register(1, 1) });
        assert!(
            effects
                .iter()
                .any(|effect| matches!(effect, Effect::Welcome { lost_after, .. } if *lost_after == short))
        );
        scene.gone(session);
        scene.mac(2, 1);
        assert_eq!(granted(&scene.pass(long - SECOND)), [0; 0], "its keeper may let it run until then");
        assert_eq!(granted(&scene.pass(SECOND)), [1]);
    }
}

#[test]
fn what_is_held_and_was_never_granted_is_fenced_or_forgotten() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let real = scene.lease(1);
    let mut stale = real;
    stale.epoch -= 1;
    for (state, expected) in [
        (HeldState::Preparing, DesiredState::Fenced(stale)),
        (HeldState::Running, DesiredState::Fenced(stale)),
        (HeldState::Ending, DesiredState::Fenced(stale)),
        (HeldState::Ended, DesiredState::Forget(stale)),
    ] {
        let effects = scene.report(session, vec![held(stale, state), held(real, HeldState::Running)]);
        assert_eq!(desired(&effects), [expected, DesiredState::Continue(real)]);
    }
    scene.pass_job(stale);
    assert_eq!(scene.verdict(1), None, "a result under an old epoch does not count");
    assert_eq!(accepted(&scene.plain(1)).map(|(_, reattached)| reattached), Some(true));
}

#[test]
fn an_attempt_of_another_worker_is_not_taken_over() {
    let (mut scene, lease) = cut_off(OnLost::Rerun);
    let (_, effects) = scene.join(back(2, lease, HeldState::Running));
    assert_eq!(desired(&effects), [DesiredState::Fenced(lease)]);
    scene.pass(LOST_AFTER);
    let (_, effects) = scene.join(back(3, lease, HeldState::Running));
    assert_eq!(desired(&effects), [DesiredState::Fenced(lease)]);
}

#[test]
fn a_grant_that_is_neither_taken_nor_declined_is_sent_again_on_a_new_connection() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    let closes = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Close { .. }));
    scene.pass(SECOND * 59);
    assert!(!closes(&scene.report(session, Vec::new())));
    scene.pass(SECOND);
    assert!(closes(&scene.report(session, Vec::new())));
    scene.gone(session);
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(grants(&effects).first().map(|(lease, _)| *lease), Some(lease));
}
