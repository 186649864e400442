//! Limits on the memory of a job, with the real program.

use buildpool_tests::Pool;
use serde_json::Value;
use std::fs;
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
