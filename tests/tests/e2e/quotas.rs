//! Tests of quotas, queue estimates, and the fallback to the local machine.

use buildpool_tests::mcp::{Gateway, structured};
use buildpool_tests::{Place, Pool, PoolBuilder, STRANGER, wait_until};
use serde_json::json;
use std::process::Command;

/// Starts a pool with one slot and this coordinator configuration.
fn configured(text: &str) -> Pool {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    PoolBuilder::default().coordinator(&["--config", path]).worker(&["--slots", "1"]).start()
}

/// Starts a job that ends when the file `go` exists.
fn hold(pool: &Pool) -> String {
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done", pool.place().file("go").display());
    let started = pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "sh", "-c", &text]).expect(0);
    started.out().trim().to_owned()
}

#[test]
fn a_submit_beyond_a_quota_is_refused_in_words_that_help() {
    let pool = configured("[quota]\nqueued_jobs = 1\njob_secs = 60\n[quota_of.ci]\nqueued_jobs = 5\n");
    let first = hold(&pool);
    pool.wait_for_state(&first, "running");
    hold(&pool);
    let refused = pool.buildpool(&["run", "--no-snapshot", "--", "true"]).expect(125);
    assert!(refused.err().contains("`admin` has 1 job waiting already"), "{refused}");
    assert!(refused.err().contains("queued_jobs"), "{refused}");
    let long = pool.buildpool(&["run", "--no-snapshot", "--timeout", "2h", "--", "true"]).expect(125);
    assert!(long.err().contains("the quota (job_secs) of `admin` is 60 s"), "{long}");
    std::fs::write(pool.place().file("go"), "").unwrap();
}

#[test]
fn an_agent_that_chooses_no_timeout_runs_within_the_quota_s() {
    let pool = configured(
        "[quota]
job_secs = 60
",
    );
    let mut client = Gateway::connect(&mut pool.command(&["mcp"]), "agent");
    let done = structured(client.result("run_command", json!({"command": "true"})));
    assert_eq!(done["verdict"], "passed", "{done}");
    let refused = client.result("run_command", json!({"command": "true", "timeout_secs": 61}));
    assert!(refused["isError"] == true && refused.to_string().contains("timeout_secs"), "{refused}");
}

#[test]
fn a_group_has_a_name_that_can_be_one() {
    let pool = Pool::start(0);
    let named = ["run", "--no-snapshot", "--concurrency-group", "a b", "--", "true"];
    let refused = pool.buildpool(&named).expect(125);
    assert!(refused.err().contains("concurrency_group: `a b` is not a valid name"), "{refused}");
}

#[test]
fn jobs_of_a_concurrency_group_run_one_at_a_time() {
    let pool = Pool::start(1);
    let go = pool.place().file("go");
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let run = |group: &str| {
        let words =
            ["run", "--no-snapshot", "--detach", "--concurrency-group", group, "--", "sh", "-c", &text];
        pool.buildpool(&words).expect(0).out().trim().to_owned()
    };
    let (first, second) = (run("device"), run("device"));
    pool.wait_for_state(&first, "running");
    let waiting = pool.job(&second);
    assert_eq!(waiting["state"], "queued", "although a slot is free");
    assert!(waiting["waiting"]["reason"].as_str().unwrap().contains("same concurrency group"), "{waiting}");
    let other = run("another");
    pool.wait_for_state(&other, "running");
    std::fs::write(&go, "").unwrap();
    assert_eq!(pool.wait_for_state(&second, "done")["verdict"], "passed");
}

