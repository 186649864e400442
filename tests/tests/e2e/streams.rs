//! Tests of `buildpool run`: its output streams and its exit codes.

use buildpool_tests::{Place, Pool, STRANGER, wait_until};
use nix::pty::openpty;
use std::fs::File;
use std::io::Read;
use std::process::Stdio;

#[test]
fn the_exit_code_is_the_commands_own_or_says_what_the_pool_did() {
    let place = Place::new();
    for (arguments, code, said) in [
        (&["--", "true"][..], 0, ""),
        (&["--", "sh", "-c", "exit 1"], 1, ""),
        (&["--", "sh", "-c", "exit 65"], 65, ""),
        (&["--", "sh", "-c", "exit 255"], 255, ""),
        (&["--", "sh", "-c", "kill -SEGV $$"], 139, "SIGSEGV"),
        (&["--", "sh", "-c", "kill -ABRT $$"], 134, "SIGABRT"),
        (&["--", "sh", "-c", "kill -KILL $$"], 137, "SIGKILL"),
        (&["--", "sh", "-c", "kill -TERM $$"], 143, "SIGTERM"),
        (&["--", "/no/such/program"], 127, "/no/such/program"),
        (&["--", "/etc/passwd"], 126, "/etc/passwd"),
        (&["--timeout", "300ms", "--", "sleep", "600"], 124, "timed out"),
        (&["--idle-timeout", "300ms", "--", "sleep", "600"], 124, "timed out"),
        (&["--label", "no-such-label", "--", "true"], 125, "no-such-label"),
        (&["--cwd", "/no/such/directory", "--", "true"], 125, "/no/such/directory"),
        (&["--secret", "NOT_SET_ANYWHERE", "--", "true"], 125, "NOT_SET_ANYWHERE"),
        (&["--timeout", "soon", "--", "true"], 125, "valid are 90s"),
        (&["--coordinator", "ws://127.0.0.1:1", "--token", STRANGER, "--", "true"], 125, "can't be reached"),
        (&["--coordinator", "ws://127.0.0.1:1", "--", "true"], 125, "no token was given"),
        (&["--coordinator", "http://h", "--", "true"], 125, "valid are ws://HOST:PORT"),
        (&["--", ""], 125, "command: is empty"),
    ] {
        let all: Vec<&str> = ["run"].iter().chain(arguments).copied().collect();
        let finished = place.buildpool(&all);
        assert_eq!(finished.code(), code, "{all:?}: {finished}");
        assert_eq!(finished.out(), "", "{all:?}: {finished}");
        match said {
            "" => assert_eq!(finished.err(), "", "{all:?}: {finished}"),
            said => {
                let err = finished.err();
                assert!(err.starts_with("buildpool: ") && err.contains(said), "{all:?}: {finished}");
            }
        }
    }
}

#[test]
fn what_a_command_left_behind_and_a_report_that_is_missing_are_warned_of_where_no_digest_is_shown() {
    let place = Place::new();
    let script = "sleep 1000 & sleep 1000 & echo done";
    let piped = place.buildpool(&["run", "--report", "none.xml", "--", "sh", "-c", script]).expect(0);
    assert_eq!(piped.out(), "done\n");
    let err = piped.err();
    assert!(err.lines().all(|line| line.starts_with("buildpool: ")), "{piped}");
    assert!(err.contains("2 processes outlived the command and were ended: sleep (pid "), "{piped}");
    assert!(err.contains("none.xml"), "{piped}");
    let job = place.buildpool(&["jobs", "--json"]).json()[0]["job_id"].as_str().unwrap().to_owned();
    let notes = place.buildpool(&["job", &job, "--json"]).expect(0).json()["notes"].to_string();
    assert!(notes.contains("outlived the command") && notes.contains("none.xml"), "{notes}");
    let shown = place.buildpool(&["job", &job]).expect(0);
    assert!(shown.out().contains("note: 2 processes outlived the command"), "{shown}");
}

