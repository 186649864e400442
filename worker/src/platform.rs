//! Platform differences of Linux and macOS. Only this module of the worker checks the operating
//! system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

pub mod cgroup;
mod table;

pub use table::{Process, Selection, Table, members};

use nix::libc;
use nix::spawn::PosixSpawnFlags;
use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Gid, Uid};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Two monotonic clocks, each with its own origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Stops while the machine sleeps: the time that a job could use.
    pub running: Duration,
    /// Continues while the machine sleeps: the time that passes for other machines.
    pub continuous: Duration,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        Self { running: read(system::RUNNING_CLOCK), continuous: read(system::CONTINUOUS_CLOCK) }
    }
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map(Duration::from).expect("the clocks that a platform names exist on it")
}

/// Unit of resident set sizes on this system (getrusage(2)), in bytes.
pub const RSS_UNIT_BYTES: u64 = system::RSS_UNIT_BYTES;

/// Returns all visible processes.
///
/// # Errors
/// Fails if the system does not provide the list.
pub fn processes() -> io::Result<Vec<Process>> {
    processes_until(Duration::MAX).map(|table| table.processes)
}

/// Returns the visible processes that can be read until `until`, by the running clock.
///
/// # Errors
/// Fails if the system does not provide the list.
pub fn processes_until(until: Duration) -> io::Result<Table> {
    let is_over = || Now::read().running >= until;
    let mut table = Table { is_whole: true, processes: Vec::new() };
    let mut listed = Vec::new();
    // List all before reading any, because the list could grow during the reads.
    for pid in system::pids()? {
        if is_over() {
            table.is_whole = false;
            break;
        }
        listed.push(pid?);
    }
    for pid in listed {
        if is_over() {
            table.is_whole = false;
            break;
        }
        // A process that has ended since the listing is not an error.
        table.processes.extend(process(pid));
    }
    Ok(table)
}

/// Returns a process, if it exists.
pub fn process(pid: i32) -> Option<Process> {
    system::process(pid)
}

/// Returns the file name of the program that a process executes, if the system shows it.
pub fn program_name(pid: i32) -> Option<String> {
    Some(system::program(pid)?.file_name()?.to_string_lossy().into_owned())
}

/// Opens the program that a process executes.
pub fn open_program(pid: i32) -> Option<File> {
    system::open_program(pid)
}

/// Returns whether a process has a handler for a signal, or `None` if the system does not show it
/// (macOS).
pub fn catches(pid: i32, signal: Signal) -> Option<bool> {
    system::catches(pid, signal)
}

/// Returns whether a process listens on this TCP port, or `None` if the system does not show it (macOS).
pub fn listens(pid: i32, port: u16) -> Option<bool> {
    system::listens(pid, port)
}

/// Returns a program of this machine, with arguments, that prints the stacks of a process on its
/// standard output: `sample` on macOS, else py-spy (Python only), gdb or lldb if it is installed.
/// `name` is the file name of the process's program.
pub fn debugger(pid: i32, name: &str) -> Option<(PathBuf, Vec<String>)> {
    system::debugger(pid, name)
}

/// Returns the children of a process without reading any other process, so that even a short-lived
/// child is found. Returns `None` if the system does not support it (macOS). Zombies may be
/// included. A child of a running process may be missing.
pub fn children(pid: i32) -> Option<Vec<i32>> {
    system::children(pid)
}

/// A unique handle for a process group. It stays valid after the leader ended.
#[derive(Debug)]
pub struct Group(system::Group);

impl Group {
    /// Returns the group of a process that is not reaped. Returns `None` if the system has no such
    /// handle.
    pub fn led_by(leader: i32) -> Option<Self> {
        system::Group::led_by(leader).map(Self)
    }

    /// Signals all members of the group in one call. Returns false if there are no members, or the
    /// system does not support it.
    pub fn signal(&self, signal: Signal) -> bool {
        self.0.signal(signal)
    }
}