#[test]
fn each_job_of_a_project_is_in_its_concurrency_group() {
    let pool = Pool::start(1);
    let project = pool.place().home().join("project");
    std::fs::create_dir_all(project.join(".buildpool")).unwrap();
    let configuration = project.join(".buildpool/config.yaml");
    std::fs::write(&configuration, "concurrency_group: device\n").unwrap();
    let go = pool.place().file("go");
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let run = |options: &[&str]| {
        let words = ["run", "--no-snapshot", "--detach", "--cwd", project.to_str().unwrap()];
        pool.buildpool(&[&words[..], options, &["--", "sh", "-c", &text]].concat())
    };
    let id = |options: &[&str]| run(options).expect(0).out().trim().to_owned();
    let (first, second) = (id(&[]), id(&[]));
    pool.wait_for_state(&first, "running");
    let waiting = pool.job(&second);
    assert!(waiting["waiting"]["reason"].as_str().unwrap().contains("same concurrency group"), "{waiting}");
    let other = id(&["--concurrency-group", "another"]);
    pool.wait_for_state(&other, "running");
    std::fs::write(&go, "").unwrap();
    assert_eq!(pool.wait_for_state(&second, "done")["verdict"], "passed");
    // A file above the project is not its own.
    let inner = project.join("inner");
    std::fs::create_dir_all(inner.join(".git")).unwrap();
    let words = ["run", "--no-snapshot", "--output", "json", "--cwd", inner.to_str().unwrap(), "--", "true"];
    std::fs::write(&configuration, "concurrency_group: [device]\n").unwrap();
    pool.buildpool(&words).expect(0);
    // A job that calls `run` would wait for itself.
    let mut inside = pool.command(&["run", "--no-snapshot", "--", "true"]);
    let inside = inside.current_dir(&project).env("BUILDPOOL_JOB_ID", "x").output().unwrap();
    assert!(inside.status.success(), "{inside:?}");
    let refused = run(&[]).expect(125).err();
    assert!(refused.contains("concurrency_group: invalid value [\"device\"]"), "{refused}");
}

#[test]
fn each_tool_runs_its_jobs_in_the_group_of_the_project() {
    let place = Place::new();
    std::fs::create_dir_all(place.file(".buildpool")).unwrap();
    std::fs::write(place.file(".buildpool/config.yaml"), "concurrency_group: device\n").unwrap();
    let mut gateway = Gateway::connect(&mut place.command(["mcp"]), "t");
    let mut run = |word: &str| {
        let command = format!("echo {word}; while [ ! -e go ]; do sleep 0.05; done");
        gateway.call("run_command", json!({"command": command, "wait_secs": 0}))["job_id"].clone()
    };
    let jobs = [run("one"), run("two")];
    let waits = |job: &serde_json::Value| {
        let reason = job["waiting"]["reason"].as_str().unwrap_or_default();
        reason.contains("same concurrency group")
    };
    wait_until("one of the jobs waits for the other one of its group", || {
        jobs.iter().any(|job| waits(&gateway.call("get_job", json!({"job_id": job}))))
    });
    std::fs::write(place.file("go"), "").unwrap();
    for job in jobs {
        let ended = gateway.call("get_job", json!({"job_id": job, "wait_secs": 60}));
        assert_eq!(ended["verdict"], "passed", "{ended}");
    }
}

#[test]
fn a_log_beyond_the_quota_keeps_its_ends_and_says_what_is_missing() {
    let pool = configured("[quota]\nlog_bytes = 4194304\n");
    let text = "echo first; head -c 12000000 /dev/zero | tr '\\0' x; echo; echo last";
    let result = pool
        .buildpool(&["run", "--no-snapshot", "--output", "json", "--", "sh", "-c", text])
        .expect(0)
        .json();
    assert_eq!(result["verdict"], "passed");
    let gap = &result["gaps"][0];
    assert!(gap["reason"].as_str().unwrap().contains("limit of 4194304 bytes"), "{gap}");
    let missing = gap["bytes"].as_u64().unwrap();
    assert!((6_000_000..11_000_000).contains(&missing), "{missing}");
    let logs = pool.buildpool(&["logs", result["job_id"].as_str().unwrap()]).expect(0).out();
    assert!(logs.starts_with("first\n") && logs.ends_with("\nlast\n"));
}

#[test]
fn a_snapshot_beyond_the_quota_is_not_taken_in() {
    refuses_a_large_snapshot("[quota]\nsnapshot_bytes = 20000\n", "your quota (snapshot_bytes) is 20000");
}

#[test]
fn snapshots_together_beyond_the_quota_are_not_taken_in() {
    let text = "the quota (stored_snapshot_bytes) is 100000";
    refuses_a_large_snapshot("[quota]\nstored_snapshot_bytes = 100000\n", text);
}

