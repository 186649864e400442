//! Tests of the other commands: their output, as text and JSON.

use buildpool_tests::{Finished, Place, Pool, STRANGER, wait_until};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_detached_job_is_shown_listed_followed_and_read() {
    let place = Place::new();
    let text = "step() { while [ ! -e $1 ]; do sleep 0.05; done; }; echo one; step second; echo two >&2; step third; echo three";
    let detached = place.buildpool(&["run", "--detach", "--", "sh", "-c", text]).expect(0);
    let id = detached.out().trim_end().to_owned();
    assert_eq!((detached.out().lines().count(), id.len(), detached.err().as_str()), (1, 36, ""));
    let mut follow = place.command(["logs", "-f", &id]);
    let follower = follow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let running = place.buildpool(&["job", &id, "--json"]).expect(0).json();
    assert!(["queued", "preparing", "running"].contains(&running["state"].as_str().unwrap()), "{running}");
    assert_eq!(running["verdict"], serde_json::Value::Null);
    // The order of writes to two pipes is not visible, unless one of them was read before.
    let shown = |out: &str, err: &str| {
        let logs = place.buildpool(&["logs", &id]);
        (logs.out().as_str(), logs.err().as_str()) == (out, err)
    };
    wait_until("the first line", || shown("one\n", ""));
    std::fs::write(place.file("second"), "").unwrap();
    wait_until("the second line", || shown("one\n", "two\n"));
    std::fs::write(place.file("third"), "").unwrap();
    let done = place.buildpool(&["job", &id, "--wait", "1m", "--json"]).expect(0).json();
    assert_eq!((&done["state"], &done["verdict"]), (&"done".into(), &"passed".into()));
    assert_eq!(String::from_utf8(follower.wait_with_output().unwrap().stdout).unwrap(), "one\nthree\n");
    let prefix = &id[..30];
    assert!(place.buildpool(&["job", prefix]).expect(0).out().starts_with("PASSED in "));
    let listed = place.buildpool(&["jobs"]).expect(0).out();
    assert!(
        listed.lines().next().unwrap().starts_with("JOB ") && listed.contains(&id.replace('-', "")[..12]),
        "{listed}"
    );
    for (arguments, out, err) in [
        (&[][..], "one\nthree\n", "two\n"),
        (&["--stream", "stdout"], "one\nthree\n", ""),
        (&["--stream", "stderr"], "", "two\n"),
        (&["--tail", "1"], "three\n", ""),
        (&["--tail", "1", "--stream", "stderr"], "", "two\n"),
        (&["--tail", "2", "-f"], "three\n", "two\n"),
        (&["--attempt", "1"], "one\nthree\n", "two\n"),
    ] {
        let all: Vec<&str> = ["logs", &id].iter().chain(arguments).copied().collect();
        let logs = place.buildpool(&all).expect(0);
        assert_eq!((logs.out().as_str(), logs.err().as_str()), (out, err), "{arguments:?}");
    }
    let both = place.buildpool(&["logs", &id, "--stream", "interleaved"]).expect(0);
    assert!(
        both.out().ends_with("three\n") && both.out().contains("two\n") && both.err().is_empty(),
        "{both}"
    );
    let json = place.buildpool(&["logs", &id, "--json"]).expect(0).json();
    assert_eq!((&json["job_id"], &json["stdout"]), (&id.as_str().into(), &"one\nthree\n".into()));
}

