//! Standard input of a job: the command reads the submitter's bytes.

use buildpool_tests::mcp::Gateway;
use buildpool_tests::{Finished, Place, Pool, PoolBuilder, keeper_of, wait_for, wait_until};
use nix::pty::openpty;
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Bytes of every value, so that each stretch of them can be told from the others.
fn bytes(length: usize) -> Vec<u8> {
    (0_u64..)
        .flat_map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes())
        .take(length)
        .collect()
}

fn run(mut command: Command, input: impl Into<Stdio>) -> Finished {
    command.stdin(input).output().unwrap().into()
}

fn id_of_newest(pool: &Pool) -> String {
    wait_for("the job", || {
        let jobs = pool.buildpool(&["jobs", "--json"]).expect(0).json();
        jobs[0]["job_id"].as_str().map(str::to_owned)
    })
}

#[test]
fn a_file_and_a_pipe_are_forwarded_and_a_terminal_is_not() {
    let place = Place::new();
    let input = bytes(3_000_001);
    std::fs::write(place.file("input"), &input).unwrap();
    let file = || File::open(place.file("input")).unwrap();
    let done = run(place.command(["run", "--", "cat"]), file()).expect(0);
    assert!(done.stdout == input, "{} bytes came back of {}", done.stdout.len(), input.len());
    assert_eq!(done.err(), "");
    assert_eq!(run(place.command(["run", "--no-stdin", "--", "cat"]), file()).expect(0).out(), "");
    assert_eq!(
        run(place.command(["run", "--", "cat"]), File::open("/dev/null").unwrap()).expect(0).out(),
        ""
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = place.command(["run", "--", "cat"]).stdin(reader).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = child.stdout.take().unwrap();
    // Each line is answered before the next one is sent.
    for line in ["one\n", "two\n"] {
        (&writer).write_all(line.as_bytes()).unwrap();
        let mut answer = vec![0; line.len()];
        shown.read_exact(&mut answer).unwrap();
        assert_eq!(answer, line.as_bytes());
    }
    drop(writer);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let terminal = openpty(None, None).unwrap();
    assert_eq!(run(place.command(["run", "--", "cat"]), terminal.slave).expect(0).out(), "");
}

#[test]
fn a_command_that_stops_reading_ends_the_run_at_once() {
    let place = Place::new();
    let mut endless = Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
    let done = run(place.command(["run", "--", "head", "-1"]), endless.stdout.take().unwrap()).expect(0);
    assert_eq!(done.out(), "y\n");
    endless.wait().unwrap();
    let mut endless = Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
    let done = run(place.command(["run", "--", "sh", "-c", "exit 3"]), endless.stdout.take().unwrap());
    assert_eq!(done.code(), 3, "{done}");
    endless.wait().unwrap();
}

#[test]
fn a_detached_run_leaves_with_the_input_stored() {
    let mut pool = Pool::start(1);
    std::fs::write(pool.place().file("input"), "later\n").unwrap();
    let input = File::open(pool.place().file("input")).unwrap();
    let command = pool.command(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", "cat; echo end"]);
    let job = run(command, input).expect(0).out().trim().to_owned();
    pool.wait_for_state(&job, "done");
    assert_eq!(pool.buildpool(&["logs", &job]).expect(0).out(), "later\nend\n");
    // The input of a job that is done stays for a while, also for the retry of a retry.
    let mut newest = job.clone();
    for _ in 0..2 {
        newest = pool.buildpool(&["retry", &newest]).expect(0).out().trim().to_owned();
        pool.wait_for_state(&newest, "done");
        assert_eq!(pool.buildpool(&["logs", &newest]).expect(0).out(), "later\nend\n");
    }
    // It does not outlive the coordinator.
    pool.kill_coordinator();
    pool.start_coordinator_again();
    let retried = pool.buildpool(&["retry", &job]);
    assert!(retried.err().contains("does not keep any more"), "{retried}");
    let left = || std::fs::read_dir(pool.data("coordinator").join("stdin")).unwrap().count();
    wait_until("the input of a job that is done is removed", || left() == 0);
}

#[test]
fn input_that_was_damaged_on_the_way_is_never_the_commands_failure_or_success() {
    let mut pool = PoolBuilder::default().start();
    std::fs::write(pool.place().file("input"), "rm old\n").unwrap();
    let input = File::open(pool.place().file("input")).unwrap();
    let arguments =
        ["run", "--no-snapshot", "--detach", "--wait-for-worker", "1h", "--on-lost", "fail", "--", "cat"];
    let job = run(pool.command(&arguments), input).expect(0).out().trim().to_owned();
    let stored = pool.data("coordinator").join("stdin").join(&job);
    assert_eq!(std::fs::read_to_string(&stored).unwrap(), "rm old\n");
    File::options().write(true).open(&stored).unwrap().write_all(b"rm new\n").unwrap();
    pool.add_worker(Vec::new());
    pool.wait_for_state(&job, "done");
    let result = pool.job(&job);
    assert_eq!(result["verdict"], "lost", "{result:#}");
    assert!(
        result["cause"]["text"].as_str().unwrap().contains("do not match the submitter's checksum"),
        "{result:#}"
    );
}

/// A job that copies its input into a file, fed through the returned pipe.
fn begin(pool: &Pool, copy: &Path) -> (Child, impl Write + use<>) {
    let text = format!("cat > '{}'; echo copied", copy.display());
    let mut command = pool.command(&["run", "--no-snapshot", "--", "sh", "-c", &text]);
    let (reader, writer) = std::io::pipe().unwrap();
    let child = command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (child, writer)
}

fn wait_for_bytes(file: &Path, length: u64) {
    wait_until("the command has read", || file.metadata().is_ok_and(|file| file.len() >= length));
}

#[test]
fn input_survives_the_death_of_the_coordinator_and_of_the_workers_daemon() {
    let mut pool = Pool::start(1);
    let copy = pool.place().file("copy");
    let input = bytes(100_000_003);
    let (child, mut writer) = begin(&pool, &copy);
    let parts: Vec<Vec<u8>> = input.chunks(input.len() / 3 + 1).map(<[u8]>::to_vec).collect();
    let (gate, open) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        for part in parts {
            writer.write_all(&part).unwrap();
            open.recv().unwrap();
        }
    });
    wait_for_bytes(&copy, 1_000_000);
    pool.kill_coordinator();
    gate.send(()).unwrap();
    pool.start_coordinator_again();
    wait_for_bytes(&copy, 40_000_000);
    let job = id_of_newest(&pool);
    let keeper = keeper_of(&job);
    pool.kill_worker(0);
    pool.start_worker(0);
    gate.send(()).unwrap();
    wait_for_bytes(&copy, 70_000_000);
    gate.send(()).unwrap();
    assert_eq!(keeper_of(&job), keeper, "the same keeper goes on");
    writing.join().unwrap();
    let done = Finished::from(child.wait_with_output().unwrap());
    assert_eq!((done.code(), done.out().as_str()), (0, "copied\n"), "{done}");
    assert!(std::fs::read(&copy).unwrap() == input, "the command read other bytes");
    assert!(pool.job(&job)["notes"].is_null(), "{}", pool.job(&job));
}

