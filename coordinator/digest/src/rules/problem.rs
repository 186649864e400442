//! Problems that begin at a matched line: their subject, severity and following lines.

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
    /// A line that begins with a mark, such as a cross. Programs other than test runners print such lines too.
    Mark,
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

/// Whether a problem shows that the program that printed it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fails {
    /// An error with a place does. Other errors do if the log ends with them. Warnings and remarks do not.
    #[default]
    BySeverity,
    /// It does, whatever its severity is: the program accepts no such remark.
    Always,
    /// The same, unless tests that printed no start passed after it: a test of the program may print it too.
    OutsideTests,
    /// It does if the log ends with it. In other places any program can print such a line.
    AtEnd,
    /// It does not: the program prints errors and exits with 0.
    Never,
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
    pub(crate) refine: Option<fn(&mut Diagnostic)>,
    pub(crate) role: Role,
    /// For an error of a program: whether it ended the program. Programs can also log an error and continue, which `None` assumes.
    pub(crate) ended: Option<fn(&Diagnostic) -> bool>,
    /// Whether it shows that its program failed.
    pub(crate) fails: Fails,
    /// A number in brackets before it is its own, not the name of a task.
    pub(crate) numbered: bool,
}

/// A problem with its lines, which a rule may correct when they are complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diagnostic {
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
    /// Whether it shows that its program failed.
    pub(crate) fails: Fails,
    /// Index of the line that summarizes it, if not the first.
    pub(crate) head: Option<usize>,
    /// Set if the same failure is printed in two places: as a block, and as a line with the full name.
    pub(crate) join: Option<Join>,
}

impl Diagnostic {
    /// Its first line.
    pub(crate) fn first(&self) -> &str {
        self.lines.first().map_or("", String::as_str)
    }

    /// Its first line after the place.
    pub(crate) fn after_place(&self) -> &str {
        let line = self.first();
        let rest = self.file.as_deref().and_then(|file| after_text(line, file)).unwrap_or(line);
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ':' | '(' | ')' | ',' | ' '))
    }
}

/// The rest of a line after the first occurrence of a text. Most lines begin with it.
pub(crate) fn after_text<'l>(line: &'l str, text: &str) -> Option<&'l str> {
    line.strip_prefix(text).or_else(|| {
        // A general search prepares itself longer than it takes to look at the places of the first byte.
        let first = *text.as_bytes().first()?;
        let mut places = memchr::memchr_iter(first, line.as_bytes());
        places.find_map(|at| line.get(at..)?.strip_prefix(text))
    })
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
        fails: Fails::BySeverity,
        numbered: false,
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

    pub(crate) const fn ended(mut self, ended: fn(&Diagnostic) -> bool) -> Self {
        self.ended = Some(ended);
        self
    }

    pub(crate) const fn numbered(mut self) -> Self {
        self.numbered = true;
        self
    }

    pub(crate) const fn fails(mut self, fails: Fails) -> Self {
        self.fails = fails;
        self
    }

    pub(crate) const fn refine(mut self, refine: fn(&mut Diagnostic)) -> Self {
        self.refine = Some(refine);
        self
    }
}

pub(crate) const ERROR: Level = Level::Is(Severity::Error);
pub(crate) const FATAL: Level = Level::Is(Severity::Fatal);
pub(crate) const INFO: Level = Level::Is(Severity::Info);
pub(crate) const WARNING: Level = Level::Is(Severity::Warning);

/// Severity of a word that tools print. An unknown word is one of an error.
pub(crate) fn severity_of_word(word: &str) -> Severity {
    known_severity(word).unwrap_or(Severity::Error)
}

/// Severity of a word, if it is one of those that tools use for severities.
pub(crate) fn known_severity(word: &str) -> Option<Severity> {
    let lower = word.trim().to_ascii_lowercase();
    Some(match lower.as_str() {
        "fatal" | "fatal error" | "panic" | "critical" | "catastrophic error" | "emerg" | "alert"
        | "crit" | "f" => Severity::Fatal,
        "warning" | "warn" | "w" | "style" | "convention" | "c" | "refactor" | "r" | "performance"
        | "portability" | "caution" | "deprecated" | "medium" | "moderate" | "minor" | "major" | "⚠" => {
            Severity::Warning
        }
        "info" | "note" | "i" | "information" | "informational" | "hint" | "suggestion" | "remark" | "n"
        | "notice" | "debug" | "trace" | "verbose" | "success" | "low" => Severity::Info,
        "error" | "err" | "e" | "errors" | "failure" | "failed" | "severe" | "high" | "blocker" => {
            Severity::Error
        }
        _ => return None,
    })
}