#[test]
fn logs_for_a_program_say_what_logs_for_a_person_print() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 9000 ]; do echo 'this is a line of twenty-nine'; i=$((i+1)); done; echo e >&2; printf o";
    let id =
        place.buildpool(&["run", "--detach", "--", "sh", "-c", script]).expect(0).out().trim().to_owned();
    place.buildpool(&["job", &id, "--wait", "2m"]).expect(0);
    for arguments in [
        &[][..],
        &["--stream", "stdout"],
        &["--stream", "stderr"],
        &["--stream", "interleaved"],
        &["--tail", "1"],
        &["--tail", "0"],
        &["--tail", "5000"],
        &["--tail", "5000", "--stream", "stdout"],
        &["--attempt", "1"],
    ] {
        let words: Vec<&str> = ["logs", &id].iter().chain(arguments).copied().collect();
        let printed = place.buildpool(&words).expect(0);
        let json = place.buildpool(&[&words[..], &["--json"]].concat()).expect(0).json();
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let out = text("stdout") + &text("interleaved");
        assert!(
            out == printed.out() && text("stderr") == printed.err(),
            "{arguments:?}: {} bytes",
            out.len()
        );
        assert!(json.get("omitted").is_none(), "{arguments:?}: {}", json["omitted"]);
        assert_eq!((&json["attempt"], &json["state"]), (&1.into(), &"done".into()), "{arguments:?}");
    }
    let only = place.buildpool(&["logs", &id, "--json", "--stream", "stderr"]).expect(0).json();
    assert!(only.get("stdout").is_none() && only.get("interleaved").is_none(), "{only}");
    let both = place.buildpool(&["logs", &id, "-f", "--json"]).expect(2);
    assert!(both.err().contains("--follow") && both.err().contains("--json"), "{both}");
    place.buildpool(&["logs", &id, "--attempt", "7", "--json"]).expect(1);
}

#[test]
fn a_job_is_cancelled_by_its_id() {
    let place = Place::new();
    let id = place.buildpool(&["run", "--detach", "--", "sleep", "600"]).expect(0).out().trim().to_owned();
    let cancelled = place.buildpool(&["cancel", &id, "--reason", "not needed any more"]).expect(0);
    assert!(cancelled.out().contains(&id.replace('-', "")[..12]), "{cancelled}");
    let done = place.buildpool(&["job", &id, "--wait", "1m", "--json"]).expect(130).json();
    assert_eq!(done["verdict"], "cancelled");
    assert!(done["cause"]["text"].as_str().unwrap().contains("not needed any more"), "{done}");
    let again = place.buildpool(&["cancel", &id]).expect(0);
    assert_eq!(again.out(), format!("job {} is done: cancelled\n", &id.replace('-', "")[..12]));
}

#[test]
fn a_job_that_is_cancelled_while_it_waits_is_told_as_any_cancelled_one() {
    let pool = Pool::start(1);
    let submitted = ["run", "--no-snapshot", "--detach", "--", "sleep", "600"];
    pool.buildpool(&submitted).expect(0);
    pool.buildpool(&submitted).expect(0);
    let id = pool.buildpool(&submitted).expect(0).out().trim().to_owned();
    pool.buildpool(&["cancel", &id]).expect(0);
    let done = pool.buildpool(&["job", &id, "--wait", "1m", "--json"]).expect(130).json();
    assert_eq!((&done["verdict"], &done["crash_type"]), (&"cancelled".into(), &"cancelled".into()));
}

#[test]
fn a_short_answer_is_shown_whatever_it_looks_like() {
    let place = Place::new();
    for word in ["x", ".", "PASS it on", "ok 1"] {
        let run = ["run", "--verbosity", "normal", "--output", "json", "--", "echo", word];
        let result = place.buildpool(&run).expect(0).json();
        assert_eq!(
            (&result["stdout"], &result["omitted"]),
            (&format!("{word}\n").into(), &serde_json::Value::Null),
            "{result}"
        );
    }
}

#[test]
fn a_variable_that_is_no_text_is_named_when_it_is_left_out() {
    let place = Place::new();
    let mut command = place.command(["run", "--", "sh", "-c", "echo ${BAD-unset}"]);
    command.env("BAD", OsStr::from_bytes(b"\xff\xfe"));
    let ended = Finished::from(command.output().unwrap()).expect(0);
    assert_eq!(ended.out(), "unset\n");
    assert!(ended.err().contains("BAD is not text (UTF-8) and was not passed on"), "{ended}");
}

