//! Tests of unusual output.

use buildpool_tests::{Finished, Pool};
use std::process::Command;

/// Runs a script locally and returns its result.
fn here(text: &str) -> Finished {
    Command::new("sh").args(["-c", text]).output().unwrap().into()
}

fn is_the_same(pool: &Pool, text: &str) {
    let (job, own) = (pool.shell(text).expect(0), here(text));
    let of_job = without_waits(&job.stderr);
    for (got, wanted) in [(&*job.stdout, &*own.stdout), (&*of_job, &*own.stderr)] {
        assert_eq!(got.len(), wanted.len(), "{text}");
        assert_eq!(blake3::hash(got), blake3::hash(wanted), "{text}");
    }
}

/// Output without the notes that `run` adds at its end after a long wait. A slow machine needs seconds to digest a long log.
fn without_waits(output: &[u8]) -> Vec<u8> {
    let note = b"buildpool: waiting: the coordinator digests its log";
    let lines = output.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(note)).flatten().copied().collect()
}

#[test]
fn a_line_without_an_end_a_million_lines_and_any_bytes_come_as_they_are() {
    let pool = Pool::start(1);
    let megabytes: u64 = std::env::var("BUILDPOOL_FAULT_LINE_MIB").map_or(24, |text| text.parse().unwrap());
    is_the_same(&pool, &format!("yes x | tr -d '\\n' | head -c {}", megabytes << 20));
    is_the_same(&pool, "seq 1000000");
    is_the_same(&pool, "yes '' | head -n 1000000 >&2");
    is_the_same(&pool, "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done");
    is_the_same(&pool, "head -c 3000000 /dev/zero; printf '\\377\\376\\0\\303' >&2");
    is_the_same(&pool, "printf 'no end'; printf '\\r\\033[31m\\303\\251\\r\\n\\033' >&2");
    is_the_same(&pool, "true");
}

#[test]
fn output_after_the_exit_is_taken_for_a_moment_and_what_writes_it_is_ended() {
    let pool = Pool::start(1);
    let late = pool.shell("(sleep 0.3; echo late) & echo early").expect(0);
    assert_eq!(late.out(), "early\nlate\n");
    let job = pool.buildpool(&[
        "run",
        "--no-snapshot",
        "--output",
        "json",
        "--",
        "sh",
        "-c",
        "(while echo more; do sleep 0.2; done) & echo early",
    ]);
    let result = job.expect(0).json();
    assert_eq!((&result["verdict"], &result["exit_code"]), (&"passed".into(), &0.into()), "{result:#}");
    assert_eq!(buildpool_tests::processes_of(result["job_id"].as_str().unwrap()), []);
    let log = pool.buildpool(&["logs", result["job_id"].as_str().unwrap()]).expect(0).out();
    let mut lines = log.lines();
    assert!(
        log.lines().any(|line| line == "early") && lines.all(|line| line == "early" || line == "more"),
        "{log}"
    );
}
