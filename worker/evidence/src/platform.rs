//! Platform differences of Linux and macOS. Only this module of the crate checks the operating
//! system.

/// True if Xcode's tools can exist.
pub(crate) const HAS_XCODE: bool = cfg!(target_os = "macos");
/// True if the system writes a crash file for each process that crashes.
pub(crate) const WRITES_CRASH_FILES: bool = cfg!(target_os = "macos");
/// True if the kernel's pattern gives the location of core files (core(5)).
pub(crate) const HAS_CORE_PATTERN: bool = cfg!(target_os = "linux");

/// Room for `/proc/vmstat`, which has 4 to 5 KiB. A longer one is read in several parts.
#[cfg(target_os = "linux")]
const COUNTERS_BYTES: usize = 8 << 10;

/// Returns the number of processes that the kernel has OOM-killed since boot, in all control groups (`oom_kill` in
/// `/proc/vmstat`, Linux 4.13).
#[cfg(target_os = "linux")]
pub(crate) fn machine_kills() -> Option<u64> {
    use std::io::Read as _;
    // The kernel computes all counters anew for each read, so one read should return all of them.
    let mut counters = String::with_capacity(COUNTERS_BYTES);
    std::fs::File::open("/proc/vmstat").ok()?.read_to_string(&mut counters).ok()?;
    counters.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Returns `None`: this system has no such counter.
#[cfg(not(target_os = "linux"))]
pub(crate) fn machine_kills() -> Option<u64> {
    None
}

/// Returns the kernel log, if this user has permission to read it.
#[cfg(target_os = "linux")]
pub(crate) fn kernel_log() -> Option<String> {
    use crate::limits::KERNEL_LOG_BYTES_MAX;
    use nix::fcntl::OFlag;
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut device = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open("/dev/kmsg")
        .ok()?;
    let mut log = Vec::new();
    let mut record = vec![0; 16 << 10];
    while log.len() < KERNEL_LOG_BYTES_MAX {
        // Each read returns one record. EPIPE means that older records were overwritten, EAGAIN
        // that there are no more.
        match device.read(&mut record) {
            Ok(0) => break,
            Ok(length) => log.extend_from_slice(record.get(..length).unwrap_or_default()),
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EPIPE as i32) => {}
            Err(_) => break,
        }
    }
    Some(String::from_utf8_lossy(&log).into_owned())
}

/// Returns `None`: this system has no such log.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kernel_log() -> Option<String> {
    None
}
