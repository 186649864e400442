//! What a line can mean. A rule is a pattern, anchored at the beginning of the cleaned line, and what follows from it.
//!
//! How all patterns of all tools are asked at once is in [`set`]. Patterns see bytes, so that invalid UTF-8 hides nothing. One file a tool family.

#[macro_use]
mod deaths;

mod apple;
mod bundlers;
mod c;
mod children;
mod ci;
mod closing;
mod follow;
mod frameworks;
mod generic;
mod go;
mod groups;
mod javascript;
mod javascript_tests;
mod junit;
mod jvm;
mod languages;
mod lint;
mod literals;
mod native_tests;
mod packages;
mod python;
mod ruby;
mod runners;
mod runtime;
mod rust;
mod set;
mod shape;
mod split;
mod texts;

use follow::is_drawing;
pub(crate) use follow::{
    boxed, drawn, indented, indented_or_blank, one_more, paragraph, place, pointed, set_place, up_to_rule,
};
pub(crate) use groups::Groups;
pub(crate) use set::{Asker, RuleSet};

use crate::endings::signal_named;
use crate::tally::{Counts, Family};
use buildpool_protocol::report::Severity;

/// What a problem is about; decides what is likelier to be the cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// A process died.
    Crash,
    /// Machine, network, device: not the code's fault.
    Infrastructure,
    /// It does not compile or link.
    Build,
    /// A test failed.
    Test,
    /// A program or tool said that something is wrong.
    Runtime,
    /// A linter's remark.
    Lint,
    /// Follows from another problem: `make: *** Error 1`.
    Consequence,
}

/// Where the severity of a problem is read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// Always this.
    Is(Severity),
    /// From the word in group `s`.
    Word,
    /// A remark without a severity word.
    Remark,
}

/// Whether a line that follows the head of a problem belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// It does.
    Part,
    /// It does, and is the last one.
    Last,
    /// It does not, and neither does anything after it.
    Beyond,
    /// It does if a later line does: a blank line, a source line above its caret.
    Maybe,
}

/// Decides on a following line: the head, the lines so far (head included), the line.
pub(crate) type Follow = fn(so_far: &[String], line: &str) -> Next;

/// A problem that a line begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) level: Level,
    pub(crate) kind: Kind,
    /// How sure, in percent, before anything else is known.
    pub(crate) sure: u8,
    /// Which following lines belong to it; none if absent.
    pub(crate) follow: Option<Follow>,
    /// Problems inside its lines are part of it and not findings of their own.
    pub(crate) owns: bool,
    /// What stands at the margin below a blank line belongs to it only if a later line does, and not if a rule speaks to it.
    pub(crate) apart_after_blank: bool,
    /// It says only that a test failed.
    pub(crate) bare: bool,
    /// Lines right before it that belong to it: `In function 'f':`, `required from here`.
    pub(crate) lead: Option<fn(&str) -> bool>,
    /// It is in the file that was named last.
    pub(crate) in_file: bool,
    /// Corrects place, test and severity when the lines are complete.
    pub(crate) refine: Option<fn(&mut Draft)>,
}

/// A problem under way, as a rule may refine it when its lines are complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) lines: Vec<String>,
    pub(crate) test: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    /// Another severity than the rule's.
    pub(crate) severity: Option<Severity>,
    /// The lines that followed show that it is none.
    pub(crate) spurious: bool,
    /// Another kind than the rule's.
    pub(crate) kind: Option<Kind>,
    /// It says only that a test failed: nothing followed.
    pub(crate) bare: bool,
    /// Which line says it in short, if not the first.
    pub(crate) head: Option<usize>,
    /// The same failure is told in two places: once as a block, once as a line with the full name.
    pub(crate) join: Option<Join>,
}

/// Tellings of one failure, by what they have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    /// The block, which comes first.
    Block(String),
    /// The line with the full name.
    Title(String),
    /// The line that says that it failed, before both.
    Line(String),
}

