//! Tests processes that cannot be terminated.

mod support;

use buildpool_protocol::outcome::Ending;
use buildpool_worker::platform;
use std::path::PathBuf;
use std::time::Duration;
use support::{pool, processes_of, shell, until};

/// A control group (version 1). Its processes cannot be killed while they are frozen.
struct Freezer(PathBuf);

impl Freezer {
    /// Creates the group. Prints a note and returns None if the system has no such groups.
    fn make() -> Option<Self> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/freezer/buildpool-test-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&path) {
            eprintln!("SKIPPED: only where processes can be frozen ({error})");
            return None;
        }
        Some(Self(path))
    }

    fn write(&self, name: &str, value: &str) {
        std::fs::write(self.0.join(name), value).expect("the system takes it");
    }

    async fn freeze(&self, pid: i32) {
        self.write("cgroup.procs", &pid.to_string());
        self.write("freezer.state", "FROZEN");
        until("it to be frozen", || {
            let state = std::fs::read_to_string(self.0.join("freezer.state")).expect("a state");
            (state.trim() == "FROZEN").then_some(())
        })
        .await;
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_could_not_be_ended_keeps_the_worker_from_jobs_until_it_is_gone_and_its_keeper_with_it() {
    let Some(freezer) = Freezer::make() else { return };
    let (coordinator, _worker, _data) = pool().await;
    coordinator.read(|book| book.report_every = Some(Duration::from_millis(50)));
    coordinator.read(support::CoordinatorState::welcome);
    let mut spec = shell("echo $$; sleep 1000; sleep 1000");
    spec.grace = Some(Duration::from_millis(100));
    let lease = coordinator.grant(spec);
    coordinator.until_output(lease, "\n").await;
    let leader: i32 =
        String::from_utf8(coordinator.stdout(lease)).expect("a number").trim().parse().expect("a number");
    let keeper = platform::process(leader).expect("it runs").parent;
    freezer.freeze(leader).await;
    coordinator.cancel(lease);
    let outcome = coordinator.outcome(lease).await;
    assert!(matches!(outcome.ending, Ending::Unobserved { .. }), "{:?}", outcome.ending);
    for pid in [leader, keeper] {
        assert!(outcome.survivors.iter().any(|survivor| survivor.pid == pid), "{:?}", outcome.survivors);
    }
    let quarantine = || coordinator.read(|book| book.condition.quarantined.clone());
    let reason = until("the worker to report it", quarantine).await;
    assert!(reason.contains(&leader.to_string()), "{reason}");
    assert!(platform::process(keeper).is_some_and(|keeper| !keeper.zombie), "it goes on to end them");
    freezer.write("freezer.state", "THAWED");
    until("the worker to be free", || quarantine().is_none().then_some(())).await;
    // The reason names only some processes, but the quarantine lasts until all of them are gone.
    assert!(
        platform::process(keeper).is_none_or(|keeper| keeper.zombie),
        "the keeper goes before the worker is free"
    );
    assert_eq!(processes_of(lease), []);
    let next = coordinator.outcome(coordinator.grant(shell("true"))).await;
    assert_eq!(next.ending, Ending::Exited { code: 0 });
}
