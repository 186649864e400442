//! Tests of names, identities and connections of workers.

use crate::scene::{
    LOST_AFTER, Scene, boot, desired, granted, held, place, refusal, refused_as, register, spec, submit,
    worker,
};
use buildpool_pool::{Change, ClientRef, DesiredState, Effect, Input};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::limits;
use buildpool_protocol::outcome::OutputHeld;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::{Held, HeldState, Register};
use std::time::Duration;

#[test]
fn the_newest_connection_of_a_worker_wins_and_the_old_one_is_closed() {
    let mut scene = Scene::new();
    let old = scene.mac(1, 1);
    let (new, effects) = scene.join(register(1, 1));
    let closed = place(&effects, |effect| matches!(effect, Effect::Close { session, .. } if *session == old));
    assert!(
        closed
            < place(&effects, |effect| matches!(effect, Effect::Welcome { session, .. } if *session == new))
    );
    assert!(scene.report(old, Vec::new()).is_empty(), "the old one decides nothing any more");
    scene.gone(old);
    assert_eq!(granted(&scene.plain(1)), [1], "and its end means nothing");
}

#[test]
fn another_daemon_with_the_same_identity_is_refused_while_the_first_is_connected() {
    let mut scene = Scene::new();
    let first = scene.mac(1, 1);
    let clone = || Register { boot: boot(99), ..register(1, 1) };
    let (_, effects) = scene.join(clone());
    assert_eq!(refused_as(&effects), ErrorCode::Conflict);
    assert!(refusal(&effects).message.contains("copied"), "{}", refusal(&effects).message);
    assert_eq!(granted(&scene.plain(1)), [1], "the first is not disturbed");
    scene.report(first, vec![held(scene.lease(1), HeldState::Running)]);
    scene.gone(first);
    let (_, effects) = scene.join(clone());
    assert_eq!(desired(&effects), []);
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(refused_as(&effects), ErrorCode::Conflict, "now the other one is in");
}

#[test]
fn a_worker_without_slots_is_refused_with_what_is_valid() {
    let mut scene = Scene::new();
    let (_, effects) = scene.join(register(1, 0));
    assert_eq!(refused_as(&effects), ErrorCode::Invalid);
    assert!(refusal(&effects).message.contains("slots: 0 given; valid are 1 to"), "{effects:?}");
    assert!(scene.pool.workers().is_empty());
}

#[test]
fn a_name_is_one_workers_and_goes_over_when_that_is_away_and_idle() {
    let mut scene = Scene::new();
    let first = scene.mac(1, 1);
    let same_name = || Register { name: "mac-1".into(), ..register(2, 1) };
    let (_, effects) = scene.join(same_name());
    assert_eq!(refused_as(&effects), ErrorCode::Conflict);
    assert!(refusal(&effects).message.contains("`mac-1`"));

    scene.plain(1);
    scene.gone(first);
    assert_eq!(refused_as(&scene.join(same_name()).1), ErrorCode::Conflict, "it has a job");
    scene.pass(LOST_AFTER);
    let (_, effects) = scene.join(same_name());
    assert_eq!(granted(&effects), [1]);
    assert_eq!(scene.pool.workers().len(), 1);

    scene.restart();
    let known = scene.pool.workers();
    assert_eq!(known.len(), 1, "a name is one worker's after a restart too");
    assert_eq!(known[0].record.worker, worker(2));
    let (_, effects) =
        scene.join(Register { held: vec![held(scene.lease(1), HeldState::Running)], ..same_name() });
    assert_eq!(desired(&effects), [DesiredState::Continue(scene.lease(1))]);
}

#[test]
fn what_a_worker_says_of_itself_has_limits() {
    let many = |count: usize| (0..count).map(|number| (format!("label-{number}"), String::new())).collect();
    let cases = [
        Register { name: String::new(), ..register(1, 1) },
        Register { name: "two words".into(), ..register(1, 1) },
        Register { slots: limits::SLOTS_MAX + 1, ..register(1, 1) },
        Register { labels: many(1_000), ..register(1, 1) },
        Register {
            resources: (0..1_000).map(|number| (format!("r-{number}"), 1)).collect(),
            ..register(1, 1)
        },
    ];
    for register in cases {
        let mut scene = Scene::new();
        assert_eq!(refused_as(&scene.join(register).1), ErrorCode::Invalid);
        assert!(scene.pool.workers().is_empty());
    }
}

#[test]
fn a_worker_that_comes_and_goes_leaves_no_pile_of_timers() {
    let mut scene = Scene::new();
    for _ in 0..1_000 {
        let session = scene.mac(1, 1);
        scene.gone(session);
        scene.pass(crate::scene::SECOND / 10);
    }
    // `Scene::step` audits the number of timers each time.
    scene.plain(1);
    assert_eq!(granted(&scene.join(register(1, 1)).1), [1]);
}

#[test]
fn fewer_slots_than_jobs_after_a_change_of_configuration_harm_nobody() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    scene.plain(1);
    scene.plain(2);
    let both = vec![held(scene.lease(1), HeldState::Running), held(scene.lease(2), HeldState::Running)];
    scene.report(session, both.clone());
    scene.plain(3);
    scene.gone(session);
    let (_, effects) = scene.join(Register { held: both, ..register(1, 1) });
    assert!(desired(&effects).iter().all(|state| matches!(state, DesiredState::Continue(_))));
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [0; 0]);
    let lease = scene.lease(2);
    assert_eq!(granted(&scene.pass_job(lease)), [3]);
}

