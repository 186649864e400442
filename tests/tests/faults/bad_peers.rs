//! Tests of peers that send invalid messages, or no messages. Each gets an error, and other peers
//! are not affected.

use buildpool_tests::{Peer, Pool, Workload, wait_until};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) fn register(worker: &str, name: &str) -> Value {
    json!({
        "type": "register", "protocol": {"min": 1, "max": 1}, "worker": worker,
        "boot": uuid::Uuid::now_v7().to_string(), "name": name, "version": "0", "slots": 1,
        "labels": {}, "resources": {}, "held": [], "condition": {},
    })
}

pub(crate) fn some_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

#[track_caller]
fn code(said: Option<Value>) -> (String, String) {
    let said = said.expect("a reason");
    let error = if said["error"].is_object() { &said["error"] } else { &said };
    (error["code"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
}

/// A pool, its submit token, and a job that runs during the test.
struct Scene {
    pool: Pool,
    workload: Workload,
    submit: String,
}

impl Scene {
    fn new() -> Self {
        let pool = Pool::start(1);
        let submit = pool.buildpool(&["token", "create", "--role", "submit", "--name", "ada", "--json"]);
        let submit = submit.expect(0).json()["token"].as_str().unwrap().to_owned();
        let mut workload = Workload::new(&pool);
        workload.submit(&pool, 100_000, Duration::from_secs(1), &[]);
        Self { pool, workload, submit }
    }

    async fn client(&self) -> Peer {
        Peer::dial(self.pool.address(), "/v1/client", Some(&self.submit)).await.unwrap()
    }

    async fn registered_client(&self) -> Peer {
        let mut peer = self.client().await;
        peer.send_json(&json!({"type": "register", "protocol": {"min": 1, "max": 1}, "client": "test"}))
            .await;
        assert_eq!(peer.receive().await.unwrap()["type"], "registered");
        peer
    }

    async fn worker(&self) -> Peer {
        Peer::dial(self.pool.address(), "/v1/worker", Some(self.pool.worker_token())).await.unwrap()
    }

    /// Checks that the pool still works.
    fn check(&self) {
        self.workload.wait(&self.pool);
        self.workload.check(&self.pool);
        assert_eq!(self.pool.shell("echo still here").expect(0).out(), "still here\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_enters_without_the_right_token() {
    let scene = Scene::new();
    let address = scene.pool.address();
    let worker_token = scene.pool.worker_token().to_owned();
    let mut wrong = scene.submit.clone();
    let last = wrong.pop().unwrap();
    wrong.push(if last == '0' { '1' } else { '0' });
    let long = "x".repeat(10_000);
    for (path, token, status, expected) in [
        ("/v1/client", None, 401, "unauthorized"),
        ("/v1/worker", None, 401, "unauthorized"),
        ("/v1/client", Some(""), 401, "unauthorized"),
        ("/v1/client", Some("nonsense"), 401, "unauthorized"),
        ("/v1/client", Some(&*long), 401, "unauthorized"),
        ("/v1/client", Some(&*wrong), 401, "unauthorized"),
        ("/v1/client", Some(&*worker_token), 403, "forbidden"),
        ("/v1/worker", Some(&*scene.submit), 403, "forbidden"),
    ] {
        let refused = Peer::dial(address, path, token).await.expect_err(path);
        assert_eq!((refused.status, &refused.body["code"]), (status, &expected.into()), "{path} {token:?}");
        assert!(!refused.body["message"].as_str().unwrap().contains("bp_0"), "{refused:?}");
    }
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_nobody_speaks_is_refused_and_a_range_is_agreed() {
    let scene = Scene::new();
    for (min, max) in [(3, 4), (0, 0), (9, 8), (65_535, 65_535)] {
        let mut client = scene.client().await;
        client
            .send_json(&json!({"type": "register", "protocol": {"min": min, "max": max}, "client": "x"}))
            .await;
        assert_eq!(code(client.close_reason().await).0, "version_mismatch", "{min} to {max}");
        let mut worker = scene.worker().await;
        let mut message = register(&some_id(), "odd");
        message["protocol"] = json!({"min": min, "max": max});
        worker.send_json(&message).await;
        assert_eq!(code(worker.close_reason().await).0, "version_mismatch", "{min} to {max}");
    }
    let mut client = scene.client().await;
    let newer =
        json!({"type": "register", "protocol": {"min": 1, "max": 7}, "client": "x", "unheard_of": {}});
    client.send_json(&newer).await;
    assert_eq!(client.receive().await.unwrap()["protocol"], 2);
    let mut worker = scene.worker().await;
    let mut message = register(&some_id(), "tomorrows");
    message["protocol"]["max"] = 7.into();
    message["unheard_of"] = json!([]);
    worker.send_json(&message).await;
    assert_eq!(worker.receive().await.unwrap()["protocol"], 2);
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_gets_no_snapshot_of_a_job_that_is_not_granted_to_it() {
    let scene = Scene::new();
    let work = scene.pool.place().work();
    std::fs::write(work.join("file"), "private").unwrap();
    let git = |line: &str| {
        let done =
            std::process::Command::new("git").args(line.split(' ')).current_dir(&work).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    };
    git("init -q");
    let job =
        scene.pool.buildpool(&["run", "--detach", "--", "cat", "file"]).expect(0).out().trim().to_owned();
    let done = scene.pool.wait_for_state(&job, "done");
    let tree = done["snapshot"]["id"].as_str().unwrap();
    let mut worker = scene.worker().await;
    worker.send_json(&register(&some_id(), "curious")).await;
    assert_eq!(worker.receive().await.unwrap()["type"], "registered");
    let fetch = json!({
        "type": "transfer", "step": "fetch_snapshot", "channel": 1, "project": "any", "tree": tree,
        "trees": [], "heads": [],
    });
    worker.send_json(&fetch).await;
    let said = loop {
        let said = worker.receive().await.unwrap();
        if said["type"] == "transfer" {
            break said;
        }
    };
    assert_eq!((&said["step"], &said["error"]["code"]), (&"failed".into(), &"forbidden".into()), "{said}");
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_understood_ends_the_connection_with_its_reason() {
    let scene = Scene::new();
    let deep = "[".repeat(100_000);
    let large = format!("{{\"type\":\"register\",\"name\":\"{}\"}}", "x".repeat(3 << 20));
    for text in [
        "",
        "{",
        "null",
        "[]",
        "\"register\"",
        "{\"type\":\"dance\"}",
        "{\"type\":\"report\"}",
        &deep,
        &large,
    ] {
        for is_worker in [false, true] {
            let mut peer = if is_worker { scene.worker().await } else { scene.client().await };
            peer.send(text.to_owned()).await;
            let (code, message) = code(peer.close_reason().await);
            let shown: String = text.chars().take(40).collect();
            assert_eq!(code, "malformed", "{shown}");
            assert!(message.len() < 1_000, "{shown}: the reason is as long as the fault");
        }
    }
    for is_worker in [false, true] {
        let mut peer = if is_worker { scene.worker().await } else { scene.client().await };
        peer.send(vec![0xff_u8; 300]).await;
        assert_eq!(code(peer.close_reason().await).0, "malformed");
    }
    // The same applies after the registration.
    let mut client = scene.registered_client().await;
    client.send("{\"type\":\"cancel\"}".to_owned()).await;
    assert_eq!(code(client.close_reason().await).0, "malformed");
    let worker = |number: u32| {
        let scene = &scene;
        async move {
            let mut worker = scene.worker().await;
            worker.send_json(&register(&some_id(), &format!("odd-{number}"))).await;
            assert_eq!(worker.receive().await.unwrap()["type"], "registered");
            worker
        }
    };
    let frames: [&[u8]; 6] = [b"", b"short", &[1; 15], &[9; 64], &[2; 64], &[1; 80]];
    for (number, frame) in (0..).zip(frames) {
        let mut worker = worker(number).await;
        worker.send(frame.to_vec()).await;
        assert_eq!(code(worker.close_reason().await).0, "malformed", "{frame:?}");
    }
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_is_not_taken() {
    let scene = Scene::new();
    for is_worker in [false, true] {
        let mut peer = if is_worker { scene.worker().await } else { scene.registered_client().await };
        // Over the limit of a control message. The connection may end before all of it is sent.
        peer.send("x".repeat(5 << 20)).await;
        peer.close_reason().await;
        assert!(!peer.send("{}".to_owned()).await, "the connection has ended");
    }
    let mut worker = scene.worker().await;
    worker.send_json(&register(&some_id(), "odd")).await;
    worker.receive().await.unwrap();
    worker.send(vec![1_u8; 2 << 20]).await;
    assert_eq!(code(worker.close_reason().await).0, "too_large");
    // Fields over their limits are refused by name, and the connection continues.
    let mut client = scene.registered_client().await;
    let spec = json!({"command": {"argv": vec!["x"; 20_000]}, "source": "empty"});
    let submit = json!({"type": "submit", "request": 5, "submit": {"job": some_id(), "spec": spec}});
    client.send_json(&submit).await;
    let answer = client.receive().await.unwrap();
    assert_eq!((&answer["type"], &answer["request"]), (&"error".into(), &5.into()), "{answer:#}");
    let many = register(&some_id(), &"n".repeat(5_000));
    let mut worker = scene.worker().await;
    worker.send_json(&many).await;
    assert_eq!(code(worker.close_reason().await).0, "invalid");
    let mut wide = register(&some_id(), "wide");
    let labels = (0..60).map(|number| (format!("label-{number}"), "x".repeat(30_000).into()));
    wide["labels"] = labels.collect::<serde_json::Map<_, _>>().into();
    let mut worker = scene.worker().await;
    worker.send_json(&wide).await;
    assert_eq!(code(worker.close_reason().await).0, "invalid");
    assert!(scene.pool.buildpool(&["workers"]).expect(0).out().contains("w0"));
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_and_silence_on_the_socket_hold_up_nobody_and_are_ended() {
    let scene = Scene::new();
    let address = scene.pool.address();
    let mut silent = Vec::new();
    for number in 0..150_usize {
        let mut stream = TcpStream::connect(address).await.unwrap();
        match number % 3 {
            0 => {}
            1 => stream.write_all(b"GET /v1/client HTTP/1.1\r\nHost: x\r\nAuthoriz").await.unwrap(),
            _ => stream.write_all(b"\x16\x03\x01\x02\x00\xff\xfe\xfd").await.unwrap(),
        }
        silent.push(stream);
    }
    // A registered peer that sends nothing, or one byte at a time.
    let mut client = scene.client().await;
    let mut worker = scene.worker().await;
    assert_eq!(scene.pool.shell("echo here").expect(0).out(), "here\n");
    assert_eq!(code(client.close_reason().await).0, "malformed");
    assert_eq!(code(worker.close_reason().await).0, "malformed");
    for mut stream in silent {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(45), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "a silent connection is kept");
    }
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_taken_and_an_identity_that_is_copied_are_refused_without_flapping() {
    let mut scene = Scene::new();
    let mut impostor = scene.worker().await;
    impostor.send_json(&register(&some_id(), "w0")).await;
    let (is, why) = code(impostor.close_reason().await);
    assert!(is == "conflict" && why.contains("`w0`") && why.contains("--name"), "{is}: {why}");

    let copy = scene.pool.data("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(scene.pool.data("w0").join("worker-id"), copy.join("worker-id")).unwrap();
    let mut cloned = scene.pool.command(&["worker", "--name", "w1", "--data-dir", copy.to_str().unwrap()]);
    let log = scene.pool.place().file("copy.log");
    let cloned = cloned.env("BUILDPOOL_TOKEN", scene.pool.worker_token());
    let mut cloned = cloned.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    wait_until("the copy gets the refusal", || {
        std::fs::read_to_string(&log).unwrap().contains("remove `worker-id`")
    });
    let job = scene.workload.submit(&scene.pool, 10_000, Duration::ZERO, &[]);
    scene.check();
    assert_eq!(scene.pool.job(&job.id)["worker"], "w0");
    let refusals = std::fs::read_to_string(&log).unwrap().matches("refuses this worker").count();
    cloned.kill().unwrap();
    cloned.wait().unwrap();
    assert!(refusals <= 3, "{refusals} refusals");
}

/// Returns the log of a worker that runs on a copy of another worker's directory, from its start
/// until `until` appears.
fn run_copy(pool: &Pool, name: &str, until: &str) {
    let copy = pool.data(&format!("copy-{name}"));
    let copied = std::process::Command::new("cp").arg("-a").arg(pool.data("w0")).arg(&copy).status().unwrap();
    assert!(copied.success());
    let log = pool.place().file("copy.log");
    let mut daemon =
        pool.command(&["worker", "--no-tools", "--name", name, "--data-dir", copy.to_str().unwrap()]);
    daemon.env("BUILDPOOL_TOKEN", pool.worker_token()).stdout(std::process::Stdio::null());
    let mut daemon = daemon.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    wait_until("the copy receives it", || std::fs::read_to_string(&log).unwrap().contains(until));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_copy_of_a_workers_directory_ends_and_settles_nothing_of_what_the_original_runs() {
    let mut pool = Pool::start(1);
    let mut workload = Workload::new(&pool);
    workload.hold();
    let job = workload.submit(&pool, 300_000, Duration::from_secs(1), &[]);
    job.wait_for_bytes(30_000);
    // While the original is connected, and while it is away. In the second case the copy is
    // accepted in its place.
    run_copy(&pool, "w1", "refuses this worker");
    pool.kill_worker(0);
    run_copy(&pool, "w0", "registered as `w0`");
    wait_until("the copy is gone", || pool.job(&job.id)["connected"] == false);
    assert_eq!(pool.job(&job.id)["state"], "running");
    pool.start_worker(0);
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"], "it ran once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_are_unknown_short_or_odd_are_errors_of_their_own() {
    let scene = Scene::new();
    let mut client = scene.registered_client().await;
    let unknown = some_id();
    let mut request = 0;
    for (job, expected) in
        [(unknown.as_str(), "unknown_job"), ("0", "ambiguous"), ("", "invalid"), ("zz/..", "invalid")]
    {
        if expected == "ambiguous" {
            scene.pool.shell("true").expect(0);
        }
        for kind in ["job", "cancel", "follow", "logs"] {
            request += 1;
            let message = match kind {
                "logs" => json!({"type": kind, "request": request, "query": {"job": job}}),
                _ => json!({"type": kind, "request": request, "job": job, "reason": ""}),
            };
            client.send_json(&message).await;
            let answer = client.receive().await.unwrap();
            assert_eq!(answer["type"], "error", "{kind} of `{job}`: {answer}");
            assert_eq!(answer["request"], request, "{answer}");
            assert_eq!(answer["error"]["code"], expected, "{kind} of `{job}`: {answer}");
        }
    }
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_reading_holds_up_nobody() {
    let mut scene = Scene::new();
    let job = scene.workload.submit(&scene.pool, 12_000_000, Duration::from_secs(1), &[]);
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut client = scene.registered_client().await;
        for request in 0..20 {
            client.send_json(&json!({"type": "follow", "request": request, "job": job.id})).await;
        }
        // It acknowledges everything and reads nothing.
        for request in 0..20 {
            client.send_json(&json!({"type": "taken", "request": request, "position": u64::MAX})).await;
        }
        deaf.push(client);
    }
    scene.check();
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_not_valid_ends_its_attempt_and_the_worker_goes_on() {
    let scene = Scene::new();
    let mut worker = scene.worker().await;
    let mut message = register(&some_id(), "odd");
    message["labels"] = json!({"kind": "odd"});
    worker.send_json(&message).await;
    assert_eq!(worker.receive().await.unwrap()["type"], "registered");
    let submit = || {
        let words = ["run", "--detach", "--no-snapshot", "--label", "kind=odd", "--", "true"];
        scene.pool.buildpool(&words).expect(0).out().trim().to_owned()
    };
    let empty = json!({"length": 0, "blake3": blake3::hash(b"").to_hex().as_str()});
    let outcome = |code: i64| {
        json!({
            "ending": {"exited": {"code": code}}, "finished_at_ms": 2, "duration": 3, "seals": [empty, empty],
            "log_length": 0,
        })
    };
    // Returns the next job that the worker gets, after its result.
    let mut run = async |outcome: Value| {
        loop {
            let said = worker.receive().await.expect("the connection stays");
            if said["type"] == "grant" {
                let lease = said["lease"].clone();
                let job = lease["attempt"]["job"].as_str().unwrap().to_owned();
                let complete = json!({"type": "complete", "lease": lease, "outcome": outcome});
                assert!(worker.send_json(&complete).await);
                return job;
            }
        }
    };
    let job = submit();
    let mut unreadable = outcome(0);
    unreadable["duration"] = u64::MAX.into();
    for outcome in [unreadable, outcome(-1), outcome(300)] {
        assert_eq!(run(outcome).await, job);
    }
    let done = tokio::task::block_in_place(|| scene.pool.wait_for_state(&job, "done"));
    assert_eq!(done["verdict"], "lost", "{done:#}");
    let cause = done["cause"]["text"].as_str().unwrap();
    assert!(cause.contains("3 attempts") && cause.contains("exit code: 300 given"), "{cause}");
    let next = tokio::task::block_in_place(submit);
    assert_eq!(run(outcome(0)).await, next);
    let done = tokio::task::block_in_place(|| scene.pool.wait_for_state(&next, "done"));
    assert_eq!(done["verdict"], "passed", "{done:#}");
    tokio::task::block_in_place(|| scene.check());
}
