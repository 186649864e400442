//! Tests of attempts that are tried again after a loss or a failure of the infrastructure.

use super::back;
use crate::scene::{Scene, abandoned, desired, granted, spec, submit};
use buildpool_pool::DesiredState;
use buildpool_protocol::outcome::{EndReason, Ending, StartFailure};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::HeldState;

#[test]
fn three_losses_on_two_workers_are_poison() {
    let mut scene = Scene::new();
    for number in 1..=3 {
        scene.mac(number, 1);
    }
    scene.plain(1);
    let mut used = Vec::new();
    for _ in 0..3 {
        assert_eq!(scene.verdict(1), None);
        let lease = scene.lease(1);
        let id = scene.disk.attempts[&lease.attempt.job][&lease.attempt.number].worker;
        used.push(id);
        scene.complete(lease, Ending::Unobserved { reason: "the host lost power".into() }, None);
    }
    used.dedup();
    assert_eq!(used.len(), 3, "a job is tried where it has not failed yet");
    assert_eq!(scene.verdict(1), Some(Verdict::Lost));
    assert!(scene.cause(1).contains("3 attempts lost on 3 workers"), "{}", scene.cause(1));
}

#[test]
fn losses_end_also_where_a_second_worker_never_comes() {
    let mut scene = Scene::new();
    let away = scene.mac(2, 1);
    scene.gone(away);
    scene.mac(1, 1);
    scene.plain(1);
    let mut losses = 0;
    while scene.verdict(1).is_none() && losses < 20 {
        let lease = scene.lease(1);
        scene.complete(lease, Ending::Unobserved { reason: "its keeper died".into() }, None);
        losses += 1;
    }
    assert_eq!(losses, 6);
}

#[test]
fn an_end_that_was_not_the_commands_is_no_result() {
    let killed = || Ending::Signaled { signal: 15, name: "SIGTERM".into(), core_dump: false };
    for (ending, acted, counted) in [
        (killed(), Some(EndReason::Drained), false),
        (killed(), Some(EndReason::CutOff), true),
        (Ending::Unobserved { reason: "its keeper died".into() }, None, true),
    ] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        scene.plain(1);
        let lease = scene.lease(1);
        let effects = scene.complete(lease, ending, acted.clone());
        assert_eq!(granted(&effects), [1], "{acted:?}");
        assert_eq!(scene.disk.attempts[&lease.attempt.job][&1].counted, counted, "{acted:?}");
    }
}

#[test]
fn what_its_worker_was_interrupted_in_or_had_no_means_for_runs_again_until_it_counts_as_poison() {
    let failed = || Ending::NotStarted(StartFailure::Resources { reason: "no process can be made".into() });
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    for number in [1, 2] {
        let effects = scene.complete(scene.lease(1), failed(), None);
        assert_eq!(granted(&effects), [1], "it is granted again at once");
        assert!(scene.disk.attempts[&scene.lease(1).attempt.job][&number].counted);
    }
    scene.complete(scene.lease(1), failed(), None);
    assert_eq!(scene.verdict(1), Some(Verdict::Lost));
    assert!(scene.cause(1).contains("no process can be made"), "{}", scene.cause(1));
}

#[test]
fn what_never_began_is_tried_again_where_the_command_must_not_run_twice_too() {
    let failed = || Ending::NotStarted(StartFailure::Resources { reason: "no room".into() });
    let watched = || Ending::Unobserved { reason: "its keeper died".into() };
    for on_lost in [OnLost::Wait, OnLost::Fail] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        scene.send(submit(1, "a", JobSpec { on_lost, ..spec() }));
        for _ in 0..2 {
            assert_eq!(granted(&scene.complete(scene.lease(1), failed(), None)), [1], "{on_lost:?}");
        }
        scene.complete(scene.lease(1), failed(), None);
        assert_eq!(scene.verdict(1), Some(Verdict::Lost), "it is given up like any other");
        let cause = scene.cause(1);
        assert!(cause.starts_with("Given up: 3 attempts") && cause.ends_with("no room."), "{cause}");
        scene.send(submit(2, "a", JobSpec { on_lost, ..spec() }));
        scene.complete(scene.lease(2), watched(), None);
        assert_eq!(scene.verdict(2), Some(Verdict::Lost), "it may have begun");
    }
}

