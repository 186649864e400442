//! Tests of fair sharing between submitters, quotas and estimates.

use crate::scene::{Scene, accepted, granted, job, refusal, spec, submit};
use buildpool_pool::{Config, Effect, Quota, Quotas, Submit};
use buildpool_protocol::error::ErrorCode;
use buildpool_protocol::ids::JobId;
use buildpool_protocol::report::JobState;
use buildpool_protocol::spec::JobSpec;
use buildpool_protocol::worker_link::Register;
use std::time::Duration;

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
        let live = |number| scene.live(number)?.waiting?.position.map(|position| (job(number), position));
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
    scene.join(Register { labels, ..crate::scene::register(2, 1) });
    scene.drain("mac-2", true, None);
    let gpu = JobSpec { selectors: vec!["gpu".parse().expect("a selector")], priority: 9, ..spec() };
    scene.send(submit(1, "a", gpu));
    scene.send(submit(2, "a", spec()));
    let (_, effects) = scene.join(crate::scene::register(1, 1));
    assert_eq!(granted(&effects), [2]);
}

fn with_quotas(quotas: Quotas) -> Scene {
    Scene::with(Config { quotas, ..Config::default() })
}

#[test]
fn who_is_at_the_quota_of_running_jobs_leaves_slots_to_others_and_hears_why_it_waits() {
    let few = Quota { running_jobs: Some(1), ..Quota::default() };
    let mut scene =
        with_quotas(Quotas { everybody: Quota::default(), submitters: [("a".into(), few)].into() });
    scene.mac(1, 3);
    for number in 1..=3 {
        scene.send(submit(number, "a", spec()));
    }
    assert!(scene.reason(2).contains("`a` has 1 job running already, which is the quota (running_jobs)"));
    assert_eq!(granted(&scene.send(submit(11, "b", spec()))), [11]);
    assert_eq!(granted(&scene.send(submit(12, "b", spec()))), [12], "no quota for b");
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [2], "one ends, one begins");
}

#[test]
fn a_submit_beyond_the_quota_of_waiting_jobs_is_refused_until_one_has_begun() {
    let quota = Quota { queued_jobs: Some(2), ..Quota::default() };
    let mut scene = with_quotas(Quotas { everybody: quota, ..Quotas::default() });
    scene.mac(1, 1);
    for number in 1..=3 {
        assert!(accepted(&scene.send(submit(number, "a", spec()))).is_some(), "{number}");
    }
    let error = refusal(&scene.send(submit(4, "a", spec())));
    assert_eq!(error.code, ErrorCode::Exhausted);
    assert!(
        error.message.contains("`a` has 2 jobs waiting already") && error.message.contains("queued_jobs")
    );
    assert!(accepted(&scene.send(submit(3, "a", spec()))).is_some(), "an earlier job again is no new one");
    let lease = scene.lease(1);
    scene.pass_job(lease);
    assert!(accepted(&scene.send(submit(4, "a", spec()))).is_some());
    assert!(accepted(&scene.send(submit(5, "b", spec()))).is_some(), "each has a quota of its own");
}

#[test]
fn the_longest_run_and_log_of_a_quota_reach_the_worker_and_nobody_can_ask_for_more() {
    let minute = Duration::from_secs(60);
    let quota = Quota { job_time: Some(minute), log_bytes: Some(5 << 20), ..Quota::default() };
    let mut scene = with_quotas(Quotas { everybody: quota, ..Quotas::default() });
    scene.mac(1, 3);
    let with = |timeout| JobSpec { timeout, ..spec() };
    let sent = |effects: &[Effect]| -> Option<JobSpec> {
        effects.iter().find_map(|effect| match effect {
            Effect::Grant { grant, .. } => Some(grant.spec.clone()),
            _ => None,
        })
    };
    let plain = sent(&scene.send(submit(1, "a", with(None)))).expect("a grant");
    assert_eq!((plain.timeout, plain.log_bytes_max), (Some(minute), Some(5 << 20)));
    let short = sent(&scene.send(submit(2, "a", with(Some(minute / 2))))).expect("a grant");
    assert_eq!(short.timeout, Some(minute / 2), "a shorter one stays");
    let error = refusal(&scene.send(submit(3, "a", with(Some(minute * 2)))));
    assert!(error.message.contains("timeout: 120 s") && error.message.contains("is 60 s"), "{error:?}");
    let unchosen = JobSpec { timeout_is_default: true, ..with(Some(minute * 60)) };
    let unchosen = sent(&scene.send(submit(4, "a", unchosen))).expect("a grant");
    assert_eq!(unchosen.timeout, Some(minute), "nobody chose that");
    assert_eq!(scene.disk.jobs[&job(1)].spec.timeout, None, "the request stays as it was");
}

