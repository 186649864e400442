//! Linux: `/proc`, child subreaper, boot-time clock.

use super::{ControlGroups, Process};
use buildpool_objects::programs;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use nix::time::ClockId;
use nix::unistd::{Gid, Uid, getgrouplist, setgroups, setresgid, setresuid};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// Stops during suspend (clock_gettime(2)).
pub(super) const RUNNING_CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
/// Includes suspend (clock_gettime(2)).
pub(super) const CONTINUOUS_CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
pub(super) const SPAWN_SETSID: libc::c_int = libc::POSIX_SPAWN_SETSID as libc::c_int;
pub(super) const RSS_UNIT_BYTES: u64 = 1024;
pub(super) const LOGIN_PATH: &[&str] =
    &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub(super) const TOOLS_ASK_TO_BE_INSTALLED: bool = false;
pub(super) const PATH_BYTES_MAX: usize = 4096;
pub(super) const NAMES_ARE_UTF8: bool = false;

pub(super) fn control_groups() -> Option<ControlGroups> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    Some(ControlGroups { own, memory_mount: "/sys/fs/cgroup/memory", mount: "/sys/fs/cgroup" })
}

/// Reads the attribute that systemd sets on the group of a unit with `Delegate=` (systemd.resource-control(5)): `user.` since
/// systemd 251, `trusted.` before, which only root can read.
pub(super) fn is_delegated(group: &Path) -> bool {
    let Ok(path) = CString::new(group.as_os_str().as_bytes()) else { return false };
    [c"user.delegate", c"trusted.delegate"].into_iter().any(|name| {
        let mut value = [0_u8; 8];
        // SAFETY: both names end with NUL, and the call writes at most as many bytes as the buffer has.
        let length =
            unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        length == 1 && value.first() == Some(&b'1')
    })
}

/// Lists the process ids. Processes that start during the listing may be included.
pub(super) fn pids() -> io::Result<impl Iterator<Item = io::Result<i32>>> {
    let pid = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok())).transpose()
    };
    Ok(fs::read_dir("/proc")?.filter_map(pid))
}

pub(super) fn process(pid: i32) -> Option<Process> {
    // The kernel reports no size, and would otherwise be read a few bytes at a time.
    let mut stat = Vec::with_capacity(STAT_BYTES);
    File::open(format!("/proc/{pid}/stat")).ok()?.read_to_end(&mut stat).ok()?;
    parse_stat(&stat)
}

/// Room for `/proc/PID/stat`, which has 52 numbers and a short name.
const STAT_BYTES: usize = 1 << 10;

/// Parses `/proc/PID/stat` (proc(5)). The name is in parentheses and may itself contain some.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(stat.get(..open)?).ok()?.trim().parse().ok()?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        name,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Reads `children` of each thread (proc(5)). Kernels without support have no such file.
pub(super) fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let listed = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        found.extend(listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(found)
}

/// A descriptor of the group's leader (pidfd_open(2)). It stays valid after the process ends.
#[derive(Debug)]
pub(super) struct Group(OwnedFd);

impl Group {
    pub(super) fn led_by(leader: i32) -> Option<Self> {
        // SAFETY: no memory is passed.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, leader, 0) };
        let descriptor = RawFd::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0)?;
        // SAFETY: the call has just created it, for this caller.
        Some(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Signals the group. Kernels before 6.9 do not support the flag (pidfd_send_signal(2)).
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let (descriptor, information) = (self.0.as_raw_fd(), ptr::null::<libc::siginfo_t>());
        let (signal, flags) = (signal as libc::c_int, libc::PIDFD_SIGNAL_PROCESS_GROUP);
        // SAFETY: the descriptor lives, and no information is passed.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, signal, information, flags) == 0 }
    }
}

