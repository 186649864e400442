//! Tests of backup and restore of a coordinator, and of a downgrade.

use buildpool_tests::{Place, Pool, PoolBuilder};
use std::path::Path;
use std::process::Command;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Position of SQLite's `user_version`, the format number, in the first page of a database.
const USER_VERSION: std::ops::Range<usize> = 60..64;

/// Makes a database look as if a much newer version had written it.
fn age(database: &Path) {
    let mut bytes = std::fs::read(database).unwrap();
    bytes[USER_VERSION].copy_from_slice(&1_000_u32.to_be_bytes());
    std::fs::write(database, bytes).unwrap();
}

#[test]
fn a_backup_that_was_made_while_jobs_ran_brings_them_all_to_their_end() {
    let mut pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    let go = pool.place().file("go");
    let git = Command::new("git").args(["init", "-q"]).current_dir(pool.place().work()).output().unwrap();
    assert!(git.status.success());
    std::fs::write(pool.place().file("answer"), "from the snapshot\n").unwrap();
    let over = pool.buildpool(&["run", "--output", "json", "--artifact", "answer", "--", "cat", "answer"]);
    let over = over.expect(0).json()["job_id"].as_str().unwrap().to_owned();
    let wait = format!("echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo ended", text(&go));
    let start = |arguments: &[&str]| {
        let all: Vec<&str> = ["run", "--detach"].iter().chain(arguments).copied().collect();
        pool.buildpool(&all).expect(0).out().trim().to_owned()
    };
    let running = start(&["--no-snapshot", "--", "sh", "-c", &wait]);
    pool.wait_for_state(&running, "running");
    let queued = start(&["--", "cat", "answer"]);

    let (data, copy) = (pool.data("coordinator"), pool.place().home().join("backup"));
    let made = pool.buildpool(&["backup", text(&copy), "--data-dir", text(&data), "--json"]).expect(0).json();
    assert_eq!(made["jobs"], 3, "{made}");
    let ended =
        pool.buildpool(&["token", "list", "--json"]).expect(0).json()[1]["id"].as_str().unwrap().to_owned();
    let again = pool.buildpool(&["backup", text(&copy), "--data-dir", text(&data)]).expect(1);
    assert!(again.err().contains("is not empty"), "{again}");

    pool.kill_coordinator();
    std::fs::rename(&data, pool.place().home().join("lost")).unwrap();
    let restored = pool.buildpool(&["restore", text(&copy), "--data-dir", text(&data)]).expect(0);
    assert!(restored.err().contains(&ended) && restored.err().contains("token revoke ID"), "{restored}");
    pool.start_coordinator_again();
    pool.wait_for_workers();
    assert_eq!(pool.buildpool(&["logs", &over]).expect(0).out(), "from the snapshot\n");
    let fetched = pool.place().home().join("fetched");
    pool.buildpool(&["artifacts", &over, "--output", text(&fetched)]).expect(0);
    assert_eq!(std::fs::read_to_string(fetched.join("answer")).unwrap(), "from the snapshot\n");
    std::fs::write(&go, "").unwrap();
    assert_eq!(pool.wait_for_state(&running, "done")["verdict"], "passed");
    assert_eq!(pool.buildpool(&["logs", &running]).expect(0).out(), "begun\nended\n");
    assert_eq!(pool.wait_for_state(&queued, "done")["verdict"], "passed");
    assert_eq!(pool.buildpool(&["logs", &queued]).expect(0).out(), "from the snapshot\n");
}

#[test]
fn what_a_newer_version_wrote_is_refused_and_the_backup_from_before_it_is_the_way_back() {
    let mut pool = Pool::start(1);
    pool.shell("echo kept").expect(0);
    let (data, copy) = (pool.data("coordinator"), pool.place().home().join("backup"));
    pool.buildpool(&["backup", text(&copy), "--data-dir", text(&data)]).expect(0);
    pool.kill_coordinator();
    let upgraded = pool.place().home().join("upgraded");
    pool.buildpool(&["restore", text(&copy), "--data-dir", text(&upgraded)]).expect(0);
    age(&upgraded.join("records.db"));
    for arguments in [
        &["coordinator", "--listen", "127.0.0.1:0", "--data-dir", text(&upgraded)][..],
        &["backup", "elsewhere", "--data-dir", text(&upgraded)],
    ] {
        let refused = pool.buildpool(arguments);
        assert_ne!(refused.code(), 0, "{refused}");
        assert!(refused.err().contains("format 1000"), "{refused}");
        assert!(refused.err().contains("restore a backup that was made before the upgrade"), "{refused}");
    }
    std::fs::remove_dir_all(&data).unwrap();
    pool.buildpool(&["restore", text(&copy), "--data-dir", text(&data)]).expect(0);
    pool.start_coordinator_again();
    pool.wait_for_workers();
    assert_eq!(pool.buildpool(&["jobs", "--json"]).expect(0).json().as_array().unwrap().len(), 1);
    pool.shell("echo goes on").expect(0);
}

#[test]
fn what_is_no_data_directory_is_not_backed_up() {
    let place = Place::new();
    let refused = place.buildpool(&["backup", "copy", "--data-dir", text(&place.work())]).expect(1);
    assert!(refused.err().contains("is neither a data directory of a coordinator"), "{refused}");
    assert!(!place.file("copy").exists());
}