/// Returns the values of these variables at the start of a process. Returns `None` if the system
/// does not show its environment (another user's process, on macOS also a protected one).
pub fn variables(pid: i32, names: &[&str]) -> Option<BTreeMap<String, String>> {
    let environment = system::environment(pid)?;
    let mut found = BTreeMap::new();
    for entry in environment.split(|byte| *byte == 0) {
        let Some(equals) = entry.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (&entry[..equals], &entry[equals + 1..]);
        if let Some(name) = names.iter().find(|wanted| wanted.as_bytes() == name) {
            found.insert((*name).to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    }
    Some(found)
}

/// Makes this process adopt orphans of the tree below it. Returns false if the system does not
/// support it. Then the tree must be found by other marks.
pub fn adopt_orphans() -> bool {
    system::adopt_orphans()
}

/// Returns a program path that starts this binary, even after an upgrade replaced its file if the
/// system permits.
///
/// # Errors
/// Fails if the system does not provide the path.
pub fn own_executable() -> io::Result<PathBuf> {
    system::own_executable()
}

/// Returns the target of this build, as in the names of a release's files.
pub fn release_target() -> String {
    format!("{}-{}", std::env::consts::ARCH, system::RELEASE_SYSTEM)
}

/// Requests a larger pipe buffer. If refused, the default stays.
pub fn widen_pipe(pipe: impl AsFd, bytes: i32) {
    system::widen_pipe(pipe.as_fd(), bytes);
}

/// Creates an unnamed file with this content for a child process, positioned at its start.
///
/// # Errors
/// Fails if the system refuses or does not support it (macOS).
pub fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    system::memory_file(content)
}

/// Requests the system to start writing this range of a file, without waiting.
pub fn begin_writing(file: impl AsFd, offset: u64, length: u64) {
    system::begin_writing(file.as_fd(), offset, length);
}

/// Protects memory and environment of this process from other processes of its user, if the system
/// supports it. Child processes are not affected.
pub fn guard_memory() {
    system::guard_memory();
}

/// Returns the groups of a login of this user, including the given one.
///
/// # Errors
/// Fails if the system refuses, or jobs cannot run as another user (macOS).
pub fn groups_of(name: &CStr, group: Gid) -> io::Result<Vec<Gid>> {
    system::groups_of(name, group)
}

/// Becomes another user permanently: neither this process nor its children can regain rights.
///
/// # Errors
/// Fails if the system refuses or does not support it (macOS).
pub fn become_user(uid: Uid, gid: Gid, groups: &[Gid]) -> io::Result<()> {
    system::become_user(uid, gid, groups)
}

/// True if jobs can run as another user.
pub const HAS_OTHER_USERS: bool = system::HAS_OTHER_USERS;

/// Returns the spawn flag that creates a new session.
pub fn session_flag() -> PosixSpawnFlags {
    PosixSpawnFlags::from_bits_retain(system::SPAWN_SETSID)
}

/// Returns the id of the machine's current boot, or `None` without support by the system.
pub fn machine_boot() -> Option<String> {
    system::machine_boot()
}

/// Returns the permanent id of this machine, or `None` without support by the system. Complete
/// copies of a disk may share it.
pub fn machine_id() -> Option<String> {
    system::machine_id()
}

/// Returns `linux` or `macos`.
pub const fn os() -> &'static str {
    std::env::consts::OS
}

/// Returns the architecture: `x86_64`, `aarch64`.
pub const fn arch() -> &'static str {
    std::env::consts::ARCH
}

/// Returns the directories of a login's `PATH`, in order.
pub const fn login_path() -> &'static [&'static str] {
    system::LOGIN_PATH
}

/// Limit on the length of a path, in bytes (`PATH_MAX`).
pub const PATH_BYTES_MAX: usize = system::PATH_BYTES_MAX;

/// True if the usual file system requires names in UTF-8.
pub const NAMES_ARE_UTF8: bool = system::NAMES_ARE_UTF8;

/// True if stubs for missing tools open an installation dialog.
pub const TOOLS_ASK_TO_BE_INSTALLED: bool = system::TOOLS_ASK_TO_BE_INSTALLED;

/// The control groups of this process, and the mount points (cgroups(7)).
#[derive(Debug)]
pub struct ControlGroups {
    /// One line per hierarchy, as provided by the system.
    pub own: String,
    /// Mount point of the memory controller of version 1.
    pub memory_mount: &'static str,
    /// Mount point of version 2.
    pub mount: &'static str,
}

