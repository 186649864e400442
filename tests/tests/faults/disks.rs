//! Disks without room.

use crate::bad_peers::register;
use buildpool_tests::{Finished, Peer, Pool, PoolBuilder, Workload, wait_for, wait_until};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

fn detached(pool: &Pool) -> Finished {
    pool.buildpool(&["run", "--no-snapshot", "--detach", "--", "true"])
}

#[test]
fn a_coordinator_without_room_refuses_new_jobs_keeps_what_runs_and_goes_on_by_itself() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("coordinator", 24 << 20).start_on_disk() else { return };
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, 6_000_000, Duration::from_secs(3), &[]);
    job.wait_for_bytes(500_000);
    pool.disk().unwrap().fill();
    let refused = wait_for("a job is refused", || Some(detached(&pool)).filter(|asked| asked.code() != 0));
    assert_eq!(refused.code(), 125, "{refused}");
    assert!(refused.err().contains("nothing new is accepted"), "{refused}");
    // Whoever asks is answered all the same.
    let shown = pool.job(&job.id);
    assert_ne!(shown["state"], "done", "{shown:#}");
    pool.buildpool(&["jobs"]).expect(0);
    pool.buildpool(&["workers"]).expect(0);
    wait_until("the job ends by itself", || job.has_finished());
    assert_ne!(pool.job(&job.id)["state"], "done", "its log can't be whole");
    pool.disk().unwrap().empty();
    workload.wait(&pool);
    wait_until("jobs are taken again", || detached(&pool).code() == 0);
    workload.check(&pool);
    assert_eq!(job.starts(), ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_heard_while_records_can_not_be_written_so_that_nothing_is_cut_off() {
    let Some(pool) = PoolBuilder::default().small_disk("coordinator", 24 << 20).start_on_disk() else {
        return;
    };
    let enter_by = async |message: &serde_json::Value| {
        let mut peer = Peer::dial(pool.address(), "/v1/worker", Some(pool.worker_token())).await.unwrap();
        peer.say_json(message).await;
        peer
    };
    let newcomer = |number: usize| register(&uuid::Uuid::now_v7().to_string(), &format!("odd-{number}"));
    let known = newcomer(0);
    let mut worker = enter_by(&known).await;
    assert_eq!(worker.hear().await.unwrap()["type"], "registered");
    pool.disk().unwrap().fill();
    let mut others = Vec::new();
    // Each newcomer is a record; there is room for some in what the log of the database has already.
    while !detached(&pool).err().contains("can't write its records") {
        others.push(enter_by(&newcomer(1 + others.len())).await);
        assert!(others.len() < 2_000, "records are still written");
    }
    let heard = json!({"type": "desired", "desired": []});
    let report = json!({"type": "report", "held": [], "condition": {}});
    for _ in 0..3 {
        worker.say_json(&report).await;
        assert_eq!(worker.hear().await.unwrap(), heard);
    }
    // One whose record stuck, one that loses its connection, and one that nobody knows yet are heard as well, again and again.
    drop(worker);
    let mut back = enter_by(&known).await;
    let mut late = enter_by(&newcomer(2_000)).await;
    let stuck = others.last_mut().unwrap();
    for peer in [&mut *stuck, &mut back, &mut late] {
        assert_eq!(peer.hear().await.unwrap(), heard);
        peer.say_json(&report).await;
        assert_eq!(peer.hear().await.unwrap(), heard);
    }
    pool.disk().unwrap().empty();
    for peer in [stuck, &mut back, &mut late] {
        assert_eq!(peer.hear().await.unwrap()["type"], "registered");
        peer.say_json(&report).await;
        assert_eq!(peer.hear().await.unwrap(), heard);
    }
}

#[test]
fn a_worker_without_room_holds_its_job_back_and_goes_on_by_itself() {
    let builder = PoolBuilder::default().worker(&["--slots", "2"]);
    let Some(pool) = builder.small_disk("w0", 24 << 20).start_on_disk() else { return };
    let mut workload = Workload::new(&pool);
    let job = workload.submit(&pool, 2_000_000, Duration::from_secs(2), &[]);
    job.wait_for_bytes(200_000);
    pool.disk().unwrap().fill();
    let second = workload.submit(&pool, 1_000, Duration::ZERO, &[]);
    // What could not be laid out waits, says for what, and can be cancelled.
    let waits = |id: &str| {
        let reason = pool.job(id)["waiting"]["reason"].as_str().unwrap_or_default().to_owned();
        reason.contains("quarantined")
    };
    wait_until("the second waits for its worker", || waits(&second.id));
    let workers = pool.buildpool(&["workers", "--json"]).expect(0).json();
    let reason = workers[0]["quarantined"].as_str().unwrap();
    assert!(reason.contains("No space left"), "{workers:#}");
    let third = detached(&pool).expect(0).out().trim().to_owned();
    pool.buildpool(&["cancel", &third]).expect(0);
    wait_until("the third is cancelled", || pool.job(&third)["verdict"] == "cancelled");
    assert_eq!(pool.job(&job.id)["state"], "running");
    pool.disk().unwrap().empty();
    workload.wait(&pool);
    workload.check(&pool);
    assert_eq!((job.starts().len(), second.starts().len()), (1, 1));
}

#[test]
fn a_job_that_one_worker_has_no_room_for_runs_on_another_one() {
    let builder = PoolBuilder::default().worker(&["--slots", "1"]).worker(&["--slots", "1"]);
    let Some(pool) = builder.small_disk("w0", 8 << 20).start_on_disk() else { return };
    let git = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).status().unwrap();
    assert!(git.success());
    let mut large = vec![0; 12 << 20];
    File::open("/dev/urandom").unwrap().read_exact(&mut large).unwrap();
    std::fs::write(pool.place().file("large"), large).unwrap();
    // Both are free: by its name the one without room is asked first.
    let asked = pool.buildpool(&["run", "--output", "json", "--", "wc", "-c", "large"]).expect(0);
    let shown = asked.json();
    assert_eq!((&shown["verdict"], &shown["worker"]), (&"passed".into(), &"w1".into()), "{shown:#}");
    assert_eq!(shown["attempt"], 2, "{shown:#}");
    let parts = std::fs::read_dir(pool.data("w0").join("projects")).into_iter().flatten().flatten();
    let parts = parts.filter_map(|project| std::fs::read_dir(project.path().join("incoming")).ok());
    assert_eq!(parts.flatten().count(), 0, "what came of it takes no room");
}
