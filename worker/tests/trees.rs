//! Tests process trees that resist termination.

mod support;

use buildpool_protocol::outcome::{EndReason, Ending};
use buildpool_protocol::spec::JobSpec;
use std::time::Duration;
use support::{pool, processes_of, shell};

fn impatient(text: &str) -> JobSpec {
    let mut spec = shell(text);
    spec.grace = Some(Duration::from_millis(100));
    spec
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_ignores_sigterm_is_killed_whole() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(impatient(
        "trap '' TERM; sh -c 'trap \"\" TERM; echo child; sleep 1000; sleep 1000' & echo parent; sleep 1000; sleep 1000",
    ));
    coordinator.until_output(lease, "child").await;
    coordinator.until_output(lease, "parent").await;
    coordinator.cancel(lease);
    let outcome = coordinator.outcome(lease).await;
    let acted = EndReason::Cancelled { by: "tester".into(), reason: "not wanted".into() };
    assert_eq!(outcome.acted, Some(acted));
    assert!(matches!(outcome.ending, Ending::Signaled { ref name, .. } if name == "SIGKILL"));
    assert_eq!(processes_of(lease), []);
    assert_eq!(outcome.survivors, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_obeys_leaves_a_child_that_does_not() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator
        .grant(impatient("sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1000; done' & sleep 1000"));
    coordinator.until_output(lease, "ready").await;
    coordinator.cancel(lease);
    let outcome = coordinator.outcome(lease).await;
    assert!(matches!(outcome.ending, Ending::Signaled { ref name, .. } if name == "SIGTERM"));
    assert_eq!(processes_of(lease), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_fork_while_they_are_killed_are_all_killed() {
    let (coordinator, _worker, data) = pool().await;
    // Each generation forks the next one and exits, so no process is found twice. All of them hold
    // a lock, because a process table can also miss a live process.
    let lock = data.path().join("held-by-all");
    std::fs::write(&lock, "").unwrap();
    // The loop is finite, in case the test is killed first.
    let lease = coordinator.grant(impatient(&format!(
        "exec perl -MPOSIX -e 'open(F, \">>\", \"{}\"); flock(F, 2); $|=1; $SIG{{TERM}}=\"IGNORE\"; print \"running\\n\"; for(;;){{ my $p=fork; exit if $p or time-$^T>300; setsid(); }}'",
        lock.display()
    )));
    coordinator.until_output(lease, "running").await;
    let held = std::fs::File::open(&lock).unwrap();
    assert!(held.try_lock().is_err(), "they hold it");
    coordinator.cancel(lease);
    let outcome = coordinator.outcome(lease).await;
    held.try_lock().unwrap();
    assert_eq!(processes_of(lease), []);
    assert_eq!(outcome.survivors, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_left_of_many_that_fork_after_their_leader_is_gone() {
    let (coordinator, _worker, data) = pool().await;
    // After SIGTERM each process forks the next one and exits, sixty times, in the group of a
    // leader that has exited. The last ones stay, so the job ends only when all are killed.
    let there = data.path().join("there");
    std::fs::write(&there, "").unwrap();
    let lease = coordinator.grant(impatient(&format!(
        "perl -e '$SIG{{TERM}}=sub {{ $go=1 }}; for(1..40){{ last if !($p=fork) }} exit if $p; open(F, \">>\", \"{}\"); syswrite(F, \"x\"); \
         select(undef, undef, undef, 0.01) until $go or time-$^T>300; for(1..60){{ exit if fork }} sleep 300' & \
         while [ \"$(wc -c < {0})\" != 40 ]; do sleep 0.01; done; echo ready; sleep 1000",
        there.display()
    )));
    coordinator.until_output(lease, "ready").await;
    coordinator.cancel(lease);
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(processes_of(lease), []);
    assert_eq!(outcome.survivors, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_is_killed_in_time_however_many_have_ended() {
    let (coordinator, _worker, data) = pool().await;
    let (tried, late) = (data.path().join("tried"), data.path().join("late"));
    let mut spec = shell(&format!(
        "exec perl -MTime::HiRes=time,sleep -e '$|=1; $SIG{{TERM}}=sub {{ kill STOP=>getppid; $asked=time }}; print \"ready\\n\"; \
         sleep 0.01 until $asked; pipe(R, W); \
         unless(fork){{ for(1..1000){{ exit unless $p=fork; syswrite(W, pack(\"N\", $p)) }} exit }} \
         wait; sleep 0.01 until time>$asked+1.1; read(R, $all, 4000); @ended=unpack(\"N*\", $all); open(T, \">\", \"{}\"); \
         kill CONT=>getppid; sleep 0.0001 until 20<grep {{ !kill 0, $_ }} @ended; open(L, \">\", \"{}\"); sleep 1000'",
        tried.display(),
        late.display()
    ));
    // The keeper is stopped after SIGTERM until the grace period is over and it has inherited a
    // thousand exited processes.
    spec.grace = Some(Duration::from_secs(1));
    let lease = coordinator.grant(spec);
    coordinator.until_output(lease, "ready").await;
    coordinator.cancel(lease);
    let outcome = coordinator.outcome(lease).await;
    assert!(matches!(outcome.ending, Ending::Signaled { ref name, .. } if name == "SIGKILL"), "{outcome:?}");
    assert!(!late.exists(), "their statuses were taken before it was killed");
    assert_eq!(processes_of(lease), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_closed_pipes_is_found_reported_and_ended() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(shell(
        "perl -MPOSIX -e 'exit if fork; setsid(); close STDIN; close STDOUT; close STDERR; sleep 1000' & wait; echo done",
    ));
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(outcome.acted, None);
    assert_eq!(outcome.leaked.len(), 1, "{:?}", outcome.leaked);
    assert_eq!(outcome.leaked[0].command, "perl");
    assert_eq!(coordinator.stdout(lease), b"done\n");
    assert_eq!(processes_of(lease), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grandchild_that_holds_the_pipes_is_not_waited_for_for_ever() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(shell("sleep 1000 & echo done"));
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(outcome.leaked.len(), 1, "{:?}", outcome.leaked);
    assert_eq!(coordinator.stdout(lease), b"done\n");
    assert_eq!(processes_of(lease), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_grandchild_writes_after_the_exit_is_kept() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(shell("(sleep 0.2; echo late) & echo early; exit 5"));
    let outcome = coordinator.outcome(lease).await;
    assert_eq!(outcome.ending, Ending::Exited { code: 5 });
    assert_eq!(coordinator.stdout(lease), b"early\nlate\n");
    assert_eq!(outcome.leaked, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_tree_is_ended_too() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(impatient("echo stopping; kill -STOP $$; echo never"));
    coordinator.until_output(lease, "stopping").await;
    coordinator.cancel(lease);
    coordinator.outcome(lease).await;
    assert_eq!(coordinator.stdout(lease), b"stopping\n");
    assert_eq!(processes_of(lease), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_from_outside_is_not_ours() {
    let (coordinator, _worker, _data) = pool().await;
    let lease = coordinator.grant(shell("echo $$; sleep 1000"));
    coordinator.until_output(lease, "\n").await;
    let pid =
        String::from_utf8(coordinator.stdout(lease)).expect("a number").trim().parse().expect("a number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
        .expect("it runs");
    let outcome = coordinator.outcome(lease).await;
    assert!(matches!(outcome.ending, Ending::Signaled { ref name, .. } if name == "SIGKILL"));
    assert_eq!(outcome.acted, None);
    assert_eq!(processes_of(lease), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_at_any_moment_has_one_winner() {
    let (coordinator, _worker, _data) = pool().await;
    for moment in 0..40_u64 {
        let lease = coordinator.grant(shell("echo begun; sleep 0.01"));
        tokio::time::sleep(Duration::from_micros(moment * 500)).await;
        coordinator.cancel(lease);
        coordinator.cancel(lease);
        let outcome = coordinator.outcome(lease).await;
        match (&outcome.ending, &outcome.acted) {
            (Ending::Exited { code: 0 }, None)
            | (Ending::NotStarted(_) | Ending::Signaled { .. }, Some(EndReason::Cancelled { .. })) => {}
            // The job exited between the recorded decision and the signal.
            (Ending::Exited { .. }, Some(EndReason::Cancelled { .. })) => {}
            other => panic!("cancelled after {moment} half milliseconds: {other:?}"),
        }
        assert_eq!(processes_of(lease), []);
    }
}