pub(super) fn environment(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// The link leads to the file itself, also in another mount namespace (proc(5)).
fn program_link(pid: i32) -> String {
    format!("/proc/{pid}/exe")
}

pub(super) fn program(pid: i32) -> Option<PathBuf> {
    fs::read_link(program_link(pid)).ok()
}

pub(super) fn open_program(pid: i32) -> Option<fs::File> {
    fs::File::open(program_link(pid)).ok()
}

/// gdb(1): `-nx` reads no initialization files, and without `auto-load` no script that the process
/// brings.
pub(super) fn debugger(pid: i32, name: &str) -> Option<(PathBuf, Vec<String>)> {
    let pid = pid.to_string();
    let found = |program: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        programs::find(program).map(|program| (program, arguments))
    };
    let is_python = name.to_ascii_lowercase().starts_with("python");
    let python = is_python.then(|| found("py-spy", &["dump", "--pid", &pid])).flatten();
    let gdb = || {
        let no_scripts = ["-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"];
        let print = ["-p", &pid, "-ex", "thread apply all backtrace 40"];
        found("gdb", &[&no_scripts[..], &print[..]].concat())
    };
    let lldb = || found("lldb", &["--no-lldbinit", "--batch", "-p", &pid, "-o", "thread backtrace all"]);
    python.or_else(gdb).or_else(lldb)
}

/// Reads `SigCgt`, a mask in hexadecimal (proc(5)).
pub(super) fn catches(pid: i32, signal: Signal) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & (1 << (signal as u32 - 1)) != 0)
}

/// Looks up the listening sockets of the process's network in its descriptors (proc(5)).
pub(super) fn listens(pid: i32, port: u16) -> Option<bool> {
    let mut sockets = Vec::new();
    for table in ["tcp", "tcp6"] {
        // A kernel without IPv6 has no second table.
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        sockets.extend(text.lines().skip(1).filter_map(|row| listening(row, port)));
    }
    for descriptor in fs::read_dir(format!("/proc/{pid}/fd")).ok()? {
        let target = fs::read_link(descriptor.ok()?.path()).unwrap_or_default();
        if sockets.iter().any(|socket| *target == **socket) {
            return Some(true);
        }
    }
    Some(false)
}

/// State of a listening socket (Linux source, `include/net/tcp_states.h`, `TCP_LISTEN`).
const LISTENING: &str = "0A";

/// Returns the name that a row's socket has among descriptors, if it listens on the port.
fn listening(row: &str, port: u16) -> Option<PathBuf> {
    let fields: Vec<&str> = row.split_ascii_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    let is_port = u16::from_str_radix(local, 16).ok()? == port;
    (is_port && *fields.get(3)? == LISTENING)
        .then(|| PathBuf::from(format!("socket:[{}]", fields.get(9).unwrap_or(&""))))
}

/// Second part of the target in the names of a release's files.
pub(super) const RELEASE_SYSTEM: &str =
    if cfg!(target_env = "musl") { "unknown-linux-musl" } else { "unknown-linux-gnu" };

pub(super) fn adopt_orphans() -> bool {
    prctl::set_child_subreaper(true).is_ok()
}

/// Returns a link to the running binary. It stays valid if the file is replaced (proc(5)).
pub(super) fn own_executable() -> io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    fs::metadata(link).map(|_| link.to_owned())
}

/// Returns the random id of the current boot (random(4)).
pub(super) fn machine_boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

pub(super) fn machine_id() -> Option<String> {
    let id = fs::read_to_string("/etc/machine-id").ok()?;
    // machine-id(5): 32 digits, unless the system has not been set up.
    Some(id.trim()).filter(|id| id.len() == 32).map(str::to_owned)
}

pub(super) fn widen_pipe(pipe: BorrowedFd<'_>, bytes: i32) {
    let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(bytes));
}