#[test]
fn an_attempt_that_runs_again_reads_the_input_from_its_beginning() {
    let pool = Pool::start(1);
    let copy = pool.place().file("copy");
    let (child, mut writer) = begin(&pool, &copy);
    writer.write_all(b"first ").unwrap();
    wait_for_bytes(&copy, 6);
    let job = id_of_newest(&pool);
    let keeper = wait_for("the keeper of the job", || keeper_of(&job));
    assert!(buildpool_tests::signal(keeper, nix::sys::signal::Signal::SIGKILL));
    wait_until("another attempt runs", || pool.job(&job)["attempt"] == 2);
    writer.write_all(b"second").unwrap();
    drop(writer);
    let done = Finished::from(child.wait_with_output().unwrap());
    assert_eq!(done.code(), 0, "{done}");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "first second");
}

#[test]
fn a_call_of_run_command_gives_its_text_and_a_build_gives_it_to_each_job() {
    let place = Place::new();
    let mut server = Gateway::connect(&mut place.command(["mcp"]), "t");
    let text = "line ü\n".repeat(10_000);
    let answer = server.call("run_command", json!({"command": "cksum; echo done", "stdin": text}));
    std::fs::write(place.file("input"), &text).unwrap();
    let expected = place.shell("cksum < input").expect(0).out();
    assert!(answer.to_string().contains(expected.trim()), "{answer}");
    let long = "x".repeat((1 << 20) + 1);
    let refused = server.result("run_command", json!({"command": "cat", "stdin": long}));
    assert!(refused.to_string().contains("at most 1048576 (1 MiB)"), "{refused}");
    let input = File::open(place.file("input")).unwrap();
    // The second job waits for the first one, so each gets the input at its own pace.
    let words = ["run", "--several", "--", "cksum", ":::", "sh", "-c", "wc -c", ":::", "true"];
    let build = run(place.command(words), input).expect(0);
    assert_eq!(build.err(), "");
    let jobs = place.command(["jobs", "--json"]).output().unwrap();
    let jobs: serde_json::Value = serde_json::from_slice(&jobs.stdout).unwrap();
    let output = |command: &str| {
        let job =
            jobs.as_array().unwrap().iter().find(|job| job["command"].as_str().unwrap().contains(command));
        let id = job.unwrap()["job_id"].as_str().unwrap().to_owned();
        Finished::from(place.command(["logs", &id]).output().unwrap()).expect(0).out()
    };
    assert_eq!(output("cksum").trim(), expected.trim().trim_end_matches(" input"));
    assert!(output("wc -c").starts_with(&text.len().to_string()), "{}", output("wc -c"));
}

#[test]
fn a_directory_as_input_is_named() {
    let place = Place::new();
    let directory = std::fs::File::open(place.work()).unwrap();
    let ended = run(place.command(["run", "--", "cat"]), directory).expect(0);
    assert!(ended.err().starts_with("buildpool: standard input is a directory"), "{ended}");
    let directory = std::fs::File::open(place.work()).unwrap();
    let ended = run(place.command(["run", "--no-stdin", "--", "cat"]), directory).expect(0);
    assert_eq!(ended.err(), "");
}

#[test]
fn input_waits_for_a_worker_without_a_limit_being_passed() {
    let pool = PoolBuilder::default().start();
    let mut endless = Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
    let input = endless.stdout.take().unwrap();
    let arguments = ["run", "--no-snapshot", "--wait-for-worker", "1h", "--", "head", "-1"];
    let mut child = pool.command(&arguments).stdin(input).stdout(Stdio::piped()).spawn().unwrap();
    let stored = || {
        let files = std::fs::read_dir(pool.data("coordinator").join("stdin")).ok()?;
        Some(files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum::<u64>())
    };
    wait_until("the window is full", || stored() == Some(2 << 20));
    let job = id_of_newest(&pool);
    pool.buildpool(&["cancel", &job]).expect(0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    endless.wait().unwrap();
    assert!(stored().is_none_or(|bytes| bytes <= 2 << 20));
}