#[test]
fn json_has_the_names_of_the_specification() {
    let place = Place::new();
    let text = "echo out; echo 'src/a.c:1:2: error: no' >&2; exit 3";
    let result = place.buildpool(&["run", "--output", "json", "--", "sh", "-c", text]).expect(3).json();
    for name in [
        "job_id",
        "attempt",
        "worker",
        "command",
        "duration_secs",
        "state",
        "connected",
        "created_at",
        "started_at",
        "finished_at",
        "submitter",
        "verdict",
        "success",
        "exit_code",
        "process_state",
        "crash_type",
        "cause",
        "tier_1_findings",
        "filtered_output",
        "usage",
    ] {
        assert!(keys(&result).contains(&name), "{name} is missing: {result}");
    }
    for name in
        ["tests", "silent_failure", "survivors", "gaps", "omitted", "waiting", "crash_reports", "next"]
    {
        assert!(!keys(&result).contains(&name), "{name} is empty and present: {result}");
    }
    let killed = place.buildpool(&["run", "--output", "json", "--", "sh", "-c", "kill -9 $$"]).json();
    assert!(keys(&killed).contains(&"exit_code") && killed["exit_code"].is_null(), "{killed}");
    let job = place.buildpool(&["job", result["job_id"].as_str().unwrap(), "--json"]).expect(0).json();
    assert_eq!((&job["verdict"], &job["exit_code"]), (&"failed".into(), &3.into()));
    let listed = place.buildpool(&["jobs", "--json"]).expect(0).json();
    for name in ["job_id", "command", "state", "verdict", "exit_code", "worker", "submitter", "created_at"] {
        assert!(keys(&listed[0]).contains(&name), "{name}: {listed}");
    }
    let workers = place.buildpool(&["workers", "--json"]).expect(0).json();
    for name in ["name", "connected", "draining", "slots", "labels", "resources", "version"] {
        assert!(keys(&workers[0]).contains(&name), "{name}: {workers}");
    }
}

#[test]
fn what_is_not_there_is_said_in_one_sentence() {
    let place = Place::new();
    let nobody = "00000000-0000-7000-8000-000000000000";
    for (arguments, code, said) in [
        (&["job", nobody][..], 1, nobody),
        (&["logs", nobody], 1, nobody),
        (&["cancel", nobody], 1, nobody),
        (&["job", "zz"], 1, "zz"),
        (&["drain", "no-such-worker"], 1, "no-such-worker"),
        (&["token", "revoke", "no-such-token"], 1, "no-such-token"),
        (&["jobs", "--state", "sleeping"], 2, "queued, preparing, running, sealing, done"),
        (&["jobs", "--coordinator", "ws://127.0.0.1:1", "--token", STRANGER], 125, "can't be reached"),
        (&["nonsense"], 2, "nonsense"),
    ] {
        let ended = place.buildpool(arguments);
        assert_eq!(ended.code(), code, "{arguments:?}: {ended}");
        assert!(ended.out().is_empty() && ended.err().starts_with("buildpool: "), "{arguments:?}: {ended}");
        assert!(ended.err().contains(said), "{arguments:?}: {ended}");
    }
}

#[test]
fn a_configuration_file_names_the_pool_and_a_mistake_in_it_is_named() {
    let place = Place::new();
    let directory = place.home().join("config/buildpool");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    std::fs::write(&file, "coordinator = \"ws://127.0.0.1:1\"\n").unwrap();
    let ended = place.buildpool(&["jobs"]).expect(125);
    assert!(ended.err().contains("ws://127.0.0.1:1"), "{ended}");
    // A flag has priority over the file, and it can select the local pool.
    place.buildpool(&["jobs", "--coordinator", "local"]).expect(0);
    std::fs::write(&file, "coordinater = \"ws://127.0.0.1:1\"\n").unwrap();
    let ended = place.buildpool(&["jobs"]).expect(2);
    assert!(ended.err().contains("config.toml") && ended.err().contains("coordinater"), "{ended}");
}

