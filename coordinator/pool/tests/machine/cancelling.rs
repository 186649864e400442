//! Tests of cancellation in each phase.

use crate::scene::{
    LOST_AFTER, SECOND, Scene, accepted, acts, desired, granted, held, job, outcome, refused_as, register,
    spec, submit,
};
use buildpool_pool::{Completed, DesiredState, Effect, Input, Submit, Submitter};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::ids::TokenId;
use buildpool_protocol::limits;
use buildpool_protocol::outcome::{EndReason, Ending, StartFailure};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::{Desired, HeldState, Register};
use std::collections::BTreeSet;
use std::time::Duration;

fn by_a() -> Option<EndReason> {
    Some(EndReason::Cancelled { by: "a".into(), reason: "enough".into() })
}

fn killed() -> Ending {
    Ending::Signaled { signal: 15, name: "SIGTERM".into(), core_dump: false }
}

#[test]
fn queued_ends_at_once() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    scene.plain(2);
    scene.cancel(2, "a");
    assert_eq!(scene.verdict(2), Some(Verdict::Cancelled));
    assert_eq!(scene.cause(2), "Cancelled by a: enough.");
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [0; 0]);
}

#[test]
fn granted_is_ended_by_its_worker_and_the_worker_is_told_until_it_does() {
    for state in [HeldState::Preparing, HeldState::Running, HeldState::Ending] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 1);
        scene.plain(1);
        let lease = scene.lease(1);
        scene.report(session, vec![held(lease, state)]);
        let effects = scene.cancel(1, "a");
        assert!(matches!(&acts(&effects)[..], [Desired::Cancel { lease: of, .. }] if *of == lease));
        assert_eq!(scene.verdict(1), None, "its tree is not gone yet");
        assert!(scene.live(1).is_some_and(|live| live.cancelling));
        let repeated = desired(&scene.report(session, vec![held(lease, state)]));
        assert!(
            matches!(&repeated[..], [DesiredState::Continue(_), DesiredState::Cancel { .. }]),
            "its log goes on: {repeated:?}"
        );
        let effects = scene.complete(lease, killed(), by_a());
        assert_eq!(acts(&effects), [Desired::Forget { lease }]);
        assert!(scene.verdict(1).is_some());
    }
}

#[test]
fn after_its_exit_the_result_stands() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Ended)]);
    scene.cancel(1, "a");
    let answer = desired(&scene.report(session, vec![held(lease, HeldState::Ended)]));
    assert_eq!(answer, [DesiredState::Continue(lease)], "there is nothing to end any more");
    scene.pass_job(lease);
    assert_eq!(scene.verdict(1), Some(Verdict::Passed));
}

#[test]
fn twice_is_once_and_an_unknown_job_is_acknowledged() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    assert_eq!(acts(&scene.cancel(1, "a")).len(), 1);
    assert_eq!(acts(&scene.cancel(1, "a")).len(), 0);
    for number in [1, 77] {
        let effects = scene.cancel(number, "a");
        assert!(
            matches!(&effects[..], [Effect::Acknowledged { job: Some(of), .. }] if *of == job(number)),
            "{effects:?}"
        );
    }
}

#[test]
fn a_job_is_its_submitters_and_the_admins() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    assert_eq!(refused_as(&scene.cancel(1, "b")), ErrorCode::Forbidden);
    assert!(scene.live(1).is_some_and(|live| !live.cancelling));
    assert_eq!(acts(&scene.cancel(1, "admin")).len(), 1);
}

#[test]
fn a_grant_that_got_lost_is_not_repeated_for_a_cancelled_job() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    scene.gone(session);
    scene.cancel(1, "a");
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(granted(&effects), [0; 0]);
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled));
}

/// How long a cancel may take at most.
const CANCELLED_WITHIN: Duration =
    Duration::from_secs(limits::GRACE.as_secs() + 60 + limits::CANCEL_MARGIN.as_secs());

