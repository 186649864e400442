//! Tests of submission: accepted, refused and attached jobs.

use crate::scene::{
    Scene, accepted, granted, grants, job, place, refusal, refused_as, register, secret, snapshot, spec,
    submit,
};
use buildpool_pool::{Change, Config, Effect, Input, Submit};
use buildpool_protocol::client_link::Secret;
use buildpool_protocol::error::{ErrorCode, LinkError};
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Command, JobSpec, Source, Verbosity};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn a_job_is_on_disk_before_it_is_accepted_and_granted() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let effects = scene.plain(1);
    let order = [
        place(&effects, |effect| matches!(effect, Effect::Persist(Change::Submitted(_)))),
        place(&effects, |effect| matches!(effect, Effect::Accepted { .. })),
        place(&effects, |effect| matches!(effect, Effect::Persist(Change::Attempt { .. }))),
        place(&effects, |effect| matches!(effect, Effect::OpenLog { .. })),
        place(&effects, |effect| matches!(effect, Effect::Grant { .. })),
    ];
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn what_cannot_be_served_is_refused_with_its_reason() {
    let long = BTreeMap::from([("A".to_owned(), "\u{1}".repeat(900_000))]);
    let cases: [(&str, Submit, ErrorCode, &str); 8] = [
        (
            "an empty command",
            submit(1, "a", JobSpec { command: Command::Argv(Vec::new()), ..spec() }),
            ErrorCode::Invalid,
            "command",
        ),
        (
            "in place on a pool of several machines",
            submit(1, "a", JobSpec { source: Source::InPlace { directory: "/src".into() }, ..spec() }),
            ErrorCode::Invalid,
            "source",
        ),
        (
            "a secret without its value",
            submit(1, "a", JobSpec { secrets: vec!["KEY".into()], ..spec() }),
            ErrorCode::Invalid,
            "`KEY` has no value",
        ),
        (
            "a secret with the name of a pool variable",
            submit(1, "a", JobSpec { secrets: vec!["BUILDPOOL_JOB_ID".into()], ..spec() }),
            ErrorCode::Invalid,
            "secret: `BUILDPOOL_JOB_ID` is the pool's own",
        ),
        (
            "an artifact from elsewhere",
            submit(1, "a", JobSpec { artifacts: vec!["out/*".into(), "../x".into()], ..spec() }),
            ErrorCode::Invalid,
            "`../x` leads out of the command's directory",
        ),
        (
            "an endless request id",
            Submit { client_request_id: Some("x".repeat(5_000)), ..submit(1, "a", spec()) },
            ErrorCode::Invalid,
            "client_request_id",
        ),
        (
            "a spec that is too long for one grant message",
            submit(1, "a", JobSpec { env: long, ..spec() }),
            ErrorCode::TooLarge,
            "env 5400008",
        ),
        ("one more than the pool takes", submit(2, "a", spec()), ErrorCode::Exhausted, "limit"),
    ];
    for (what, submit, code, word) in cases {
        let mut scene = Scene::with(Config { live_jobs_max: 1, ..Config::default() });
        if code == ErrorCode::Exhausted {
            scene.mac(1, 1);
            scene.plain(1);
        }
        let effects = scene.send(submit);
        assert_eq!(refused_as(&effects), code, "{what}");
        assert!(refusal(&effects).message.contains(word), "{what}: {}", refusal(&effects).message);
        assert!(accepted(&effects).is_none(), "{what}");
    }
}

#[test]
fn secrets_that_come_later_must_fit_into_the_grant_too() {
    let mut scene = Scene::new();
    let of_length = |length| {
        let values = BTreeMap::from([("KEY".to_owned(), Secret("x".repeat(length)))]);
        Submit { secrets: values, ..submit(1, "a", JobSpec { secrets: vec!["KEY".into()], ..spec() }) }
    };
    scene.mac(1, 1);
    scene.plain(2);
    assert_eq!(accepted(&scene.send(of_length(5))), Some((job(1), false)));
    assert_eq!(refused_as(&scene.send(of_length(5 << 20))), ErrorCode::TooLarge);
    assert_eq!(accepted(&scene.send(of_length(6))), Some((job(1), true)));
}

