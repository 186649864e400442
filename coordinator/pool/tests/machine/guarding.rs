//! Who may be which worker, and which worker may take jobs.

use crate::scene::{Scene, granted, refusal, refused_as, register, spec, submit};
use buildpool_pool::{Config, Input};
use buildpool_protocol::error::ErrorCode;

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

#[test]
fn an_identity_stays_its_token_s_when_another_takes_its_name() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.gone(session);
    let mut taker = register(2, 1);
    taker.name = register(1, 1).name;
    scene.join_with(taker, "mallory");
    assert_eq!(refused_as(&scene.join_with(register(1, 8), "mallory")), ErrorCode::Forbidden);
    scene.restart();
    assert_eq!(refused_as(&scene.join_with(register(1, 8), "mallory")), ErrorCode::Forbidden);
}