#[test]
fn a_cancel_ends_the_job_in_time_whatever_its_worker_does() {
    for (state, leaves, reason) in [
        (HeldState::Running, true, "`mac-1` can't be reached"),
        (HeldState::Running, false, "`mac-1` has not confirmed that its processes ended"),
        (HeldState::Ended, true, "`mac-1`, which has the rest of its log, can't be reached"),
        (HeldState::Ended, false, "`mac-1` did not send all of its log in time"),
    ] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 1);
        scene.plain(1);
        let lease = scene.lease(1);
        scene.report(session, vec![held(lease, state)]);
        if leaves {
            scene.gone(session);
        }
        scene.cancel(1, "a");
        scene.pass(CANCELLED_WITHIN - SECOND);
        assert_eq!(scene.verdict(1), None, "{state:?}");
        scene.pass(SECOND);
        assert_eq!(scene.verdict(1), Some(Verdict::Cancelled), "{state:?}");
        assert!(scene.cause(1).starts_with("Cancelled by a: enough."), "{}", scene.cause(1));
        assert!(scene.cause(1).contains(reason), "{}", scene.cause(1));
        let answer = if leaves {
            scene.join(Register { held: vec![held(lease, state)], ..register(1, 1) }).1
        } else {
            scene.report(session, vec![held(lease, state)])
        };
        let end =
            if state == HeldState::Ended { DesiredState::Forget(lease) } else { DesiredState::Fenced(lease) };
        assert_eq!(desired(&answer), [end], "the remaining processes are ended");
    }
}

#[test]
fn a_cancel_ends_the_job_in_time_after_a_restart_too() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.cancel(1, "a");
    scene.restart();
    scene.pass(CANCELLED_WITHIN);
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled));
}

#[test]
fn a_worker_that_never_confirms_an_end_gets_no_jobs_after_that_end() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.cancel(1, "a");
    scene.pass(CANCELLED_WITHIN);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.plain(2);
    assert!(scene.reason(2).contains("quarantined"), "{}", scene.reason(2));
    let quarantined = scene.pool.workers()[0].quarantined.clone().unwrap_or_default();
    assert!(quarantined.contains("has not confirmed"), "{quarantined}");
    scene.report(session, Vec::new());
    assert_eq!(scene.lease(2).attempt.job, job(2));
}

#[test]
fn a_job_whose_command_has_ended_states_what_it_waits_for() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Ended)]);
    assert!(scene.reason(1).contains("sends the rest of its log"), "{}", scene.reason(1));
    scene.gone(session);
    assert!(scene.reason(1).contains("can't be reached"), "{}", scene.reason(1));
}

#[test]
fn a_job_that_waits_for_a_worker_that_never_comes_back_can_be_cancelled() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.send(submit(1, "a", JobSpec { on_lost: OnLost::Wait, ..spec() }));
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.gone(session);
    scene.pass(LOST_AFTER * 3);
    assert_eq!(scene.verdict(1), None);
    scene.cancel(1, "a");
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled));
    // Its processes may still run there.
    let cause = scene.cause(1);
    assert!(cause.starts_with("Cancelled by a: enough. The job ended without the result of its attempt: "));
    assert!(cause.contains("mac-1 could not be reached"), "{cause}");
}

#[test]
fn a_worker_that_does_not_confirm_the_end_gets_no_more_jobs_until_it_does() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.cancel(1, "a");
    scene.pass(limits::GRACE + Duration::from_secs(60));
    assert_eq!(granted(&scene.plain(2)), [0; 0]);
    assert_eq!(scene.reason(2), "the one worker that fits is quarantined");

    // A new connection is not a confirmation.
    scene.gone(session);
    let (session, effects) =
        scene.join(Register { held: vec![held(lease, HeldState::Ending)], ..register(1, 2) });
    assert_eq!(granted(&effects), [0; 0]);
    let quarantined = scene.pool.workers()[0].quarantined.clone().unwrap_or_default();
    assert!(quarantined.contains(&job(1).to_string()), "{quarantined}");

    // The confirmation is enough: the rest of the log may take long.
    assert_eq!(granted(&scene.report(session, vec![held(lease, HeldState::Ended)])), [2]);
}

