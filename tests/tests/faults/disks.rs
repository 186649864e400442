//! Tests of full disks.

use crate::bad_peers::register;
use buildpool_tests::{Finished, Peer, Pool, PoolBuilder, Workload, wait_for, wait_until};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

fn detached(pool: &Pool) -> Finished {
    pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "true"])
}

#[test]
fn a_coordinator_without_room_refuses_new_jobs_keeps_what_runs_and_goes_on_by_itself() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("coordinator", 64 << 20).start_on_disk() else { return };
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, 6_000_000, Duration::from_secs(3), &[]);
    job.wait_for_bytes(500_000);
    pool.disk().unwrap().fill();
    let refused = wait_for("a job is refused", || Some(detached(&pool)).filter(|asked| asked.code() != 0));
    assert_eq!(refused.code(), 125, "{refused}");
    assert!(refused.err().contains("no new job is accepted"), "{refused}");
    // Requests are still answered.
    let shown = pool.job(&job.id);
    assert_ne!(shown["state"], "done", "{shown:#}");
    pool.buildpool(&["jobs"]).expect(0);
    pool.buildpool(&["workers"]).expect(0);
    wait_until("the job ends by itself", || job.has_finished());
    assert_ne!(pool.job(&job.id)["state"], "done", "its log can't be whole");
    pool.disk().unwrap().empty();
    workload.wait(&pool);
    wait_until("jobs are taken again", || detached(&pool).code() == 0);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[test]
fn a_coordinator_with_a_full_disk_starts_and_removes_old_logs_before_it_refuses_a_job() {
    let builder = PoolBuilder::default().worker(&["--slots", "1"]);
    let Some(mut pool) = builder.small_disk("coordinator", 128 << 20).start_on_disk() else { return };
    // Random bytes, because logs are stored compressed.
    let large =
        ["run", "--no-snapshot", "--detach", "--", "sh", "-c", "head -c 12000000 /dev/urandom | base64"];
    let id = pool.buildpool(&large).expect(0).out().trim().to_owned();
    assert_eq!(pool.wait_for_state(&id, "done")["verdict"], "passed");
    let reserve = pool.data("coordinator").join("reserve");
    wait_until("the reserve is written", || reserve.metadata().is_ok_and(|file| file.len() >= 1 << 20));
    pool.kill_coordinator();
    pool.disk().unwrap().fill();
    pool.start_coordinator_again();
    detached(&pool).expect(0);
    let removed = pool.buildpool(&["logs", &id]);
    assert!(removed.code() != 0 && removed.err().contains("removed by retention"), "{removed}");
    assert!(reserve.exists());
}

/// A file with this coordinator configuration.
fn configuration(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_log_that_a_full_coordinator_can_not_store_becomes_a_counted_gap_and_the_job_ends() {
    let file = configuration("log_wait_secs = 3\n");
    let config = ["--config", file.path().to_str().unwrap()];
    let builder = PoolBuilder::default().coordinator(&config).worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("coordinator", 24 << 20).start_on_disk() else { return };
    let go = pool.place().file("go");
    let text = format!(
        "echo first; while [ ! -e {} ]; do sleep 0.05; done; head -c 600000 /dev/urandom | base64; echo last; exit 3",
        go.display()
    );
    let started = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0);
    let id = started.out().trim().to_owned();
    wait_until("its log begins", || pool.buildpool(&["logs", &id]).out() == "first\n");
    pool.disk().unwrap().fill_but(2 << 20);
    std::fs::write(&go, "").unwrap();
    let waits = wait_for("the job waits for the disk", || {
        let job = pool.job(&id);
        (job["state"] == "sealing").then(|| job["waiting"]["reason"].to_string())
    });
    assert!(waits.contains("log"), "{waits}");
    let done = pool.wait_for_state(&id, "done");
    assert_eq!((&done["verdict"], &done["exit_code"]), (&json!("failed"), &json!(3)), "{done:#}");
    let gap = &done["gaps"][0];
    assert!(gap["reason"].as_str().unwrap().contains("the coordinator's disk"), "{gap}");
    assert!(gap["bytes"].as_u64().unwrap() > 500_000, "{gap}");
    let log = pool.buildpool(&["logs", &id]).expect(0).out();
    assert!(log.starts_with("first\n") && log.ends_with("\nlast\n"), "{} bytes", log.len());
    pool.disk().unwrap().empty();
    wait_until("jobs are taken again", || detached(&pool).code() == 0);
}

