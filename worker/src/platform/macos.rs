//! macOS: `libproc`, `sysctl`, process marks instead of a subreaper.

use super::{ControlGroups, Process};
use nix::libc;
use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use nix::time::ClockId;
use nix::unistd::{Gid, Uid};
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Stops during sleep (clock_gettime(3), `CLOCK_UPTIME_RAW`).
pub(super) const RUNNING_CLOCK: ClockId = ClockId::from_raw(libc::CLOCK_UPTIME_RAW);
/// Includes sleep (clock_gettime(3): "continues to increment while the system is asleep").
pub(super) const CONTINUOUS_CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
/// From `<spawn.h>` since macOS 10.15.
pub(super) const SPAWN_SETSID: libc::c_int = 0x0400;
/// getrusage(2) counts bytes on macOS.
pub(super) const RSS_UNIT_BYTES: u64 = 1;
/// Output of `path_helper` for `/etc/paths`, with Homebrew's directories first.
pub(super) const LOGIN_PATH: &[&str] =
    &["/opt/homebrew/bin", "/opt/homebrew/sbin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
/// Without the command line tools, macOS has stubs that open an installation dialog.
pub(super) const TOOLS_ASK_TO_BE_INSTALLED: bool = true;
pub(super) const PATH_BYTES_MAX: usize = 1024;
/// APFS refuses other names.
pub(super) const NAMES_ARE_UTF8: bool = true;
/// From `<sys/proc.h>`.
const SZOMB: u32 = 5;

pub(super) fn control_groups() -> Option<ControlGroups> {
    None
}

pub(super) fn pids() -> io::Result<impl Iterator<Item = io::Result<i32>>> {
    // SAFETY: a null buffer requests the number of processes (libproc.h).
    let count = unsafe { libc::proc_listallpids(std::ptr::null_mut(), 0) };
    let room = usize::try_from(count).map_err(|_| io::Error::last_os_error())? + 64;
    let mut pids = vec![0 as libc::pid_t; room];
    let bytes = libc::c_int::try_from(room * mem::size_of::<libc::pid_t>()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the buffer has the size that is passed.
    let found = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes) };
    let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
    pids.truncate(found);
    Ok(pids.into_iter().map(Ok))
}

/// Returns `None`: orphans of the tree are not adopted, so the keeper's children are not the whole
/// tree.
pub(super) fn children(_pid: i32) -> Option<Vec<i32>> {
    None
}

/// macOS has no unique handle for a group.
#[derive(Debug)]
pub(super) enum Group {}

impl Group {
    pub(super) fn led_by(_leader: i32) -> Option<Self> {
        None
    }

    pub(super) fn signal(&self, _signal: Signal) -> bool {
        match *self {}
    }
}

pub(super) fn process(pid: i32) -> Option<Process> {
    // SAFETY: an all-zero value is valid for this plain C structure.
    let mut info: libc::proc_bsdinfo = unsafe { mem::zeroed() };
    let size = libc::c_int::try_from(mem::size_of::<libc::proc_bsdinfo>()).ok()?;
    // SAFETY: the buffer is a proc_bsdinfo and its size is passed (libproc.h, PROC_PIDTBSDINFO).
    let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, (&raw mut info).cast(), size) };
    if written != size {
        return None;
    }
    let name: Vec<u8> =
        info.pbi_comm.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect();
    Some(Process {
        pid,
        parent: i32::try_from(info.pbi_ppid).ok()?,
        group: i32::try_from(info.pbi_pgid).ok()?,
        session: nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(pid))).map_or(0, |id| id.as_raw()),
        started: info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec,
        zombie: info.pbi_status == SZOMB,
        name: String::from_utf8_lossy(&name).into_owned(),
    })
}

/// Returns the path of the program (libproc.h, `proc_pidpath`, `PROC_PIDPATHINFO_MAXSIZE`).
pub(super) fn program(pid: i32) -> Option<PathBuf> {
    let mut buffer = vec![0_u8; 4 * PATH_BYTES_MAX];
    let size = u32::try_from(buffer.len()).ok()?;
    // SAFETY: the buffer has the size that is passed.
    let length = unsafe { libc::proc_pidpath(pid, buffer.as_mut_ptr().cast(), size) };
    buffer.truncate(usize::try_from(length).ok().filter(|length| *length > 0)?);
    Some(PathBuf::from(OsString::from_vec(buffer)))
}

