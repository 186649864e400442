//! Rules: a rule is a pattern, anchored at the beginning of the cleaned line, and its effects.
//!
//! [`set`] matches all patterns of all tools at once. Patterns match bytes, so that invalid UTF-8 hides nothing. The rules of each tool are in its file in [`crate::tools`].

#[macro_use]
mod signal_words;

mod follow;
mod group_splitter;
mod groups;
mod literal_search;
mod literals;
mod pattern_shape;
mod set;

pub(crate) use follow::{
    always, boxed, drawn, indented, indented_or_blank, is_drawing, one_more, paragraph, place, pointed,
    set_place, up_to_rule,
};
pub(crate) use groups::Groups;
pub(crate) use set::{LineMatcher, RuleSet};

use crate::exit_codes::signal_named;
use crate::tally::Counts;
use crate::tool::ToolId;
use buildpool_protocol::report::Severity;

/// Subject of a problem. It decides which problem is more likely to be the cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// A process died.
    Crash,
    /// Machine, network or device: an infrastructure problem.
    Infrastructure,
    /// It does not compile or link.
    Build,
    /// A test failed.
    Test,
    /// A program or tool reported an error.
    Runtime,
    /// A linter's remark.
    Lint,
    /// Follows from another problem: `make: *** Error 1`.
    Consequence,
}

/// Source of the severity of a problem.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// Always this severity.
    Is(Severity),
    /// The word in group `s`.
    Word,
    /// A remark without a severity word.
    Remark,
}

/// Whether a line after the head of a problem belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The line belongs to it.
    Part,
    /// The line belongs to it and is its last one.
    Last,
    /// The line does not belong to it, and no later line does.
    Beyond,
    /// The line belongs to it if a later line does: a blank line, a source line above its caret.
    Maybe,
}

/// Decides about a following line. Arguments: the head, the lines so far (with the head), the line.
pub(crate) type Follow = fn(so_far: &[String], line: &str) -> Next;

/// A property of a problem that changes its treatment, in addition to its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Usual,
    /// A line that begins with a word that any program can print. Without a place it is a weak cause, and the last one counts.
    Vague,
    /// A line that no rule matches. It is vague, and never the likely cause.
    Unknown,
    /// A trace, uncaught or printed. A program that prints a second one had caught the first exception.
    Trace,
    /// An entry of a list at the end, with message and place. It is appended to the test's own message.
    Listed,
    /// Stacks that a process prints at a signal.
    Stacks,
    /// A shell's line about the end of such a process.
    AbortEcho,
    /// If it has a place, it shows that a test file did not load.
    Loading,
    /// A problem outside tests in a report file.
    ReportIssue,
}

/// A problem that begins at a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) level: Level,
    pub(crate) kind: Kind,
    /// Certainty in percent, before other evidence.
    pub(crate) sure: u8,
    /// Selects the following lines that belong to it. `None`: no line does.
    pub(crate) follow: Option<Follow>,
    /// Problems inside its lines are part of it, not separate findings.
    pub(crate) owns: bool,
    /// Unindented lines below a blank line belong to it only if a later line does, and not if a rule matches them.
    pub(crate) apart_after_blank: bool,
    /// It reports only that a test failed.
    pub(crate) bare: bool,
    /// Lines directly before it that belong to it: `In function 'f':`, `required from here`.
    pub(crate) lead: Option<fn(&str) -> bool>,
    /// Its file is the last named one.
    pub(crate) in_file: bool,
    /// Selects lines that a message above the limit loses first.
    pub(crate) dispensable: Option<fn(&str) -> bool>,
    /// Corrects location, test and severity when its lines are complete.
    pub(crate) refine: Option<fn(&mut Draft)>,
    pub(crate) role: Role,
    /// For an error of a program: whether it ended the program. Programs can also log an error and continue, which `None` assumes.
    pub(crate) ended: Option<fn(&Draft) -> bool>,
}

/// A problem with its lines, which a rule may correct when they are complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) lines: Vec<String>,
    pub(crate) test: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    /// Severity that replaces the rule's.
    pub(crate) severity: Option<Severity>,
    /// True if the following lines show that it is not a problem.
    pub(crate) spurious: bool,
    /// Kind that replaces the rule's.
    pub(crate) kind: Option<Kind>,
    /// True if it reports only that a test failed, without further lines.
    pub(crate) bare: bool,
    /// Index of the line that summarizes it, if not the first.
    pub(crate) head: Option<usize>,
    /// Set if the same failure is printed in two places: as a block, and as a line with the full name.
    pub(crate) join: Option<Join>,
}

impl Draft {
    /// Its first line.
    pub(crate) fn first(&self) -> &str {
        self.lines.first().map_or("", String::as_str)
    }
}