#[test]
fn the_time_to_confirm_begins_when_the_worker_can_be_told() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.plain(1);
    let lease = scene.lease(1);
    scene.report(session, vec![held(lease, HeldState::Running)]);
    scene.gone(session);
    scene.cancel(1, "a");
    scene.pass(Duration::from_secs(50));
    let back = Register { held: vec![held(lease, HeldState::Running)], ..register(1, 2) };
    let (_, effects) = scene.join(back);
    assert!(matches!(&desired(&effects)[..], [DesiredState::Continue(_), DesiredState::Cancel { .. }]));
    assert_eq!(granted(&scene.plain(2)), [2], "it has not had its time yet");
    scene.pass(Duration::from_secs(71));
    assert_eq!(granted(&scene.plain(3)), [0; 0]);
    assert!(scene.pool.workers()[0].quarantined.is_some());
}

#[test]
fn an_operator_lets_a_quarantined_worker_take_jobs_again() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.plain(1);
    scene.report(session, vec![held(scene.lease(1), HeldState::Running)]);
    scene.cancel(1, "a");
    scene.pass(Duration::from_secs(100));
    scene.plain(2);
    assert_eq!(granted(&scene.drain("mac-1", false, None)), [2]);
}

#[test]
fn what_was_ended_before_it_began_is_cancelled_and_not_rejected() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    scene.cancel(1, "a");
    let failure = StartFailure::Workspace { reason: "it was ended before it started".into() };
    let outcome = Box::new(outcome(Ending::NotStarted(failure), by_a()));
    let completed = Completed {
        lease: scene.lease(1),
        outcome,
        verdict: Verdict::Cancelled,
        cause: None,
        infrastructure: false,
    };
    scene.step(Input::Completed(Box::new(completed)));
    assert_eq!(scene.verdict(1), Some(Verdict::Cancelled));
}

#[test]
fn who_cancelled_a_job_and_asks_for_it_anew_gets_another_one() {
    let equal = |number| Submit { attach: true, ..submit(number, "a", spec()) };
    for is_granted in [false, true] {
        let mut scene = Scene::new();
        scene.mac(1, 1);
        if !is_granted {
            scene.plain(9);
        }
        scene.send(equal(1));
        scene.cancel(1, "a");
        assert_eq!(accepted(&scene.send(equal(3))), Some((job(3), false)));
        scene.restart();
        assert_eq!(accepted(&scene.send(equal(4))), Some((job(3), true)));
        scene.cancel(3, "admin");
        assert_eq!(
            accepted(&scene.send(equal(5))),
            Some((job(3), true)),
            "its submitter has not received it yet"
        );
    }
}

fn token(number: u128) -> TokenId {
    TokenId::from_uuid(uuid::Uuid::from_u128(number))
}

/// A submit of A with a token.
fn with_token(number: u64, held: u128) -> Submit {
    let submit = submit(number, "a", spec());
    Submit { submitter: Submitter { token: Some(token(held)), ..submit.submitter.clone() }, ..submit }
}

#[test]
fn a_revoked_token_ends_the_jobs_that_were_submitted_with_it_and_no_others() {
    for restarts in [false, true] {
        let mut scene = Scene::new();
        let session = scene.mac(1, 2);
        scene.send(with_token(1, 7));
        scene.send(with_token(2, 8));
        scene.send(with_token(3, 7));
        let (running, other) = (scene.lease(1), scene.lease(2));
        scene.report(session, vec![held(running, HeldState::Running), held(other, HeldState::Running)]);
        if restarts {
            scene.restart();
            let back = Register { held: vec![held(running, HeldState::Running)], ..register(1, 2) };
            scene.join(back);
        }
        let tokens = BTreeSet::from([token(7)]);
        let effects = scene.step(Input::Revoked { tokens: tokens.clone() });
        assert!(matches!(&acts(&effects)[..], [Desired::Cancel { lease, .. }] if *lease == running));
        assert_eq!(scene.verdict(3), Some(Verdict::Cancelled), "a queued job ends at once");
        assert!(scene.cause(3).contains("was revoked"), "{}", scene.cause(3));
        assert!(scene.live(2).is_some_and(|live| !live.cancelling), "another token of the same name");
        assert_eq!(acts(&scene.step(Input::Revoked { tokens })).len(), 0, "a repeat changes nothing");
    }
}