pub(super) fn open_program(pid: i32) -> Option<File> {
    File::open(program(pid)?).ok()
}

/// sample(1): `sample PID DURATION INTERVAL`, in seconds and milliseconds. `-mayDie` reads the
/// symbols first, and `-file` replaces the file in `/tmp`.
pub(super) fn debugger(pid: i32, _name: &str) -> Option<(PathBuf, Vec<String>)> {
    let pid = pid.to_string();
    let arguments = [pid.as_str(), "1", "10", "-mayDie", "-file", "/dev/stdout"];
    Some((PathBuf::from("/usr/bin/sample"), arguments.map(str::to_owned).to_vec()))
}

/// libproc.h does not show the handlers of another process.
pub(super) fn catches(_pid: i32, _signal: Signal) -> Option<bool> {
    None
}

/// The owner of a port takes a walk over all descriptors with undocumented structures.
pub(super) fn listens(_pid: i32, _port: u16) -> Option<bool> {
    None
}

/// Reads the environment. `KERN_PROCARGS2` returns the count of arguments, the executable's path,
/// padding, arguments and environment, separated by NUL (the layout that `ps` reads). Arguments are
/// skipped by their count.
pub(super) fn environment(pid: i32) -> Option<Vec<u8>> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid];
    let mut size = 1 << 20;
    let mut buffer = vec![0_u8; size];
    // SAFETY: name has three parts, buffer has `size` bytes, nothing is set.
    let status = unsafe {
        libc::sysctl(name.as_mut_ptr(), 3, buffer.as_mut_ptr().cast(), &raw mut size, std::ptr::null_mut(), 0)
    };
    if status != 0 {
        return None;
    }
    buffer.truncate(size);
    let count = usize::try_from(i32::from_ne_bytes(buffer.first_chunk::<4>().copied()?)).ok()?;
    let mut at = 4 + buffer.get(4..)?.iter().position(|byte| *byte == 0)?;
    at += buffer.get(at..)?.iter().position(|byte| *byte != 0)?;
    for _ in 0..count {
        at += buffer.get(at..)?.iter().position(|byte| *byte == 0)? + 1;
    }
    buffer.get(at..).map(<[u8]>::to_vec)
}

/// Second part of the target in the names of a release's files.
pub(super) const RELEASE_SYSTEM: &str = "apple-darwin";

pub(super) fn adopt_orphans() -> bool {
    false
}

pub(super) fn own_executable() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(super) fn machine_id() -> Option<String> {
    let mut id = [0_u8; 16];
    let wait = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    // SAFETY: the buffer has the 16 bytes of a `uuid_t`, and the time is only read
    // (gethostuuid(2)).
    let status = unsafe { libc::gethostuuid(id.as_mut_ptr(), &raw const wait) };
    (status == 0).then(|| uuid::Uuid::from_bytes(id).to_string())
}

pub(super) fn machine_boot() -> Option<String> {
    let mut buffer = [0_u8; 64];
    let mut size = buffer.len();
    // SAFETY: the name ends with NUL, the buffer has `size` bytes, nothing is set.
    let status = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            buffer.as_mut_ptr().cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    let text = CStr::from_bytes_until_nul(&buffer).ok().filter(|_| status == 0)?;
    text.to_str().ok().map(str::to_owned)
}

pub(super) fn widen_pipe(_pipe: BorrowedFd<'_>, _bytes: i32) {}

pub(super) fn memory_file(_content: &[u8]) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing: the system itself separates protected processes, and there is no call for it.
pub(super) fn guard_memory() {}

pub(super) const HAS_OTHER_USERS: bool = false;

pub(super) fn groups_of(_name: &CStr, _group: Gid) -> io::Result<Vec<Gid>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn become_user(_uid: Uid, _gid: Gid, _groups: &[Gid]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There are no control groups.
pub(super) fn is_delegated(_group: &std::path::Path) -> bool {
    false
}

/// getrlimit(2) describes RLIMIT_DATA as the limit of the data segment, which brk(2) sets. malloc(3) maps its memory instead.
pub(super) const MEMORY_LIMIT: Option<Resource> = None;
/// The crate nix has no name for this limit on macOS.
pub(super) const PROCESSES_LIMIT: Option<Resource> = None;

/// A process keeps the soft limit that it inherited.
pub(super) fn lower_limit(_pid: i32, _resource: Resource, _max: u64) {}

pub(super) fn begin_writing(_file: BorrowedFd<'_>, _offset: u64, _length: u64) {}
