//! Tests of worker identities, names and approval.

use crate::scene::{LOST_AFTER, SECOND, Scene, granted, refusal, refused_as, register, spec, submit, worker};
use buildpool_pool::{Config, Input};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::Register;

fn approve(scene: &mut Scene, worker: &str) -> Vec<buildpool_pool::Effect> {
    let client = scene.client();
    scene.step(Input::Approve { client, worker: worker.into() })
}

#[test]
fn a_new_worker_takes_no_job_before_it_is_approved_and_stays_approved() {
    let mut scene = Scene::with(Config { approve_workers: true, ..Config::default() });
    scene.send(submit(1, "a", spec()));
    let (session, effects) = scene.join(register(1, 1));
    assert_eq!(granted(&effects), [0; 0]);
    scene.send(submit(2, "a", spec()));
    assert!(scene.reason(2).contains("waiting for an operator's approval"), "{}", scene.reason(2));
    let told = scene.pool.workers()[0].quarantined.clone();
    assert!(told.is_some_and(|text| text.contains("buildpool workers approve mac-1")));
    assert_eq!(refused_as(&approve(&mut scene, "mac-9")), ErrorCode::NotFound);
    assert_eq!(granted(&approve(&mut scene, "mac-1")), [2]);
    scene.gone(session);
    scene.restart();
    scene.mac(1, 2);
    assert!(scene.pool.workers()[0].quarantined.is_none(), "the word is kept over a restart");
}

#[test]
fn an_identity_belongs_to_the_token_that_it_first_came_with() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    scene.gone(session);
    let forged = refusal(&scene.join_with(register(1, 8), "mallory"));
    assert_eq!(forged.code, ErrorCode::Forbidden);
    assert!(forged.message.contains("belongs to the token `workers`"), "{forged:?}");
    scene.restart();
    assert_eq!(refused_as(&scene.join_with(register(1, 8), "mallory")), ErrorCode::Forbidden);
    scene.mac(1, 1);
    assert!(scene.live(1).is_some_and(|live| live.connected), "its own worker comes back to its job");
}

fn forget(scene: &mut Scene, worker: &str) -> Vec<buildpool_pool::Effect> {
    let client = scene.client();
    scene.step(Input::Forget { client, worker: worker.into() })
}

/// A new identity with the name of the first worker.
fn namesake(number: u64) -> Register {
    Register { name: register(1, 1).name, ..register(number, 1) }
}

#[test]
fn a_name_belongs_to_its_token_until_an_operator_frees_it() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    assert_eq!(refused_as(&forget(&mut scene, "mac-1")), ErrorCode::Conflict, "it is connected");
    scene.gone(session);
    let forged = refusal(&scene.join_with(namesake(2), "mallory"));
    assert_eq!(forged.code, ErrorCode::Forbidden);
    assert!(forged.message.contains("belongs to a worker of the token `workers`"), "{forged:?}");
    assert!(forged.message.contains("buildpool workers forget mac-1"), "{forged:?}");
    scene.pass(LOST_AFTER);
    scene.restart();
    assert_eq!(refused_as(&scene.join_with(namesake(2), "mallory")), ErrorCode::Forbidden);
    assert_eq!(refused_as(&scene.join_with(register(1, 8), "mallory")), ErrorCode::Forbidden);

    assert_eq!(refused_as(&forget(&mut scene, "mac-9")), ErrorCode::NotFound);
    forget(&mut scene, &worker(1).to_string());
    assert!(scene.pool.workers().is_empty());
    scene.restart();
    scene.join_with(namesake(2), "mallory");
    assert_eq!(scene.pool.workers()[0].record.token.as_deref(), Some("mallory"));
    assert_eq!(refused_as(&scene.join(register(1, 1)).1), ErrorCode::Forbidden, "now it is mallory's");
}

#[test]
fn a_worker_that_may_come_back_to_its_job_is_not_forgotten() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.send(submit(1, "a", JobSpec { on_lost: OnLost::Wait, ..spec() }));
    scene.gone(session);
    assert_eq!(refused_as(&forget(&mut scene, "mac-1")), ErrorCode::Conflict);
    scene.pass(LOST_AFTER);
    forget(&mut scene, "mac-1");
    assert_ne!(scene.pool.workers()[0].record.name, "mac-1", "its job goes on waiting for it");
    scene.join_with(namesake(2), "mallory");
    assert_eq!(refused_as(&scene.join_with(register(1, 8), "mallory")), ErrorCode::Forbidden);
}

#[test]
fn an_approval_is_for_the_name_that_was_approved() {
    let mut scene = Scene::with(Config { approve_workers: true, ..Config::default() });
    let session = scene.mac(1, 1);
    let told = scene.pool.workers()[0].quarantined.clone().unwrap_or_default();
    assert!(told.contains("token `workers`") && told.contains(&worker(1).to_string()), "{told}");
    approve(&mut scene, "mac-1");
    scene.gone(session);
    let (session, _) = scene.join(Register { name: "mac-9".into(), ..register(1, 1) });
    scene.plain(1);
    assert!(scene.reason(1).contains("waiting for an operator's approval"), "{}", scene.reason(1));
    assert_eq!(granted(&approve(&mut scene, &worker(1).to_string())), [1]);
    scene.gone(session);
    scene.join(Register { name: "mac-9".into(), ..register(1, 1) });
    assert!(scene.pool.workers()[0].quarantined.is_none(), "the name is the approved one");
}

#[test]
fn nobody_offers_another_s_name_as_a_label() {
    let mut scene = Scene::new();
    let labels = |name: &str| [("name".to_owned(), name.to_owned())].into();
    scene.join_with(Register { labels: labels("mac-1"), ..register(2, 1) }, "mallory");
    let selectors = vec!["name=mac-1".parse().unwrap()];
    let wants = JobSpec { selectors, wait_for_worker: Some(SECOND), ..spec() };
    assert_eq!(granted(&scene.send(submit(1, "a", wants))), [0; 0]);
    assert_eq!(granted(&scene.join(Register { labels: labels("mac-1"), ..register(1, 1) }).1), [1]);
}
