//! Properties of the tools that the digest recognizes.

use crate::command::Command;
use crate::machines::Machines;
use crate::records::RecordFormat;
use crate::rules::Rule;
pub(crate) use crate::tools::ToolId;

/// Whether a tool's failure stands despite a later success of another tool, without an exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Apart {
    /// It stands: the tool is a command of its own and fails only for a real error.
    Always,
    /// It does not stand: the tool may have been run again, and prints nothing on success.
    WithoutCode,
    /// It does not stand.
    Never,
}

/// Announcement before a total.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Announced {
    /// A line of the tool's own, a few lines before.
    ByHeading,
    /// A blank line right before.
    ByBlankLine,
}

/// The stage of a build that a result line reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Unknown,
    Build,
    Tests,
}

/// The tools whose tests a driver runs. Only the driver's count is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Includes {
    Nothing,
    Only(ToolId),
    AllOthers,
}

/// A format of report files.
#[derive(Debug)]
pub(crate) struct ReportFormat {
    /// Its name in the evidence of an attempt.
    pub(crate) name: &'static str,
    /// It has priority over reports in all other formats.
    pub(crate) has_priority: bool,
}

/// Defines the properties of a tool, each with its value for a tool without peculiarities.
macro_rules! properties {
    ($($(#[$doc:meta])* $property:ident: $kind:ty = $usual:expr,)*) => {
        /// Properties of a tool.
        #[derive(Debug)]
        pub(crate) struct Tool {
            /// Its name in answers.
            pub(crate) name: &'static str,
            $($(#[$doc])* pub(crate) $property: $kind,)*
        }

        impl Tool {
            /// A tool without peculiarities.
            pub(crate) const fn named(name: &'static str) -> Self {
                Self { name, $($property: $usual,)* }
            }
        }
    };
}

properties! {
    /// What its lines mean.
    rules: &'static [Rule] = &[],
    /// Readers of its records and documents in JSON.
    records: &'static [RecordFormat] = &[],
    /// Its names in command lines. A second word must be among the arguments. Empty: only its name.
    commands: &'static [&'static str] = &[],
    /// A command with it is a test run, also if `run_tests` did not choose it.
    runs_tests: bool = false,
    /// Its options that select tests by name. A value follows after a space or `=`.
    selections: &'static [&'static str] = &[],
    /// Whether the words of a command select tests of this tool in another way.
    selects_tests: fn(&[String]) -> bool = |_| false,
    /// The selection of tests in a command that accepts it if a part of the run has none of them.
    optional_selection: fn(&Command) -> Option<&str> = |_| None,
    /// The format of its report files that a build without tests writes too.
    build_report: Option<ReportFormat> = None,
    /// Meanings of its own exit codes, as the continuation of a sentence.
    code_meaning: fn(i32) -> Option<&'static str> = |_| None,
    /// A part of the command line without a result, although another part has one.
    missing_result: fn(&Machines, &Command) -> Option<String> = |_, _| None,
    /// It runs tests in a simulator.
    uses_simulator: bool = false,
    /// It prints the bare names of passed tests, indented; the line with which such output begins.
    bare_names_after: Option<&'static [u8]> = None,
    /// The tool of the same program whose invocations these are.
    program: Option<ToolId> = None,
    /// The tool whose results these are, in another format.
    reports_as: Option<ToolId> = None,
    /// Whether its failure stands despite a later success of another tool.
    apart: Apart = Apart::Never,
    /// It runs other tools, and its result includes theirs.
    drives: bool = false,
    /// It is a build tool.
    builds: bool = false,
    /// The stage that one of its result lines reports.
    stage: fn(&str) -> Stage = |_| Stage::Unknown,
    /// A build runs its tests too, and succeeds without any.
    counts_in_builds: bool = false,
    /// A panic in one of its tests is a failed test, not a crash.
    panics_are_failed_tests: bool = false,
    /// It installs packages: its success is a preparation, and does not clear the errors before it.
    only_installs: bool = false,
    /// It is a linter: it exits with another code than 0 after its remarks.
    lints: bool = false,
    /// It prints its end, whatever the result, if it printed its start.
    reports_its_end: bool = false,
    /// Texts in a command with which a program inside of it may end it without that.
    may_end_early: &'static [&'static str] = &[],
    /// Texts in a command that runs its programs without their tests.
    runs_no_tests: &'static [&'static str] = &[],
    /// It runs tests, and may print nothing before their first output.
    begins_in_silence: bool = false,
    /// It fails independently of its host: the host's success does not take its failure back.
    judges_by_itself: bool = false,
    /// It names the failed part and counts no tests. The tally finds a later pass of that part.
    names_failed_part: bool = false,
    /// Its units are parts of a command line, such as `build`. They match only in the same command.
    units_of_command: bool = false,
    /// A later success of the same invocation does not take its failure back.
    outlives_invocation: bool = false,
    /// The tool that runs it, unless the command itself does.
    host: Option<ToolId> = None,
    /// It prints marks or lines of results, and always a total.
    always_totals: bool = false,
    /// It names each test as it ends, so that its results can be counted one by one.
    by_test: bool = false,
    /// The tools whose tests it runs.
    includes: Includes = Includes::Nothing,
    /// The announcement that a total needs. Unannounced totals may be a test's output.
    announces: Option<Announced> = None,
    /// It prints start and end of each test, one test at a time.
    begins_each: bool = false,
    /// Other programs may print its announcement: `running 3 tests`, `collected 3 items`.
    announces_in_common_words: bool = false,
    /// The process that prints the results also runs the tests and is alive meanwhile.
    runs_them_itself: bool = false,
    /// Lines that add to a total count only directly below the line that announces them.
    adds_below_a_heading: bool = false,
    /// Lines that add to a total are ignored before its first line.
    totals_begin: bool = false,
    /// A run has parts with separate totals. The tool names each part before its tests, so that the name identifies the
    /// tests. Names that several programs may share are compared together with the number of tests.
    names_parts: bool = false,
    /// It reports only that tests failed, without a number.
    counts_no_tests: bool = false,
    /// Tests of several parts may share a name, and the tool names the part before its tests.
    shares_names_among_parts: bool = false,
    /// Several parts run at the same time, and the tool names the part of each line.
    runs_parts_at_once: bool = false,
    /// The name of a test without the part that the tool may leave out in a second mention.
    one_name: Option<fn(&str) -> String> = None,
    /// Each suite's total comes before the total of its parent suite.
    nests_totals: bool = false,
    /// A run may also fail for leaks or coverage, reported after the total of tests.
    judges_more_than_tests: bool = false,
    /// Tests may share a name.
    names_repeat: bool = false,
    /// Its run begins with the title of a suite above the first test.
    begins_at_suite: bool = false,
    /// It numbers its tests.
    numbers_tests: bool = false,
    /// Inside its session, lines of this tool are part of a test's output.
    hosts: Option<ToolId> = None,
    /// Other runners print lines in its format. Its own lines come below a blank line.
    shares_format: bool = false,
    /// Its tests are targets, which run tests of other tools.
    counts_targets: bool = false,
    /// In its brief output it names only failed tests, and counts those that passed.
    names_failed_in_brief: bool = false,
    /// One run prints one total, of all its tests.
    one_total: bool = false,
    /// Its last line has only the total; lines of tests have the other results.
    totals_only: bool = false,
}

impl Tool {
    /// Names of its program in a command line.
    pub(crate) fn commands(&self) -> &[&'static str] {
        if self.commands.is_empty() { std::slice::from_ref(&self.name) } else { self.commands }
    }
}
