//! Every bound of the digester. What it keeps of a log does not grow with the log.

/// Longest line that is looked at, in bytes; of a longer one the head, and the last [`LINE_TAIL_BYTES`] bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// How much of a line the rules look at, in bytes: whatever begins a message begins here. Longer lines are compiler
/// invocations and data.
pub const SCANNED_BYTES_MAX: usize = 2 << 10;
/// How much is kept of the end of a line that is longer than [`LINE_BYTES_MAX`], in bytes.
pub const LINE_TAIL_BYTES: usize = 4 << 10;
/// Raw bytes that are kept of the end of each stream, to show its last lines.
pub const TAIL_BYTES: usize = 768 << 10;
/// Raw bytes that are kept of the beginning of each stream, and as many of its end, to show the output of a passed command.
pub const HEAD_BYTES: usize = 200 << 10;
/// Longest log of a failed command that an answer shows whole, in characters (SPEC section 4, "What an answer shows").
pub const WHOLE_LOG_CHARS: usize = 3_000;
/// Longest such log in bytes: four for each character, and as much again for what a terminal does not show.
pub const WHOLE_LOG_BYTES: usize = 8 * WHOLE_LOG_CHARS;
/// Longest line in a finding or its context, in characters; the middle of a longer one is cut.
pub const SHOWN_LINE_CHARS: usize = 2_000;
/// Most lines of one finding's message.
pub const MESSAGE_LINES_MAX: usize = 120;
/// Most bytes of one finding's message.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Errors that are kept from the beginning of a log. The last [`ERRORS_LAST_MAX`] are kept as well.
pub const ERRORS_FIRST_MAX: usize = 300;
/// Errors that are kept from the end of a log.
pub const ERRORS_LAST_MAX: usize = 100;
/// Different warnings that are kept.
pub const WARNINGS_MAX: usize = 400;
/// Problems without a severity word (linters) that are kept.
pub const REMARKS_MAX: usize = 400;
/// Sorts of warnings and remarks that are told apart.
pub const SORTS_MAX: usize = 4_096;
/// How many of a sort count as its first ones: a place that has one often has the next.
pub const SORT_FIRST_MAX: u32 = 2;
/// Warnings, and remarks, that are kept beyond their bounds because they are the first of their sort.
pub const SORTS_BEYOND_MAX: usize = 100;
/// Summary lines that are kept: the last ones.
pub const SUMMARY_LINES_MAX: usize = 60;
/// Tests of which the last result is kept; beyond it they are only counted.
pub const TESTS_MAX: usize = 200_000;
/// Totals with failed tests that are kept until the same tests are run again; beyond it none is taken back.
pub const FAILED_TOTALS_MAX: usize = 4_096;
/// Names of running tests that are kept.
pub const RUNNING_TESTS_MAX: usize = 4_096;
/// Lines that a template keeps while the log runs.
pub const TEMPLATE_LINES_MAX: usize = 8_000;
/// Bytes that a template keeps while the log runs.
pub const TEMPLATE_BYTES_MAX: usize = 2 << 20;
/// Longest paragraph of a template's tail, in lines, when there are too few blank lines.
pub const PARAGRAPH_LINES_MAX: usize = 50;
/// Longest pattern of a template, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4 << 10;
/// Largest compiled pattern of a template, in bytes.
pub const PATTERN_SIZE_MAX: usize = 2 << 20;
/// Largest template file, in bytes.
pub const TEMPLATE_FILE_BYTES_MAX: usize = 256 << 10;
/// Most templates in one file.
pub const TEMPLATES_MAX: usize = 256;
/// Most that the states of one of the rules' automata take, in bytes; beyond it they are made anew. There are five for each
/// thread that digests.
pub const AUTOMATON_BYTES_MAX: usize = 8 << 20;
/// Suggestions in `next`.
pub const NEXT_MAX: usize = 3;

const _: () = assert!(LINE_TAIL_BYTES < LINE_BYTES_MAX && SCANNED_BYTES_MAX < LINE_BYTES_MAX);
const _: () = assert!(ERRORS_FIRST_MAX + ERRORS_LAST_MAX <= buildpool_protocol::limits::FINDINGS_MAX);