#[test]
fn a_name_goes_over_from_a_lost_worker_whose_jobs_wait_for_it() {
    let mut scene = Scene::new();
    let first = scene.mac(1, 1);
    scene.send(submit(1, "a", JobSpec { on_lost: OnLost::Wait, ..spec() }));
    let lease = scene.lease(1);
    scene.report(first, vec![held(lease, HeldState::Running)]);
    scene.gone(first);
    let same_name = || Register { name: "mac-1".into(), ..register(2, 1) };
    assert_eq!(refused_as(&scene.join(same_name()).1), ErrorCode::Conflict);
    scene.pass(LOST_AFTER);
    for restarts in [false, true] {
        if restarts {
            scene.restart();
        }
        let (_, effects) = scene.join(same_name());
        assert!(matches!(effects.last(), Some(Effect::Welcome { .. })), "{effects:?}");
        assert!(
            scene.live(1).is_some_and(|live| live.waiting.is_none() && !live.connected),
            "it still waits"
        );
    }
    scene.plain(2);
    assert!(scene.live(2).is_some_and(|live| live.waiting.is_none()));
}

#[test]
fn a_job_that_its_workers_disk_holds_up_says_so_until_there_is_room() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let lease = scene.lease(1);
    let full = |secs| Held {
        output_held: Some(OutputHeld { held_for: Duration::from_secs(secs), reason: "it is full".into() }),
        ..held(lease, HeldState::Running)
    };
    scene.report(session, vec![full(4)]);
    let waiting = |scene: &Scene| scene.live(1).and_then(|live| live.waiting);
    let first = waiting(&scene).expect("it waits");
    assert!(first.reason.contains("worker `mac-1`") && first.reason.contains("it is full"), "{first:?}");
    assert_eq!(first.since_ms, scene.now().wall_ms - 4_000);
    scene.pass(Duration::from_secs(7));
    scene.report(session, vec![full(12)]);
    assert_eq!(waiting(&scene), Some(first), "one wait, by either clock");
    scene.report(session, vec![held(lease, HeldState::Running)]);
    assert_eq!(waiting(&scene), None);
    scene.report(session, vec![full(1)]);
    scene.report(session, vec![Held { state: HeldState::Ended, ..full(2) }]);
    let last = waiting(&scene).expect("its log is on the way");
    assert!(!last.reason.contains("it is full"), "its process is gone: {last:?}");
}

#[test]
fn one_token_has_a_limit_on_names_and_absent_names_without_a_job_are_forgotten() {
    let mut scene = Scene::new();
    // Connected ones are never replaced.
    for number in 1..=1_000 {
        scene.mac(number, 1);
    }
    let (_, effects) = scene.join(register(1_001, 1));
    assert_eq!(refused_as(&effects), ErrorCode::Exhausted);
    assert!(refusal(&effects).message.contains("has 1000"), "{effects:?}");
    let mut scene = Scene::new();
    let sessions: Vec<_> = (1..=300).map(|number| scene.mac(number, 1)).collect();
    let forgotten = |effects: &[Effect]| {
        let is_one = |effect: &&Effect| matches!(effect, Effect::Persist(Change::WorkerForgotten(_)));
        effects.iter().filter(is_one).count()
    };
    let count: usize = sessions.into_iter().map(|session| forgotten(&scene.gone(session))).sum();
    assert_eq!((count, scene.pool.workers().len()), (300 - 256, 256));
}

#[test]
fn inputs_of_one_round_share_a_dispatch() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    assert!(!scene.pool.is_dispatch_due());
    scene.report(session, Vec::new());
    assert!(!scene.pool.is_dispatch_due(), "an unchanged report frees no room");
    let client = ClientRef { connection: 1, request: 1 };
    for number in 1..=2 {
        let input = Input::Submit { client, submit: Box::new(submit(number, "a", spec())) };
        scene.pool.take(scene.now(), input);
    }
    let drain = |scene: &mut Scene| std::iter::from_fn(|| scene.pool.poll_effect()).collect::<Vec<_>>();
    assert!(granted(&drain(&mut scene)).is_empty() && scene.pool.is_dispatch_due());
    scene.pool.dispatch(scene.now());
    assert_eq!(granted(&drain(&mut scene)), [1, 2]);
}

#[test]
fn a_worker_without_contact_is_recorded_as_lost_once_also_over_a_restart() {
    let losses = |effects: &[Effect]| {
        let is_loss =
            |effect: &&Effect| matches!(effect, Effect::Persist(Change::Worker(record)) if record.lost);
        effects.iter().filter(is_loss).count()
    };
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.gone(session);
    assert_eq!(losses(&scene.pass(LOST_AFTER - Duration::from_secs(1))), 0);
    // A restart of the coordinator begins all deadlines anew.
    scene.restart();
    assert_eq!(losses(&scene.pass(LOST_AFTER - Duration::from_secs(1))), 0);
    assert_eq!(losses(&scene.pass(Duration::from_secs(2))), 1);
    assert_eq!(losses(&scene.pass(3 * LOST_AFTER)), 0);
    scene.restart();
    assert_eq!(losses(&scene.pass(3 * LOST_AFTER)), 0, "it is recorded");
    let (_, effects) = scene.join(register(1, 1));
    let is_back = |effect: &Effect| matches!(effect, Effect::Persist(Change::Worker(record)) if !record.lost);
    assert!(effects.iter().any(is_back), "{effects:?}");
}
