//! Tests of the directories of attempts that later ones use again.

mod support;

use buildpool_protocol::ids::Lease;
use buildpool_protocol::outcome::Ending;
use std::path::Path;
use support::{Coordinator, pool, shell, until};

/// Runs a job, waits until its worker keeps so many `spares` and has deleted the attempt, and returns its output.
async fn run(coordinator: &Coordinator, data: &Path, text: &str, spares: usize) -> String {
    let lease: Lease = coordinator.grant(shell(text));
    assert_eq!(coordinator.outcome(lease).await.ending, Ending::Exited { code: 0 });
    let entries = |name| std::fs::read_dir(data.join(name)).into_iter().flatten().count();
    until("the attempt to be deleted", || {
        (entries("attempts") == 0 && entries("spare") == spares).then_some(())
    })
    .await;
    String::from_utf8(coordinator.stdout(lease)).expect("text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_uses_the_directory_of_an_ended_one_and_finds_no_file_of_it() {
    let (coordinator, _worker, data) = pool().await;
    let list = "ls -di ..; test -z \"$(ls -A)\"";
    let inode = run(&coordinator, data.path(), list, 1).await;
    assert_eq!(run(&coordinator, data.path(), list, 1).await, inode);
    let leavings =
        ["touch left", "mkdir left", "ln -s /etc left", "touch ../left", "chmod 755 ..", "sleep 1000 &"];
    for left in leavings {
        run(&coordinator, data.path(), left, 0).await;
        run(&coordinator, data.path(), list, 1).await;
    }
    run(&coordinator, data.path(), "chmod 711 .", 1).await;
    run(&coordinator, data.path(), "test \"$(stat -c %a . || stat -f %Lp .)\" != 711", 1).await;
}
