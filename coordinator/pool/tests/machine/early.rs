//! Tests of grants that a worker gets before it has a free slot.

use crate::scene::{Scene, granted, grants, outcome, register, snapshot, spec, submit};
use buildpool_pool::{Completed, Config, Effect, Input, Session};
use buildpool_protocol::outcome::{Ending, Outcome};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{JobSpec, OnLost};
use buildpool_protocol::worker_link::{Condition, Register};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(5);

/// A pool in which a series has at least so many short jobs.
fn scene(series_min: u32) -> Scene {
    Scene::with(Config { series_min, ..Config::default() })
}

fn keeps(early_grants: u32) -> Condition {
    Condition { early_grants, ..Condition::default() }
}

fn join(scene: &mut Scene, number: u64, slots: u32, early_grants: u32) -> Session {
    scene.join(Register { condition: keeps(early_grants), ..register(number, slots) }).0
}

/// A pool with one worker, which has one slot and keeps two early grants, and with so many plain jobs.
fn scene_with_jobs(series_min: u32, jobs: u64) -> Scene {
    let mut scene = scene(series_min);
    join(&mut scene, 1, 1, 2);
    for number in 1..=jobs {
        scene.plain(number);
    }
    scene
}

/// Ends the newest attempt of a job, which ran for this time.
fn pass_after(scene: &mut Scene, number: u64, ran_for: Duration) -> Vec<Effect> {
    let lease = scene.lease(number);
    let outcome = Box::new(Outcome { duration: ran_for, ..outcome(Ending::Exited { code: 0 }, None) });
    let completed =
        Completed { lease, outcome, verdict: Verdict::Passed, cause: None, infrastructure: false };
    scene.step(Input::Completed(Box::new(completed)))
}

#[test]
fn a_worker_with_short_jobs_gets_grants_before_a_slot_is_free() {
    let mut scene = scene_with_jobs(1, 6);
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2, 3, 4], "one slot, and two early grants");
    assert_eq!(granted(&pass_after(&mut scene, 2, SHORT)), [5]);
    assert_eq!(granted(&pass_after(&mut scene, 3, Duration::from_secs(1))), [0; 0], "that one was long");
    assert_eq!(granted(&pass_after(&mut scene, 4, SHORT)), [6]);
}

#[test]
fn fewer_short_jobs_than_the_minimum_give_no_early_grant() {
    let mut scene = scene_with_jobs(3, 9);
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2]);
    assert_eq!(granted(&pass_after(&mut scene, 2, SHORT)), [3]);
    scene.pass(Duration::from_secs(1));
    assert_eq!(granted(&pass_after(&mut scene, 3, SHORT)), [4], "its lease was long");
    assert_eq!(granted(&pass_after(&mut scene, 4, SHORT)), [5]);
    assert_eq!(granted(&pass_after(&mut scene, 5, SHORT)), [6]);
    assert_eq!(granted(&pass_after(&mut scene, 6, SHORT)), [7, 8, 9]);
}

#[test]
fn a_series_ends_with_a_pause() {
    let mut scene = scene_with_jobs(1, 1);
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [0; 0]);
    scene.pass(Duration::from_secs(1));
    for (number, expected) in [(2, &[2][..]), (3, &[])] {
        assert_eq!(granted(&scene.plain(number)), expected);
    }
}

#[test]
fn a_series_without_a_pause_goes_on() {
    let mut scene = scene_with_jobs(3, 9);
    for number in 1..=2 {
        pass_after(&mut scene, number, SHORT);
    }
    assert_eq!(granted(&pass_after(&mut scene, 3, SHORT)), [4, 5, 6]);
    for (number, expected) in [(4, 7), (5, 8), (6, 9)] {
        scene.pass(Duration::from_millis(60));
        assert_eq!(granted(&pass_after(&mut scene, number, SHORT)), [expected]);
    }
}

#[test]
fn early_grants_are_spread_over_the_workers() {
    let mut scene = scene(1);
    join(&mut scene, 1, 1, 2);
    join(&mut scene, 2, 1, 2);
    for number in 1..=2 {
        scene.plain(number);
    }
    for number in 1..=2 {
        pass_after(&mut scene, number, SHORT);
    }
    let mut sessions = Vec::new();
    for number in 3..=6 {
        sessions.extend(grants(&scene.plain(number)).iter().map(|(_, session)| *session));
    }
    assert_ne!(sessions[0], sessions[1], "the free slots");
    assert_ne!(sessions[2], sessions[3], "the early grants");
}

