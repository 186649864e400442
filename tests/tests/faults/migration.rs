//! Tests of the move from a data directory to PostgreSQL and a bucket, and back.

use buildpool_test_postgres::Postgres;
use buildpool_test_s3::S3;
use buildpool_tests::{Pool, PoolBuilder};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns the checksum of each file below a directory, except the databases: reading one after a crash of its writer
/// tidies its files.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_str().unwrap().to_owned());
        if name == "uploads" || name == "lock" || name.contains(".db") {
            continue;
        }
        if path.is_dir() {
            all.extend(files(&path).into_iter().map(|(below, hash)| (format!("{name}/{below}"), hash)));
        } else {
            all.insert(name, blake3::hash(&fs::read(&path).unwrap()).to_hex().to_string());
        }
    }
    all
}

/// Checks the records, logs and artifacts of the jobs.
fn check(pool: &Pool, over: &str, before: &serde_json::Value) {
    assert_eq!(&pool.job(over), before);
    let log = pool.buildpool(&["logs", over]).expect(0).out();
    assert_eq!((log.lines().count(), log.lines().last()), (200_000, Some("200000")));
    let place = pool.place().home().join(format!("fetched-{}", uuid::Uuid::now_v7()));
    pool.buildpool(&["artifacts", over, "--output", place.to_str().unwrap()]).expect(0);
    assert_eq!(fs::read_to_string(place.join("made")).unwrap(), "one\n");
    let tokens = pool.buildpool(&["token", "list", "--json"]).expect(0).json();
    assert!(tokens.as_array().unwrap().len() >= 2, "{tokens}");
}

#[test]
fn a_pool_moves_to_postgresql_and_a_bucket_and_back_although_the_move_is_killed() {
    let (Some(postgres), Some(server)) = (Postgres::start(), S3::shared()) else { return };
    let mut pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    for (name, value) in server.environment() {
        pool.set(&name, value);
    }
    let work = pool.place().work();
    assert!(Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap().success());
    fs::write(pool.place().file("answer"), "one\n").unwrap();
    let script = "seq 1 200000; cp answer made";
    let over = ["run", "--output", "json", "--artifact", "made", "--", "sh", "-c", script];
    let over = pool.buildpool(&over).expect(0).json()["job_id"].as_str().unwrap().to_owned();
    pool.kill_worker(0);
    let queued = pool.buildpool(&["run", "--detach", "--wait-for-worker", "1h", "--", "cat", "answer"]);
    let queued = queued.expect(0).out().trim().to_owned();
    let before = pool.job(&over);
    pool.kill_coordinator();

    let data = pool.data("coordinator");
    let intact = files(&data);
    let (database, objects) = (postgres.database(), format!("s3://{}/pool", server.bucket()));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let forth =
        ["coordinator", "migrate", "--to", &database, "--objects", &objects, "--from-data-dir", &text(&data)];
    killed_in_a_copy(&pool, &forth, &postgres, &database);
    // A command that is killed while it copies a snapshot leaves such a file.
    fs::write(data.join("transfer/incoming/shared-0.pack"), "part").unwrap();
    let moved = pool.buildpool(&[&forth[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&moved["rows"]["jobs"], moved["objects"].as_u64()), (&2.into(), Some(3)), "{moved}");
    assert_eq!(files(&data), intact, "the source stays as it is");

    let config = pool.place().home().join("shared.toml");
    fs::write(&config, format!("[store]\nurl = \"{database}\"\nobjects = \"{objects}\"\n")).unwrap();
    let old = data.with_extension("old");
    fs::rename(&data, &old).unwrap();
    pool.set_coordinator_arguments(&["--config", &text(&config)]);
    pool.start_coordinator_again();
    // The client tries again if its connection ends when the coordinator begins to lead.
    buildpool_tests::wait_until("it leads", || pool.buildpool(&["jobs"]).status.success());
    check(&pool, &over, &before);
    let refused =
        pool.buildpool(&[&forth[..4], &["--objects", &objects, "--from-data-dir", &text(&old)]].concat());
    assert!(refused.expect(1).err().contains("a coordinator uses it"));
    pool.kill_coordinator();
    // Its lease runs out.
    let back = data.with_extension("back");
    let target = format!("file://{}", text(&back));
    let back_again = ["coordinator", "migrate", "--to", &target, "--config", &text(&config)];
    buildpool_tests::wait_until("the lease has run out", || {
        killed_again_and_again(&pool, &back_again);
        pool.buildpool(&back_again).status.success()
    });
    fs::rename(&data, data.with_extension("cache")).unwrap();
    fs::rename(&back, &data).unwrap();
    pool.set_coordinator_arguments(&[]);
    pool.start_coordinator_again();
    check(&pool, &over, &before);
    pool.start_worker(0);
    pool.wait_for_state(&queued, "done");
    assert_eq!(pool.buildpool(&["logs", &queued]).expect(0).out(), "one\n");
}

/// Kills the command while it copies: its mark is in the target, and the copy is not complete. The objects are
/// at a server that never answers, so that the copy can't end before it is killed.
fn killed_in_a_copy(pool: &Pool, arguments: &[&str], postgres: &Postgres, database: &str) {
    let name = database.rsplit('/').next().unwrap();
    // Each fails by a division by zero if it is not so.
    let is_copying =
        || postgres.psql(name, "SELECT 1 / count(*) FROM meta WHERE key = 'migrating' AND value = 1");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = pool.command(arguments);
    command.envs(S3::environment_at(silent.local_addr().unwrap().port()));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    buildpool_tests::wait_until("the copy is under way", || {
        is_copying() || child.try_wait().unwrap().is_some()
    });
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the copy was under way: {status}");
    assert!(is_copying(), "the copy is not complete");
    killed_again_and_again(pool, arguments);
}

/// Kills the command at several moments of its run.
fn killed_again_and_again(pool: &Pool, arguments: &[&str]) {
    for pause in [30, 100, 200, 400] {
        let mut command = pool.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
