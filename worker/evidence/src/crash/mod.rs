//! Crash files of macOS and of simulators, and finding those that belong to a job.

pub mod ips;
pub mod matching;
pub mod search;
pub mod text_report;

use crate::error::EvidenceError;
use crate::files;
use crate::limits::CRASH_FILE_BYTES_MAX;
use crate::text;
use buildpool_protocol::report::CrashReport;
use jiff::fmt::strtime::BrokenDownTime;
use std::path::Path;

/// What a crash file says: the report, and the process facts by which it is tied to a job.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CrashFile {
    /// What is shown.
    pub report: CrashReport,
    /// The parent's process id.
    pub parent_pid: Option<i64>,
    /// The process on whose behalf it ran.
    pub responsible_pid: Option<i64>,
    /// `com.apple.CoreSimulator.SimDevice.<UDID>` for processes of a simulator.
    pub coalition: Option<String>,
    /// UDID of the simulator.
    pub device: Option<String>,
    /// Bundle identifier.
    pub bundle_id: Option<String>,
    /// Milliseconds since 1970.
    pub launched_at_ms: Option<i64>,
    /// Milliseconds since 1970.
    pub captured_at_ms: Option<i64>,
}

/// Reads a crash file, `.ips` or the older text, told apart by content.
///
/// # Errors
///
/// When it cannot be read, breaks off, or does not tell of a crash.
pub fn read(path: &Path) -> Result<CrashFile, EvidenceError> {
    let bytes = files::read_bounded(path, CRASH_FILE_BYTES_MAX)?;
    parse(&bytes, path)
}

/// Parses the content of a crash file; the path is for messages and for the report.
///
/// # Errors
///
/// As for [`read`].
pub fn parse(bytes: &[u8], path: &Path) -> Result<CrashFile, EvidenceError> {
    let content = text::lossy(bytes);
    let mut file = if content.trim_start().starts_with('{') {
        ips::parse(&content, path)?
    } else {
        text_report::parse(&content)
            .map_err(|reason| EvidenceError::malformed(path, "crash report", reason))?
    };
    file.report.file_path = path.display().to_string();
    Ok(file)
}

/// `2022-04-20 14:36:33.5767 +0100`: milliseconds since 1970, and RFC 3339 with the same offset.
pub(crate) fn date(text: &str) -> Option<(i64, String)> {
    let parsed = BrokenDownTime::parse("%Y-%m-%d %H:%M:%S%.f %z", text.trim()).ok()?;
    let timestamp = parsed.to_timestamp().ok()?;
    let offset = parsed.offset()?;
    let shown = timestamp.to_zoned(offset.to_time_zone()).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string();
    Some((timestamp.as_millisecond(), shown))
}

/// A simulator's UDID in a path, a coalition or a line of `CoreSimulator`.
pub(crate) fn device_in(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    (0..bytes.len().checked_sub(35)?).find_map(|at| {
        let candidate = bytes.get(at..at + 36)?;
        let fits = candidate.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        fits.then(|| String::from_utf8_lossy(candidate).to_ascii_uppercase())
    })
}

/// The UDID in a path of a simulator's own files, and nowhere else in it.
pub(crate) fn device_of_path(path: &str) -> Option<String> {
    let (_, rest) = path.split_once("CoreSimulator/Devices/")?;
    device_in(rest.get(..36)?)
}

/// Whether a line left by the application says why it ended; the rest is chatter of loaders and of the simulator.
pub(crate) fn tells_cause(line: &str) -> bool {
    const TELLING: &[&str] = &[
        "Fatal error",
        "fatal error",
        "Precondition failed",
        "Assertion failed",
        "assertion failed",
        "*** Terminating app",
        "*** Assertion failure",
        "terminating with uncaught",
        "terminating due to uncaught",
        "libc++abi: terminating",
        "BUG IN CLIENT OF",
        "BUG IN LIBDISPATCH",
        "Library not loaded",
        "Symbol not found",
        "Simultaneous accesses",
        "Could not cast value",
        "Unexpectedly found nil",
        "Index out of range",
        "stack buffer overflow",
        "AddressSanitizer",
        "ThreadSanitizer",
        "UndefinedBehaviorSanitizer",
        "Must only be used from the main thread",
        "abort_with_reason",
    ];
    TELLING.iter().any(|start| line.contains(start))
}

/// Whether the end of a log suggests that something crashed, so that it is worth waiting for a crash file. A healthy run
/// prints none of these; a wrong yes costs a bounded wait and nothing else.
pub fn suggests_crash(log_tail: &[u8]) -> bool {
    const MARKS: &[&str] = &[
        "Fatal error:",
        "Precondition failed",
        "Exited with unexpected signal code",
        "Exited with signal code",
        "Exited with [unexpected] signal code",
        "Test crashed with signal",
        "Restarting after unexpected exit, crash, or test timeout",
        "Early unexpected exit",
        "*** Terminating app due to uncaught exception",
        "The test runner crashed",
        "The test runner exited with code",
        "Segmentation fault",
        "Abort trap",
        "Illegal instruction",
        "Trace/BPT trap",
        "Trace/breakpoint trap",
        "Bus error",
    ];
    let text = String::from_utf8_lossy(log_tail);
    MARKS.iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_suggests_a_crash_by_its_marks() {
        assert!(suggests_crash(b"\xff x\nerror: Exited with unexpected signal code 5\n"));
        assert!(suggests_crash(b"a/b.swift:3: Fatal error: Unexpectedly found nil"));
        assert!(!suggests_crash(b"Executed 3 tests, with 1 failure (0 unexpected)\n** TEST FAILED **\n"));
    }

    #[test]
    fn dates_keep_their_offset() {
        let (at, shown) = date("2022-04-20 14:36:33.5767 +0100").expect("a date of a crash file");
        assert_eq!(shown, "2022-04-20T14:36:33.5767+01:00");
        assert_eq!(at, 1_650_461_793_576);
        assert_eq!(
            date("2016-03-15 08:26:41.996 +0000").map(|(_, shown)| shown).as_deref(),
            Some("2016-03-15T08:26:41.996+00:00")
        );
        assert_eq!(date("2022-04-20T14:36:33Z"), None);
    }

    #[test]
    fn devices_are_found_where_they_belong() {
        let udid = "D95B17F2-6822-4CD1-B7AA-E73DB34FFD4E";
        assert_eq!(device_in(&format!("com.apple.CoreSimulator.SimDevice.{udid}")).as_deref(), Some(udid));
        let container = "2BF2C731-1965-497D-B3E2-E347BD7BF464";
        let path = format!(
            "/Users/USER/Library/Developer/CoreSimulator/Devices/{udid}/data/Containers/Bundle/Application/{container}/A.app/A"
        );
        assert_eq!(device_of_path(&path).as_deref(), Some(udid));
        assert_eq!(device_of_path(&format!("/x/{container}/A")), None);
    }
}
