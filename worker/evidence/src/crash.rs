//! Reads crash files of macOS and of simulators, and finds the ones that belong to a job.

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

/// A parsed crash file: the crash report, and the process facts that match it to a job.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CrashFile {
    /// The crash report for the outcome.
    pub report: CrashReport,
    /// Process id of the parent.
    pub parent_pid: Option<i64>,
    /// Process id of the responsible process (the one that it ran for).
    pub responsible_pid: Option<i64>,
    /// `com.apple.CoreSimulator.SimDevice.<UDID>` for processes of a simulator.
    pub coalition: Option<String>,
    /// UDID of the simulator.
    pub device: Option<String>,
    /// Bundle identifier.
    pub bundle_id: Option<String>,
    /// Launch time of the process, in milliseconds since 1970.
    pub launched_at_ms: Option<i64>,
    /// Time of the crash report, in milliseconds since 1970.
    pub captured_at_ms: Option<i64>,
}

/// Reads a crash file. The content decides between `.ips` and the older text format.
///
/// # Errors
///
/// Fails if the file cannot be read, is truncated, or does not describe a crash.
pub fn read(path: &Path) -> Result<CrashFile, EvidenceError> {
    let bytes = files::read_bounded(path, CRASH_FILE_BYTES_MAX)?;
    parse(&bytes, path)
}

/// Parses the content of a crash file. `path` is used in messages and in the report.
///
/// # Errors
///
/// Same as for [`read`].
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

/// Parses a date such as `2022-04-20 14:36:33.5767 +0100`. Returns milliseconds since 1970, and RFC
/// 3339 text with the same offset.
pub(crate) fn date(text: &str) -> Option<(i64, String)> {
    let parsed = BrokenDownTime::parse("%Y-%m-%d %H:%M:%S%.f %z", text.trim()).ok()?;
    let timestamp = parsed.to_timestamp().ok()?;
    let offset = parsed.offset()?;
    let shown = timestamp.to_zoned(offset.to_time_zone()).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string();
    Some((timestamp.as_millisecond(), shown))
}

/// Returns the first simulator UDID in `text`: a path, a coalition or a line of `CoreSimulator`.
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

/// Returns the UDID directly after `CoreSimulator/Devices/` in a path.
pub(crate) fn device_of_path(path: &str) -> Option<String> {
    let (_, rest) = path.split_once("CoreSimulator/Devices/")?;
    device_in(rest.get(..36)?)
}

/// Returns true if a line of application information gives the reason of the crash. Other lines
/// come from loaders and from the simulator.
pub(crate) fn states_cause(line: &str) -> bool {
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

/// Returns true if the end of a log suggests a crash, so that waiting for a crash file is
/// worthwhile. A successful run never prints these marks. A false positive costs only a bounded
/// wait.
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
