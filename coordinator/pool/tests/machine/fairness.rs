//! Between submitters.

use crate::scene::{Scene, granted, job, spec, submit};
use buildpool_protocol::ids::JobId;
use buildpool_protocol::spec::JobSpec;

#[test]
fn a_single_job_waits_for_one_slot_turnover_behind_ten_thousand() {
    let mut scene = Scene::new();
    scene.mac(1, 2);
    for number in 1..=10_000 {
        scene.pool.handle(
            scene.now(),
            buildpool_pool::Input::Submit {
                client: buildpool_pool::ClientRef { connection: 1, request: 0 },
                submit: Box::new(submit(number, "a", spec())),
            },
        );
    }
    scene.step(buildpool_pool::Input::Tick);
    assert_eq!(granted(&scene.send(submit(20_000, "b", spec()))), [0; 0], "both slots are taken");
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [20_000]);
}

#[test]
fn two_who_queue_much_share_the_slots() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    for number in 1..=20 {
        scene.send(submit(number, "a", spec()));
    }
    for number in 101..=120 {
        scene.send(submit(number, "b", spec()));
    }
    let mut turns = String::new();
    let mut running = 1;
    for _ in 0..10 {
        let lease = scene.lease(running);
        running = granted(&scene.pass_job(lease))[0];
        turns.push(if running > 100 { 'b' } else { 'a' });
    }
    assert_eq!(turns, "bababababa");
}

#[test]
fn a_job_that_lost_its_worker_keeps_its_place() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    for number in 1..=3 {
        scene.plain(number);
    }
    let positions = |scene: &Scene| -> Vec<(JobId, u64)> {
        let live =
            |number| scene.live(number).and_then(|live| live.waiting).map(|waiting| (job(number), waiting.1));
        (1..=3).filter_map(live).collect()
    };
    assert_eq!(positions(&scene), [(job(2), 1), (job(3), 2)]);
    scene.gone(session);
    scene.pass(crate::scene::LOST_AFTER);
    assert_eq!(positions(&scene), [(job(1), 1), (job(2), 2), (job(3), 3)]);
}

#[test]
fn a_class_of_jobs_that_waits_does_not_hold_up_another() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.gone(session);
    let labels = [("gpu".to_owned(), String::new())].into();
    scene.join(buildpool_protocol::worker_link::Register { labels, ..crate::scene::register(2, 1) });
    scene.drain("mac-2", true, None);
    let gpu = JobSpec { selectors: vec!["gpu".parse().expect("a selector")], priority: 9, ..spec() };
    scene.send(submit(1, "a", gpu));
    scene.send(submit(2, "a", spec()));
    let (_, effects) = scene.join(crate::scene::register(1, 1));
    assert_eq!(granted(&effects), [2]);
}
