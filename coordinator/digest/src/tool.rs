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

/// Properties of a tool.
#[derive(Debug)]
pub(crate) struct Tool {
    /// What its lines mean.
    pub(crate) rules: &'static [Rule],
    /// Readers of its records and documents in JSON.
    pub(crate) records: &'static [RecordFormat],
    /// Its name in answers.
    pub(crate) name: &'static str,
    /// Its names in command lines. A second word must be among the arguments. Empty: only its name.
    pub(crate) commands: &'static [&'static str],
    /// A command with it is a test run, also if `run_tests` did not choose it.
    pub(crate) runs_tests: bool,
    /// Its options that select tests by name. A value follows after a space or `=`.
    pub(crate) selections: &'static [&'static str],
    /// Whether the words of a command select tests of this tool in another way.
    pub(crate) selects_tests: fn(&[String]) -> bool,
    /// The selection of tests in a command that accepts it if a part of the run has none of them.
    pub(crate) optional_selection: fn(&Command) -> Option<&str>,
    /// The format of its report files that a build without tests writes too.
    pub(crate) build_report: Option<ReportFormat>,
    /// Meanings of its own exit codes, as the continuation of a sentence.
    pub(crate) code_meaning: fn(i32) -> Option<&'static str>,
    /// A part of the command line without a result, although another part has one.
    pub(crate) missing_result: fn(&Machines, &Command) -> Option<String>,
    /// It runs tests in a simulator.
    pub(crate) uses_simulator: bool,
    /// It prints the bare names of passed tests, indented; the line with which such output begins.
    pub(crate) bare_names_after: Option<&'static [u8]>,
    /// The tool of the same program whose invocations these are.
    pub(crate) program: Option<ToolId>,
    /// The tool whose results these are, in another format.
    pub(crate) reports_as: Option<ToolId>,
    /// Whether its failure stands despite a later success of another tool.
    pub(crate) apart: Apart,
    /// It runs other tools, and its result includes theirs.
    pub(crate) drives: bool,
    /// It is a build tool.
    pub(crate) builds: bool,
    /// The stage that one of its result lines reports.
    pub(crate) stage: fn(&str) -> Stage,
    /// It prints totals of tests only in a test run, never in a build.
    pub(crate) only_in_test_runs: bool,
    /// A panic in one of its tests is a failed test, not a crash.
    pub(crate) panics_are_failed_tests: bool,
    /// It is a linter: it exits with another code than 0 after its remarks.
    pub(crate) lints: bool,
    /// It prints its end, whatever the result, if it printed its start.
    pub(crate) reports_its_end: bool,
    /// It runs tests, and may print nothing before their first output.
    pub(crate) begins_in_silence: bool,
    /// It fails independently of its host: the host's success does not take its failure back.
    pub(crate) judges_by_itself: bool,
    /// It names the failed part and counts no tests. The tally finds a later pass of that part.
    pub(crate) names_failed_part: bool,
    /// Its units are parts of a command line, such as `build`. They match only in the same command.
    pub(crate) units_of_command: bool,
    /// A later success of the same invocation does not take its failure back.
    pub(crate) outlives_invocation: bool,
    /// The tool that runs it, unless the command itself does.
    pub(crate) host: Option<ToolId>,
    /// It prints marks or lines of results, and always a total.
    pub(crate) always_totals: bool,
    /// It names each test as it ends, so that its results can be counted one by one.
    pub(crate) by_test: bool,
    /// The tools whose tests it runs.
    pub(crate) includes: Includes,
    /// The announcement that a total needs. Unannounced totals may be a test's output.
    pub(crate) announces: Option<Announced>,
    /// It prints start and end of each test, one test at a time.
    pub(crate) begins_each: bool,
    /// Other programs may print its announcement: `running 3 tests`, `collected 3 items`.
    pub(crate) announces_in_common_words: bool,
    /// The process that prints the results also runs the tests and is alive meanwhile.
    pub(crate) runs_them_itself: bool,
    /// Lines that add to a total count only directly below the line that announces them.
    pub(crate) adds_below_a_heading: bool,
    /// Lines that add to a total are ignored before its first line.
    pub(crate) totals_begin: bool,
    /// A run has parts with separate totals. The tool names each part before its tests, so that the name identifies the
    /// tests. Names that several programs may share are compared together with the number of tests.
    pub(crate) names_parts: bool,
    /// It reports only that tests failed, without a number.
    pub(crate) counts_no_tests: bool,
    /// Tests of several parts may share a name, and the tool names the part before its tests.
    pub(crate) shares_names_among_parts: bool,
    /// Several parts run at the same time, and the tool names the part of each line.
    pub(crate) runs_parts_at_once: bool,
    /// The name of a test without the part that the tool may leave out in a second mention.
    pub(crate) one_name: Option<fn(&str) -> String>,
    /// Each suite's total comes before the total of its parent suite.
    pub(crate) nests_totals: bool,
    /// A run may also fail for leaks or coverage, reported after the total of tests.
    pub(crate) judges_more_than_tests: bool,
    /// Tests may share a name.
    pub(crate) names_repeat: bool,
    /// Its run begins with the title of a suite above the first test.
    pub(crate) begins_at_suite: bool,
    /// It numbers its tests.
    pub(crate) numbers_tests: bool,
    /// Inside its session, lines of this tool are part of a test's output.
    pub(crate) hosts: Option<ToolId>,
    /// Other runners print lines in its format. Its own lines come below a blank line.
    pub(crate) shares_format: bool,
    /// Its tests are targets, which run tests of other tools.
    pub(crate) counts_targets: bool,
    /// In its brief output it names only failed tests, and counts those that passed.
    pub(crate) names_failed_in_brief: bool,
    /// Its last line has only the total; lines of tests have the other results.
    pub(crate) totals_only: bool,
}

impl Tool {
    /// A tool without peculiarities.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self {
            rules: &[],
            records: &[],
            name,
            commands: &[],
            runs_tests: false,
            selections: &[],
            selects_tests: |_| false,
            optional_selection: |_| None,
            build_report: None,
            code_meaning: |_| None,
            missing_result: |_, _| None,
            uses_simulator: false,
            bare_names_after: None,
            program: None,
            reports_as: None,
            apart: Apart::Never,
            drives: false,
            builds: false,
            stage: |_| Stage::Unknown,
            only_in_test_runs: false,
            panics_are_failed_tests: false,
            lints: false,
            reports_its_end: false,
            begins_in_silence: false,
            judges_by_itself: false,
            names_failed_part: false,
            units_of_command: false,
            outlives_invocation: false,
            host: None,
            always_totals: false,
            by_test: false,
            includes: Includes::Nothing,
            announces: None,
            begins_each: false,
            announces_in_common_words: false,
            runs_them_itself: false,
            adds_below_a_heading: false,
            totals_begin: false,
            names_parts: false,
            counts_no_tests: false,
            shares_names_among_parts: false,
            runs_parts_at_once: false,
            one_name: None,
            nests_totals: false,
            judges_more_than_tests: false,
            names_repeat: false,
            begins_at_suite: false,
            numbers_tests: false,
            hosts: None,
            shares_format: false,
            counts_targets: false,
            names_failed_in_brief: false,
            totals_only: false,
        }
    }

    /// Names of its program in a command line.
    pub(crate) fn commands(&self) -> &[&'static str] {
        if self.commands.is_empty() { std::slice::from_ref(&self.name) } else { self.commands }
    }
}