#[test]
fn an_unknown_id_and_a_long_timeout_are_refused_with_the_next_step() {
    let place = Place::new();
    place.shell("true").expect(0);
    for words in
        [&["job", "zzz"][..], &["logs", "zzz"], &["cancel", "0123456789ab"], &["wait", "0123456789ab"]]
    {
        let refused = place.buildpool(words);
        assert!(refused.code() != 0 && refused.err().contains("`buildpool jobs` lists"), "{refused}");
    }
    let named = [
        "worker",
        "--coordinator",
        "ws://127.0.0.1:1",
        "--token",
        "t",
        "--data-dir",
        "w",
        "--label",
        "name=foo",
    ];
    let refused = place.buildpool(&named).expect(2);
    assert!(
        refused.err().contains("--label name=foo: `name` is always the worker's name; --name sets it"),
        "{refused}"
    );
    let refused = place.buildpool(&["run", "--timeout", "8d", "--", "true"]).expect(125);
    assert!(refused.err().contains("timeout: 691200s is too long; valid is up to 604800s"), "{refused}");
}

#[test]
fn a_log_is_digested_from_standard_input() {
    let place = Place::new();
    let digest = |arguments: &[&str], log: &[u8]| {
        let mut command = place.command(["digest"]);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(log).unwrap();
        buildpool_tests::Finished::from(child.wait_with_output().unwrap())
    };
    let shown = digest(&["--exit-code", "2"], b"error: it broke\n").expect(0);
    assert!(
        shown.out().starts_with("FAILED (build_failure): exit code 2") && shown.out().contains("it broke"),
        "{shown}"
    );
    let json = digest(&["--signal", "SEGV", "--json"], b"").expect(0).json();
    assert_eq!((&json["verdict"], &json["crash_type"]), (&"crashed".into(), &"segmentation_fault".into()));
    let killed = digest(&["--exit-code", "-9", "--json"], b"").expect(0).json();
    assert_eq!(
        (&killed["verdict"], &killed["process_state"]["signal_name"]),
        (&"crashed".into(), &"SIGKILL".into()),
        "{killed}"
    );
    let good = digest(&["--exit-code", "0", "--json"], b"done\n").expect(0).json();
    assert!(good["success"].is_boolean() && good["exit_code"] == 0, "{good}");
    assert!(json["success"] == false && keys(&json).contains(&"exit_code"), "{json}");
    for name in ["job_id", "worker", "state", "usage"] {
        assert!(!keys(&json).contains(&name), "{name}: {json}");
    }
    // This command did not need a local pool.
    assert_eq!(place.local_pool_pid(), None);
    let wrong = place.buildpool(&["digest", "--signal", "SIGNONSENSE"]).expect(2);
    assert!(wrong.err().contains("SIGNONSENSE"), "{wrong}");
}

#[test]
fn the_doctor_starts_nothing_and_fails_when_something_is_wrong() {
    let place = Place::new();
    let well = place.buildpool(&["doctor"]).expect(0);
    assert!(well.out().contains("does not run and will be started"), "{well}");
    assert_eq!(place.local_pool_pid(), None);
    place.shell("true").expect(0);
    let checks = place.buildpool(&["doctor", "--json"]).expect(0).json();
    let check =
        |name: &str| checks.as_array().unwrap().iter().find(|check| check["name"] == name).unwrap().clone();
    let log = place.local_pool().log_file();
    assert!(check("local pool")["text"].as_str().unwrap().contains(log.to_str().unwrap()), "{checks}");
    assert_eq!(
        (&check("pool")["state"], &check("workers")["text"]),
        (&"ok".into(), &"1 of 1 connected".into())
    );
    let ill =
        place.buildpool(&["doctor", "--coordinator", "ws://127.0.0.1:1", "--token", STRANGER]).expect(1);
    assert!(ill.out().contains("failed   reach"), "{ill}");
}

#[test]
fn a_template_is_taken_from_the_project_and_an_unknown_one_is_refused_with_those_that_there_are() {
    let place = Place::new();
    std::fs::create_dir(place.file(".buildpool")).unwrap();
    let config = "templates:\n  mine:\n    include_regex: '^KEEP'\n    tail_paragraphs: 0\n";
    std::fs::write(place.file(".buildpool/config.yaml"), config).unwrap();
    let text = "echo KEEP this; echo drop this; echo KEEP that; exit 1";
    let arguments = ["run", "--template", "mine", "--output", "json", "--", "sh", "-c", text];
    let result = place.buildpool(&arguments).expect(1).json();
    assert_eq!(result["filtered_output"], "KEEP this\nKEEP that", "{result}");
    // The job contains the definition.
    std::fs::remove_file(place.file(".buildpool/config.yaml")).unwrap();
    let job = place.buildpool(&["job", result["job_id"].as_str().unwrap(), "--json"]).expect(0).json();
    assert_eq!(job["filtered_output"], result["filtered_output"]);
    let refused = place.buildpool(&["run", "--template", "mine", "--", "true"]).expect(125);
    assert!(refused.err().contains("`mine`") && refused.err().contains("maven-build"), "{refused}");
}

