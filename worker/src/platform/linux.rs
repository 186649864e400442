//! Linux: `/proc`, child subreaper, boot-time clock.

use super::{ControlGroups, Process};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::time::ClockId;
use nix::unistd::{Gid, Uid, getgrouplist, setgroups, setresgid, setresuid};
use std::ffi::CStr;
use std::fs;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Stands still in suspend (clock_gettime(2)).
pub(super) const RUNNING_CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
/// Counts suspend (clock_gettime(2)).
pub(super) const CONTINUOUS_CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
pub(super) const SPAWN_SETSID: nix::libc::c_int = nix::libc::POSIX_SPAWN_SETSID as nix::libc::c_int;
pub(super) const RSS_UNIT_BYTES: u64 = 1024;
pub(super) const LOGIN_PATH: &[&str] =
    &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub(super) const TOOLS_ASK_TO_BE_INSTALLED: bool = false;

pub(super) fn control_groups() -> Option<ControlGroups> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    Some(ControlGroups { own, memory_mount: "/sys/fs/cgroup/memory", mount: "/sys/fs/cgroup" })
}

pub(super) fn processes() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process that has gone since the directory was read is no error.
        found.extend(process(pid));
    }
    Ok(found)
}

pub(super) fn process(pid: i32) -> Option<Process> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields of `/proc/PID/stat` (proc(5)); the name is in parentheses and may itself contain some.
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

pub(super) fn environment(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

pub(super) fn adopt_orphans() -> bool {
    prctl::set_child_subreaper(true).is_ok()
}

/// The link leads to the running binary even when its file was replaced (proc(5)).
pub(super) fn own_executable() -> io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    fs::metadata(link).map(|_| link.to_owned())
}

/// A number that the kernel draws when it starts (random(4)).
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

/// What a process that is not dumpable holds can't be read by others of its user (prctl(2), ptrace(2)).
pub(super) fn guard_memory() {
    // Refused only where the call is filtered: then the user's other processes are trusted as before.
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

pub(super) fn begin_writing(file: BorrowedFd<'_>, offset: u64, length: u64) {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the descriptor is borrowed for the call and no memory is passed.
    unsafe {
        nix::libc::sync_file_range(file.as_raw_fd(), offset, length, nix::libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(test)]
mod tests {
    use super::parse_stat;

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