fn refuses_a_large_snapshot(configuration: &str, text: &str) {
    let pool = configured(configuration);
    let git = |arguments: &[&str]| {
        let done = Command::new("git").args(arguments).current_dir(pool.place().work()).output().unwrap();
        assert!(done.status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    std::fs::write(pool.place().file("small"), "text").unwrap();
    pool.buildpool(&["run", "--", "cat", "small"]).expect(0);
    // Not compressible.
    let large: String =
        (0..20_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    std::fs::write(pool.place().file("large"), large).unwrap();
    let refused = pool.buildpool(&["run", "--", "cat", "small"]).expect(125);
    assert!(refused.err().contains(text), "{refused}");
}

#[test]
fn who_waits_is_told_why_where_and_for_about_how_long() {
    let pool = configured("");
    std::fs::write(pool.place().file("go"), "").unwrap();
    let first = hold(&pool);
    assert_eq!(pool.wait_for_state(&first, "done")["verdict"], "passed");
    std::fs::remove_file(pool.place().file("go")).unwrap();
    let running = hold(&pool);
    pool.wait_for_state(&running, "running");
    let waiting = hold(&pool);
    let waits = &pool.job(&waiting)["waiting"];
    assert_eq!(waits["position"], 1, "{waits}");
    assert!(waits["reason"].as_str().unwrap().contains("busy"), "{waits}");
    assert!(waits["estimate_secs"].as_f64().is_some(), "{waits}");
    let shown = pool.buildpool(&["job", &waiting]).expect(0).out();
    assert!(shown.contains("position 1, since ") && shown.contains(", begins in about"), "{shown}");
    let listed = pool.buildpool(&["jobs", "--json"]).expect(0).json();
    let entry = listed.as_array().unwrap().iter().find(|job| job["job_id"] == waiting.as_str()).unwrap();
    assert!(entry["waiting"]["estimate_secs"].as_f64().is_some(), "{entry}");
    std::fs::write(pool.place().file("go"), "").unwrap();
}

#[test]
fn a_job_falls_back_to_this_machine_only_when_that_was_asked_for_and_says_so() {
    let place = Place::new();
    // Port 1 is unused.
    let away = ["run", "--coordinator", "ws://127.0.0.1:1", "--token", STRANGER, "--output", "json"];
    let run = |more: &[&str]| {
        let all: Vec<&str> = away.iter().chain(more).copied().collect();
        place.buildpool(&all)
    };
    run(&["--", "true"]).expect(125);
    let fallen = run(&["--fallback", "local", "--", "sh", "-c", "echo here; exit 3"]).expect(3);
    assert!(fallen.err().contains("buildpool: ") && fallen.err().contains("--fallback local"), "{fallen}");
    let result = fallen.json();
    assert!(result["fallback"].as_str().unwrap().contains("127.0.0.1:1"), "{result}");
    let id = result["job_id"].as_str().unwrap();
    let later = place.buildpool(&["job", id]).expect(0).out();
    assert!(later.contains("fallback: the coordinator at ws://127.0.0.1:1"), "{later}");
    let several = ["--fallback", "local", "--several", "--", "true", ":::", "sh", "-c", "exit 3"];
    let build = run(&several).expect(3).json();
    for job in build["jobs"].as_array().unwrap() {
        let id = job["job_id"].as_str().unwrap();
        let result = place.buildpool(&["job", id, "--json"]).expect(0).json();
        assert!(result["fallback"].as_str().unwrap().contains("127.0.0.1:1"), "{result}");
    }
    let usual = place.buildpool(&["run", "--output", "json", "--fallback", "local", "--", "true"]).expect(0);
    assert!(usual.json().get("fallback").is_none(), "{usual}");
}

#[test]
fn an_admin_reads_the_quotas_and_their_use() {
    let pool = configured("[quota]\nqueued_jobs = 9\njob_secs = 60\n[quota_of.ci]\nrunning_jobs = 5\n");
    pool.wait_for_state(&hold(&pool), "running");
    hold(&pool);
    let list = |token: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        pool.request("GET", "/api/v1/quotas", &[&bearer], "")
    };
    let quotas = list(pool.token()).expect(200).json();
    let of = |name: &str| {
        let all = quotas["submitters"].as_array().unwrap();
        all.iter().find(|one| one["submitter"] == name).unwrap_or_else(|| panic!("{quotas}")).clone()
    };
    let used = json!({"queued_jobs": 1, "running_jobs": 1, "stored_snapshot_bytes": 0});
    assert_eq!((&of("admin")["in_use"], &of("admin")["limits"]["queued_jobs"]), (&used, &9.into()));
    assert_eq!(of("ci")["limits"]["running_jobs"], 5);
    assert_eq!(quotas["default"]["job_secs"], 60);
    let created = pool.buildpool(&["token", "create", "--role", "submit", "--name", "ada"]).expect(0).out();
    list(created.trim()).expect(403);
    std::fs::write(pool.place().file("go"), "").unwrap();
}