#[test]
fn a_draining_pool_takes_no_new_job_and_still_knows_the_old_ones() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    scene.plain(1);
    scene.plain(2);
    scene.step(Input::DrainPool { draining: true });
    assert_eq!(refused_as(&scene.plain(3)), ErrorCode::Unavailable);
    assert_eq!(accepted(&scene.plain(2)), Some((job(2), true)));
    let lease = scene.lease(1);
    assert_eq!(granted(&scene.pass_job(lease)), [0; 0]);
    assert!(scene.reason(2).contains("draining"), "{}", scene.reason(2));
    assert_eq!(granted(&scene.step(Input::DrainPool { draining: false })), [2]);
}

#[test]
fn a_job_that_no_known_worker_could_run_is_rejected_and_says_what_is_missing() {
    let requires = |text: &str| JobSpec { selectors: vec![text.parse().expect("a selector")], ..spec() };
    let simulators = |count| JobSpec { resources: BTreeMap::from([("simulator".into(), count)]), ..spec() };
    for (spec, word) in [
        (requires("xcode"), "no worker has the label `xcode`; there are: os=linux"),
        (requires("os=macos"), "no worker has the label `os=macos`"),
        (simulators(3), "no worker has 3 of the resource `simulator`; the most is 2"),
        (
            JobSpec { selectors: vec!["os=linux".parse().expect("a selector")], ..simulators(1) },
            "no single worker has all requested labels and resources (os=linux, simulator=1)",
        ),
    ] {
        let mut scene = Scene::new();
        let labels = BTreeMap::from([("os".to_owned(), "linux".to_owned())]);
        let resources = BTreeMap::from([("simulator".to_owned(), 2)]);
        scene.join(buildpool_protocol::worker_link::Register { labels, ..register(1, 1) });
        scene.join(buildpool_protocol::worker_link::Register { resources, ..register(2, 1) });
        let effects = scene.send(submit(1, "a", spec));
        assert!(accepted(&effects).is_some(), "a verdict is an answer, not a refusal");
        assert_eq!(scene.verdict(1), Some(Verdict::Rejected));
        assert!(scene.cause(1).contains(word), "{}", scene.cause(1));
    }
}

#[test]
fn a_known_worker_that_is_away_is_waited_for() {
    let mut scene = Scene::new();
    let session = scene.mac(1, 1);
    scene.gone(session);
    scene.plain(1);
    assert_eq!(scene.verdict(1), None);
    assert_eq!(scene.reason(1), "the one worker that fits is not connected");
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(granted(&effects), [1]);
}

#[test]
fn wait_for_worker_waits_for_one_nobody_has_seen_and_not_for_ever() {
    let mut scene = Scene::new();
    let patient = |seconds| JobSpec { wait_for_worker: Some(Duration::from_secs(seconds)), ..spec() };
    scene.send(submit(1, "a", patient(60)));
    scene.send(submit(2, "a", patient(600)));
    assert!(scene.reason(1).contains("no worker has joined"), "{}", scene.reason(1));
    scene.pass(Duration::from_secs(59));
    assert_eq!(scene.verdict(1), None);
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.verdict(1), Some(Verdict::Rejected));
    let (_, effects) = scene.join(register(1, 1));
    assert_eq!(granted(&effects), [2]);
}

#[test]
fn no_length_of_time_that_a_client_asks_for_breaks_the_machine() {
    let mut scene = Scene::new();
    let endless = JobSpec { wait_for_worker: Some(Duration::MAX), ..spec() };
    scene.send(submit(1, "a", endless));
    scene.mac(1, 1);
    scene.drain("mac-1", true, Some(Duration::MAX));
    scene.pass(Duration::from_secs(1));
}

#[test]
fn the_same_job_again_is_the_same_job() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let by_id = submit(1, "a", spec());
    let by_request =
        |number| Submit { client_request_id: Some("again".into()), ..submit(number, "a", spec()) };
    let by_likeness = |number, name| Submit {
        attach: true,
        ..submit(number, name, JobSpec { source: snapshot("p"), ..spec() })
    };
    scene.send(by_id.clone());
    assert_eq!(accepted(&scene.send(by_id)), Some((job(1), true)));
    assert_eq!(refused_as(&scene.send(submit(1, "b", spec()))), ErrorCode::Conflict);
    let other = JobSpec { priority: 3, ..spec() };
    assert_eq!(refused_as(&scene.send(submit(1, "a", other))), ErrorCode::Conflict);

    scene.send(by_request(2));
    assert_eq!(accepted(&scene.send(by_request(3))), Some((job(2), true)));
    let others = Submit { client_request_id: Some("again".into()), ..submit(4, "b", spec()) };
    assert_eq!(accepted(&scene.send(others)), Some((job(4), false)), "request ids are a submitter's own");

    scene.send(by_likeness(5, "a"));
    assert_eq!(accepted(&scene.send(by_likeness(6, "a"))), Some((job(5), true)));
    assert_eq!(accepted(&scene.send(by_likeness(7, "b"))), Some((job(7), false)));
    scene.step(Input::Delivered { job: job(5) });
    assert_eq!(accepted(&scene.send(by_likeness(8, "a"))), Some((job(8), false)));
}

