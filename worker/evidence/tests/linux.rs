//! Linux-only tests: a real control group with a limit, and a real core file. A test passes without
//! a check if the machine does not permit either.
#![cfg(target_os = "linux")]

use buildpool_evidence::memory::cgroup::MemoryCounters;
use buildpool_evidence::{Context, collect};
use buildpool_protocol::outcome::Ending;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const LIMIT: u64 = 32 << 20;

/// A control group of version 1 with a limit, removed on drop.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/memory").join(format!("evidence-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join("memory.limit_in_bytes"), LIMIT.to_string()).ok()?;
        // With swap, the process would use swap before it reaches the limit.
        let _ = fs::write(group.0.join("memory.memsw.limit_in_bytes"), LIMIT.to_string());
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_process_over_its_limit_is_known_to_have_been_killed_for_memory() {
    let Some(group) = Group::new() else { return };
    let before = MemoryCounters::read(&group.0).expect("a group just made has counters");
    assert_eq!((before.oom_kills, before.limit_bytes), (0, Some(LIMIT)));
    let script = format!("echo $$ > {}/cgroup.procs && exec tail /dev/zero", group.0.display());
    let child = Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("a shell is there");
    let pid = i32::try_from(child.id()).expect("a process id");
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(9), "the kernel ended it");
    let ending = Ending::Signaled { signal: 9, name: "SIGKILL".into(), core_dump: false };
    let directory = TempDir::new().expect("a directory");
    let context = Context {
        pids: vec![pid],
        memory_cgroup: Some(group.0.clone()),
        memory_before: Some(before),
        memory_exclusive: true,
        ..Context::new(directory.path(), &[], &ending)
    };
    let memory = collect(&context).memory.expect("the kernel counted it");
    assert!(memory.oom_killed);
    assert_eq!((memory.source.as_str(), memory.limit_bytes), ("cgroup", Some(LIMIT)));
    assert!(memory.peak_bytes.is_some_and(|peak| peak > LIMIT / 2 && peak <= LIMIT), "{memory:?}");
    if let Some(victim) = &memory.victim {
        assert_eq!(*victim, format!("tail (pid {pid})"));
    }

    let shared = Context { memory_exclusive: false, memory_cgroup: None, pids: vec![i32::MAX], ..context };
    assert_eq!(collect(&shared).memory, None, "another process's death is not this job's");
}

#[test]
fn a_kill_for_memory_is_told_of_after_a_good_end_too() {
    let group = TempDir::new().expect("a directory");
    let write = |name: &str, text: &str| fs::write(group.path().join(name), text).expect("written");
    write("memory.max", "67108864\n");
    write("memory.peak", "67100000\n");
    let ending = Ending::Exited { code: 0 };
    let killed_for_memory = |kills: u32, exclusive: bool| {
        write("memory.events", &format!("oom {kills}\noom_kill {kills}\n"));
        let context = Context {
            memory_cgroup: Some(group.path().to_owned()),
            memory_before: Some(MemoryCounters { oom_kills: 1, ..MemoryCounters::default() }),
            memory_exclusive: exclusive,
            ..Context::new(group.path(), &[], &ending)
        };
        collect(&context).memory.map(|memory| (memory.oom_killed, memory.limit_bytes))
    };
    assert_eq!(killed_for_memory(2, true), Some((true, Some(64 << 20))));
    // One process was killed before the job started. A limit that was not reached explains nothing.
    assert_eq!(killed_for_memory(1, true), None);
    assert_eq!(killed_for_memory(2, false), None);
}

#[test]
fn a_core_file_gives_signal_and_frames() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let debugger = Command::new("gdb").arg("--version").stdout(Stdio::null()).status();
    if !debugger.is_ok_and(|status| status.success()) || pattern.trim() != "core" {
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let child = Command::new("sh")
        .args(["-c", "ulimit -c unlimited && exec sh -c 'kill -SEGV $$'"])
        .current_dir(directory.path())
        .spawn();
    let mut child = child.expect("a shell is there");
    let pid = i32::try_from(child.id()).expect("a process id");
    let status = child.wait().expect("it ends");
    if !status.core_dumped() {
        return;
    }
    let ending = Ending::Signaled { signal: 11, name: "SIGSEGV".into(), core_dump: true };
    let context = Context { pids: vec![pid], ..Context::new(directory.path(), &[], &ending) };
    let evidence = collect(&context);
    assert_eq!(evidence.notes, Vec::<String>::new());
    let report = evidence.crash_reports.first().expect("the debugger read the core");
    assert_eq!(report.signal.as_deref(), Some("SIGSEGV"));
    assert_eq!((report.process_name.as_str(), report.pid), ("sh", Some(i64::from(pid))));
    assert!(
        report.timestamp.as_ref().is_some_and(|at| at.starts_with("20") && at.ends_with("+00:00")),
        "{report:?}"
    );
    let repeated = report.top_frames.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(repeated, None, "{report:?}");
    assert_eq!(report.file_path, directory.path().join("core").display().to_string());
    assert!(!report.top_frames.is_empty());
}
