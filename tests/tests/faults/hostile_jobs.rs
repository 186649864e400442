//! Tests of jobs that leave files that could prevent the worker from running other jobs.

use buildpool_tests::{Pool, PoolBuilder, wait_until};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Creates nested directories deeper than the maximum path length.
const DEEP: &str = "import os\nfor _ in range(20000):\n os.mkdir('d')\n os.chdir('d')\n";

/// Creates a repository with one file in the directory where commands are started.
fn project(pool: &Pool) {
    let git = |arguments: &[&str]| {
        let run = Command::new("git").args(arguments).current_dir(pool.place().work()).status().unwrap();
        assert!(run.success());
    };
    git(&["init", "-q"]);
    fs::write(pool.place().file("file"), "content\n").unwrap();
    git(&["add", "."]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "first"]);
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

#[test]
fn directories_deeper_than_any_path_stop_neither_the_next_job_nor_a_start() {
    let mut pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    project(&pool);
    let attempts = pool.data("w0").join("attempts");
    pool.buildpool(&["run", "--no-snapshot", "--", "python3", "-c", DEEP]).expect(0);
    wait_until("the attempt's directory is removed", || entries(&attempts) == 0);
    pool.buildpool(&["run", "--", "python3", "-c", DEEP]).expect(0);
    let next = pool.buildpool(&["run", "--", "sh", "-c", "ls; git status --short"]).expect(0);
    assert_eq!(next.out(), "file\n", "nothing of the job before is left: {next}");
    // An attempt that a dead worker left without a record is removed at the start.
    pool.buildpool(&["run", "--", "python3", "-c", DEEP]).expect(0);
    pool.kill_worker(0);
    let left = attempts.join("left");
    fs::create_dir(&left).unwrap();
    assert!(Command::new("python3").args(["-c", DEEP]).current_dir(&left).status().unwrap().success());
    pool.start_worker(0);
    assert_eq!(pool.buildpool(&["run", "--", "ls"]).expect(0).out(), "file\n");
    assert!(!left.exists());
}