/// A job with a known usual run time in seconds.
fn usually(number: u64, name: &str, secs: u64) -> Submit {
    Submit { usual: Some(Duration::from_secs(secs)), ..submit(number, name, spec()) }
}

fn estimate(scene: &Scene, number: u64) -> Option<u64> {
    scene.live(number)?.waiting?.estimate.map(|wait| wait.as_secs())
}

#[test]
fn an_estimate_is_the_work_that_goes_first_shared_among_the_slots() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 2);
    for number in 1..=6 {
        scene.send(usually(number, "a", 100));
    }
    assert_eq!(estimate(&scene, 3), Some(100), "two run, each for 100 s yet");
    assert_eq!(estimate(&scene, 6), Some(250), "and three of 100 s go before it");
    scene.pass(Duration::from_secs(60));
    assert_eq!(estimate(&scene, 3), Some(40));
    scene.pass(Duration::from_secs(600));
    assert_eq!(estimate(&scene, 3), Some(25), "overdue ones end some time");
    scene.send(usually(20, "b", 10));
    assert_eq!(
        estimate(&scene, 20),
        Some(25),
        "no job of a goes before the first job of a submitter without running jobs"
    );
    scene.drain("mac-1", true, None);
    assert_eq!(estimate(&scene, 3), None, "no job that ends will help");
    scene.gone(session);
    assert_eq!(estimate(&scene, 3), None);
}

#[test]
fn what_is_not_known_is_taken_from_the_others_or_not_guessed_at_all() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.send(submit(1, "a", spec()));
    scene.send(submit(2, "a", spec()));
    assert_eq!(estimate(&scene, 2), None, "nothing is known");
    scene.send(usually(3, "a", 30));
    assert_eq!(estimate(&scene, 3), None, "the end of the job that holds the slot is unknown");
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.send(usually(1, "a", 40));
    scene.send(submit(2, "a", spec()));
    scene.send(usually(3, "a", 30));
    assert_eq!(estimate(&scene, 3), Some(70), "a queued job without history counts like the other");
    let group = || JobSpec { concurrency_group: Some("g".into()), ..spec() };
    let mut scene = Scene::new();
    scene.mac(1, 2);
    scene.send(Submit { usual: Some(Duration::from_secs(50)), ..submit(1, "a", group()) });
    scene.send(submit(2, "a", group()));
    assert_eq!(estimate(&scene, 2), Some(50), "until the group is free");
    scene.send(Submit { usual: Some(Duration::from_secs(20)), ..submit(3, "a", group()) });
    assert_eq!(estimate(&scene, 3), Some(50 + 20), "one after the other");
}

fn position(scene: &Scene, number: u64) -> Option<u64> {
    scene.live(number)?.waiting?.position
}

/// A spec with this many units of `sim`.
fn sims(count: u32) -> JobSpec {
    JobSpec { resources: [("sim".to_owned(), count)].into(), ..spec() }
}

fn join_with_sims(scene: &mut Scene, number: u64, slots: u32, sims: u32) {
    let resources = [("sim".to_owned(), sims)].into();
    scene.join(Register { resources, ..crate::scene::register(number, slots) });
}

#[test]
fn a_job_that_needs_more_units_does_not_starve_beside_jobs_that_need_fewer() {
    let mut scene = Scene::new();
    join_with_sims(&mut scene, 1, 4, 2);
    for number in 1..=16 {
        scene.send(submit(number, "a", sims(1)));
    }
    assert_eq!(granted(&scene.send(submit(50, "b", sims(2)))), [0; 0]);
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [0; 0], "the unit is kept for b's");
    assert!(scene.reason(3).contains("keeping a counted resource"), "{}", scene.reason(3));
    assert!(scene.reason(50).contains("short of a counted resource"), "{}", scene.reason(50));
    assert_eq!(granted(&scene.send(submit(60, "c", spec()))), [60], "slots are not kept");
    let lease = scene.lease(2);
    assert_eq!(granted(&scene.pass_job(lease)), [50], "one turnover");
    let lease = scene.lease(50);
    assert_eq!(granted(&scene.pass_job(lease)), [3, 4]);
}

#[test]
fn two_who_wait_for_units_are_served_one_after_the_other() {
    let mut scene = Scene::new();
    join_with_sims(&mut scene, 1, 4, 2);
    join_with_sims(&mut scene, 2, 4, 2);
    for number in 1..=8 {
        scene.send(submit(number, "a", sims(1)));
    }
    scene.send(submit(50, "b", sims(2)));
    scene.send(submit(51, "c", sims(2)));
    // Free units are reserved for the first of them on any worker, then for the second.
    let leases = [1, 2, 3, 4].map(|number| scene.lease(number));
    let turns = leases.map(|lease| granted(&scene.pass_job(lease)));
    assert_eq!(turns.concat(), [50, 51], "{turns:?}");
    let lease = scene.lease(50);
    assert_eq!(granted(&scene.pass_job(lease)), [5, 6]);
}

