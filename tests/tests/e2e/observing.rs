//! Tests of metrics and of logs in JSON.

use buildpool_tests::{Finished, Pool, PoolBuilder, wait_until};

/// Returns the value of one series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {series} in:\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn metrics_count_what_happened_and_want_a_token() {
    let mut pool = Pool::start(1);
    assert_eq!(pool.get("/healthz", None), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(pool.get("/readyz", None), ("HTTP/1.1 200 OK".into(), "ready\n".into()));
    assert!(pool.get("/metrics", None).0.contains("401"));
    assert!(pool.get("/metrics", Some(pool.worker_token())).0.contains("403"));
    let read = |pool: &Pool| {
        let (status, body) = pool.get("/metrics", Some(pool.token()));
        assert!(status.contains("200"), "{status}");
        assert!(body.ends_with("# EOF\n"), "{body}");
        body
    };
    pool.shell("head -c 100000 /dev/zero | tr '\\0' x").expect(0);
    pool.shell("exit 3").expect(3);
    let text = read(&pool);
    assert_eq!(value(&text, "buildpool_jobs_done_total{verdict=\"passed\"}"), 1.0);
    assert_eq!(value(&text, "buildpool_jobs_done_total{verdict=\"failed\"}"), 1.0);
    for histogram in ["job_queue_seconds", "job_run_seconds", "digest_seconds"] {
        assert_eq!(value(&text, &format!("buildpool_{histogram}_count")), 2.0, "{histogram}");
    }
    assert!(value(&text, "buildpool_log_stored_bytes_total") >= 100_000.0);
    assert_eq!(value(&text, "buildpool_slots{state=\"free\"}"), 2.0);
    assert_eq!(value(&text, "buildpool_workers{state=\"ready\"}"), 1.0);
    assert_eq!(value(&text, "buildpool_connections_refused_total"), 2.0);
    assert_eq!(value(&text, "buildpool_ready"), 1.0);
    assert!(value(&text, "buildpool_disk_free_bytes") > 0.0);
    assert_eq!(value(&text, "buildpool_worker_up{worker=\"w0\"}"), 1.0);
    assert_eq!(value(&text, "buildpool_worker_slots{worker=\"w0\"}"), 2.0);
    assert!(value(&text, "buildpool_process_start_time_seconds") > 1.7e9);
    assert!(value(&text, "buildpool_process_resident_memory_bytes") > 1e6);
    assert!(value(&text, "buildpool_process_open_descriptors") > 3.0);
    assert!(text.contains("buildpool_build_info{version=\""), "{text}");
    wait_until("the worker reports its disk", || {
        read(&pool).contains("buildpool_worker_disk_free_bytes{worker=\"w0\"} ")
    });
    pool.kill_worker(0);
    wait_until("the worker is seen to be away", || {
        value(&read(&pool), "buildpool_workers{state=\"away\"}") == 1.0
    });
    pool.start_worker(0);
    wait_until("it is back", || value(&read(&pool), "buildpool_worker_connections_total") == 2.0);
}

#[test]
fn a_queue_is_measured_by_label_and_jobs_are_listed_by_submitter_label_and_verdict() {
    let pool = PoolBuilder::default().worker(&["--slots", "1", "--label", "gpu=big"]).start();
    let create = ["token", "create", "--role", "submit", "--name", "ci"];
    let token = pool.buildpool(&create).expect(0).out().trim().to_owned();
    let run = |arguments: &[&str], token: Option<&str>| {
        let mut command = pool.command(&["run", "--no-snapshot", "--detach"]);
        command.args(arguments);
        if let Some(token) = token {
            command.env("BUILDPOOL_TOKEN", token);
        }
        Finished::from(command.output().unwrap()).expect(0).out().trim().to_owned()
    };
    let failed = run(&["--", "false"], Some(&token));
    assert_eq!(pool.wait_for_state(&failed, "done")["verdict"], "failed");
    let passed = run(&["--label", "gpu=big", "--", "true"], None);
    assert_eq!(pool.wait_for_state(&passed, "done")["verdict"], "passed");
    let running = run(&["--", "sleep", "1000"], None);
    pool.wait_for_state(&running, "running");
    let labelled = run(&["--label", "gpu=big", "--", "true"], Some(&token));
    let plain = run(&["--", "true"], None);
    let listed = |filter: &[&str]| {
        let mut arguments = vec!["jobs", "--json"];
        arguments.extend(filter);
        let jobs = pool.buildpool(&arguments).expect(0).json();
        let ids = jobs.as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--submitter", "ci"]), [&*labelled, &*failed]);
    assert_eq!(listed(&["--label", "gpu"]), [&*labelled, &*passed]);
    assert_eq!(listed(&["--label", "gpu=big", "--submitter", "ci"]), [&*labelled]);
    assert_eq!(listed(&["--verdict", "failed"]), [&*failed]);
    assert_eq!(listed(&["--label", "gpu=small"]), [""; 0]);
    let text = pool.get("/metrics", Some(pool.token())).1;
    assert_eq!(value(&text, "buildpool_queued_jobs{label=\"gpu=big\"}"), 1.0);
    assert_eq!(value(&text, "buildpool_queued_jobs{label=\"none\"}"), 1.0);
    assert!(value(&text, "buildpool_queue_oldest_seconds{label=\"gpu=big\"}") >= 0.0);
    for job in [&running, &labelled, &plain] {
        pool.buildpool(&["cancel", job]).expect(0);
    }
}

#[test]
fn an_operator_can_open_the_metrics() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "open_metrics = true\n").unwrap();
    let pool = PoolBuilder::default().coordinator(&["--config", file.path().to_str().unwrap()]).start();
    assert!(pool.get("/metrics", None).0.contains("200"));
}

#[test]
fn logs_in_json_name_the_job_the_attempt_and_the_worker() {
    let json = ["--log-format", "json"];
    let pool = PoolBuilder::default().coordinator(&json).worker(&json).start();
    let ran: Finished = pool.buildpool(&["run", "--no-snapshot", "--output", "json", "--", "true"]).expect(0);
    let job = ran.json()["job_id"].as_str().unwrap().to_owned();
    let entries = |name: &str| -> Vec<serde_json::Value> {
        let text = pool.log_text(name);
        let lines = text.lines().filter(|line| line.starts_with('{'));
        let entries: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!entries.is_empty(), "{name}: {text}");
        entries.into_iter().filter(|entry| entry["job"] == job.as_str()).collect()
    };
    for (name, messages) in
        [("coordinator", ["job granted", "job done"]), ("w0", ["attempt started", "attempt ended"])]
    {
        for message in messages {
            wait_until("the entry is written", || {
                entries(name).iter().any(|entry| {
                    entry["message"] == message && entry["attempt"] == 1 && entry["worker"] == "w0"
                })
            });
        }
    }
}