/// Reports of one failure, identified by their common part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    /// The block, which comes first.
    Block(String),
    /// The line with the full name.
    Title(String),
    /// The line that reports the failure before both.
    Line(String),
}

/// Event of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TestEvent {
    Started,
    Passed,
    Failed,
    Skipped,
    ExpectedFailure,
    /// It ended. Another line has the result.
    Ended,
}

/// A sign about the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    /// A known tool reports success.
    Success(ToolId),
    /// A known tool reports failure.
    Failure(ToolId),
    /// A known tool reports failure in passing. Its earlier report is its last word.
    FailureToo(ToolId),
    /// A tool reports failure with a single word. It counts if the tool has reported failure before.
    StillFailure(ToolId),
    /// A tool reports a number of errors. It counts if a build error was found.
    TotalOfErrors(ToolId),
    /// A tool reports failure with words that other programs use too. They count if another line shows this family's tool.
    FailureUnder(ToolId),
    /// A tool withdraws its earlier report of failure. It is not a result of the run.
    TakesBack(ToolId),
    /// A tool is running. It is not a result.
    Tool(ToolId),
    /// A run of a tool begins. Its earlier run has ended.
    Begins(ToolId),
    /// A test runner found no tests.
    NoTests,
    /// A part of a run had tests, so that its other parts may have none.
    SomeTests,
    /// A sign of a crash.
    Crash(Indicator),
    /// A sign of a crash if this family's tool is running, by its own lines before or after.
    CrashUnder(ToolId, Indicator),
    /// An exception reports the end of its program. A later trace cancels it, because the program went on.
    Raised(Indicator),
    /// A trace begins.
    Trace,
}

impl Sign {
    /// With the signal that the line names.
    pub(crate) fn with_signal(self, groups: &Groups<'_>) -> Self {
        let signal = || groups.text("sig").and_then(|said| signal_named(&said)).unwrap_or_default();
        match self {
            Self::Crash(Indicator::Died("")) => Self::Crash(Indicator::Died(signal())),
            Self::Crash(Indicator::ChildDied("")) => Self::Crash(Indicator::ChildDied(signal())),
            Self::CrashUnder(family, Indicator::Died("")) => {
                Self::CrashUnder(family, Indicator::Died(signal()))
            }
            _ => self,
        }
    }
}

/// Signs of a crash, named as in the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Indicator {
    TestRunnerCrashed,
    ConnectionInterrupted,
    EarlyExit,
    NeverBeganTesting,
    BundleLoadFailed,
    SimulatorBootTimeout,
    TestProcessCrashed,
    RestartedAfterCrash,
    FatalError,
    UncaughtException,
    UnexpectedSignal,
    RunnerError,
    RunnerNotLaunched,
    Sanitizer,
    Panic,
    Killed,
    OutOfMemory,
    /// A shell or make names the signal of a program that it ran. Empty until it is read from group `sig`.
    Died(&'static str),
    /// A tool reports the death of its process, with the signal if it names one. Empty until it is read from group `sig`.
    ChildDied(&'static str),
}

impl Indicator {
    /// True if it is only a word that a test may print too.
    pub(crate) const fn is_word(self) -> bool {
        matches!(
            self,
            Self::FatalError
                | Self::UncaughtException
                | Self::UnexpectedSignal
                | Self::Panic
                | Self::Killed
                | Self::OutOfMemory
                | Self::Died(_)
        )
    }
}

/// Reads counts from a summary line.
pub(crate) type Count = fn(&Groups<'_>) -> Option<Counts>;

/// Each kind of test has its own number.
pub(crate) const SORTS: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed"),
        failed: groups.number("failed") + groups.number("errors"),
        skipped: groups.number("skipped"),
        expected: groups.number("expected"),
    })
};

