//! The one door for what Linux and macOS do differently. Nothing else in the worker asks which system this is.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;

mod table;

pub use table::{Process, Selection, Table, members};

use nix::spawn::PosixSpawnFlags;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Gid, Uid};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Two clocks that nobody sets, each since an origin of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Stands still while the machine sleeps: what a job could have used.
    pub running: Duration,
    /// Goes on while the machine sleeps: what the rest of the world has seen pass.
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

/// The unit in which the system counts resident sets (getrusage(2)), in bytes.
pub const RSS_UNIT_BYTES: u64 = system::RSS_UNIT_BYTES;

/// All processes that can be seen.
///
/// # Errors
/// When the system does not give the list.
pub fn processes() -> io::Result<Vec<Process>> {
    processes_until(Duration::MAX).map(|table| table.processes)
}

/// As many of all processes that can be seen as are read until then, by the running clock.
///
/// # Errors
/// When the system does not give the list.
pub fn processes_until(until: Duration) -> io::Result<Table> {
    let is_over = || Now::read().running >= until;
    let mut table = Table { is_whole: true, processes: Vec::new() };
    let mut listed = Vec::new();
    // Listed before any is read, while which there are more.
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
        // One that has gone since the list was made is no error.
        table.processes.extend(process(pid));
    }
    Ok(table)
}

/// One process, if it is there.
pub fn process(pid: i32) -> Option<Process> {
    system::process(pid)
}

/// The children of a process, without a look at any other process, so that even one that lives for a moment is found; none where
/// the system does not say (macOS). Zombies may be among them. Of a process that runs, one may be missing.
pub fn children(pid: i32) -> Option<Vec<i32>> {
    system::children(pid)
}

/// A process group by a name that is never another's, however long ago its leader ended.
#[derive(Debug)]
pub struct Group(system::Group);

impl Group {
    /// That of a process whose status was not taken; none where a system has no such name.
    pub fn led_by(leader: i32) -> Option<Self> {
        system::Group::led_by(leader).map(Self)
    }

    /// Signals all that are in it, in one call; false when nobody is, or the system can't.
    pub fn signal(&self, signal: Signal) -> bool {
        self.0.signal(signal)
    }
}

/// The values that a process was started with for these variables; none if the system does not show its environment
/// (another user's process, on macOS also one that is protected).
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

/// Makes orphans in the tree under this process come to it. False where a system has no such thing: then the tree must
/// be looked for by other marks.
pub fn adopt_orphans() -> bool {
    system::adopt_orphans()
}

/// A program path that starts this very binary, even after its file was replaced by an upgrade where the system allows.
///
/// # Errors
/// When the system does not say where the binary is.
pub fn own_executable() -> io::Result<PathBuf> {
    system::own_executable()
}

/// Asks for a larger pipe buffer; the default stays if it is refused.
pub fn widen_pipe(pipe: impl AsFd, bytes: i32) {
    system::widen_pipe(pipe.as_fd(), bytes);
}

/// A file of this content without a name, to hand to a process that is spawned; read from its beginning.
///
/// # Errors
/// When the system refuses, or has no such thing (macOS).
pub fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    system::memory_file(content)
}

/// Asks the system to begin writing this range of a file, without waiting.
pub fn begin_writing(file: impl AsFd, offset: u64, length: u64) {
    system::begin_writing(file.as_fd(), offset, length);
}

/// Keeps memory and environment of this process from the other processes of its user, where the system can. What it starts is
/// not concerned.
pub fn guard_memory() {
    system::guard_memory();
}

/// The groups that a login of this user is in, the given one included.
///
/// # Errors
/// When the system does not say, or jobs can't be run as another user there (macOS).
pub fn groups_of(name: &CStr, group: Gid) -> io::Result<Vec<Gid>> {
    system::groups_of(name, group)
}

/// Becomes another user, for good: neither this process nor what it starts can gain a right again.
///
/// # Errors
/// When the system refuses, or has no such thing (macOS).
pub fn become_user(uid: Uid, gid: Gid, groups: &[Gid]) -> io::Result<()> {
    system::become_user(uid, gid, groups)
}

/// Whether jobs can be run as another user.
pub const HAS_OTHER_USERS: bool = system::HAS_OTHER_USERS;

/// The flag by which a spawned process leads a session of its own.
pub fn session_flag() -> PosixSpawnFlags {
    PosixSpawnFlags::from_bits_retain(system::SPAWN_SETSID)
}

/// What names the time since this machine was last switched on; none where the system does not say.
pub fn machine_boot() -> Option<String> {
    system::machine_boot()
}

/// What names this machine whenever it runs; none where the system does not say. Disks that were copied whole may have it in
/// common.
pub fn machine_id() -> Option<String> {
    system::machine_id()
}

/// `linux` or `macos`.
pub const fn os() -> &'static str {
    std::env::consts::OS
}

/// `x86_64`, `aarch64`.
pub const fn arch() -> &'static str {
    std::env::consts::ARCH
}

/// Directories that a login's `PATH` has, in its order.
pub const fn login_path() -> &'static [&'static str] {
    system::LOGIN_PATH
}

/// Longest path that the system takes, in bytes (`PATH_MAX`).
pub const PATH_BYTES_MAX: usize = system::PATH_BYTES_MAX;

/// Whether the usual file system takes names in UTF-8 only.
pub const NAMES_ARE_UTF8: bool = system::NAMES_ARE_UTF8;

/// Whether stand-ins for tools that are not installed ask a person to install them, in a window.
pub const TOOLS_ASK_TO_BE_INSTALLED: bool = system::TOOLS_ASK_TO_BE_INSTALLED;

/// The control groups of this process, and where their files are (cgroups(7)).
#[derive(Debug)]
pub struct ControlGroups {
    /// One line a hierarchy, as the system says it.
    pub own: String,
    /// Where the memory controller of version 1 is.
    pub memory_mount: &'static str,
    /// Where version 2 is.
    pub mount: &'static str,
}

/// The control groups; none where a system has no such thing.
pub fn control_groups() -> Option<ControlGroups> {
    system::control_groups()
}

/// The disk that a path is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskRoom {
    /// Free for this user, in bytes.
    pub free: u64,
    /// All of it, in bytes.
    pub total: u64,
}

/// The room where `path` is.
///
/// # Errors
/// What the system says.
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