#[test]
fn only_an_equal_submit_is_an_earlier_job() {
    let env = |value: &str| BTreeMap::from([("A".to_owned(), value.to_owned())]);
    let text = || vec!["out/*".to_owned()];
    let base = || JobSpec { source: snapshot("p"), ..spec() };
    let in_place = || JobSpec { source: Source::InPlace { directory: "/src".into() }, ..spec() };
    let given = |value| JobSpec { env: env(value), given_env: vec!["A".to_owned()], ..in_place() };
    for (what, first, second, is_same) in [
        ("a variable", base(), JobSpec { env: env("1"), ..base() }, false),
        ("another value", JobSpec { env: env("1"), ..base() }, JobSpec { env: env("2"), ..base() }, false),
        ("a given value in place", given("1"), given("2"), false),
        ("the same given value", given("1"), given("1"), true),
        ("an inherited value", JobSpec { env: env("1"), ..in_place() }, in_place(), true),
        ("a timeout", base(), JobSpec { timeout: Some(Duration::from_secs(2)), ..base() }, false),
        ("artifacts", base(), JobSpec { artifacts: text(), ..base() }, false),
        ("reports", base(), JobSpec { reports: text(), ..base() }, false),
        ("resources", base(), JobSpec { resources: [("x".to_owned(), 1)].into(), ..base() }, false),
        ("the way it is shown", base(), JobSpec { verbosity: Verbosity::Full, ..base() }, true),
        (
            "the build",
            base(),
            JobSpec {
                build: Some("00000000-0000-7000-b000-000000000007".parse().expect("a UUID")),
                ..base()
            },
            true,
        ),
    ] {
        let mut scene = Scene::with(Config { local: true, ..Config::default() });
        scene.send(Submit { attach: true, ..submit(1, "a", first) });
        let answer = accepted(&scene.send(Submit { attach: true, ..submit(2, "a", second) }));
        assert_eq!(answer, Some(if is_same { (job(1), true) } else { (job(2), false) }), "{what}");
    }
}

#[test]
fn a_repeated_submit_of_a_finished_job_answers_with_that_job() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let again = Submit { known: Some(job(9)), ..submit(9, "a", spec()) };
    assert_eq!(accepted(&scene.send(again)), Some((job(9), true)));
    assert!(scene.live(9).is_none());
}

#[test]
fn what_speaks_against_new_jobs_speaks_against_no_job_that_was_accepted() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let why = || Some(LinkError::new(ErrorCode::Unavailable, "no room"));
    let by_request = |number| Submit { client_request_id: Some("r".into()), ..submit(number, "a", spec()) };
    let by_likeness = |number| Submit { attach: true, ..submit(number, "b", spec()) };
    scene.send(submit(1, "a", spec()));
    scene.send(by_request(2));
    scene.send(by_likeness(3));
    let fuller = |submit| Submit { refused: why(), ..submit };
    for (again, earlier) in [(submit(1, "a", spec()), 1), (by_request(12), 2), (by_likeness(13), 3)] {
        let effects = scene.send(fuller(again));
        assert_eq!(accepted(&effects), Some((job(earlier), true)));
        let is_written = effects.iter().any(|effect| matches!(effect, Effect::Persist(_)));
        assert!(!is_written, "a repeated submit takes no room: {effects:?}");
    }
    let over = Submit { known: Some(job(9)), ..fuller(submit(9, "a", spec())) };
    assert_eq!(accepted(&scene.send(over)), Some((job(9), true)));
    let other = JobSpec { priority: 3, ..spec() };
    let others_request = Submit { client_request_id: Some("r".into()), ..submit(5, "b", spec()) };
    for new in [submit(4, "a", spec()), others_request, Submit { attach: true, ..submit(6, "b", other) }] {
        assert_eq!(refused_as(&scene.send(fuller(new))), ErrorCode::Unavailable);
    }
}