/// The rest of a total passed.
pub(crate) const TOTAL: Count = |groups| {
    let (total, skipped) = (groups.number("n"), groups.number("skipped"));
    let failed = groups.number("failed") + groups.number("errors");
    Some(Counts { passed: total.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
};

/// Effect of a matched line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Begins a problem.
    Problem(Problem),
    /// Reports an event of the test in group `t`.
    Test(ToolId, TestEvent),
    /// Ends the test that began last. The line does not name it.
    Ends(ToolId),
    /// A tool's summary of its tests, which is a result of the run.
    Counts(ToolId, Count),
    /// A summary if the next line is the tool's own, because other programs may print the same words.
    Awaits(ToolId, Count),
    /// The tool's own line directly below its summary.
    Confirms(ToolId),
    /// A summary if another line announced it a few lines before.
    Announced(ToolId, Count),
    /// A summary of a part of the tests, or of the tests so far. It is not a result of the run.
    Partial(ToolId, Count),
    /// A program of this family is running.
    AtWork(ToolId),
    /// Announces a summary.
    Heading(ToolId),
    /// A line of a summary that reports a failure outside the summary's tests: the run failed,
    /// with any results of its tests.
    Amiss(ToolId),
    /// Number of tests.
    Plan(ToolId),
    /// Number of tests (`n`, or `selected` of them) that run now; a total follows after them.
    Announces(ToolId),
    /// A program of this family begins. It may run tests or other work.
    Header(ToolId),
    /// A line of the program that has just begun, which shows that it runs tests.
    Settings(ToolId),
    /// Marks of finished tests (`marks`), below a blank line if no settings came before. The run began with a header just
    /// before, and a total follows. The line may have the number of finished tests (`k`) of all (`n`).
    Marks(ToolId),
    /// The list of a directory. The line before it looks like the mark of a test.
    NoMarks(ToolId),
    /// Adds to the summary before it: `3 failing`.
    Adds(ToolId, Count),
    /// Number of tests of the summary before it that did not simply pass: `FAILED (failures=3)`.
    Moves(ToolId, Count),
    /// The current run of this tool works on the unit in group `u`, in that of group `w` if present.
    Unit(ToolId),
    /// The current run failed at that unit.
    FailedUnit(ToolId),
    /// The same process tries the failed part again.
    TriesAgain(ToolId),
    /// Announces the command line in group `m`.
    Command,
    /// Announces a command line of xcodebuild, in group `m`.
    XcodebuildCommand,
    /// Reports the result of the action in group `u`.
    ActionResult,
    /// The next total of this family is of the tests that failed before.
    RerunsFailed(ToolId),
    /// Begins a test session. Later counts belong to this session.
    Session(ToolId),
    /// A program of this family has ended, completely if all its tests passed.
    Over(ToolId, bool),
    /// The output of the target of Bazel in group `t` follows.
    TargetOutput,
    /// The current program reports each passed test.
    TellsPasses(ToolId),
    /// The tests of a part of the run follow, named by group `t`. Only tests of the same part are the same tests.
    Part(ToolId),
    /// A part of the run failed; groups `goal` and `project` name it.
    FailedPart(ToolId),
    /// Tests of a family that began and have not ended will never end, even if the program later reports otherwise.
    Cut(ToolId),
    /// Names the file (`f`) of the failures after it.
    File,
    /// A runner names the test in group `t` as one that passed only after a failure.
    Flaky,
    /// Later output belongs to the test in group `t`.
    Speaks,
    /// The line belongs to that test's output; the failure of the test contains it.
    Logs,
    /// A sign about the run.
    Sign(Sign),
    /// A test runner reports the death of a process that ran tests, by the signal in group `sig` if it names one. This counts
    /// inside the message of a failed test too.
    WorkerDied,
    /// A test runner reports the death of its own process, inside the message of a failed test too. It may run the test in
    /// another process: a later total decides.
    RunnerSays(Sign),
    /// The same, if it is a line of a message with this text.
    Within(&'static str, &'static Act),
    /// Kept as the tool's last word.
    Summary,
    /// Not a problem, even if a later rule matches.
    Harmless,
    /// No later rule is matched.
    Alone,
}

impl Act {
    /// The family whose program is running if another line shows this before its total. For many families, a session is only
    /// their total.
    pub(crate) fn at_work(self) -> Option<ToolId> {
        match self {
            Self::Test(family, _) | Self::AtWork(family) | Self::Announces(family) => Some(family),
            // A total's own heading does not begin a run.
            Self::Heading(family) if family.announces.is_none() => Some(family),
            _ => None,
        }
    }
}

/// A pattern and its effects.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `tool.name`, for explanations and tests.
    pub(crate) name: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) acts: &'static [Act],
}

/// A problem with default values, for the tables.
pub(crate) const fn problem(level: Level, kind: Kind, sure: u8) -> Problem {
    Problem {
        level,
        kind,
        sure,
        follow: None,
        owns: false,
        apart_after_blank: false,
        bare: false,
        lead: None,
        in_file: false,
        dispensable: None,
        refine: None,
        role: Role::Usual,
        ended: None,
    }
}

impl Problem {
    pub(crate) const fn follow(mut self, follow: Follow) -> Self {
        self.follow = Some(follow);
        self
    }

    pub(crate) const fn dispensable(mut self, lines: fn(&str) -> bool) -> Self {
        self.dispensable = Some(lines);
        self
    }

    pub(crate) const fn owning(mut self) -> Self {
        self.owns = true;
        self
    }

