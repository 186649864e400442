//! Finds, stops and kills the processes of a test, by their ids.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
#[cfg(not(target_os = "linux"))]
use std::process::Command;

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Id of its parent.
    pub parent: i32,
    /// Arguments and environment, each with a space before it.
    text: String,
}

/// Returns the processes with a job's id in their environment, except zombies.
pub fn processes_of(job: &str) -> Vec<Process> {
    let cookie = format!(" BUILDPOOL_JOB_ID={job} ");
    all().into_iter().filter(|process| process.text.contains(&cookie)).collect()
}

/// Returns the keeper of a job while it runs.
pub fn keeper_of(job: &str) -> Option<i32> {
    let processes = processes_of(job);
    let is_inner = |pid| processes.iter().any(|process| process.pid == pid);
    let leader = processes.iter().find(|process| !is_inner(process.parent))?;
    let keeper = all().into_iter().find(|process| process.pid == leader.parent)?;
    keeper.text.contains(" keeper ").then_some(keeper.pid)
}

/// Returns the keepers of the worker with this data directory, including idle ones.
pub fn keepers_in(data: &Path) -> Vec<i32> {
    let data = data.to_string_lossy();
    let is_one = |process: &&Process| process.text.contains(" keeper ") && process.text.contains(&*data);
    all().iter().filter(is_one).map(|process| process.pid).collect()
}

/// Sends a signal to a process that this test or one of its processes started. Returns false if it
/// has ended.
pub fn signal(pid: i32, signal: Signal) -> bool {
    kill(Pid::from_raw(pid), signal).is_ok()
}

/// A process that is stopped until this value is dropped.
#[derive(Debug)]
pub struct Stopped(i32);

impl Stopped {
    /// Stops a process.
    pub fn new(pid: i32) -> Self {
        signal(pid, Signal::SIGSTOP);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, Signal::SIGCONT);
    }
}

/// Kills processes with a path below this directory in their arguments or environment, so that they
/// end with the test.
pub(crate) fn kill_below(directory: &Path) {
    let text = directory.to_string_lossy();
    for process in all().iter().filter(|process| process.text.contains(&*text)) {
        if process.pid != std::process::id().cast_signed() {
            signal(process.pid, Signal::SIGKILL);
        }
    }
}

#[cfg(target_os = "linux")]
fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| process(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// Returns `None` for a zombie and for a process that has just ended.
#[cfg(target_os = "linux")]
fn process(pid: i32) -> Option<Process> {
    let read = |name| std::fs::read(format!("/proc/{pid}/{name}")).ok();
    let stat = String::from_utf8_lossy(&read("stat")?).into_owned();
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
    if matches!(state, "Z" | "X") {
        return None;
    }
    let words = [b" ".to_vec(), read("cmdline")?, read("environ").unwrap_or_default()].concat();
    let text: String = String::from_utf8_lossy(&words).replace('\0', " ");
    Some(Process { pid, parent, text })
}

#[cfg(not(target_os = "linux"))]
fn all() -> Vec<Process> {
    let listed = Command::new("ps").args(["-axEww", "-o", "pid=,ppid=,stat=,command="]).output();
    let Ok(listed) = listed else { return Vec::new() };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (pid, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        if words.next()?.starts_with('Z') {
            return None;
        }
        let text = words.fold(String::new(), |text, word| text + " " + word) + " ";
        Some(Process { pid, parent, text })
    };
    text.lines().filter_map(line).collect()
}