#[test]
fn both_streams_come_out_apart_and_byte_for_byte() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(5_000_011).collect();
    std::fs::write(place.file("bytes"), &bytes).unwrap();
    let finished = place.shell("cat bytes; printf 'e\\377\\000r\\r\\n\\033[31mno end' >&2").expect(0);
    assert!(finished.stdout == bytes, "{} bytes came out of {}", finished.stdout.len(), bytes.len());
    assert_eq!(finished.stderr, b"e\xff\0r\r\n\x1b[31mno end");
    let job = place.buildpool(&["jobs", "--json"]).json()[0]["job_id"].as_str().unwrap().to_owned();
    let again = place.buildpool(&["logs", &job]).expect(0);
    assert!(again.stdout == finished.stdout && again.stderr == finished.stderr);
}

#[test]
fn output_comes_while_the_job_runs() {
    let place = Place::new();
    let text = "echo first; until [ -e go ]; do sleep 0.01; done; echo second";
    let mut child = place.command(["run", "--", "sh", "-c", text]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 6];
    stdout.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"first\n");
    std::fs::write(place.file("go"), "").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "second\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_job_in_place_has_the_callers_directory_and_environment_and_no_input() {
    let mut place = Place::new();
    place.set("SOME_VARIABLE", "some value");
    place.set("BUILDPOOL_OTHER", "not for jobs");
    std::fs::create_dir(place.file("deeper")).unwrap();
    let text = "pwd; echo \"$PWD|$SOME_VARIABLE|$ADDED|${BUILDPOOL_OTHER-none}|${BUILDPOOL_ATTEMPT}\"; cat; touch made";
    let finished =
        place.buildpool(&["run", "--cwd", "deeper", "--env", "ADDED=a=b", "--", "sh", "-c", text]).expect(0);
    let directory = std::fs::canonicalize(place.file("deeper")).unwrap();
    let directory = directory.display();
    assert_eq!(finished.out(), format!("{directory}\n{directory}|some value|a=b|none|1\n"));
    assert!(place.file("deeper/made").exists());
}

#[test]
fn a_secret_reaches_the_job_and_not_its_log() {
    let mut place = Place::new();
    place.set("PASSPHRASE", "open sesame");
    let text = "[ \"$PASSPHRASE\" = 'open sesame' ] && echo \"it is: $PASSPHRASE.\"";
    let finished = place.buildpool(&["run", "--secret", "PASSPHRASE", "--", "sh", "-c", text]).expect(0);
    assert!(finished.out().starts_with("it is: ") && !finished.out().contains("sesame"), "{finished}");
}

#[test]
fn an_exit_of_0_that_hides_failed_tests_is_1_and_says_why() {
    let place = Place::new();
    let text = "echo 'test a ... FAILED'; echo 'test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out'";
    let finished = place.shell(text).expect(1);
    assert!(
        finished.err().starts_with("buildpool: the command exited 0, the verdict is inconclusive"),
        "{finished}"
    );
}

#[test]
fn the_result_comes_as_one_json_or_as_the_digest_alone() {
    let place = Place::new();
    let text = "echo shown; echo 'error: it broke' >&2; exit 7";
    let finished = place.buildpool(&["run", "--output", "json", "--", "sh", "-c", text]).expect(7);
    let result = finished.json();
    assert_eq!(finished.out().lines().count(), 1);
    assert_eq!((&result["verdict"], &result["exit_code"]), (&"failed".into(), &7.into()));
    assert_eq!((&result["state"], &result["success"]), (&"done".into(), &false.into()));
    assert_eq!(result["process_state"]["exited"], true);
    assert_eq!(finished.err(), "");
    let finished = place.buildpool(&["run", "--output", "digest", "--", "sh", "-c", text]).expect(7);
    assert!(finished.out().starts_with("FAILED (build_failure): exit code 7"), "{finished}");
    assert!(finished.out().contains("error: it broke"), "{finished}");
    assert_eq!(finished.err(), "");
}