    pub(crate) const fn apart_after_blank(mut self) -> Self {
        self.apart_after_blank = true;
        self
    }

    pub(crate) const fn lead(mut self, lead: fn(&str) -> bool) -> Self {
        self.lead = Some(lead);
        self
    }

    pub(crate) const fn in_file(mut self) -> Self {
        self.in_file = true;
        self
    }

    pub(crate) const fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    pub(crate) const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    pub(crate) const fn ended(mut self, ended: fn(&Draft) -> bool) -> Self {
        self.ended = Some(ended);
        self
    }

    pub(crate) const fn refine(mut self, refine: fn(&mut Draft)) -> Self {
        self.refine = Some(refine);
        self
    }
}

pub(crate) const ERROR: Level = Level::Is(Severity::Error);
pub(crate) const FATAL: Level = Level::Is(Severity::Fatal);
pub(crate) const INFO: Level = Level::Is(Severity::Info);
pub(crate) const WARNING: Level = Level::Is(Severity::Warning);

/// Severity of a word that tools print.
pub(crate) fn severity_of_word(word: &str) -> Severity {
    let word = word.trim();
    let lower = word.to_ascii_lowercase();
    match lower.as_str() {
        "fatal" | "fatal error" | "panic" | "critical" | "catastrophic error" | "emerg" | "alert"
        | "crit" | "f" => Severity::Fatal,
        "warning" | "warn" | "w" | "style" | "convention" | "c" | "refactor" | "r" | "performance"
        | "portability" | "caution" | "deprecated" | "⚠" => Severity::Warning,
        "info" | "note" | "i" | "information" | "hint" | "remark" | "n" | "notice" | "debug" => {
            Severity::Info
        }
        _ => Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::bytes::RegexBuilder;
    use std::collections::BTreeSet;

    #[test]
    fn tables_are_sound() {
        let mut names = BTreeSet::new();
        for rule in crate::tools::rules() {
            assert!(names.insert(rule.name), "{} is there twice", rule.name);
            assert!(
                rule.pattern.starts_with('^') || rule.pattern.starts_with("(?i)^"),
                "{} is not anchored",
                rule.name
            );
            let regex = RegexBuilder::new(rule.pattern).unicode(false).build();
            let regex = regex.unwrap_or_else(|error| panic!("{}: {error}", rule.name));
            assert!(regex.captures_len() <= groups::GROUPS_MAX, "{} has too many groups", rule.name);
            let groups: BTreeSet<_> = regex.capture_names().flatten().collect();
            for act in rule.acts {
                match act {
                    Act::Test(..) | Act::Speaks | Act::Flaky | Act::Part(_) | Act::TargetOutput => {
                        assert!(groups.contains("t"), "{} names no test", rule.name)
                    }
                    Act::File => assert!(groups.contains("f"), "{} names no file", rule.name),
                    Act::Sign(Sign::Crash(Indicator::Died(""))) => {
                        assert!(groups.contains("sig"), "{} names no signal", rule.name);
                    }
                    Act::RunnerSays(_) | Act::Within(..) => {}
                    Act::Unit(_) | Act::FailedUnit(_) | Act::ActionResult => {
                        assert!(groups.contains("u"), "{} names no unit", rule.name);
                    }
                    Act::Command | Act::XcodebuildCommand => {
                        assert!(groups.contains("m"), "{} names no command", rule.name);
                    }
                    Act::Plan(_) | Act::Announces(_) => {
                        assert!(groups.contains("n"), "{} has no number", rule.name)
                    }
                    Act::Problem(Problem { level: Level::Word, .. }) => {
                        assert!(groups.contains("s"), "{} has no severity word", rule.name);
                    }
                    Act::Adds(..)
                    | Act::Awaits(..)
                    | Act::Confirms(_)
                    | Act::Announced(..)
                    | Act::FailedPart(_)
                    | Act::Logs
                    | Act::TriesAgain(_)
                    | Act::RerunsFailed(_)
                    | Act::AtWork(_)
                    | Act::Ends(_)
                    | Act::Cut(_)
                    | Act::TellsPasses(_)
                    | Act::Partial(..)
                    | Act::Heading(_)
                    | Act::Amiss(_)
                    | Act::Header(_)
                    | Act::Settings(_)
                    | Act::Marks(_)
                    | Act::NoMarks(_)
                    | Act::Over(..)
                    | Act::Alone
                    | Act::Moves(..)
                    | Act::Problem(_)
                    | Act::Counts(..)
                    | Act::Session(_)
                    | Act::Sign(_)
                    | Act::WorkerDied
                    | Act::Summary
                    | Act::Harmless => {}
                }
            }
        }
    }
}
