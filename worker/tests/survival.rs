//! Tests that jobs continue when the worker's daemon is killed, and that jobs with a killed keeper
//! get an outcome.

mod support;

use buildpool_protocol::outcome::{EndReason, Ending};
use buildpool_protocol::spec::{JobSpec, Source};
use buildpool_protocol::worker_link::{HeldState, ToWorker};
use buildpool_worker::ShutdownRequest;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Coordinator, Daemon, Worker, config, pool, processes_of, shell, until};

/// A job that writes lines, waits for a file, and writes more lines.
fn two_halves(directory: &Path) -> (JobSpec, PathBuf) {
    let go = directory.join("go");
    let text = format!(
        "seq 1 1000; echo half; while [ ! -e {} ]; do sleep 0.01; done; seq 1001 2000; echo err >&2",
        go.display()
    );
    (shell(&text), go)
}

fn whole() -> Vec<u8> {
    let lines = |range: std::ops::RangeInclusive<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
    format!("{}half\n{}", lines(1..=1000), lines(1001..=2000)).into_bytes()
}

fn keeper_of(pid: i32) -> Pid {
    Pid::from_raw(buildpool_worker::platform::process(pid).expect("it runs").parent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_on_while_its_daemon_is_dead_and_the_next_one_finds_it() {
    let (data, side) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, data.path());
    let (spec, go) = two_halves(side.path());
    let lease = coordinator.grant(spec);
    coordinator.until_output(lease, "half").await;
    let before = processes_of(lease);
    daemon.kill();
    let _next = Daemon::start(&coordinator, data.path());
    coordinator.registered(2).await;
    until("the attempt to be held", || {
        coordinator.read(|book| {
            let held = book.held.iter().find(|held| held.lease == lease)?;
            (held.state == HeldState::Running && held.started_at_ms.is_some()).then_some(())
        })
    })
    .await;
    let pids = |found: &[buildpool_worker::platform::Process]| found.iter().map(|p| p.pid).min();
    assert_eq!(pids(&before), pids(&processes_of(lease)), "the same process");
    std::fs::write(go, "").expect("a file");
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert!(coordinator.stdout(lease) == whole());
    assert_eq!(coordinator.read(|book| book.completes), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_ended_while_its_daemon_was_dead_is_told_by_the_next() {
    let (data, side) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, data.path());
    let (spec, go) = two_halves(side.path());
    let lease = coordinator.grant(spec);
    coordinator.until_output(lease, "half").await;
    daemon.kill();
    std::fs::write(go, "").expect("a file");
    let attempts = data.path().join("attempts");
    let directory = buildpool_worker::records::attempt_directory(&attempts, lease.attempt);
    until("the outcome on the disk", || directory.join("outcome.json").exists().then_some(())).await;
    until("the keeper to leave", || {
        let lock = std::fs::File::open(data.path().join("keepers/0.lock")).expect("a lock");
        lock.try_lock().ok()
    })
    .await;
    let _next = Daemon::start(&coordinator, data.path());
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert!(coordinator.stdout(lease) == whole());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_told_again_until_it_is_forgotten() {
    let (coordinator, worker, data) = pool().await;
    coordinator.read(|book| book.acknowledges_no_results = true);
    let lease = coordinator.grant(shell("echo once"));
    coordinator.outcome(lease).await;
    coordinator.cut();
    until("the result to be reported again", || coordinator.read(|book| (book.completes >= 2).then_some(())))
        .await;
    worker.shutdown.request(ShutdownRequest::Exit);
    drop(worker);
    coordinator.cut();
    let again = until("the directory to be free", || {
        std::fs::File::open(data.path().join("lock")).expect("a lock").try_lock().ok()
    })
    .await;
    let () = again;
    let _next = Worker::start(config(&coordinator, data.path()));
    until("the result to be reported by the next daemon", || {
        coordinator.read(|book| (book.completes >= 3).then_some(()))
    })
    .await;
    coordinator.read(|book| book.acknowledges_no_results = false);
    coordinator.cut();
    until("the attempt to be forgotten", || {
        let left = std::fs::read_dir(data.path().join("attempts")).expect("a directory").count();
        (left == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_keeper_leaves_an_unobserved_end_and_no_process() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(shell("trap '' PIPE TERM HUP; echo $$; while :; do sleep 1000; done"));
    coordinator.until_output(lease, "\n").await;
    let pid =
        String::from_utf8(coordinator.stdout(lease)).expect("a number").trim().parse().expect("a number");
    kill(keeper_of(pid), Signal::SIGKILL).expect("it runs");
    let outcome = coordinator.outcome(lease).await;
    assert!(matches!(outcome.ending, Ending::Unobserved { .. }), "{:?}", outcome.ending);
    assert_eq!(outcome.survivors, []);
    assert_eq!(processes_of(lease), []);
    let next = coordinator.grant(shell("echo next"));
    assert_eq!(coordinator.outcome(next).await.ending, Ending::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_its_keeper_and_its_guardian_is_found_and_leaves_no_process() {
    let (coordinator, _worker, _data) = pool().await;
    // The keeper is the parent of the job, and the guardian that of the keeper. A child in a session of its own goes on.
    let text = "setsid sh -c 'trap \"\" PIPE TERM HUP; while :; do sleep 1000; done' & \
                guardian=$(ps -o ppid= -p $PPID); trap '' PIPE TERM HUP; echo killing; \
                kill -9 $guardian $PPID; while :; do sleep 1000; done";
    let lease = coordinator.grant(shell(text));
    let outcome = coordinator.outcome(lease).await;
    assert!(matches!(outcome.ending, Ending::Unobserved { .. }), "{:?}", outcome.ending);
    assert_eq!(outcome.survivors, []);
    assert_eq!(processes_of(lease), []);
    let next = coordinator.grant(shell("echo next"));
    assert_eq!(coordinator.outcome(next).await.ending, Ending::Exited { code: 0 });
}

/// Returns the first message of each keeper to a process that connects to its socket.
fn greetings(data: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(data.join("keepers")).expect("it is there").flatten();
    let sockets = entries.filter_map(|entry| std::os::unix::net::UnixStream::connect(entry.path()).ok());
    sockets
        .map(|mut socket| {
            let mut length = [0; 4];
            socket.read_exact(&mut length).expect("a greeting");
            let mut text = vec![0; usize::try_from(u32::from_le_bytes(length)).expect("short")];
            socket.read_exact(&mut text).expect("all of it");
            String::from_utf8(text).expect("JSON")
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_gives_no_secret_to_who_connects_to_its_socket() {
    let (coordinator, _worker, data) = pool().await;
    let mut spec = shell("echo ${#KEY}; while [ ! -e go ]; do sleep 0.01; done");
    spec.secrets = vec!["KEY".into()];
    let lease = coordinator.grant_with(spec, &[("KEY", "hunter2hunter2")]);
    coordinator.until_output(lease, "14\n").await;
    let job = lease.attempt.job.to_string();
    let heard = greetings(data.path());
    assert!(heard.iter().any(|text| text.contains(&job)), "the keeper of the job answers: {heard:?}");
    assert!(heard.iter().all(|text| !text.contains("hunter2")), "{heard:?}");
    let attempts = std::fs::read_dir(data.path().join("attempts")).expect("it is there");
    for entry in attempts.flatten() {
        std::fs::write(entry.path().join("empty/go"), "").expect("the job's directory");
    }
    // The daemon has connected again, and the job ends as it does elsewhere.
    assert_eq!(coordinator.outcome(lease).await.ending, Ending::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_and_keeper_dead_together_are_accounted_for() {
    // If a keeper has a guardian, the guardian ends the process tree. Otherwise the next daemon
    // does.
    let has_guardians = cfg!(target_os = "linux");
    for ends_by_itself in [true, false].into_iter().filter(|ends| has_guardians || !ends) {
        dead_together(has_guardians, ends_by_itself).await;
    }
}

async fn dead_together(has_guardians: bool, ends_by_itself: bool) {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, data.path());
    let lease = coordinator.grant(shell("trap '' PIPE TERM HUP; echo $$; while :; do sleep 1000; done"));
    coordinator.until_output(lease, "\n").await;
    let pid =
        String::from_utf8(coordinator.stdout(lease)).expect("a number").trim().parse().expect("a number");
    let keeper = keeper_of(pid);
    daemon.kill();
    if has_guardians && !ends_by_itself {
        kill(keeper_of(keeper.as_raw()), Signal::SIGKILL).expect("it runs");
    }
    kill(keeper, Signal::SIGKILL).expect("it runs");
    if ends_by_itself {
        until("the tree to end by itself", || processes_of(lease).is_empty().then_some(())).await;
    } else {
        assert!(!processes_of(lease).is_empty(), "the tree is left alone");
    }
    let _next = Daemon::start(&coordinator, data.path());
    let outcome = coordinator.outcome(lease).await;
    assert!(matches!(outcome.ending, Ending::Unobserved { .. }), "{:?}", outcome.ending);
    assert_eq!(processes_of(lease), []);
    assert!(coordinator.stdout(lease) == format!("{pid}\n").as_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_takes_no_jobs_while_a_process_lives_that_an_earlier_one_could_not_end() {
    let data = tempfile::tempdir().expect("a directory");
    let mut child = Command::new("sleep").arg("1000").spawn().expect("it is on every system");
    let pid = i32::try_from(child.id()).expect("pids fit");
    let started = buildpool_worker::platform::process(pid).expect("it runs").started;
    let written = serde_json::json!([[{ "pid": pid, "command": "sleep" }, started]]);
    std::fs::write(data.path().join("survivors.json"), written.to_string()).expect("a file");
    let coordinator = Coordinator::start().await;
    coordinator.read(|book| book.report_every = Some(Duration::from_millis(50)));
    let _worker = Worker::start(config(&coordinator, data.path()));
    coordinator.registered(1).await;
    let reason = coordinator.read(|book| book.registers[0].condition.quarantined.clone()).unwrap_or_default();
    assert!(reason.contains(&pid.to_string()), "{reason}");
    let lease = coordinator.grant(shell("true"));
    let declined = until("the grant to be declined", || coordinator.read(|book| book.declined.pop())).await;
    assert_eq!(declined.0, lease);
    child.kill().expect("it runs");
    child.wait().expect("it was ours");
    let is_free = || coordinator.read(|book| book.condition.quarantined.is_none());
    until("the worker to be free", || is_free().then_some(())).await;
    let outcome = coordinator.outcome(coordinator.grant(shell("true"))).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_keeper_is_waited_for() {
    let (data, side) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, data.path());
    let (spec, go) = two_halves(side.path());
    let lease = coordinator.grant(spec);
    coordinator.until_output(lease, "half").await;
    let leader = processes_of(lease).iter().map(|process| process.pid).min().expect("it runs");
    let keeper = keeper_of(leader);
    kill(keeper, Signal::SIGSTOP).expect("it runs");
    daemon.kill();
    let _next = Daemon::start(&coordinator, data.path());
    coordinator.registered(2).await;
    let held = coordinator.read(|book| book.registers[1].held.clone());
    assert_eq!(held.len(), 1, "an attempt with a silent keeper is still held");
    kill(keeper, Signal::SIGCONT).expect("it is stopped");
    std::fs::write(go, "").expect("a file");
    assert_eq!(coordinator.outcome(lease).await.ending, Ending::Exited { code: 0 });
    assert!(coordinator.stdout(lease) == whole());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_off_keeper_ends_its_tree_before_the_job_may_run_elsewhere() {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    coordinator.read(|book| {
        book.lost_after = Some(Duration::from_secs(4));
        book.report_every = Some(Duration::from_millis(100));
    });
    let daemon = Daemon::start(&coordinator, data.path());
    coordinator.registered(1).await;
    let lease = coordinator.grant(shell("trap '' TERM; echo running; while :; do sleep 1000; done"));
    let mut waiting = shell("echo running; sleep 1000");
    waiting.on_lost = buildpool_protocol::spec::OnLost::Wait;
    let waiting = coordinator.grant(waiting);
    coordinator.until_output(lease, "running").await;
    coordinator.until_output(waiting, "running").await;
    // No daemon is running that could detect it.
    daemon.kill();
    until("the tree to be ended", || processes_of(lease).is_empty().then_some(())).await;
    assert!(!processes_of(waiting).is_empty(), "a job that waits for its worker goes on");
    let _next = Daemon::start(&coordinator, data.path());
    assert_eq!(coordinator.outcome(lease).await.acted, Some(EndReason::CutOff));
    coordinator.cancel(waiting);
    coordinator.outcome(waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_only_heard_keeps_its_jobs_and_is_registered_later() {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    // The keeper's own limit is half of this. Pauses of a busy machine are shorter.
    let lost_after = Duration::from_secs(24);
    coordinator.read(|book| {
        book.lost_after = Some(lost_after);
        book.report_every = Some(Duration::from_millis(200));
    });
    let _worker = Worker::start(config(&coordinator, data.path()));
    coordinator.registered(1).await;
    let lease = coordinator.grant(shell("echo running; exec sleep 1000"));
    coordinator.until_output(lease, "running").await;
    coordinator.read(|book| book.is_full = true);
    coordinator.cut();
    coordinator.registered(2).await;
    let (begun, before) = (Instant::now(), coordinator.read(|book| book.reports));
    until("it to have reported for longer than the limit", || {
        let reports = coordinator.read(|book| book.reports);
        (begun.elapsed() > lost_after / 2 + Duration::from_secs(1) && reports > before + 3).then_some(())
    })
    .await;
    assert_eq!(coordinator.read(|book| (book.connections, book.completes)), (2, 0));
    assert!(!processes_of(lease).is_empty(), "its job goes on");
    coordinator.read(|book| {
        book.is_full = false;
        book.welcome();
    });
    coordinator.cancel(lease);
    let acted = coordinator.outcome(lease).await.acted;
    assert!(matches!(acted, Some(EndReason::Cancelled { .. })), "{acted:?}");
    assert_eq!(coordinator.stdout(lease), b"running\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_attempt_is_ended_and_not_spoken_of() {
    let (coordinator, _worker, data) = pool().await;
    let lease = coordinator.grant(shell("trap '' TERM; echo running; while :; do sleep 1000; done"));
    coordinator.until_output(lease, "running").await;
    coordinator.fence(lease);
    until("the tree to be ended", || processes_of(lease).is_empty().then_some(())).await;
    until("its directory to go", || {
        let left = std::fs::read_dir(data.path().join("attempts")).expect("a directory").count();
        (left == 0).then_some(())
    })
    .await;
    assert_eq!(coordinator.read(|book| book.completes), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_leaves_keeps_its_own_deadline_when_the_pool_drains_it_too() {
    let data = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start().await;
    let mut config = config(&coordinator, data.path());
    config.drain_deadline = Some(Duration::from_secs(2));
    let worker = Worker::start(config);
    coordinator.registered(1).await;
    let lease = coordinator.grant(shell("echo running; exec sleep 1000"));
    coordinator.until_output(lease, "running").await;
    worker.shutdown.request_next_level();
    until("the worker to report that it drains", || {
        coordinator.read(|book| book.condition.draining.then_some(()))
    })
    .await;
    coordinator.read(|book| book.send(ToWorker::Drain { draining: true, deadline: None }));
    assert_eq!(coordinator.outcome(lease).await.acted, Some(EndReason::Drained));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_a_process_has_started_is_reported_at_once() {
    let data = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start().await;
    coordinator.read(|book| book.report_every = Some(Duration::from_secs(1000)));
    let _worker = Worker::start(config(&coordinator, data.path()));
    coordinator.registered(1).await;
    let lease = coordinator.grant(shell("exec sleep 1000"));
    until("the start to be reported", || {
        coordinator.read(|book| book.held.iter().find_map(|held| held.started_at_ms))
    })
    .await;
    coordinator.cancel(lease);
    coordinator.outcome(lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_waits_for_what_runs_and_takes_no_more() {
    let (coordinator, mut worker, _data) = pool().await;
    let side = tempfile::tempdir().expect("a directory");
    let (spec, go) = two_halves(side.path());
    let lease = coordinator.grant(spec);
    coordinator.until_output(lease, "half").await;
    worker.shutdown.request_next_level();
    until("the worker to report that it drains", || {
        coordinator.read(|book| book.condition.draining.then_some(()))
    })
    .await;
    let late = coordinator.grant(shell("true"));
    until("the late job to be declined", || {
        coordinator.read(|book| book.declined.iter().any(|(lease, _)| *lease == late).then_some(()))
    })
    .await;
    std::fs::write(go, "").expect("a file");
    assert_eq!(coordinator.outcome(lease).await.acted, None);
    (&mut worker.task).await.expect("no panic").expect("it ends by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_request_to_end_hurries() {
    let (coordinator, mut worker, _data) = pool().await;
    let mut spec = shell("trap '' TERM; echo running; while :; do sleep 1000; done");
    spec.grace = Some(Duration::from_millis(200));
    let lease = coordinator.grant(spec);
    coordinator.until_output(lease, "running").await;
    worker.shutdown.request_next_level();
    worker.shutdown.request_next_level();
    assert_eq!(coordinator.outcome(lease).await.acted, Some(EndReason::Drained));
    (&mut worker.task).await.expect("no panic").expect("it ends by itself");
    assert_eq!(processes_of(lease), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_kept_and_a_grant_is_taken_once() {
    let (coordinator, _worker, _data) = pool().await;
    let running: Vec<_> = (0..4).map(|_| coordinator.grant(shell("echo running; sleep 1000"))).collect();
    for lease in &running {
        coordinator.until_output(*lease, "running").await;
    }
    let fifth = coordinator.grant(shell("true"));
    until("the fifth to be declined", || {
        coordinator.read(|book| book.declined.first().map(|(lease, _)| assert_eq!(*lease, fifth)))
    })
    .await;
    // A reconnect repeats the grants.
    coordinator.cut();
    coordinator.registered(2).await;
    for lease in &running {
        coordinator.cancel(*lease);
        coordinator.outcome(*lease).await;
        assert_eq!(coordinator.stdout(*lease), b"running\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_says_that_it_is_the_pools_fault_when_it_cannot_be_laid_out() {
    let (coordinator, _worker, _data) = pool().await;
    let mut spec = shell("true");
    spec.source = Source::InPlace { directory: "relative".into() };
    let outcome = coordinator.outcome(coordinator.grant(spec)).await;
    assert!(matches!(outcome.ending, Ending::NotStarted(_)));
    assert_eq!(outcome.started_at_ms, None);
}

/// First message of a keeper version that does not support isolation of jobs.
const OLD_HELLO: &[u8] = br#"{"type":"hello","keeper":0,"pid":1,"kept":null}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_keeper_of_an_older_build_is_let_go_and_never_given_a_job() {
    let data = tempfile::tempdir().expect("a directory");
    let places = data.path().join("keepers");
    std::fs::create_dir(&places).expect("made");
    let lock = std::fs::File::create(places.join("0.lock")).expect("a lock");
    lock.try_lock().expect("free");
    let listener = std::os::unix::net::UnixListener::bind(places.join("0")).expect("a socket");
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the daemon");
        let length = u32::try_from(OLD_HELLO.len()).expect("short").to_le_bytes();
        stream.write_all(&[&length, OLD_HELLO].concat()).expect("it listens");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("it hangs up");
        heard
    });
    let coordinator = Coordinator::start().await;
    let _worker = Worker::start(config(&coordinator, data.path()));
    coordinator.registered(1).await;
    // Several jobs, so that each keeper that counts as free gets one.
    let leases: Vec<_> = (0..4).map(|_| coordinator.grant(shell("echo well"))).collect();
    for lease in leases {
        assert_eq!(coordinator.outcome(lease).await.ending, Ending::Exited { code: 0 });
        assert_eq!(coordinator.stdout(lease), b"well\n");
    }
    let heard = tokio::task::spawn_blocking(|| heard.join()).await.expect("it runs").expect("it heard");
    assert_eq!(heard, b"", "it received no request");
}