/// What happened to a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TestEvent {
    Started,
    Passed,
    Failed,
    Skipped,
    ExpectedFailure,
    /// It ended; how is told, and counted, elsewhere.
    Ended,
}

/// A sign about the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    /// A known tool says that all went well; its name.
    Success(&'static str),
    /// A known tool says that it failed; its name.
    Failure(&'static str),
    /// A known tool says by the way that it failed; its name. What it said of it before is its word.
    FailureToo(&'static str),
    /// A tool says in a mere word that it failed; it counts if the tool has said so before.
    StillFailure(&'static str),
    /// A tool tells in a mere number that it had errors; its name. It counts if an error of a build was seen.
    TotalOfErrors(&'static str),
    /// A tool says that it failed in words that anybody may say; they count if something else is known of this family's tool.
    FailureUnder(Family),
    /// A tool says that what it said of its own failure is no more; its name. Says nothing about how the run went.
    TakesBack(&'static str),
    /// A tool was at work; its name. Says nothing about how it went.
    Tool(&'static str),
    /// A run of a tool begins; its name. Whatever it ran before has ended.
    Begins(&'static str),
    /// A test runner says that it found no tests.
    NoTests,
    /// A sign of a crash.
    Crash(Indicator),
    /// A sign of a crash if this family's tool was at work, by its own words before or after.
    CrashUnder(Family, Indicator),
    /// An exception says this of the program that it ends; a trace that comes later takes it back, as the program went on.
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
    /// A shell or make names the signal of a program that it ran; empty until it is read from the line's group `sig`.
    Died(&'static str),
    /// A tool says that what it ran died, of this signal if it names one; empty until it is read from the group `sig`.
    ChildDied(&'static str),
}

impl Indicator {
    /// Whether it is no more than a word, which a test may print as well.
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

/// Each sort has its own number.
const SORTS: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed"),
        failed: groups.number("failed") + groups.number("errors"),
        skipped: groups.number("skipped"),
        expected: groups.number("expected"),
    })
};

/// What is not told of a total passed.
const TOTAL: Count = |groups| {
    let (total, skipped) = (groups.number("n"), groups.number("skipped"));
    let failed = groups.number("failed") + groups.number("errors");
    Some(Counts { passed: total.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
};

/// What follows from a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// It begins a problem.
    Problem(Problem),
    /// It tells about the test in group `t`.
    Test(Family, TestEvent),
    /// The test that began last ended; the line does not name it.
    Ends(Family),
    /// It is a tool's summary of its tests, and says how the run went.
    Counts(Family, Count),
    /// It is such a summary if the next line is the tool's own: anybody may say its words.
    Awaits(Family, Count),
    /// It is the tool's own line right below its summary.
    Confirms(Family),
    /// It is a summary if something announced it a few lines before.
    Announced(Family, Count),
    /// It is a summary of a part of the tests, or of those that ran so far: it does not say how the run went.
    Partial(Family, Count),
    /// A program of this family is at work.
    AtWork(Family),
    /// It announces a summary.
    Heading(Family),
    /// It is a line of a summary, and says that something went wrong which the summary's tests are no part of: the run failed,
    /// however its tests ended.
    Amiss(Family),
    /// It says how many tests there are.
    Plan(Family),
    /// It says how many tests (`n`, or `selected` of them) run now; a total follows when they have.
    Announces(Family),
    /// A program of this family begins, which may run tests or do something else.
    Header(Family),
    /// What the program that has just begun runs its tests with: it does run them.
    Settings(Family),
    /// Marks of tests that ran (`marks`), below a blank line if no settings came before: a run that began with a header just
    /// before, and that a total follows. It may tell how many (`k`) of all (`n`) have run.
    Marks(Family),
    /// A directory's list, whose line before looks like the mark of a test.
    NoMarks(Family),
    /// It adds to the summary that came before: `3 failing`.
    Adds(Family, Count),
    /// It tells how many of the summary that came before did not simply pass: `FAILED (failures=3)`.
    Moves(Family, Count),
    /// The run under way of this tool is of the unit in group `u`, in that of group `w` if there is one.
    Unit(&'static str),
    /// The run under way failed at that unit.
    FailedUnit(&'static str),
    /// What failed is tried again by the same process.
    TriesAgain(&'static str),
    /// It announces the command line in group `m`.
    Command,
    /// It announces a command line of xcodebuild, in group `m`.
    XcodebuildCommand,
    /// It tells the result of the action in group `u`.
    ActionResult,
    /// The next total of this family is of the tests that failed before.
    RerunsFailed(Family),
    /// It begins a test session: counts that come after it are those of another one.
    Session(Family),
    /// A program of this family has ended; completely if all its tests passed.
    Over(Family, bool),
    /// The program under way tells of each test that passed.
    TellsPasses(Family),
    /// The tests of a part of the run follow, named by group `t`: only those of the same part are the same tests.
    Part(Family),
    /// A part of the run failed, which groups `goal` and `project` name.
    FailedPart(Family),
    /// The tests of a family that began and have not ended never will, whatever its program says at its end.
    Cut(Family),
    /// It names the file (`f`) that the failures after it are in.
    File,
    /// A runner names the test in group `t` as one that passed only after it had failed.
    Flaky,
    /// What is logged from here on is said by the test in group `t`.
    Speaks,
    /// It is said by that test: its failure has it, wherever that is told.
    Logs,
    /// It is a sign about the run.
    Sign(Sign),
    /// A test runner says that a process in which it ran tests died, of the signal in group `sig` if it names one. It says so
    /// within the message of a failed test, too.
    WorkerDied,
    /// A test runner says so of a process of its own, within the message of a failed test too. It may run the test in another
    /// process: a later total tells.
    RunnerSays(Sign),
    /// It says so where it is a line of a message that has this text.
    Within(&'static str, &'static Act),
    /// It is worth keeping as the tool's last word.
    Summary,
    /// It is no problem, whatever it looks like to rules that come later.
    Harmless,
    /// No rule that comes later is heard.
    Alone,
}

impl Act {
    /// The family whose program is at work where something says so before its total. Of many, a session is no more than their
    /// total's.
    pub(crate) const fn at_work(self) -> Option<Family> {
        match self {
            Self::Test(family, _) | Self::AtWork(family) | Self::Announces(family) => Some(family),
            // A total's own heading begins no run.
            Self::Heading(family) if family.announces().is_none() => Some(family),
            _ => None,
        }
    }
}

/// A pattern and what follows.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `tool.what`, for explanations and tests.
    pub(crate) name: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) acts: &'static [Act],
}

/// Problem with defaults, for the tables.
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
        refine: None,
    }
}

impl Problem {
    pub(crate) const fn follow(mut self, follow: Follow) -> Self {
        self.follow = Some(follow);
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

    pub(crate) const fn refine(mut self, refine: fn(&mut Draft)) -> Self {
        self.refine = Some(refine);
        self
    }
}

pub(crate) const ERROR: Level = Level::Is(Severity::Error);
pub(crate) const FATAL: Level = Level::Is(Severity::Fatal);
pub(crate) const INFO: Level = Level::Is(Severity::Info);
pub(crate) const WARNING: Level = Level::Is(Severity::Warning);

/// Tables in order: of two rules that begin a problem on the same line the earlier one counts.
const TABLES: &[&[Rule]] = &[
    apple::RULES,
    children::RULES,
    rust::RULES,
    junit::RULES,
    python::RULES,
    native_tests::RULES,
    frameworks::RULES,
    closing::RULES,
    go::RULES,
    runners::RULES,
    ruby::RULES,
    javascript::RULES,
    javascript_tests::RULES,
    bundlers::RULES,
    jvm::RULES,
    languages::RULES,
    c::RULES,
    packages::RULES,
    ci::RULES,
    runtime::RULES,
    lint::RULES,
    generic::RULES,
];

/// Severity of a word that tools use.
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
        for rule in TABLES.iter().flat_map(|table| table.iter()) {
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
                    Act::Test(..) | Act::Speaks | Act::Flaky | Act::Part(_) => {
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
