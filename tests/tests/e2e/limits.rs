//! Limits on memory and disk of a job, with the real program.

use buildpool_tests::{Pool, PoolBuilder};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A program that allocates 300 MiB in small steps.
const GROWS: &str = "x = []\nfor i in range(300): x.append(bytearray(b'x' * (1 << 20)))\n";

fn result(pool: &Pool, options: &[&str], script: &str, code: i32) -> Value {
    let words =
        [&["run", "--no-snapshot", "--output", "json"], options, &["--", "sh", "-c", script]].concat();
    pool.buildpool(&words).expect(code).json()
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_that_reaches_the_memory_limit_is_the_cause_under_sh_and_make() {
    let pool = Pool::start(1);
    let program = pool.place().file("grows.py");
    fs::write(&program, GROWS).unwrap();
    let program = program.display();
    for (script, code) in [
        (format!("python3 '{program}'; echo after; exit 1"), 1),
        (format!("printf 'all:\\n\\tpython3 {program}\\n' > Makefile; make"), 2),
        ("sort -S 200M --parallel=1 /dev/zero || exit 3".to_owned(), 3),
    ] {
        let result = result(&pool, &["--memory", "128M"], &script, code);
        assert_eq!(result["crash_type"], "out_of_memory", "{result:#}");
        assert_eq!(result["exit_code"], code, "{result:#}");
        let cause = result["cause"]["text"].as_str().unwrap();
        assert!(cause.contains("memory limit 128 MiB for each process; peak "), "{cause}");
        assert_eq!(result["cause"]["known_from"], "marker");
    }
    // The same failure without a limit is not the limit's fault.
    let result = result(&pool, &[], "echo MemoryError; exit 1", 1);
    assert_eq!(result["verdict"], "failed", "{result:#}");
}

/// A control group of version 1 with a limit, removed on drop.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/memory").join(format!("limits-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join("memory.limit_in_bytes"), (64 << 20).to_string()).ok()?;
        // With swap, a process would use swap before it reaches the limit.
        let _ = fs::write(group.0.join("memory.memsw.limit_in_bytes"), (64 << 20).to_string());
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_child_that_the_kernel_killed_for_memory_is_the_cause_under_sh_and_make() {
    let Some(group) = Group::new() else {
        eprintln!("SKIPPED: this machine has no control group with a memory limit that the test may make");
        return;
    };
    let pool = Pool::start(2);
    let inside = format!("echo $$ > {}/cgroup.procs; ", group.0.display());
    for (script, code, known_from) in [
        ("sh -c 'tail /dev/zero'; exit 1", 1, "marker"),
        ("printf 'all:\\n\\ttail /dev/zero\\n' > Makefile; make", 2, "marker"),
        ("exec 2>/dev/null; tail /dev/zero; exit 137", 137, "shell_convention"),
    ] {
        let result = result(&pool, &[], &format!("{inside}{script}"), code);
        assert_eq!(result["crash_type"], "out_of_memory", "{result:#}");
        assert_eq!(result["cause"]["known_from"], known_from, "{result:#}");
        let cause = result["cause"]["text"].as_str().unwrap();
        assert!(cause.contains("for lack of memory") && cause.contains("probably"), "{cause}");
    }
}

#[test]
fn a_job_that_fills_the_disk_ends_with_a_cause_that_names_the_limit() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"disk_bytes_max = 4194304\n").unwrap();
    let pool = PoolBuilder::default().worker(&["--config", file.path().to_str().unwrap()]).start();
    let config = pool.place().file("worker.toml");
    let data = pool.data("w0");
    let text = format!("coordinator = \"{}\"\ndata_dir = \"{}\"\n", pool.url(), data.display());
    fs::write(&config, text).unwrap();
    let doctor = pool.buildpool(&["doctor", "--worker", config.to_str().unwrap()]);
    assert!(doctor.out().contains("disk: 4 MiB"), "{doctor}");
    let small = "head -c 2000000 /dev/zero > small; wc -c < small";
    assert_eq!(result(&pool, &[], small, 0)["verdict"], "passed");
    let words = ["run", "--no-snapshot", "--output", "json", "--timeout", "10m", "--", "sh", "-c"];
    let large = "mkdir a; head -c 20000000 /dev/zero > a/large; exec sleep 900";
    let ended = pool.buildpool(&[&words[..], &[large]].concat());
    let ended = ended.json();
    assert_eq!(ended["verdict"], "failed", "{ended:#}");
    let cause = ended["cause"]["text"].as_str().unwrap();
    assert!(cause.contains("at its disk limit of 4 MiB") && cause.contains("disk_bytes_max"), "{cause}");
    assert_eq!(ended["cause"]["known_from"], "pool");
}