#[test]
fn units_are_kept_where_they_come_free_first_whatever_the_worker_s_name() {
    for (long, short) in [(1, 2), (2, 1)] {
        let mut scene = Scene::new();
        let labels = |number: u64| [("name".to_owned(), format!("w{number}"))].into();
        for number in [1, 2] {
            let resources = [("sim".to_owned(), 3)].into();
            let name = format!("w{number}");
            scene.join(Register {
                name,
                resources,
                labels: labels(number),
                ..crate::scene::register(number, 4)
            });
        }
        let on = |number: u64, count| JobSpec {
            selectors: vec![format!("name=w{number}").parse().expect("a selector")],
            ..sims(count)
        };
        // One job that does not end holds one unit of one worker. Many short jobs hold the three
        // units of the other.
        scene.send(submit(1, "a", on(long, 1)));
        for number in 2..=60 {
            scene.send(submit(number, "a", on(short, 1)));
        }
        scene.send(submit(100, "b", sims(3)));
        let turns = [2, 3, 4].map(|number| {
            let lease = scene.lease(number);
            granted(&scene.pass_job(lease))
        });
        assert_eq!(turns.concat(), [100], "one turnover, except the job on w{long}: {turns:?}");
    }
}

#[test]
fn who_submits_one_job_after_another_does_not_shut_out_who_waits() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    for number in 1..=6 {
        scene.send(submit(number, "a", spec()));
    }
    scene.send(submit(100, "b", spec()));
    scene.send(submit(200, "c", spec()));
    let (mut turns, mut running, mut next) = (String::new(), 1, 300);
    for _ in 0..12 {
        let lease = scene.lease(running);
        let submitter = scene.live(running).expect("it runs").record.submitter.clone();
        running = granted(&scene.pass_job(lease))[0];
        if submitter != "a" {
            // A submitter in a loop has no live job for a moment.
            next += 1;
            scene.send(submit(next, &submitter, spec()));
        }
        turns.push_str(&scene.live(running).expect("it runs").record.submitter);
    }
    assert_eq!(turns, "bcabcabcabca");
}

#[test]
fn of_submitters_who_went_only_so_many_are_remembered() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    for number in 1..=1_200 {
        scene.send(submit(number, &format!("s{number}"), spec()));
        let lease = scene.lease(number);
        // Each step checks the limit.
        scene.pass_job(lease);
    }
    scene.send(submit(2_000, "busy", spec()));
    scene.send(submit(2_001, "s1200", spec()));
    scene.send(submit(2_002, "s1", spec()));
    scene.send(submit(2_003, "s900", spec()));
    let mut running = 2_000;
    for wanted in [2_002, 2_003, 2_001] {
        let lease = scene.lease(running);
        running = granted(&scene.pass_job(lease))[0];
        assert_eq!(running, wanted, "a forgotten submitter counts as new, the others by their last turn");
    }
}

#[test]
fn of_two_who_were_never_served_the_first_goes_first_whatever_the_priorities() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.send(submit(1, "busy", spec()));
    scene.send(submit(2, "dan", spec()));
    scene.send(submit(3, "ben", JobSpec { priority: 10, ..spec() }));
    // Another class of requirements makes no difference.
    let grouped = JobSpec { priority: 100, concurrency_group: Some("g".into()), ..spec() };
    scene.send(submit(4, "ben", grouped));
    assert_eq!([2, 4, 3].map(|number| position(&scene, number)), [Some(1), Some(2), Some(3)]);
    let mut running = 1;
    for wanted in [2, 4, 3] {
        let lease = scene.lease(running);
        running = granted(&scene.pass_job(lease))[0];
        assert_eq!(running, wanted);
    }
}

#[test]
fn a_priority_puts_nobody_s_jobs_before_another_submitter_s() {
    let mut scene = Scene::new();
    scene.mac(1, 2);
    for number in 1..=10 {
        scene.send(submit(number, "a", spec()));
    }
    scene.send(submit(50, "b", spec()));
    for number in 11..=16 {
        scene.send(submit(number, "a", JobSpec { priority: 50, ..spec() }));
    }
    assert_eq!(position(&scene, 50), Some(1));
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [50]);
    let lease = scene.lease(2);
    assert_eq!(granted(&scene.pass_job(lease)), [11], "among a's own it counts");
}

