//! Tests of Ctrl-C and of clients that die.

use buildpool_tests::{Finished, Place, Pool, PoolBuilder, wait_for, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, Read};
use std::process::{Child, Stdio};

fn start(place: &Place, text: &str) -> Child {
    let mut child = place
        .command(["run", "--", "sh", "-c", text])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    child
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
}

fn only_job(place: &Place) -> serde_json::Value {
    let jobs = place.buildpool(&["jobs", "--json"]).expect(0).json();
    assert_eq!(jobs.as_array().unwrap().len(), 1);
    jobs[0].clone()
}

#[test]
fn ctrl_c_cancels_the_job_and_waits_for_its_end() {
    let place = Place::new();
    let child = start(&place, "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
    interrupt(&child);
    let ended = Finished::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code(), 130, "{ended}");
    // Output that the command wrote while it ended belongs to its output.
    assert_eq!(ended.out(), "cleaned\n");
    assert!(ended.err().contains("cancelling job"), "{ended}");
    assert_eq!(only_job(&place)["verdict"], "cancelled");
}

#[test]
fn a_second_ctrl_c_leaves_at_once_and_the_job_is_cancelled_all_the_same() {
    let place = Place::new();
    let mut child =
        start(&place, "trap 'touch asked' TERM; echo ready; while [ ! -e go ]; do sleep 0.05; done");
    interrupt(&child);
    let mut said = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    let mut byte = [0];
    while !said.contains("leaves without waiting") {
        stderr.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    interrupt(&child);
    let ended = Finished::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code(), 130, "{ended}");
    assert!(ended.err().contains("is being cancelled"), "{ended}");
    // A job that ends before the cancellation keeps its own result.
    wait_until("the job received the order to end", || place.file("asked").exists());
    std::fs::write(place.file("go"), "").unwrap();
    wait_until("the job is cancelled", || only_job(&place)["verdict"] == "cancelled");
}

#[test]
fn a_client_that_is_terminated_says_where_its_jobs_are() {
    let place = Place::new();
    let child = start(&place, "echo ready; while [ ! -e go ]; do sleep 0.05; done");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let ended = Finished::from(child.wait_with_output().unwrap()).expect(143);
    let id = only_job(&place)["job_id"].as_str().unwrap().to_owned();
    assert!(ended.err().contains(&format!("ended by SIGTERM; job {id} is not affected")), "{ended}");
    let text = "touch begun; while [ ! -e go ]; do sleep 0.05; done";
    let mut command = place.command(["run", "--several", "--", "sh", "-c", text]);
    let build = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the build runs", || place.file("begun").exists());
    kill(Pid::from_raw(build.id().cast_signed()), Signal::SIGTERM).unwrap();
    let ended = Finished::from(build.wait_with_output().unwrap()).expect(143);
    assert!(ended.err().contains("the jobs of build-"), "{ended}");
    std::fs::write(place.file("go"), "").unwrap();
    let all_passed = || {
        let jobs = place.buildpool(&["jobs", "--json"]).expect(0).json();
        jobs.as_array().unwrap().iter().all(|job| job["verdict"] == "passed")
    };
    wait_until("the jobs end by themselves", all_passed);
}

#[test]
fn a_client_that_dies_leaves_its_job_running() {
    let place = Place::new();
    let mut child = start(&place, "echo ready; while [ ! -e go ]; do sleep 0.05; done; echo done");
    child.kill().unwrap();
    child.wait().unwrap();
    // Its output may arrive before the state `running`.
    wait_until("it runs", || only_job(&place)["state"] == "running");
    std::fs::write(place.file("go"), "").unwrap();
    wait_until("the job ends by itself", || only_job(&place)["verdict"] == "passed");
    let id = only_job(&place)["job_id"].as_str().unwrap().to_owned();
    assert_eq!(place.buildpool(&["logs", &id]).expect(0).out(), "ready\ndone\n");
}

