//! Every bound of this crate. A report is untrusted input: the job wrote it.

use std::time::Duration;

/// Largest test report or other text that is read, in bytes.
pub const REPORT_BYTES_MAX: u64 = 64 << 20;
/// How far into a file a report may begin, in bytes: behind a comment, or behind what was printed before it.
pub const PREAMBLE_BYTES_MAX: usize = 8 << 20;
/// Largest crash file that is read, in bytes.
pub const CRASH_FILE_BYTES_MAX: u64 = 16 << 20;
/// Largest database of a result bundle, in bytes.
pub const DATABASE_BYTES_MAX: u64 = 2 << 30;
/// Rows that are read of one table of a result bundle.
pub const TABLE_ROWS_MAX: usize = 1_000_000;
/// Longest value in a database, in bytes.
pub const DATABASE_VALUE_BYTES_MAX: i32 = 4 << 20;
/// Steps of SQLite's machine for one bundle, in units of [`DATABASE_STEP_UNIT`]; a 20 MB bundle needs a few thousand.
pub const DATABASE_STEPS_MAX: u64 = 200_000;
/// Steps between two checks.
pub const DATABASE_STEP_UNIT: i32 = 10_000;
/// Text kept of all tables of one bundle, in bytes.
pub const BUNDLE_TEXT_BYTES_MAX: usize = 512 << 20;

/// Files that one pattern may match.
pub const PATTERN_FILES_MAX: usize = 2_000;
/// Directory entries that are looked at for one pattern.
pub const PATTERN_ENTRIES_MAX: usize = 500_000;
/// How deep a pattern is followed.
pub const PATTERN_DEPTH_MAX: usize = 32;
/// Reports that are read for one job.
pub const REPORTS_MAX: usize = 4_000;

/// Tests that are told apart in one report.
pub const TESTS_MAX: usize = 500_000;
/// Test cases of open suites that wait until it is known which of them are attempts at one test.
pub const SUITE_CASES_MAX: usize = 100_000;
/// How deep elements of an XML report may nest.
pub const XML_DEPTH_MAX: usize = 64;
/// How deep subtests of a TAP report are told apart.
pub const SUBTESTS_DEPTH_MAX: usize = 64;
/// Points of TAP subtests that wait for the point that sums them up.
pub const SUBTESTS_HELD_MAX: usize = 100_000;
/// Longest line of a JSON stream or TAP report, in bytes.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// Remarkable cases that one report keeps.
pub const CASES_MAX: usize = 400;
/// Messages of one case.
pub const MESSAGES_MAX: usize = 16;
/// Longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Longest name, path or title, in bytes.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// Sets of arguments of one case.
pub const ARGUMENTS_MAX: usize = 32;
/// Attachments of one case.
pub const ATTACHMENTS_MAX: usize = 16;
/// Names of unfinished tests.
pub const UNFINISHED_MAX: usize = 200;
/// Build and device problems of one job.
pub const ISSUES_MAX: usize = 400;
/// Remarks of one job.
pub const NOTES_MAX: usize = 100;
/// Crash reports of one job.
pub const CRASH_REPORTS_MAX: usize = 25;
/// Frames of a crash report.
pub const FRAMES_MAX: usize = 20;
/// All text that goes with an outcome, in bytes. An outcome is one control message, with room for everything else.
pub const EVIDENCE_BYTES_MAX: usize = 1 << 20;

/// Crash files that are looked at in one directory.
pub const CRASH_DIRECTORY_ENTRIES_MAX: usize = 20_000;
/// How long a crash file may take to appear when something suggests a crash.
pub const CRASH_WAIT: Duration = Duration::from_secs(10);
/// How long to go on looking after the first one.
pub const CRASH_SETTLE: Duration = Duration::from_secs(1);
/// From how many reports of one process name on the system writes no more.
pub const CRASH_THROTTLE: usize = 25;

/// How long a debugger may look at a core file.
pub const DEBUGGER_TIME_MAX: Duration = Duration::from_secs(20);
/// How long `xcresulttool` may take.
pub const RESULT_TOOL_TIME_MAX: Duration = Duration::from_secs(60);
/// Output that is taken from a debugger, in bytes.
pub const DEBUGGER_OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Kernel log that is read, in bytes: the ring buffer of a common kernel is smaller.
pub const KERNEL_LOG_BYTES_MAX: usize = 8 << 20;

const _: () = assert!(EVIDENCE_BYTES_MAX * 2 < buildpool_protocol::limits::CONTROL_MESSAGE_BYTES_MAX);