#[test]
fn what_the_worker_could_not_start_is_retried_as_often_as_was_asked() {
    for on_lost in [OnLost::Rerun, OnLost::Fail] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        scene.send(submit(1, "a", JobSpec { retries: 2, on_lost, ..spec() }));
        let mut tries = 0;
        while scene.verdict(1).is_none() && tries < 10 {
            let lease = scene.lease(1);
            let failure = StartFailure::Workspace { reason: "the disk is full".into() };
            scene.complete(lease, Ending::NotStarted(failure), None);
            tries += 1;
        }
        assert_eq!((tries, scene.verdict(1)), (3, Some(Verdict::Rejected)), "{on_lost:?}");
        assert!(scene.cause(1).contains("the disk is full"), "{}", scene.cause(1));
    }
}

#[test]
fn an_infrastructure_failure_is_tried_again_elsewhere_as_often_as_was_allowed() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.mac(2, 1);
    scene.send(submit(1, "a", JobSpec { retries: 1, ..spec() }));
    let first = scene.lease(1);
    let effects = scene.fail_for_infrastructure(first);
    assert_eq!((granted(&effects), abandoned(&effects)), (vec![1], vec![first]));
    let attempts = scene.live(1).unwrap().attempts;
    assert_ne!(attempts[0].worker, attempts[1].worker, "another worker may do better");
    assert!(attempts[0].retried && !attempts[0].counted, "no loss with its worker");
    assert_eq!(attempts[0].lost.as_deref(), Some("Exit code 70: no simulator"));
    scene.restart();
    let (_, effects) = scene.join(back(2, scene.lease(1), HeldState::Running));
    assert_eq!(desired(&effects), [DesiredState::Continue(scene.lease(1))]);
    scene.fail_for_infrastructure(scene.lease(1));
    assert_eq!(scene.verdict(1), Some(Verdict::Failed), "a restart forgets no attempt");
    assert_eq!(scene.cause(1), "Exit code 70: no simulator");
}

#[test]
fn a_retry_waits_a_while_for_another_worker_that_is_busy() {
    for is_freed in [true, false] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        scene.mac(2, 1);
        scene.send(submit(1, "a", JobSpec { retries: 1, ..spec() }));
        scene.plain(2);
        let (first, other) = (scene.lease(1), scene.lease(2));
        assert_eq!(granted(&scene.fail_for_infrastructure(first)), [0; 0]);
        assert!(scene.reason(1).contains("the other workers that fit are awaited"), "{}", scene.reason(1));
        scene.plain(3);
        assert!(scene.live(3).unwrap().waiting.is_none(), "the room is not kept from others");
        let lease = scene.lease(3);
        scene.pass_job(lease);
        let effects = if is_freed { scene.pass_job(other) } else { scene.pass(crate::scene::SECOND * 61) };
        assert_eq!(granted(&effects), [1]);
        let attempts = scene.live(1).unwrap().attempts;
        assert_eq!(attempts[0].worker != attempts[1].worker, is_freed);
    }
}

/// A job that waits must not become grantable by a grant to another job: no dispatch would look at it.
#[test]
fn a_retry_takes_room_where_an_attempt_was_only_lost_before_it_waits() {
    let mut scene = Scene::new();
    scene.mac(3, 1);
    scene.plain(2);
    scene.mac(1, 1);
    scene.send(submit(1, "a", JobSpec { retries: 1, ..spec() }));
    let lost = scene.lease(1);
    scene.mac(2, 2);
    scene.complete(lost, Ending::Unobserved { reason: "the host lost power".into() }, None);
    let effects = scene.fail_for_infrastructure(scene.lease(1));
    assert_eq!(granted(&effects), [1]);
    let workers: Vec<_> = scene.live(1).unwrap().attempts.iter().map(|attempt| attempt.worker).collect();
    assert_eq!(workers, [1, 2, 1].map(crate::scene::worker));
}

#[test]
fn without_leave_or_after_a_cancel_an_infrastructure_failure_is_the_result() {
    for (retries, cancelled) in [(0, false), (3, true)] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        scene.send(submit(1, "a", JobSpec { retries, ..spec() }));
        let lease = scene.lease(1);
        if cancelled {
            scene.cancel(1, "a");
        }
        scene.fail_for_infrastructure(lease);
        assert_eq!(scene.verdict(1), Some(Verdict::Failed), "{retries}");
    }
}