#[test]
fn a_wrong_url_is_told_with_the_place_where_it_stands() {
    let place = Place::new();
    let directory = place.home().join("config/buildpool");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    std::fs::write(&file, "coordinator = \"\"\n").unwrap();
    let refused = place.buildpool(&["jobs"]).expect(2);
    let expected = format!("`coordinator` in {}: `` is not the URL of a coordinator", file.display());
    assert!(refused.err().contains(&expected), "{refused}");
    let with = |words: &[&str], url: &OsStr| -> Finished {
        place.command(words).env("BUILDPOOL_URL", url).output().unwrap().into()
    };
    let refused = with(&["jobs"], OsStr::new("pool:1")).expect(2);
    assert!(refused.err().contains("BUILDPOOL_URL: `pool:1` is not the URL of a coordinator"), "{refused}");
    let refused = with(&["jobs", "--coordinator", "h"], OsStr::new("")).expect(2);
    assert!(refused.err().contains("--coordinator: `h` is not the URL of a coordinator"), "{refused}");
    // A variable that is not UTF-8 still counts as set: the command must not run on another pool.
    let broken = OsStr::from_bytes(b"ws://127.0.0.1:1/\xff");
    for (words, code) in
        [(&["run", "--", "touch", "ran"][..], 125), (&["jobs"], 2), (&["worker", "--data-dir", "w"], 2)]
    {
        let refused = with(words, broken).expect(code);
        assert!(refused.err().contains("BUILDPOOL_URL: its value is not text (UTF-8)"), "{refused}");
    }
    let worker = |url: &str| {
        let config = place.file("worker.toml");
        std::fs::write(&config, format!("coordinator = \"{url}\"\n")).unwrap();
        (place.buildpool(&["worker", "--data-dir", "w", "--config", config.to_str().unwrap()]), config)
    };
    let (refused, config) = worker("http://h");
    let expected =
        format!("`coordinator` in {}: `http://h` is not the URL of a coordinator", config.display());
    assert!(refused.expect(2).err().contains(&expected));
}

#[test]
fn an_attempt_that_is_not_there_is_told_with_those_that_are() {
    let pool = Pool::start(1);
    let job = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "echo", "x"]).expect(0);
    let job = job.out().trim().to_owned();
    pool.wait_for_state(&job, "done");
    let expected = format!("there is no log of attempt 7 of job {job}; attempt 1 is the only one");
    for more in [&[][..], &["--tail", "1"], &["--json"]] {
        let refused = pool.buildpool(&[&["logs", &job, "--attempt", "7"], more].concat()).expect(1);
        assert!(refused.err().contains(&expected), "{refused}");
    }
}

#[test]
fn a_result_as_json_keeps_the_budget_of_its_verbosity() {
    let pool = Pool::start(1);
    let text = "for i in $(seq 1 60); do echo \"src/a$i.c:$i:5: error: no $i in the scope of this function\"; seq 1 60; done >&2; exit 65";
    let command = ["sh", "-c", text];
    let run = [&["run", "--no-snapshot", "--output", "json", "--"], &command[..]].concat();
    let ended = pool.buildpool(&run).expect(65);
    let id = ended.json()["job_id"].as_str().unwrap().to_owned();
    let job = pool.buildpool(&["job", &id, "--json"]).expect(0);
    let waited = pool.buildpool(&["wait", &id, "--json"]).expect(65);
    for answer in [ended, job, waited] {
        let answer = answer.json();
        assert!(answer["tier_1_findings"].as_array().unwrap().len() > 3, "{answer}");
        assert!(answer.to_string().chars().count() <= 5_000, "{answer}");
    }
}