/// Returns the control groups, or `None` on a system without them.
pub fn control_groups() -> Option<ControlGroups> {
    system::control_groups()
}

/// Prepares the control groups of attempts, where systemd delegates the unit of this process.
///
/// # Errors
/// The reason why there are no control groups, for users.
pub fn delegated_groups() -> Result<cgroup::DelegatedGroups, String> {
    let groups = control_groups().ok_or("this system has no control groups")?;
    cgroup::DelegatedGroups::prepare(&groups.own, Path::new(groups.mount), system::is_delegated)
}

/// Space of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskRoom {
    /// Bytes free for this user.
    pub free: u64,
    /// Total size in bytes.
    pub total: u64,
}

/// Returns the physical memory of the machine in bytes (sysconf(3) on both systems).
pub fn memory_bytes() -> Option<u64> {
    // SAFETY: the calls take no memory.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(size).ok()?).filter(|bytes| *bytes > 0)
}

/// The limit on the memory of each process, where the system enforces one.
pub const MEMORY_LIMIT: Option<Resource> = system::MEMORY_LIMIT;

/// The limit on the processes of a user, where there is one.
pub const PROCESSES_LIMIT: Option<Resource> = system::PROCESSES_LIMIT;

/// Lowers both limits of another process, so that it can't raise them again. macOS has no call for this: setrlimit(2) there
/// is for the calling process only.
pub fn lower_limit(pid: i32, resource: Resource, max: u64) {
    system::lower_limit(pid, resource, max);
}

/// Returns the space of the disk that contains `path`.
///
/// # Errors
/// The system error.
pub fn disk_room(path: &Path) -> std::io::Result<DiskRoom> {
    let statistics = nix::sys::statvfs::statvfs(path)?;
    #[allow(clippy::unnecessary_cast, reason = "the widths differ between systems")]
    let bytes = |blocks| (blocks as u64).saturating_mul(statistics.fragment_size() as u64);
    Ok(DiskRoom { free: bytes(statistics.blocks_available()), total: bytes(statistics.blocks()) })
}

#[cfg(test)]
mod tests {
    use super::{Now, process, processes, processes_until, variables};
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_look_at_the_table_ends_in_time() {
        let table = processes_until(Duration::ZERO).expect("a process table");
        assert_eq!((table.processes, table.is_whole), (Vec::new(), false));
    }

    #[test]
    fn the_process_table_has_this_process_and_its_child() {
        let mut child = Command::new("cat")
            .env("BUILDPOOL_TABLE_TEST", "here=there")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat is on every system");
        let id = i32::try_from(child.id()).expect("pids fit");
        let own = i32::try_from(std::process::id()).expect("pids fit");
        let table = processes().expect("a process table");
        assert!(table.iter().any(|process| process.pid == own));
        let found = table.iter().find(|process| process.pid == id).expect("the child is in the table");
        assert_eq!(found.parent, own);
        assert!(!found.zombie);
        assert_eq!(process(id).map(|again| again.started), Some(found.started));
        drop(child.stdin.take());
        child.wait().expect("the child ends with its input");
        assert!(process(id).is_none_or(|again| again.started != found.started));
    }

    #[test]
    fn variables_are_those_of_the_start() {
        // `cat` has executed once its copy of a byte comes back, so its environment is in place.
        let mut child = Command::new("cat")
            .env("BUILDPOOL_TABLE_TEST", "here=there")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat is on every system");
        let id = i32::try_from(child.id()).expect("pids fit");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(b"x").expect("it reads");
        child.stdout.as_mut().expect("it is piped").read_exact(&mut [0]).expect("it writes");
        let found = variables(id, &["BUILDPOOL_TABLE_TEST", "BUILDPOOL_NOT_THERE"]);
        drop(input);
        child.wait().expect("the child ends with its input");
        if let Some(found) = found {
            assert_eq!(found.get("BUILDPOOL_TABLE_TEST").map(String::as_str), Some("here=there"));
            assert_eq!(found.len(), 1);
        }
    }

    #[test]
    fn clocks_go_forward() {
        let earlier = Now::read();
        let later = Now::read();
        assert!(later.running >= earlier.running && later.continuous >= earlier.continuous);
    }
}
