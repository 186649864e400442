//! Stacks that hanging processes print before a timeout ends them.

use buildpool_tests::{Place, Pool, PoolBuilder};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_timeout_asks_for_stacks_before_it_ends_the_tree() {
    let pool = Pool::start(1);
    let python = "import time\ndef stuck():\n    time.sleep(600)\nstuck()";
    let run = |words: &[&str]| {
        let all = [&["run", "--no-snapshot", "--timeout", "1s", "--output", "json", "--"], words].concat();
        pool.buildpool(&all).expect(124).json()
    };
    let ended = run(&["sh", "-c", "python3 -X faulthandler -c \"$0\"", python]);
    assert_eq!(ended["verdict"], "timed_out", "{ended}");
    let log = |ended: &serde_json::Value| {
        pool.buildpool(&["logs", ended["job_id"].as_str().unwrap(), "--stream", "stderr"]).expect(0).err()
    };
    let stacks = log(&ended);
    assert!(stacks.contains("in stuck"), "{stacks}");

    // A program with the name of the Java launcher gets SIGQUIT, then SIGTERM.
    let java = pool.place().file("java");
    fs::copy("/bin/sh", &java).unwrap();
    let text = "trap 'echo stack of main >&2' QUIT; trap 'echo ending >&2; exit 3' TERM; while :; do sleep 0.02; done";
    let ended = run(&[java.to_str().unwrap(), "-c", text]);
    assert_eq!((&ended["verdict"], &ended["exit_code"]), (&"timed_out".into(), &3.into()), "{ended}");
    // Some shells also report the end of `sleep`, before or after their own line.
    let printed = log(&ended);
    assert!(printed.contains("stack of main\n") && printed.ends_with("ending\n"), "{printed}");

    let plain = run(&["sleep", "600"]);
    assert_eq!(plain["process_state"]["signal_name"], "SIGTERM", "{plain}");
}

/// Returns a place whose `PATH` begins with a `gdb` of this text.
fn place_with_gdb(text: &str) -> Place {
    let mut place = Place::new();
    let tools = place.file("tools");
    fs::create_dir(&tools).unwrap();
    // A debugger of the machine in another directory is as good.
    let debugger = tools.join("gdb");
    fs::write(&debugger, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&debugger, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", format!("{}:{path}", tools.display()));
    place
}

/// Runs a program that hangs until its timeout.
fn timed_out(place: &Place, grace: &str) -> serde_json::Value {
    let hangs = place.file("hangs");
    fs::copy("/bin/sleep", &hangs).unwrap();
    let options = ["run", "--timeout", "1s", "--grace", grace, "--output", "json", "--"];
    let ended =
        place.buildpool(&[&options[..], &[hangs.to_str().unwrap(), "600"]].concat()).expect(124).json();
    assert_eq!(ended["verdict"], "timed_out", "{ended}");
    ended
}

// macOS has `sample`, which ends by itself.
#[cfg(target_os = "linux")]
#[test]
fn a_debugger_that_is_not_done_in_time_does_not_use_the_grace_period() {
    let place = place_with_gdb("trap '' TERM\necho slow\nwhile :; do sleep 0.05; done");
    let ended = timed_out(&place, "60s");
    assert!(ended["duration_secs"].as_f64().unwrap() < 50.0, "{ended}");
}

#[test]
fn a_program_of_the_machine_prints_the_stacks_of_other_processes() {
    let place = place_with_gdb("echo 'Thread 1 (process 1):'\necho '#0  stuck () at a.c:3'");
    let ended = timed_out(&place, "10s");
    let id = ended["job_id"].as_str().unwrap();
    let stacks = place.buildpool(&["logs", id, "--stream", "stderr"]).expect(0).err();
    // `sample` on macOS prints a call graph.
    assert!(stacks.contains("Thread 1 (") || stacks.contains("Call graph"), "{stacks}");
}

#[test]
fn an_answer_about_a_running_job_has_its_last_lines_and_its_silence() {
    let pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    let go = pool.place().file("go");
    let text = format!(
        "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; echo 'test suite::slow ...'; while [ ! -e {} ]; do sleep 0.05; done",
        go.display()
    );
    let id = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0).out();
    let id = id.trim();
    let running = buildpool_tests::wait_for("the last line has arrived", || {
        Some(pool.job(id)).filter(|job| job["last_lines"][9] == "test suite::slow ...")
    });
    assert_eq!(running["last_lines"][0], "line 22", "{running}");
    buildpool_tests::wait_until("a second of silence", || pool.job(id)["silent_secs"].as_u64() >= Some(1));
    let text = pool.buildpool(&["job", id]).expect(0).out();
    assert!(text.contains("|line 30\n") && text.contains("no output for "), "{text}");

    let waits = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "true"]).expect(0).out();
    let queued = pool.job(waits.trim());
    assert!(queued["waiting"]["reason"].as_str().unwrap().contains(id), "who holds the slot: {queued}");
    assert_eq!(queued["waiting"].get("estimate_secs"), None, "{queued}");
    fs::write(go, "").unwrap();
    assert_eq!(pool.wait_for_state(id, "done").get("last_lines"), None);
}