#[test]
fn a_token_that_is_revoked_during_a_run_ends_the_client_and_says_where_the_job_is() {
    let pool = Pool::start(1);
    let token = pool.buildpool(&["token", "create", "--role", "submit", "--name", "ci"]).expect(0).out();
    let go = pool.place().file("go");
    let text = format!("echo ready; while [ ! -e {} ]; do sleep 0.05; done; echo done", go.display());
    let mut command = pool.command(&["run", "--no-snapshot", "--", "sh", "-c", &text]);
    command.env("BUILDPOOL_TOKEN", token.trim()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = wait_for("the job runs", || {
        let jobs = pool.buildpool(&["jobs", "--state", "running", "--json"]).expect(0).json();
        Some(jobs[0]["job_id"].as_str()?.to_owned())
    });
    pool.buildpool(&["token", "revoke", "ci", "--keep-jobs"]).expect(0);
    let ended = Finished::from(child.wait_with_output().unwrap()).expect(125);
    assert!(ended.err().contains("does not accept the token"), "{ended}");
    assert!(
        ended.err().contains(&format!(
            "job {id} is not affected unless its token was revoked: `buildpool logs -f {id}`"
        )),
        "{ended}"
    );
    std::fs::write(&go, "").unwrap();
    let again = pool.buildpool(&["logs", "-f", &id]).expect(0);
    assert_eq!(again.out(), "ready\ndone\n");
    assert_eq!(pool.wait_for_state(&id, "done")["verdict"], "passed");
}

/// Starts a job that does not end by itself, with this token.
fn start_with(pool: &Pool, token: &str) -> String {
    let mut command = pool.command(&["run", "--no-snapshot", "--detach", "--", "sleep", "1000"]);
    let started = Finished::from(command.env("BUILDPOOL_TOKEN", token).output().unwrap()).expect(0);
    started.out().trim().to_owned()
}

#[test]
fn a_revoked_token_ends_its_running_and_queued_jobs_unless_they_are_kept() {
    let mut pool = PoolBuilder::default().worker(&["--slots", "2"]).start();
    let data = pool.data("coordinator").to_str().unwrap().to_owned();
    let create = |pool: &Pool| {
        let create = ["token", "create", "--role", "submit", "--name", "ci", "--json"];
        let created = pool.buildpool(&create).expect(0).json();
        [&created["token"], &created["id"]].map(|text| text.as_str().unwrap().to_owned())
    };
    // Revoked over the link, beside the running coordinator, and while it does not run.
    for way in ["link", "files", "stopped"] {
        let ([kept_token, kept_id], [token, id]) = (create(&pool), create(&pool));
        let kept = start_with(&pool, &kept_token);
        let running = start_with(&pool, &token);
        for job in [&kept, &running] {
            pool.wait_for_state(job, "running");
        }
        let queued = start_with(&pool, &token);
        match way {
            "link" => {
                pool.buildpool(&["token", "revoke", &kept_id, "--keep-jobs"]).expect(0);
                pool.buildpool(&["token", "revoke", &id]).expect(0);
            }
            way => {
                if way == "stopped" {
                    pool.kill_coordinator();
                }
                let at_files = ["token", "revoke", &id, "--data-dir", &data];
                pool.place()
                    .buildpool(&["token", "revoke", &kept_id, "--keep-jobs", "--data-dir", &data])
                    .expect(0);
                pool.place().buildpool(&at_files).expect(0);
                if way == "stopped" {
                    pool.start_coordinator_again();
                }
            }
        }
        for job in [&queued, &running] {
            let done = pool.wait_for_state(job, "done");
            assert_eq!(done["verdict"], "cancelled", "{way}: {done:#}");
        }
        let cause = pool.job(&queued)["cause"]["text"].to_string();
        assert!(cause.contains(&id) && cause.contains("was revoked"), "{way}: {cause}");
        assert_eq!(pool.job(&kept)["state"], "running", "{way}");
        pool.buildpool(&["cancel", &kept]).expect(0);
        pool.wait_for_state(&kept, "done");
    }
}

#[test]
fn who_has_no_terminal_hears_once_why_its_job_waits() {
    let pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    let go = pool.place().file("go");
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let holder =
        pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0).out();
    pool.wait_for_state(holder.trim(), "running");
    let start = |form: &[&str]| {
        let words = [&["run", "--no-snapshot"], form, &["--", "echo", "ran"]].concat();
        let mut command = pool.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut streamed = start(&[]);
    let mut digested = start(&["--output", "digest"]);
    let mut built = start(&["--several"]);
    let json = start(&["--output", "json"]);
    let said = |child: &mut Child| {
        let mut line = String::new();
        let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        (line, stderr)
    };
    let mut rests = Vec::new();
    for child in [&mut streamed, &mut digested, &mut built] {
        let (line, rest) = said(child);
        assert!(line.starts_with("buildpool: waiting: "), "{line}");
        assert!(line.trim_end().len() > "buildpool: waiting: ".len(), "{line}");
        rests.push(rest);
    }
    std::fs::write(&go, "").unwrap();
    for (child, mut rest) in [streamed, digested, built].into_iter().zip(rests) {
        let mut more = String::new();
        rest.read_to_string(&mut more).unwrap();
        let ended = Finished::from(child.wait_with_output().unwrap()).expect(0);
        assert!(ended.out().contains("ran") || ended.out().contains("passed"), "{ended}");
        assert!(!more.contains("waiting: "), "once is enough: {more}");
    }
    let json = Finished::from(json.wait_with_output().unwrap()).expect(0);
    assert_eq!((json.json()["verdict"].as_str(), json.err().as_str()), (Some("passed"), ""));
}
