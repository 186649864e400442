//! All limits of this crate. A report is untrusted input: the job wrote it.

use std::time::Duration;

/// Limit on the size of a test report or other text, in bytes.
pub const REPORT_BYTES_MAX: u64 = 64 << 20;
/// Limit on the start offset of a report in a file, in bytes. A comment or other output may precede
/// the report.
pub const PREAMBLE_BYTES_MAX: usize = 8 << 20;
/// Limit on the size of a crash file, in bytes.
pub const CRASH_FILE_BYTES_MAX: u64 = 16 << 20;
/// Limit on the size of the database of a result bundle, in bytes.
pub const DATABASE_BYTES_MAX: u64 = 2 << 30;
/// Limit on the rows read from one table of a result bundle.
pub const TABLE_ROWS_MAX: usize = 1_000_000;
/// Limit on the length of a value in a database, in bytes.
pub const DATABASE_VALUE_BYTES_MAX: i32 = 4 << 20;
/// Limit on the SQLite virtual machine steps for one bundle, in units of [`DATABASE_STEP_UNIT`]. A
/// 20 MB bundle needs a few thousand.
pub const DATABASE_STEPS_MAX: u64 = 200_000;
/// Steps between two checks of [`DATABASE_STEPS_MAX`].
pub const DATABASE_STEP_UNIT: i32 = 10_000;
/// Limit on the text of all tables of one bundle, in bytes.
pub const BUNDLE_TEXT_BYTES_MAX: usize = 512 << 20;

/// Limit on the files that one pattern matches.
pub const PATTERN_FILES_MAX: usize = 2_000;
/// Limit on the directory entries visited for one pattern.
pub const PATTERN_ENTRIES_MAX: usize = 500_000;
/// Limit on the directory depth of a pattern.
pub const PATTERN_DEPTH_MAX: usize = 32;
/// Limit on the reports of one job.
pub const REPORTS_MAX: usize = 4_000;

/// Limit on the separate tests of one report.
pub const TESTS_MAX: usize = 500_000;
/// Limit on the cases of open suites. They wait until attempts and separate tests can be
/// distinguished.
pub const SUITE_CASES_MAX: usize = 100_000;
/// Limit on the nesting depth of XML elements.
pub const XML_DEPTH_MAX: usize = 64;
/// Limit on the nesting depth of TAP subtests.
pub const SUBTESTS_DEPTH_MAX: usize = 64;
/// Limit on the points of TAP subtests that wait for their summary point.
pub const SUBTESTS_HELD_MAX: usize = 100_000;
/// Limit on the length of a line in a JSON stream or TAP report, in bytes.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// Limit on the detailed cases of one report.
pub const CASES_MAX: usize = 400;
/// Limit on the listed tests of one report that passed. Others are counted only.
pub const PASSED_MAX: usize = 5_000;
/// Limit on the names of all listed tests that passed, in bytes.
pub const PASSED_BYTES_MAX: usize = 256 << 10;
/// Limit on the messages of one case.
pub const MESSAGES_MAX: usize = 16;
/// Limit on the length of a message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Limit on the length of a name, path or title, in bytes.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// Limit on the sets of arguments of one case.
pub const ARGUMENTS_MAX: usize = 32;
/// Limit on the attachments of one case.
pub const ATTACHMENTS_MAX: usize = 16;
/// Limit on the names of unfinished tests.
pub const UNFINISHED_MAX: usize = 200;
/// Limit on the build and device problems of one job.
pub const ISSUES_MAX: usize = 400;
/// Limit on the notes of one job.
pub const NOTES_MAX: usize = 100;
/// Limit on the crash reports of one job.
pub const CRASH_REPORTS_MAX: usize = 25;
/// Limit on the frames of a crash report.
pub const FRAMES_MAX: usize = 20;
/// Limit on all evidence text of an outcome, in bytes. An outcome is one control message and must
/// have space for its other fields.
pub const EVIDENCE_BYTES_MAX: usize = 1 << 20;

/// Limit on the entries read in one directory of crash files.
pub const CRASH_DIRECTORY_ENTRIES_MAX: usize = 20_000;
/// Maximum time to wait for a crash file after a sign of a crash.
pub const CRASH_WAIT: Duration = Duration::from_secs(10);
/// Time to wait for more crash files after the first one.
pub const CRASH_SETTLE: Duration = Duration::from_secs(1);
/// Number of reports of one process name after which the system writes no more.
pub const CRASH_THROTTLE: usize = 25;

/// Time limit for a debugger run on a core file.
pub const DEBUGGER_TIME_MAX: Duration = Duration::from_secs(20);
/// Time limit for `xcresulttool`.
pub const RESULT_TOOL_TIME_MAX: Duration = Duration::from_secs(60);
/// Limit on the output of a debugger, in bytes.
pub const DEBUGGER_OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Limit on the kernel log, in bytes. The ring buffer of a typical kernel is smaller.
pub const KERNEL_LOG_BYTES_MAX: usize = 8 << 20;

const _: () = assert!(EVIDENCE_BYTES_MAX * 2 < buildpool_protocol::limits::CONTROL_MESSAGE_BYTES_MAX);