#[test]
fn one_large_log_leaves_room_for_others() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("coordinator", 48 << 20).start_on_disk() else { return };
    let large = "head -c 60000000 /dev/urandom | base64";
    let run = ["run", "--no-snapshot", "--output", "json", "--", "sh", "-c", large];
    let done = pool.buildpool(&run).expect(0).json();
    assert_eq!(done["verdict"], "passed");
    assert!(done["gaps"][0]["reason"].as_str().unwrap().contains("over its limit"), "{done:#}");
    pool.buildpool(&["run", "--no-snapshot", "--", "true"]).expect(0);
}

/// Runs a command that must not wait for the disk, and returns its result.
fn answered(pool: &Pool, arguments: &[&str]) -> Finished {
    let mut command = pool.command(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(&format!("{arguments:?} is answered"), || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_end_can_not_be_recorded_is_told_as_one_that_waits_for_that() {
    let Some(pool) = PoolBuilder::default().small_disk("coordinator", 24 << 20).start_on_disk() else {
        return;
    };
    // This worker sends no messages, so that no other record needs to be written.
    let mut worker = Peer::dial(pool.address(), "/v1/worker", Some(pool.worker_token())).await.unwrap();
    // It accepts no jobs either, so that the test does not wait for their ends.
    let mut mute = register(&uuid::Uuid::now_v7().to_string(), "mute");
    mute["condition"] = json!({"draining": true});
    worker.send_json(&mute).await;
    assert_eq!(worker.receive().await.unwrap()["type"], "registered");
    let mut client = client(&pool).await;
    let mut queued = Vec::new();
    for request in 0..20 {
        let submit = submit("true");
        client.send_json(&json!({"type": "submit", "request": request, "submit": submit})).await;
        assert_eq!(client.receive().await.unwrap()["type"], "accepted");
        queued.push(submit["job"].as_str().unwrap().to_owned());
    }
    pool.disk().unwrap().fill();
    let job = loop {
        let job = queued.pop().expect("records are still written");
        client.send_json(&json!({"type": "cancel", "request": 99, "job": job, "reason": ""})).await;
        let answer = client.receive().await.unwrap();
        if answer["type"] == "error" {
            assert!(answer["error"]["message"].as_str().unwrap().contains("as soon as it can"), "{answer:#}");
            break job;
        }
    };
    let shown = answered(&pool, &["job", &job, "--json"]).expect(0).json();
    let reason = shown["waiting"]["reason"].as_str().unwrap_or_default();
    assert_eq!(shown["state"], "sealing", "{shown:#}");
    assert!(reason.contains("it has ended") && reason.contains("can write its records"), "{shown:#}");
    answered(&pool, &["logs", &job]).expect(0);
    let listed = answered(&pool, &["jobs", "--json"]).expect(0).json();
    let listed: Vec<_> =
        listed.as_array().unwrap().iter().filter(|listed| listed["job_id"] == job.as_str()).collect();
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &json!("sealing")), "{listed:#?}");
    pool.disk().unwrap().empty();
    assert_eq!(pool.wait_for_state(&job, "done")["verdict"], "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_heard_while_records_can_not_be_written_so_that_nothing_is_cut_off() {
    let Some(pool) = PoolBuilder::default().small_disk("coordinator", 24 << 20).start_on_disk() else {
        return;
    };
    let enter_by = async |message: &serde_json::Value| {
        let mut peer = Peer::dial(pool.address(), "/v1/worker", Some(pool.worker_token())).await.unwrap();
        peer.send_json(message).await;
        peer
    };
    let newcomer = |number: usize| register(&uuid::Uuid::now_v7().to_string(), &format!("odd-{number}"));
    let known = newcomer(0);
    let mut worker = enter_by(&known).await;
    assert_eq!(worker.receive().await.unwrap()["type"], "registered");
    pool.disk().unwrap().fill();
    let mut others = use_up_what_is_kept(&pool).await;
    let heard = json!({"type": "desired", "desired": []});
    let report = json!({"type": "report", "held": [], "condition": {}});
    for _ in 0..3 {
        worker.send_json(&report).await;
        assert_eq!(worker.receive().await.unwrap(), heard);
    }
    // Peers with a blocked record, a lost connection, or an unknown identity also get answers,
    // repeatedly.
    drop(worker);
    let mut back = enter_by(&known).await;
    let mut late = enter_by(&newcomer(2_000)).await;
    let stuck = others.last_mut().unwrap();
    for peer in [&mut *stuck, &mut back, &mut late] {
        assert_eq!(peer.receive().await.unwrap(), heard);
        peer.send_json(&report).await;
        assert_eq!(peer.receive().await.unwrap(), heard);
    }
    pool.disk().unwrap().empty();
    for peer in [stuck, &mut back, &mut late] {
        assert_eq!(peer.receive().await.unwrap()["type"], "registered");
        peer.send_json(&report).await;
        assert_eq!(peer.receive().await.unwrap(), heard);
    }
}

/// Registers new workers until the disk has no space even for records. At least one stays
/// connected. Each registration is a record, and the database log has space for some.
async fn use_up_what_is_kept(pool: &Pool) -> Vec<Peer> {
    let (mut newcomers, mut client) = (Vec::new(), client(pool).await);
    loop {
        let mut peer = Peer::dial(pool.address(), "/v1/worker", Some(pool.worker_token())).await.unwrap();
        peer.send_json(&register(&uuid::Uuid::now_v7().to_string(), &format!("odd-{}", newcomers.len())))
            .await;
        newcomers.push(peer);
        client.send_json(&json!({"type": "submit", "request": 1, "submit": submit("true")})).await;
        let answer = client.receive().await.unwrap();
        if answer["error"]["message"].as_str().unwrap().contains("can't write its records") {
            return newcomers;
        }
        assert!(newcomers.len() < 2_000, "records are still written");
    }
}

/// Returns a registered client.
async fn client(pool: &Pool) -> Peer {
    let mut peer = Peer::dial(pool.address(), "/v1/client", Some(pool.token())).await.unwrap();
    peer.send_json(&json!({"type": "register", "protocol": {"min": 1, "max": 1}, "client": "test"})).await;
    assert_eq!(peer.receive().await.unwrap()["type"], "registered");
    peer
}

fn submit(shell: &str) -> serde_json::Value {
    let spec = json!({"command": {"shell": shell}, "source": "empty"});
    json!({"job": uuid::Uuid::now_v7().to_string(), "spec": spec})
}

/// Connects a new client, submits this job, and returns the answer.
async fn submit_anew(pool: &Pool, submit: &serde_json::Value) -> serde_json::Value {
    let mut peer = client(pool).await;
    peer.send_json(&json!({"type": "submit", "request": 1, "submit": submit})).await;
    peer.receive().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_back_while_the_disk_is_full_finds_the_job_and_whoever_cancels_is_told_that_it_waits() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("coordinator", 24 << 20).start_on_disk() else { return };
    let ready = || pool.get("/readyz", None);
    let series = || {
        let text = pool.get("/metrics", Some(pool.token())).1;
        text.lines().find(|line| line.starts_with("buildpool_ready ")).unwrap().to_owned()
    };
    let (long, named, over) = (submit("sleep 1000"), submit("sleep 1000"), submit("true"));
    let named = json!({"client_request_id": "r", "job": named["job"], "spec": named["spec"]});
    let by_name =
        json!({"client_request_id": "r", "job": uuid::Uuid::now_v7().to_string(), "spec": named["spec"]});
    for first in [&over, &long, &named] {
        assert_eq!(submit_anew(&pool, first).await["reattached"], false);
    }
    let id = |submit: &serde_json::Value| submit["job"].as_str().unwrap().to_owned();
    pool.wait_for_state(&id(&over), "done");
    for running in [&long, &named] {
        pool.wait_for_state(&id(running), "running");
    }
    assert_eq!((ready().1.as_str(), series().as_str()), ("ready\n", "buildpool_ready 1"));

    // Running jobs have space for their records.
    pool.disk().unwrap().fill_but(2 << 20);
    let again = async |refusal: &str| {
        for (submit, job) in [(&over, &over), (&long, &long), (&named, &named), (&by_name, &named)] {
            let answer = submit_anew(&pool, submit).await;
            assert_eq!((&answer["job"], &answer["reattached"]), (&job["job"], &true.into()), "{answer:#}");
        }
        let answer = submit_anew(&pool, &submit("true")).await;
        assert_eq!(answer["error"]["code"], "unavailable", "{answer:#}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(refusal), "{answer:#}");
        let (status, why) = ready();
        assert!(status.contains("503") && why.contains(refusal), "{status} {why}");
        assert_eq!(series(), "buildpool_ready 0");
    };
    again("bytes free").await;
    pool.disk().unwrap().fill();
    let newcomers = use_up_what_is_kept(&pool).await;
    again("can't write its records").await;
    assert_eq!(pool.job(&id(&over))["verdict"], "passed", "a finished job can be read");
    let refused = pool.buildpool(&["cancel", &id(&long)]);
    assert_eq!(refused.code(), 125, "{refused}");
    assert!(refused.err().contains("as soon as it can"), "{refused}");
    let shown = pool.job(&id(&long));
    let doubt = shown["waiting"]["reason"].as_str().unwrap_or_default();
    assert!(shown["state"] == "running" && doubt.contains("it may have ended"), "{shown:#}");
    pool.disk().unwrap().empty();
    // The client does not need to retry.
    assert_eq!(pool.wait_for_state(&id(&long), "done")["verdict"], "cancelled");
    wait_until("it is ready", || ready().1 == "ready\n" && series() == "buildpool_ready 1");
    let shown = pool.job(&id(&named));
    assert_eq!((&shown["state"], &shown["waiting"]), (&json!("running"), &json!(null)), "{shown:#}");
    drop(newcomers);
}

#[test]
fn a_worker_without_room_holds_its_job_back_and_goes_on_by_itself() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("w0", 24 << 20).start_on_disk() else { return };
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, 2_000_000, Duration::from_secs(2), &[]);
    job.wait_for_bytes(200_000);
    pool.disk().unwrap().fill();
    let second = workload.submit(&pool, 1_000, Duration::ZERO, &[]);
    // An attempt without space for its workspace waits, shows the reason, and can be cancelled.
    let waits = |id: &str| {
        let reason = pool.job(id)["waiting"]["reason"].as_str().unwrap_or_default().to_owned();
        reason.contains("quarantined")
    };
    wait_until("the second waits for its worker", || waits(&second.id));
    let workers = pool.buildpool(&["workers", "--json"]).expect(0).json();
    let reason = workers[0]["quarantined"].as_str().unwrap();
    assert!(reason.contains("No space left"), "{workers:#}");
    let third = detached(&pool).expect(0).out().trim().to_owned();
    pool.buildpool(&["cancel", &third]).expect(0);
    wait_until("the third is cancelled", || pool.job(&third)["verdict"] == "cancelled");
    assert_eq!(pool.job(&job.id)["state"], "running");
    pool.disk().unwrap().empty();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!((job.starts().len(), second.starts().len()), (1, 1));
}

#[test]
fn a_job_that_fills_its_workers_disk_waits_for_a_stated_reason_and_its_timeout_names_the_disk() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("w0", 8 << 20).start_on_disk() else { return };
    // Long lines, because the digest's time depends on the number of lines.
    let line = "x".repeat(1000);
    let endless = ["run", "--no-snapshot", "--detach", "--", "yes", &line];
    let id = pool.buildpool(&endless).expect(0).out().trim().to_owned();
    let waiting =
        wait_for("it states why it waits", || pool.job(&id)["waiting"]["reason"].as_str().map(str::to_owned));
    assert!(waiting.contains("worker `w0`") && waiting.contains("No space left"), "{waiting}");
    assert_eq!(pool.job(&id)["state"], "running");
    pool.buildpool(&["cancel", &id]).expect(0);
    pool.wait_for_state(&id, "done");
    let words = ["run", "--no-snapshot", "--timeout", "15s", "--output", "json", "--", "yes", &line];
    let ended = pool.buildpool(&words);
    let result = ended.expect(124).json();
    assert_eq!(result["verdict"], "timed_out", "{result:#}");
    let cause = result["cause"]["text"].as_str().unwrap();
    assert!(cause.contains("disk refused its output") && cause.contains("No space left"), "{cause}");
}

#[test]
fn a_job_that_one_worker_has_no_room_for_runs_on_another_one() {
    let builder = PoolBuilder::default().worker(&["--slots", "1"]).worker(&["--slots", "1"]);
    let Some(pool) = builder.small_disk("w0", 8 << 20).start_on_disk() else { return };
    let git = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).status().unwrap();
    assert!(git.success());
    let mut large = vec![0; 12 << 20];
    File::open("/dev/urandom").unwrap().read_exact(&mut large).unwrap();
    std::fs::write(pool.place().file("large"), large).unwrap();
    // Both workers are free. The one with a full disk comes first by name.
    let asked = pool.buildpool(&["run", "--output", "json", "--", "wc", "-c", "large"]).expect(0);
    let shown = asked.json();
    assert_eq!((&shown["verdict"], &shown["worker"]), (&"passed".into(), &"w1".into()), "{shown:#}");
    assert_eq!(shown["attempt"], 2, "{shown:#}");
    let parts = std::fs::read_dir(pool.data("w0").join("projects")).into_iter().flatten().flatten();
    let parts = parts.filter_map(|project| std::fs::read_dir(project.path().join("incoming")).ok());
    assert_eq!(parts.flatten().count(), 0, "its result takes no space");
}