pub(super) fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = fs::File::from(memfd_create(c"buildpool", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

/// Makes this process non-dumpable, so that other processes of its user cannot read its memory
/// (prctl(2), ptrace(2)).
pub(super) fn guard_memory() {
    // The call fails only if it is filtered. Then other processes of the user stay trusted.
    let _ = prctl::set_dumpable(false);
}

pub(super) const HAS_OTHER_USERS: bool = true;

pub(super) fn groups_of(name: &CStr, group: Gid) -> io::Result<Vec<Gid>> {
    Ok(getgrouplist(name, group)?)
}

pub(super) fn become_user(uid: Uid, gid: Gid, groups: &[Gid]) -> io::Result<()> {
    prctl::set_no_new_privs()?;
    setgroups(groups)?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    Ok(())
}

/// Counts private writable memory since Linux 4.7 (getrlimit(2)).
pub(super) const MEMORY_LIMIT: Option<Resource> = Some(Resource::RLIMIT_DATA);
pub(super) const PROCESSES_LIMIT: Option<Resource> = Some(Resource::RLIMIT_NPROC);

pub(super) fn lower_limit(pid: i32, resource: Resource, max: u64) {
    let limit = libc::rlimit { rlim_cur: max, rlim_max: max };
    // SAFETY: the structure is valid for the call. A process that is gone or has a lower limit refuses it.
    unsafe {
        libc::prlimit(pid, resource as _, &raw const limit, ptr::null_mut());
    }
}

pub(super) fn begin_writing(file: BorrowedFd<'_>, offset: u64, length: u64) {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the descriptor is borrowed for the call and no memory is passed.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, listens, parse_stat};
    use nix::sys::signal::Signal;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Stdio};

    #[test]
    fn a_group_is_signalled_by_its_name_when_its_leader_is_gone() {
        let run = |group: i32| {
            let mut command = Command::new("cat");
            command.process_group(group).stdin(Stdio::piped()).spawn().expect("it is on every system")
        };
        let mut leader = run(0);
        let number = i32::try_from(leader.id()).expect("pids fit");
        let Some(group) = Group::led_by(number) else { panic!("no descriptor of a process") };
        let mut member = run(number);
        drop(leader.stdin.take());
        leader.wait().expect("it ends with its input");
        let release = nix::sys::utsname::uname().expect("it has a name");
        let mut numbers = release.release().to_str().expect("ASCII").split('.').map(str::parse::<u32>);
        let has_groups =
            [numbers.next(), numbers.next()].map(|number| number.and_then(Result::ok)) >= [Some(6), Some(9)];
        assert_eq!(group.signal(Signal::SIGKILL), has_groups);
        if !has_groups {
            member.kill().expect("it waits for input");
        }
        assert_eq!(member.wait().expect("it was killed").signal(), Some(Signal::SIGKILL as i32));
        assert!(!group.signal(Signal::SIGKILL), "nobody is left");
    }

    #[test]
    fn the_owner_of_a_port_is_found() {
        let own = i32::try_from(std::process::id()).expect("pids fit");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        assert_eq!(listens(own, port), Some(true));
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it is on every system");
        assert_eq!(listens(i32::try_from(other.id()).expect("pids fit"), port), Some(false));
        drop(listener);
        assert_eq!(listens(own, port), Some(false));
        drop(other.stdin.take());
        other.wait().expect("it ends with its input");
        assert_eq!(listens(i32::MAX, port), None);
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_one_field() {
        let line = b"77 (a) b (c) S 1 77 70 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 2\n";
        let process = parse_stat(line).expect("a whole line");
        assert_eq!(process.name, "a) b (c");
        assert_eq!((process.pid, process.parent, process.group, process.session), (77, 1, 77, 70));
        assert_eq!(process.started, 4242);
        assert!(!process.zombie);
    }

    #[test]
    fn a_cut_line_is_no_process() {
        let line = b"77 (a) S 1 77 70 0";
        for length in 0..line.len() {
            assert_eq!(parse_stat(&line[..length]), None, "{length} bytes");
        }
    }
}