#[test]
fn only_the_secrets_that_a_spec_names_reach_the_worker() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let mut secrets = secret("KEY");
    secrets.extend(secret("OTHER"));
    let submit = Submit { secrets, ..submit(1, "a", JobSpec { secrets: vec!["KEY".into()], ..spec() }) };
    let effects = scene.send(submit);
    assert_eq!(grants(&effects).len(), 1);
    let given = effects.iter().find_map(|effect| match effect {
        Effect::Grant { grant, .. } => Some(grant.secrets.keys().cloned().collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(given, Some(vec!["KEY".to_owned()]));
}

#[test]
fn one_submitter_can_not_fill_the_pool_for_others() {
    let mut scene = Scene::with(Config { live_jobs_max: 16, ..Config::default() });
    scene.mac(1, 1);
    let mut number = 0;
    // Each takes all that it gets.
    let had: Vec<usize> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| {
            let mut accepts = || {
                number += 1;
                accepted(&scene.send(submit(number, name, spec()))).is_some()
            };
            (0..100).take_while(|_| accepts()).count()
        })
        .collect();
    assert_eq!(had, [8, 4, 2, 1]);
    assert_eq!(refused_as(&scene.send(submit(90, "a", spec()))), ErrorCode::Exhausted);
    let lease = scene.lease(1);
    scene.pass_job(lease);
    assert!(accepted(&scene.send(submit(91, "e", spec()))).is_some());
}

#[test]
fn large_specs_of_one_submitter_leave_room_for_others() {
    let mut scene = Scene::with(Config { spec_bytes_max: 100_000, ..Config::default() });
    scene.mac(1, 1);
    let large = JobSpec { env: [("X".to_owned(), "x".repeat(20_000))].into(), ..spec() };
    let takes = |scene: &mut Scene, from, name| {
        (from..from + 9)
            .filter(|number| accepted(&scene.send(submit(*number, name, large.clone()))).is_some())
            .count()
    };
    assert_eq!(takes(&mut scene, 1, "a"), 2);
    assert_eq!(takes(&mut scene, 20, "b"), 1);
    assert!(accepted(&scene.send(submit(40, "c", spec()))).is_some());
    let lease = scene.lease(1);
    scene.pass_job(lease);
    assert_eq!(takes(&mut scene, 50, "a"), 1, "a done job gives its bytes back");
}

#[test]
fn secrets_count_as_bytes_of_their_job() {
    let mut scene = Scene::with(Config { spec_bytes_max: 100_000, ..Config::default() });
    let secrets = BTreeMap::from([("KEY".to_owned(), Secret("x".repeat(60_000)))]);
    let spec = JobSpec { secrets: vec!["KEY".into()], ..spec() };
    scene.mac(1, 1);
    let effects = scene.send(Submit { secrets: secrets.clone(), ..submit(1, "a", spec.clone()) });
    assert_eq!(granted(&effects), [1]);
    let effects = scene.send(Submit { secrets, ..submit(2, "a", spec) });
    assert!(refusal(&effects).message.contains("bytes"), "{effects:?}");
}

#[test]
fn one_submitter_has_a_limit_on_different_requirements() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let group = |number: u64| JobSpec { concurrency_group: Some(format!("group-{number}")), ..spec() };
    let accepts =
        |scene: &mut Scene, number| accepted(&scene.send(submit(number, "a", group(number)))).is_some();
    // The first one runs, so it is not queued.
    assert!((1..=513).all(|number| accepts(&mut scene, number)));
    let effects = scene.send(submit(514, "a", group(514)));
    assert!(refusal(&effects).message.contains("512 different sets of requirements"), "{effects:?}");
    assert!(accepted(&scene.send(submit(515, "a", group(7)))).is_some(), "known requirements");
    let lease = scene.lease(1);
    scene.pass_job(lease);
    assert!(accepts(&mut scene, 516), "a granted job leaves room");
    assert!(accepted(&scene.send(submit(517, "b", group(514)))).is_some(), "another submitter");
}

#[test]
fn attachable_jobs_of_one_submitter_push_out_none_of_another() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let attach = |number: u64, name| {
        let command = Command::Shell(format!("echo {}", if name == "a" { number } else { 0 }));
        Submit { attach: true, ..submit(number, name, JobSpec { command, ..spec() }) }
    };
    scene.send(attach(1, "b"));
    (2..=1_100).for_each(|number| drop(scene.send(attach(number, "a"))));
    assert_eq!(accepted(&scene.send(attach(1_101, "b"))), Some((job(1), true)));
}
