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

/// Without isolation, a job can remove the files of its worker.
#[test]
fn a_job_that_removes_the_directories_of_its_worker_does_not_stop_the_next_ones() {
    let pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    project(&pool);
    for removed in ["projects", "attempts", "keepers"] {
        let path = pool.data("w0").join(removed);
        // How this job itself ends does not matter: it removes its own files.
        pool.buildpool(&["run", "--", "rm", "-rf", path.to_str().unwrap()]);
        for _ in 0..2 {
            let next = pool.buildpool(&["run", "--", "ls"]);
            assert_eq!((next.code(), next.out().as_str()), (0, "file\n"), "without {removed}: {next}");
        }
    }
}

#[test]
fn a_job_that_damages_the_record_of_its_attempt_ends_with_its_exit_code() {
    let pool = PoolBuilder::default().worker(&["--slots", "1"]).start();
    let attempts = pool.data("w0").join("attempts");
    for damage in [
        "rm -f $record; mkfifo $record",
        ": >$record",
        "rm -f $record; mkdir $record",
        "ln -sf $record $record",
    ] {
        let record = format!("record={}/$BUILDPOOL_JOB_ID.1/attempt.json", attempts.display());
        let command = format!("{record}; ls $record >/dev/null || exit 7; {damage}; exit 6");
        let ran = pool.buildpool(&["run", "--no-snapshot", "--", "sh", "-c", &command]);
        assert_eq!(ran.code(), 6, "{damage}: {ran}");
    }
}