#[test]
fn a_person_sees_the_digest_on_stderr_and_stdout_stays_the_jobs() {
    let place = Place::new();
    let terminal = openpty(None, None).unwrap();
    let text = "echo out; echo err >&2; sleep 1.5; exit 3";
    let mut command = place.command(["run", "--", "sh", "-c", text]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::from(terminal.slave)).spawn().unwrap();
    // The command holds the last copy of the terminal's other end.
    drop(command);
    let mut seen = Vec::new();
    // Linux reports the end of a terminal as an error.
    let _ = File::from(terminal.master).read_to_end(&mut seen);
    let seen = String::from_utf8_lossy(&seen).into_owned();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!((child.wait().unwrap().code(), out.as_str()), (Some(3), "out\n"));
    assert!(seen.contains("err\r\n"), "{seen}");
    assert!(seen.contains("buildpool: running on "), "{seen}");
    // The verdict has a colour.
    assert!(seen.contains("FAILED\u{1b}[0m: exit code 3"), "{seen}");
}

#[test]
fn a_reader_that_leaves_ends_the_job_as_it_ends_a_local_command() {
    let place = Place::new();
    for (stream, both) in [("1", ""), ("2", "2>&1")] {
        let errors = if both.is_empty() { "2>errors" } else { both };
        let text = format!(
            "touch errors; \"$PROGRAM\" run -- sh -c 'while :; do echo line; done >&{stream}' {errors} | head -n 1; cat errors"
        );
        let run = place.command(["run"]);
        let variables = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &text]).current_dir(place.work()).envs(variables).env("PROGRAM", run.get_program());
        let ended = buildpool_tests::Finished::from(shell.stdin(Stdio::null()).output().unwrap()).out();
        assert!(ended.starts_with("line\n"), "{ended}");
        let newest = || place.buildpool(&["jobs", "--json", "--limit", "1"]).expect(0).json()[0].clone();
        wait_until("the job ends", || newest()["state"] == "done");
        assert_eq!(newest()["verdict"], "cancelled", "{ended}: {}", newest());
        if both.is_empty() {
            assert!(ended.contains("the reader of the output is gone; job "), "{ended}");
            assert!(ended.trim_end().ends_with(" is being cancelled"), "{ended}");
        }
    }
    let mut child = place
        .command(["run", "--", "sh", "-c", "while :; do echo line; done"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = buildpool_tests::Finished::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code(), 141, "{ended}");
}

#[test]
fn a_reader_that_stops_for_a_while_stops_only_itself() {
    let place = Place::new();
    let bytes = 20_000_000;
    let text = format!("head -c {bytes} /dev/zero; touch finished");
    let mut child = place.command(["run", "--", "sh", "-c", &text]).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the job comes to its end unread", || place.file("finished").exists());
    place.buildpool(&["jobs"]).expect(0);
    let mut read = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read.len(), bytes);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_a_long_log_says_first_and_last_is_in_the_digest() {
    let mut pool = Pool::start(1);
    let text = "echo 'a.c:1:2: error: first'; seq 1 1500000; echo 'b.c:3:4: error: last'; exec sleep 100";
    let run = |pool: &Pool| {
        let job =
            pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", text]).expect(0).out();
        let job = job.trim().to_owned();
        wait_until("the job printed it all", || {
            pool.buildpool(&["logs", &job, "--tail", "1"]).expect(0).out().contains("error: last")
        });
        job
    };
    let errors = |pool: &Pool, job: &str| {
        pool.buildpool(&["cancel", job]).expect(0);
        pool.wait_for_state(job, "done");
        let result = pool.buildpool(&["job", job, "--json"]).expect(0).json();
        result["tier_1_findings"].as_array().map_or(0, Vec::len)
    };
    let job = run(&pool);
    assert_eq!(errors(&pool, &job), 2);
    // The coordinator loses the state of the digest. After the restart it reads the log again.
    let job = run(&pool);
    pool.kill_coordinator();
    pool.start_coordinator_again();
    assert_eq!(errors(&pool, &job), 2);
}
