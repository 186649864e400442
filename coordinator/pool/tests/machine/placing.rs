//! Tests of job placement and of the reasons for waits.

use crate::scene::{SECOND, Scene, granted, grants, held, job, register, snapshot, spec, submit};
use buildpool_pool::Input;
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::{Condition, HeldState, Register};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn higher_priority_goes_first_then_submission() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    for (number, priority) in [(1, 0), (2, 0), (3, 5), (4, -1), (5, 5)] {
        scene.send(submit(number, "a", JobSpec { priority, ..spec() }));
    }
    let positions: Vec<_> = [3, 5, 2, 4]
        .map(|number| scene.live(number).and_then(|live| live.waiting).and_then(|waiting| waiting.position))
        .into();
    assert_eq!(positions, [Some(1), Some(2), Some(3), Some(4)]);
    let mut order = vec![1];
    while let Some(last) = order.last().copied().filter(|_| order.len() < 5) {
        let lease = scene.lease(last);
        order.extend(granted(&scene.pass_job(lease)));
    }
    assert_eq!(order, [1, 3, 5, 2, 4]);
}

#[test]
fn a_job_goes_where_its_labels_are() {
    let mut scene = Scene::new();
    let labels = |text: &str| BTreeMap::from([("xcode".to_owned(), text.to_owned())]);
    let (old, _) = scene.join(Register { labels: labels("15"), ..register(1, 4) });
    let (new, _) = scene.join(Register { labels: labels("16"), ..register(2, 1) });
    let wants = |text: &str| JobSpec { selectors: vec![text.parse().expect("a selector")], ..spec() };
    for (number, requirement, expected) in
        [(1, "xcode=16", Some(new)), (2, "xcode", Some(old)), (3, "xcode=16", None)]
    {
        let effects = scene.send(submit(number, "a", wants(requirement)));
        assert_eq!(grants(&effects).first().map(|(_, session)| *session), expected, "{requirement}");
    }
    let reason = scene.reason(3);
    assert!(reason.starts_with("the one worker that fits is busy (jobs there: "), "{reason}");
    assert!(reason.contains(&job(1).to_string()) && !reason.contains(&job(2).to_string()), "{reason}");
}

#[test]
fn slots_and_resources_are_never_overbooked() {
    let mut scene = Scene::new();
    let resources = BTreeMap::from([("simulator".to_owned(), 3)]);
    scene.join(Register { resources, ..register(1, 3) });
    let takes = |count| JobSpec { resources: BTreeMap::from([("simulator".into(), count)]), ..spec() };
    assert_eq!(granted(&scene.send(submit(1, "a", takes(2)))), [1]);
    assert_eq!(granted(&scene.send(submit(2, "a", takes(2)))), [0; 0]);
    let reason = "the one worker that fits is short of a counted resource (jobs there: ";
    assert!(scene.reason(2).starts_with(reason), "{}", scene.reason(2));
    assert_eq!(granted(&scene.send(submit(3, "a", takes(1)))), [0; 0], "the free one is kept for the second");
    assert_eq!(granted(&scene.plain(4)), [4]);
    assert_eq!(granted(&scene.plain(5)), [5]);
    assert_eq!(granted(&scene.plain(6)), [0; 0], "three slots");
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [2]);
    assert_eq!(granted(&scene.pass_job(lease)), [0; 0], "an end that is reported twice frees once");
    let lease = scene.lease(4);
    assert_eq!(granted(&scene.pass_job(lease)), [3], "two units and one are three");
}

#[test]
fn an_attempt_of_an_older_lease_takes_a_slot_until_its_tree_is_gone() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.plain(1);
    let old = scene.lease(1);
    scene.report(session, vec![held(old, HeldState::Running)]);
    scene.gone(session);
    scene.pass(crate::scene::LOST_AFTER);
    scene.mac(2, 1);
    assert_ne!(scene.lease(1), old, "granted again elsewhere");
    scene.plain(2);
    let (session, effects) =
        scene.join(Register { held: vec![held(old, HeldState::Running)], ..register(1, 1) });
    assert_eq!(granted(&effects), [0; 0], "its one slot is not free yet");
    assert_eq!(granted(&scene.report(session, vec![held(old, HeldState::Ending)])), [0; 0]);
    assert_eq!(granted(&scene.report(session, vec![held(old, HeldState::Ended)])), [2]);
}

#[test]
fn one_job_of_a_group_runs_at_a_time() {
    let mut scene = Scene::new();
    scene.mac(1, 4);
    let grouped = |group: &str| JobSpec { concurrency_group: Some(group.into()), ..spec() };
    assert_eq!(granted(&scene.send(submit(1, "a", grouped("deploy")))), [1]);
    assert_eq!(granted(&scene.send(submit(2, "b", grouped("deploy")))), [0; 0]);
    assert_eq!(granted(&scene.send(submit(3, "a", grouped("other")))), [3]);
    assert_eq!(scene.reason(2), format!("job {} of the same concurrency group is running", job(1)));
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [2]);
}

#[test]
fn a_warm_workspace_is_preferred_and_waited_for_only_so_long() {
    let mut scene = Scene::new();
    let warm = Condition { warm_projects: vec!["p".into()], ..Condition::default() };
    let (hot, _) = scene.join(Register { condition: warm, ..register(2, 1) });
    let cold = scene.mac(1, 4);
    let of = |number, project: &str| submit(number, "a", JobSpec { source: snapshot(project), ..spec() });
    assert_eq!(grants(&scene.send(of(1, "p")))[0].1, hot, "although the other one has more room");
    assert_eq!(grants(&scene.send(of(2, "q")))[0].1, cold, "another project does not wait");
    assert_eq!(granted(&scene.send(of(3, "p"))), [0; 0]);
    assert!(scene.reason(3).contains("warm workspace"), "{}", scene.reason(3));
    assert_eq!(granted(&scene.pass(Duration::from_secs(4))), [0; 0]);
    assert_eq!(grants(&scene.pass(SECOND))[0].1, cold);
}

#[test]
fn a_warm_worker_that_is_away_or_quarantined_is_not_waited_for() {
    for quarantined in [false, true] {
        let mut scene = Scene::new();
        let warm = Condition { warm_projects: vec!["p".into()], ..Condition::default() };
        let (hot, _) = scene.join(Register { condition: warm.clone(), ..register(2, 1) });
        scene.mac(1, 1);
        if quarantined {
            let condition = Condition { quarantined: Some("a process is left".into()), ..warm };
            scene.step(Input::Reported { session: hot, held: Vec::new(), condition });
        } else {
            scene.gone(hot);
        }
        assert_eq!(granted(&scene.send(submit(1, "a", JobSpec { source: snapshot("p"), ..spec() }))), [1]);
    }
}

#[test]
fn every_wait_has_a_reason_that_counts_what_keeps_the_workers() {
    let mut scene = Scene::new();
    let away = scene.mac(1, 1);
    scene.mac(2, 1);
    let sick = scene.mac(3, 1);
    scene.mac(4, 1);
    scene.gone(away);
    scene.drain("mac-2", true, None);
    let condition = Condition { quarantined: Some("a process is left".into()), ..Condition::default() };
    scene.step(Input::Reported { session: sick, held: Vec::new(), condition });
    scene.plain(1);
    scene.plain(2);
    let reason = scene.reason(2);
    let counted = "of 4 workers that fit: 1 busy, 1 draining, 1 quarantined, 1 not connected";
    assert_eq!(reason, format!("{counted} (jobs there: {} on `mac-4`)", job(1)));
}