#[test]
fn a_job_that_was_short_and_took_long_to_end_gives_no_early_grant() {
    let mut scene = scene_with_jobs(1, 3);
    scene.pass(Duration::from_secs(2));
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2], "its files may have taken two seconds");
}

#[test]
fn a_worker_that_does_not_offer_it_gets_no_early_grant() {
    let mut scene = scene(1);
    join(&mut scene, 1, 1, 0);
    for number in 1..=3 {
        scene.plain(number);
    }
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2]);
}

#[test]
fn a_job_that_must_not_run_twice_waits_for_a_free_slot() {
    let mut scene = scene_with_jobs(1, 2);
    scene.send(submit(3, "a", JobSpec { on_lost: OnLost::Fail, ..spec() }));
    scene.send(submit(4, "b", spec()));
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [4, 2]);
    assert_eq!(
        granted(&pass_after(&mut scene, 4, SHORT)),
        [0; 0],
        "the slot is for the job that waits there"
    );
    assert_eq!(granted(&pass_after(&mut scene, 2, SHORT)), [3]);
}

#[test]
fn attempts_that_did_not_start_do_not_count_as_short_jobs() {
    let mut scene = scene_with_jobs(1, 3);
    let lease = scene.lease(1);
    let outcome =
        Outcome { duration: SHORT, started_at_ms: None, ..outcome(Ending::Exited { code: 0 }, None) };
    let outcome = Box::new(outcome);
    let completed =
        Completed { lease, outcome, verdict: Verdict::Passed, cause: None, infrastructure: false };
    assert_eq!(granted(&scene.step(Input::Completed(Box::new(completed)))), [2]);
}

#[test]
fn a_free_slot_comes_before_an_early_grant() {
    let mut scene = scene(1);
    let one = join(&mut scene, 1, 1, 4);
    for number in 1..=3 {
        scene.plain(number);
    }
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2, 3]);
    let other = join(&mut scene, 2, 1, 4);
    let session = |effects: &[Effect]| grants(effects).first().map(|(_, session)| *session);
    assert_eq!(session(&scene.plain(4)), Some(other));
    assert_eq!(session(&scene.plain(5)), Some(one), "no slot is free, and the jobs of this one are short");
}

#[test]
fn an_early_grant_on_the_warm_worker_comes_before_a_free_slot_elsewhere() {
    let mut scene = scene(1);
    let of_project = || JobSpec { source: snapshot("p"), ..spec() };
    let warm_projects = of_project().workspace_key().into_iter().collect();
    let condition = Condition { warm_projects, ..keeps(1) };
    let warm = scene.join(Register { condition, ..register(1, 1) }).0;
    for number in 1..=2 {
        scene.plain(number);
    }
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2]);
    let cold = join(&mut scene, 2, 1, 0);
    let session = |effects: &[Effect]| grants(effects).first().map(|(_, session)| *session);
    assert_eq!(session(&scene.send(submit(3, "a", of_project()))), Some(warm));
    assert_eq!(session(&scene.send(submit(4, "a", of_project()))), None, "it waits for the warm one");
    assert_eq!(session(&scene.plain(5)), Some(cold));
}

#[test]
fn a_declined_early_grant_returns_to_its_place_and_no_other_one_follows() {
    let mut scene = scene(1);
    let session = join(&mut scene, 1, 1, 2);
    for number in 1..=5 {
        scene.plain(number);
    }
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2, 3, 4]);
    for number in [3, 4] {
        let lease = scene.lease(number);
        let declined =
            Input::Declined { session, lease, reason: "the worker had no free slot in time".into() };
        assert_eq!(granted(&scene.step(declined)), [0; 0]);
    }
    let report =
        |scene: &mut Scene| scene.step(Input::Reported { session, held: Vec::new(), condition: keeps(2) });
    assert_eq!(granted(&report(&mut scene)), [0; 0], "its slot is taken");
    assert_eq!(granted(&pass_after(&mut scene, 2, SHORT)), [3, 4, 5]);
}

#[test]
fn an_early_grant_that_is_cancelled_ends_when_its_worker_declines_it() {
    let mut scene = scene(1);
    let session = join(&mut scene, 1, 1, 2);
    for number in 1..=3 {
        scene.plain(number);
    }
    assert_eq!(granted(&pass_after(&mut scene, 1, SHORT)), [2, 3]);
    scene.cancel(3, "a");
    let lease = scene.lease(3);
    scene.step(Input::Declined { session, lease, reason: "it was ended before it started".into() });
    assert_eq!(scene.verdict(3), Some(Verdict::Cancelled));
}
