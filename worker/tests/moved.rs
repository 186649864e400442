//! Tests a worker's directory that is renamed or removed while the daemon is stopped and jobs run.

mod support;

use buildpool_protocol::outcome::{EndReason, Ending};
use buildpool_protocol::spec::OnLost;
use buildpool_worker::platform::process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use support::{Coordinator, Daemon, processes_of, shell, until};

/// Process id of the parent, which is the process's keeper or guardian.
fn keeper_of(pid: i32) -> i32 {
    process(pid).expect("it runs").parent
}

fn wait_for(go: &Path) -> String {
    format!("echo running; while [ ! -e {} ]; do sleep 0.01; done", go.display())
}

/// Removes the directory for sockets with paths too long for the worker's directory.
fn remove_sockets_of(data: &Path) {
    let metadata = std::fs::metadata(data.join("keepers")).expect("it is there");
    let id = [metadata.dev().to_le_bytes(), metadata.ino().to_le_bytes()].concat();
    let own = nix::unistd::Uid::effective();
    let path = format!("/tmp/buildpool-{own}-{}", &blake3::hash(&id).to_hex()[..16]);
    std::fs::remove_dir_all(path).expect("they lie there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_end_and_are_told_when_the_directory_was_renamed_while_they_ran() {
    renamed("w0", "w0-moved").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_with_paths_that_are_too_long_for_sockets() {
    renamed(&"w".repeat(120), &"v".repeat(130)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_with_a_path_that_becomes_too_long() {
    renamed("w0", &"v".repeat(130)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_with_a_path_that_becomes_short() {
    renamed(&"w".repeat(120), "v0").await;
}

async fn renamed(before: &str, after: &str) {
    let is_long = before.len().max(after.len()) > 100;
    let place = tempfile::tempdir().expect("a directory");
    let (before, after) = (place.path().join(before), place.path().join(after));
    let (go, report) = (place.path().join("go"), "<testsuite name='s'><testcase name='t'/></testsuite>");
    std::fs::create_dir(&before).expect("made");
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, &before);
    let mut spec = shell(&format!("{}; echo \"{report}\" > report.xml; echo err >&2", wait_for(&go)));
    spec.reports = vec!["report.xml".to_owned()];
    let ends_by_itself = coordinator.grant(spec);
    let is_cancelled = coordinator.grant(shell("echo running; sleep 1000"));
    for lease in [ends_by_itself, is_cancelled] {
        coordinator.until_output(lease, "running").await;
    }
    daemon.kill();
    std::fs::rename(&before, &after).expect("one file system");
    let next = Daemon::start(&coordinator, &after);
    coordinator.registered(2).await;
    coordinator.cancel(is_cancelled);
    let acted = coordinator.outcome(is_cancelled).await.acted;
    assert!(matches!(acted, Some(EndReason::Cancelled { .. })), "{acted:?}");
    std::fs::write(&go, "").expect("a file");
    let outcome = coordinator.outcome(ends_by_itself).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(coordinator.stdout(ends_by_itself), b"running\n");
    assert_eq!(outcome.evidence.test_reports.len(), 1, "its files are found where they are now");
    // The keepers can also run further jobs.
    for _ in 0..3 {
        let outcome = coordinator.outcome(coordinator.grant(shell("true"))).await;
        assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    }
    assert!(!before.exists(), "nothing is made under the old name");
    next.kill();
    if is_long {
        remove_sockets_of(&after);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_ended_is_told_while_no_keeper_can_be_reached() {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, data.path());
    let go = data.path().join("go");
    let ends = coordinator.grant(shell(&wait_for(&go)));
    let stays = coordinator.grant(shell("echo running; sleep 1000"));
    for lease in [ends, stays] {
        coordinator.until_output(lease, "running").await;
    }
    let leader = processes_of(stays).iter().map(|process| process.pid).min().expect("it runs");
    let keeper = Pid::from_raw(keeper_of(leader));
    daemon.kill();
    for entry in std::fs::read_dir(data.path().join("keepers")).expect("it is there") {
        let path = entry.expect("a name").path();
        if path.extension().is_none() {
            match std::fs::remove_file(path) {
                // A keeper without a job ends with its daemon, and removes its socket itself.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.expect("a socket"),
            }
        }
    }
    let next = Daemon::start(&coordinator, data.path());
    coordinator.registered(2).await;
    std::fs::write(&go, "").expect("a file");
    assert_eq!(coordinator.outcome(ends).await.ending, Ending::Exited { code: 0 });
    assert!(coordinator.read(|book| !book.outcomes.contains_key(&stays)), "its keeper lives");
    kill(keeper, Signal::SIGKILL).expect("it is there");
    let ending = coordinator.outcome(stays).await.ending;
    assert!(matches!(ending, Ending::Unobserved { .. }), "{ending:?}");
    assert_eq!(processes_of(stays), []);
    next.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_ends_with_its_job_when_its_directory_was_removed() {
    let (data, side) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, data.path());
    // The first job has no limit that would end it. The second one ends by itself.
    let mut waits = shell("echo running; sleep 1000");
    waits.on_lost = OnLost::Wait;
    let go = side.path().join("go");
    let leases = [coordinator.grant(waits), coordinator.grant(shell(&wait_for(&go)))];
    let mut keepers = Vec::new();
    for lease in leases {
        coordinator.until_output(lease, "running").await;
        let leader = processes_of(lease).iter().map(|process| process.pid).min().expect("it runs");
        let keeper = keeper_of(leader);
        keepers.push(keeper);
        if cfg!(target_os = "linux") {
            // The guardian of the keeper.
            keepers.push(keeper_of(keeper));
        }
    }
    daemon.kill();
    std::fs::write(&go, "").expect("a file");
    until("the directory to be removed", || std::fs::remove_dir_all(data.path()).ok()).await;
    for keeper in keepers {
        until("the keeper to end", || {
            let is_gone = process(keeper).is_none_or(|process| process.zombie);
            is_gone.then_some(())
        })
        .await;
    }
    for lease in leases {
        assert_eq!(processes_of(lease), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_directory_was_removed_under_its_daemon_has_an_end_that_nobody_saw() {
    let data = tempfile::tempdir().expect("a directory");
    let coordinator = Coordinator::start().await;
    let daemon = Daemon::start(&coordinator, data.path());
    let lease = coordinator.grant(shell("echo running >&2; cd /; exec sleep 1000 > /dev/null 2>&1"));
    until("the job to run", || (!processes_of(lease).is_empty()).then_some(())).await;
    coordinator.until_output(lease, "running").await;
    coordinator.read(|book| drop(book.logs.remove(&lease.attempt)));
    std::fs::remove_dir_all(data.path().join("attempts")).expect("it is there");
    let ending = coordinator.outcome(lease).await.ending;
    assert!(matches!(ending, Ending::Unobserved { .. }), "it had begun: {ending:?}");
    assert_eq!(processes_of(lease), []);
    daemon.kill();
}
