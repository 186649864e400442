//! Workers that accept some submitters only, tokens that may use some workers only, and warm workspaces of other classes.

use crate::scene::{Scene, granted, grants, job, register, snapshot, spec, submit};
use buildpool_pool::Submit;
use buildpool_protocol::report::Verdict;
use buildpool_protocol::spec::{Access, JobSpec};
use buildpool_protocol::worker_link::{Condition, Register};
use std::collections::BTreeMap;

fn access(names: &[&str]) -> Access {
    let class = format!("submitter:{}", names[0]);
    Access { class, names: names.iter().map(|name| (*name).to_owned()).collect(), ..Access::default() }
}

fn sent(number: u64, access: Access) -> Submit {
    let name = access.names[0].clone();
    submit(number, &name, JobSpec { access, ..spec() })
}

fn accepting(number: u64, names: &[&str]) -> Register {
    Register { accepts: names.iter().map(|name| (*name).to_owned()).collect(), ..register(number, 1) }
}

#[test]
fn a_worker_runs_jobs_of_those_whom_it_accepts_and_of_no_other() {
    let mut scene = Scene::new();
    scene.join(accepting(1, &["core"]));
    scene.send(sent(1, access(&["eve"])));
    assert_eq!(scene.verdict(1), Some(Verdict::Rejected));
    assert_eq!(
        scene.cause(1),
        "No worker can run this: the workers that fit accept jobs of core only, not of `eve`."
    );
    assert_eq!(granted(&scene.send(sent(2, access(&["ada", "core"])))), [2], "by the name of the team");
    scene.join(register(2, 1));
    assert_eq!(granted(&scene.send(sent(3, access(&["eve"])))), [3]);
    scene.send(sent(4, access(&["eve"])));
    assert!(scene.reason(4).starts_with("the one worker that fits is busy (jobs there: "));
    assert_eq!(granted(&scene.pass_job(scene.lease(2))), [0; 0], "eve's job waits, although a slot is free");
    assert_eq!(granted(&scene.send(sent(5, access(&["grace", "core"])))), [5], "and holds up nobody");
}

#[test]
fn a_token_that_reads_its_own_jobs_learns_no_other_id() {
    let mut scene = Scene::new();
    scene.join(register(1, 2));
    let own = |number, name: &str| {
        let access = Access { reads_own: true, ..access(&[name]) };
        let spec = JobSpec { concurrency_group: Some("g".into()), access, ..spec() };
        submit(number, name, if number < 5 { JobSpec { concurrency_group: None, ..spec } } else { spec })
    };
    scene.send(own(1, "ada"));
    scene.send(own(2, "bob"));
    scene.send(own(3, "ada"));
    let known = format!("the one worker that fits is busy (jobs there: {} on `", job(1));
    assert!(
        scene.reason(3).starts_with(&known) && scene.reason(3).ends_with(", 1 of others)"),
        "{}",
        scene.reason(3)
    );
    scene.join(register(2, 2));
    scene.send(own(5, "ada"));
    scene.send(own(6, "bob"));
    assert_eq!(scene.reason(6), "a job of the same concurrency group is running");
}

#[test]
fn a_restricted_token_reaches_its_workers_only() {
    let mut scene = Scene::new();
    scene.mac(1, 1);
    let labels = BTreeMap::from([("os".to_owned(), "linux".to_owned())]);
    let (linux, _) = scene.join(Register { labels, ..register(2, 1) });
    let by_label =
        |number| sent(number, Access { labels: vec!["os=linux".parse().expect("one")], ..access(&["ada"]) });
    assert_eq!(grants(&scene.send(by_label(1)))[0].1, linux);
    scene.send(by_label(2));
    assert!(scene.reason(2).starts_with("the one worker that fits is busy (jobs there: "));
    let by_name =
        |number, name: &str| sent(number, Access { workers: vec![name.into()], ..access(&["bob"]) });
    assert_eq!(granted(&scene.send(by_name(3, "mac-1"))), [3]);
    scene.send(by_name(4, "mac-9"));
    let cause = scene.cause(4);
    assert!(cause.contains("this job of `bob` is restricted to name=mac-9"), "{cause}");
}

#[test]
fn a_warm_workspace_of_another_class_does_not_count() {
    let mut scene = Scene::new();
    let warm = Condition { warm_projects: vec!["submitter:ada p".into()], ..Condition::default() };
    let (hot, _) = scene.join(Register { condition: warm, ..register(2, 1) });
    let cold = scene.mac(1, 4);
    let of = |number, name: &str| {
        submit(number, name, JobSpec { source: snapshot("p"), access: access(&[name]), ..spec() })
    };
    assert_eq!(grants(&scene.send(of(1, "eve")))[0].1, cold, "which has more room");
    assert_eq!(grants(&scene.send(of(2, "ada")))[0].1, hot);
}