#[test]
fn positions_are_the_order_in_which_jobs_are_granted() {
    let mut scene = Scene::new();
    scene.mac(1, 2);
    for number in 1..=30 {
        scene.send(submit(number, "a", spec()));
    }
    for number in 51..=54 {
        scene.send(submit(number, "b", spec()));
    }
    scene.send(submit(70, "c", spec()));
    // Two jobs of a run: b and c catch up first, then all alternate.
    let near = |scene: &Scene, number, wanted: u64| {
        let shown = position(scene, number).expect("it waits");
        assert!(shown.abs_diff(wanted) <= 1, "{number} is shown at {shown}, and comes at {wanted}");
    };
    let waiting: Vec<u64> = (3..=30).chain(51..=54).chain([70]).collect();
    let shown: Vec<_> =
        waiting.iter().map(|number| (*number, position(&scene, *number).expect("it waits"))).collect();
    let (mut running, mut order) = (std::collections::VecDeque::from([1, 2]), Vec::new());
    near(&scene, 51, 1);
    near(&scene, 70, 2);
    while let Some(oldest) = running.pop_front() {
        let lease = scene.lease(oldest);
        let next = granted(&scene.pass_job(lease));
        running.extend(&next);
        order.extend(next);
    }
    assert_eq!(order.len(), waiting.len());
    for (number, position) in shown {
        let came = order.iter().position(|other| *other == number).expect("granted") as u64 + 1;
        assert!(
            position.abs_diff(came) <= 3,
            "{number} was shown at {position} and came at {came}: {order:?}"
        );
    }
}

#[test]
fn jobs_with_other_requirements_for_the_same_workers_count_as_well() {
    let mut scene = Scene::new();
    let named = |number: u64| {
        let name = format!("w{number}");
        let labels = [("name".to_owned(), name.clone())].into();
        Register { name, labels, ..crate::scene::register(number, 2) }
    };
    scene.join(named(1));
    scene.join(named(2));
    let on = |requirements: &[&str]| JobSpec {
        selectors: requirements.iter().map(|text| text.parse().expect("a selector")).collect(),
        ..spec()
    };
    let four = |number, spec| Submit { usual: Some(Duration::from_secs(4)), ..submit(number, "a", spec) };
    for number in 1..=12 {
        scene.send(four(number, on(&["name=w1"])));
    }
    scene.send(four(13, on(&["name=w1", "name"])));
    assert_eq!((estimate(&scene, 12), estimate(&scene, 13)), (Some(22), Some(24)));
    assert_eq!((position(&scene, 12), position(&scene, 13)), (Some(10), Some(11)));
    // Half of the jobs that could run on either worker run here.
    for number in 21..=22 {
        scene.send(four(number, on(&["name=w2"])));
    }
    for number in 23..=26 {
        scene.send(four(number, on(&["name"])));
    }
    scene.send(four(27, on(&["name=w2"])));
    assert_eq!(estimate(&scene, 27), Some(4 + 4));
    assert_eq!(position(&scene, 27), Some(5), "a job that only the other worker can run is not before it");
}

#[test]
fn units_are_what_jobs_with_a_resource_wait_for() {
    let mut scene = Scene::new();
    join_with_sims(&mut scene, 1, 8, 2);
    let ten = |number, spec| Submit { usual: Some(Duration::from_secs(10)), ..submit(number, "a", spec) };
    for number in 1..=6 {
        scene.send(ten(number, sims(1)));
    }
    assert_eq!(estimate(&scene, 3), Some(10));
    assert_eq!(estimate(&scene, 6), Some((20 + 30) / 2), "two at a time, with any number of slots");
    scene.send(ten(7, sims(2)));
    assert_eq!(estimate(&scene, 7), Some((20 + 40) / 2));
}

#[test]
fn a_long_list_has_a_reason_for_each_job_and_positions_for_the_first() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    for number in 1..=60 {
        scene.plain(number);
    }
    let list = scene.pool.newest_jobs(scene.now(), 40, |state, _, _| state == JobState::Queued);
    let waits: Vec<_> = list.iter().filter_map(|live| live.waiting.as_ref()).collect();
    assert_eq!((list.len(), waits.len()), (40, 40));
    assert_eq!(list[0].record.job, job(60), "newest first");
    assert!(waits.iter().all(|waits| waits.reason.contains("busy")), "{waits:?}");
    assert_eq!(waits.iter().filter(|waits| waits.position.is_some()).count(), 20);
    let running = scene.pool.newest_jobs(scene.now(), 40, |state, _, _| state != JobState::Queued);
    assert_eq!(running.len(), 1);
}
