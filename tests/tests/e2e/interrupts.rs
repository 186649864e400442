//! Ctrl-C, and clients that just die.

use buildpool_tests::{Finished, Place, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
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
    // What the command still wrote while it ended belongs to its output.
    assert_eq!(ended.out(), "cleaned\n");
    assert!(ended.err().contains("cancelling job"), "{ended}");
    assert_eq!(only_job(&place)["verdict"], "cancelled");
}

#[test]
fn a_second_ctrl_c_leaves_at_once_and_the_job_is_cancelled_all_the_same() {
    let place = Place::new();
    let mut child = start(&place, "trap '' TERM; echo ready; while [ ! -e go ]; do sleep 0.05; done");
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
    std::fs::write(place.file("go"), "").unwrap();
    wait_until("the job is cancelled", || only_job(&place)["verdict"] == "cancelled");
}

#[test]
fn a_client_that_dies_leaves_its_job_running() {
    let place = Place::new();
    let mut child = start(&place, "echo ready; while [ ! -e go ]; do sleep 0.05; done; echo done");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(only_job(&place)["state"], "running");
    std::fs::write(place.file("go"), "").unwrap();
    wait_until("the job ends by itself", || only_job(&place)["verdict"] == "passed");
    let id = only_job(&place)["job_id"].as_str().unwrap().to_owned();
    assert_eq!(place.buildpool(&["logs", &id]).expect(0).out(), "ready\ndone\n");
}