#[test]
fn a_worker_short_of_space_removes_idle_workspaces_while_a_job_runs() {
    let builder = PoolBuilder::default().worker(&["--slots", "1"]);
    let Some(pool) = builder.small_disk("w0", 96 << 20).start_on_disk() else { return };
    let git = |arguments: &[&str]| {
        assert!(
            Command::new("git").args(arguments).current_dir(pool.place().work()).status().unwrap().success()
        );
    };
    git(&["init", "-q"]);
    std::fs::write(pool.place().file(".gitignore"), "/built\n").unwrap();
    // Ignored files stay in the workspace for the next job.
    let built =
        pool.buildpool(&["run", "--", "sh", "-c", "head -c 50000000 /dev/zero > built; pwd"]).expect(0);
    let workspace = std::path::PathBuf::from(built.out().trim());
    assert!(workspace.join("built").exists());
    let script = "head -c 43000000 /dev/zero > mine; while [ ! -e \"$0\" ]; do sleep 0.05; done";
    let done = pool.place().file("done");
    let arguments = ["run", "--no-snapshot", "--detach", "--", "sh", "-c", script, done.to_str().unwrap()];
    let job = pool.buildpool(&arguments).expect(0).out();
    pool.wait_for_state(job.trim(), "running");
    wait_until("the idle workspace is removed", || !workspace.exists());
    assert_eq!(pool.job(job.trim())["state"], "running");
    std::fs::write(&done, "").unwrap();
    assert_eq!(pool.wait_for_state(job.trim(), "done")["verdict"], "passed");
}
