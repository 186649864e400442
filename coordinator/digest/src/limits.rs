//! All limits of the digester. Its memory does not grow with the log.

/// Maximum length of a line, in bytes, unless it begins in JSON. Of a longer line the digester keeps the head and the last
/// [`LINE_TAIL_BYTES`] bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a line that begins with a record or document in JSON, in bytes. Linters print all their problems in one.
/// A longer document is read up to there.
pub const JSON_LINE_BYTES_MAX: usize = 512 << 10;
/// Maximum length of the name of a file in a record, in bytes: `PATH_MAX` of Linux.
pub const FILE_BYTES_MAX: usize = 4096;
/// Number of bytes of a line that the rules search. Every message starts within them. Longer lines
/// are compiler invocations and data.
pub const SCANNED_BYTES_MAX: usize = 2 << 10;
/// Maximum length of a JSON document of several lines that is searched for problems, in bytes. A longer one is read up to there.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Number of bytes kept from the end of a line longer than [`LINE_BYTES_MAX`].
pub const LINE_TAIL_BYTES: usize = 4 << 10;
/// Raw bytes kept from the end of each stream, to show its last lines.
pub const TAIL_BYTES: usize = 768 << 10;
/// Raw bytes kept from the beginning of each stream, and from its end, to show the output of a
/// passed command.
pub const HEAD_BYTES: usize = 200 << 10;
/// Maximum length, in characters, of a failed command's log that an answer shows whole (SPEC
/// section 4, "What an answer shows").
pub const WHOLE_LOG_CHARS: usize = 3_000;
/// Maximum length of such a log, in bytes: four for each character, and the same again for control
/// sequences.
pub const WHOLE_LOG_BYTES: usize = 8 * WHOLE_LOG_CHARS;
/// Maximum length of a line in a finding or its context, in characters. Longer lines lose their
/// middle.
pub const SHOWN_LINE_CHARS: usize = 2_000;
/// Maximum number of lines of one finding's message.
pub const MESSAGE_LINES_MAX: usize = 120;
/// Maximum size of one finding's message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Number of errors kept from the beginning of a log, in addition to the last [`ERRORS_LAST_MAX`].
pub const ERRORS_FIRST_MAX: usize = 300;
/// Number of errors kept from the end of a log.
pub const ERRORS_LAST_MAX: usize = 100;
/// Maximum number of different warnings that are kept.
pub const WARNINGS_MAX: usize = 400;
/// Maximum number of linter problems without a severity word that are kept.
pub const REMARKS_MAX: usize = 400;
/// Maximum number of sorts of warnings and remarks that are counted separately.
pub const SORTS_MAX: usize = 4_096;
/// Number of findings that count as the first of a sort. A place with one finding often has a
/// second one.
pub const SORT_FIRST_MAX: u32 = 2;
/// Number of warnings, and of remarks, kept beyond their limits because they are the first of their
/// sort.
pub const SORTS_BEYOND_MAX: usize = 100;
/// Number of summary lines that are kept. The last ones are kept.
pub const SUMMARY_LINES_MAX: usize = 60;
/// Maximum number of tests whose last result is kept. Further tests are only counted.
pub const TESTS_MAX: usize = 200_000;
/// Maximum number of tests whose names are kept for the history of tests.
pub const NAMED_TESTS_MAX: usize = 5_000;
/// Maximum length of such a name, in bytes.
pub const NAMED_TEST_BYTES_MAX: usize = 512;
/// Maximum number of totals with failed tests that are kept until the same tests run again. Further
/// totals are never cancelled.
pub const FAILED_TOTALS_MAX: usize = 4_096;
/// Maximum number of names of running tests that are kept.
pub const RUNNING_TESTS_MAX: usize = 4_096;
/// Maximum number of lines that a template keeps while the log runs.
pub const TEMPLATE_LINES_MAX: usize = 8_000;
/// Maximum number of bytes that a template keeps while the log runs.
pub const TEMPLATE_BYTES_MAX: usize = 2 << 20;
/// Maximum length of a paragraph in a template's tail, in lines, if there are too few blank lines.
pub const PARAGRAPH_LINES_MAX: usize = 50;
/// Maximum length of a template's pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4 << 10;
/// Maximum size of a template's compiled pattern, in bytes.
pub const PATTERN_SIZE_MAX: usize = 2 << 20;
/// Maximum size of a template file, in bytes.
pub const TEMPLATE_FILE_BYTES_MAX: usize = 256 << 10;
/// Maximum number of templates in one file.
pub const TEMPLATES_MAX: usize = 256;
/// Maximum size of the states of the automaton of rules, in bytes. A full cache is rebuilt. Each thread
/// that digests has one.
pub const AUTOMATON_BYTES_MAX: usize = 8 << 20;
/// Maximum number of suggestions in `next`.
pub const NEXT_MAX: usize = 3;

const _: () = assert!(LINE_TAIL_BYTES < LINE_BYTES_MAX && SCANNED_BYTES_MAX < LINE_BYTES_MAX);
const _: () = assert!(ERRORS_FIRST_MAX + ERRORS_LAST_MAX <= buildpool_protocol::limits::FINDINGS_MAX);
