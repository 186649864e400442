//! What Linux and macOS leave behind differently. Nothing else in this crate asks which system this is.

/// Whether Xcode's tools can be there.
pub(crate) const HAS_XCODE: bool = cfg!(target_os = "macos");
/// Whether the system writes a crash file for each process that crashes.
pub(crate) const WRITES_CRASH_FILES: bool = cfg!(target_os = "macos");
/// Whether core files are found by the kernel's pattern (core(5)).
pub(crate) const HAS_CORE_PATTERN: bool = cfg!(target_os = "linux");

/// The kernel's log, if this user may read it.
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
        // One record a read; EPIPE says that older ones were overwritten meanwhile, EAGAIN that this was the last.
        match device.read(&mut record) {
            Ok(0) => break,
            Ok(length) => log.extend_from_slice(record.get(..length).unwrap_or_default()),
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EPIPE as i32) => {}
            Err(_) => break,
        }
    }
    Some(String::from_utf8_lossy(&log).into_owned())
}

/// There is no such log.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kernel_log() -> Option<String> {
    None
}
