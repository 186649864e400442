//! rustc, cargo, libtest, nextest.

use super::TestEvent::{Failed, Passed, Skipped, Started};
use super::{Act, Count, Draft, ERROR, Groups, Kind, Level, Next, Problem, Rule, Sign, WARNING, problem};
use crate::tally::Counts;
use crate::tool::ToolId;

/// The `--> file:line:column` line under a diagnostic.
fn arrow(draft: &mut Draft) {
    for line in &draft.lines {
        let Some(place) = line.trim_start().strip_prefix("--> ") else { continue };
        let mut parts = place.trim_end().rsplitn(3, ':');
        let (column, row, file) = (parts.next(), parts.next(), parts.next());
        if let (Some(column), Some(row), Some(file)) = (column, row, file) {
            draft.file = Some(file.to_owned());
            draft.line = row.parse().ok();
            draft.column = column.parse().ok();
        }
        return;
    }
    super::pointed(draft);
}

/// The lines of a rustc diagnostic: arrow, excerpt, notes.
fn diagnostic(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let excerpt =
        trimmed.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '|' | '=' | '+' | '-' | '.' | '~'));
    let arrow = trimmed.starts_with("--> ") || trimmed.starts_with("::: ");
    let word = line.starts_with("help:") || line.starts_with("note:") || line.starts_with("...");
    let deep = line.starts_with("     ")
        || line.starts_with("  ") && !trimmed.starts_with(|c: char| c.is_ascii_uppercase());
    if trimmed.is_empty() {
        Next::Beyond
    } else if excerpt || arrow || word || deep {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Cargo's own errors: the lines under them up to a blank one, `Caused by:` included.
fn cargo_lines(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() {
        return Next::Maybe;
    }
    // Text of bun and others about an assertion.
    let compared = line.starts_with("Expected") || line.starts_with("Received");
    if compared && so_far.len() < 12 {
        return Next::Part;
    }
    if line == "Caused by:" || line.starts_with("  ") && so_far.len() < 40 {
        diagnostic_or_deep(so_far, line)
    } else {
        diagnostic(so_far, line)
    }
}

fn diagnostic_or_deep(so_far: &[String], line: &str) -> Next {
    let verb = line.trim_start().starts_with(|c: char| c.is_ascii_uppercase()) && line.starts_with("    ");
    if verb && !so_far.iter().any(|line| line == "Caused by:") {
        diagnostic(so_far, line)
    } else {
        Next::Part
    }
}

const DIAGNOSTIC: Problem = problem(ERROR, Kind::Build, 93).follow(cargo_lines).refine(arrow);

/// A test's captured output: up to the next one's, or the list of failures.
fn captured(_: &[String], line: &str) -> Next {
    if line.starts_with("---- ")
        || line == "failures:"
        || line.starts_with("test result: ")
        || line == "successes:"
    {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// nextest's heading above a test's output, which it indents.
fn is_nextest_heading(line: &str) -> bool {
    ["  stdout ─", "  stderr ─", "  output ─"].iter().any(|heading| line.starts_with(heading))
}

/// A failed test's output below nextest's own line.
fn nextest_output(so_far: &[String], line: &str) -> Next {
    let is_own = line.trim_start().starts_with(|c: char| c.is_ascii_uppercase()) && line.contains("s] ");
    if is_nextest_heading(line) {
        Next::Part
    } else if !so_far.iter().any(|line| is_nextest_heading(line)) {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else if line.starts_with("    ") && !is_own {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Of the output the panic, without its trace.
fn nextest_words(draft: &mut Draft) {
    panicked(draft);
    let Some(from) = draft
        .lines
        .iter()
        .position(|line| line.contains("' panicked at ") || line.contains(") panicked at "))
    else {
        draft.lines.truncate(1);
        return;
    };
    draft.lines.drain(1..from);
    let is_trace = |line: &String| {
        let line = line.trim_start();
        line.starts_with("note: ") || line.starts_with("stack backtrace:") || line.is_empty()
    };
    let until = draft.lines.iter().position(is_trace).unwrap_or(draft.lines.len());
    draft.lines.truncate(until);
    draft.bare = false;
}

fn panicked(draft: &mut Draft) {
    for line in &draft.lines {
        let Some((_, place)) = line.split_once("panicked at ") else { continue };
        // Since 1.73 the place follows directly; before, it came after the quoted message.
        let place = place.rsplit(", ").next().unwrap_or(place).trim_end_matches(':');
        let mut parts = place.rsplitn(3, ':');
        if let (Some(column), Some(row), Some(file)) = (parts.next(), parts.next(), parts.next())
            && let (Ok(column), Ok(row)) = (column.parse(), row.parse())
        {
            draft.file = Some(file.to_owned());
            draft.line = Some(row);
            draft.column = Some(column);
        }
        return;
    }
}

fn one_more_plain(so_far: &[String], line: &str) -> Next {
    if line.starts_with("note: run with `RUST_BACKTRACE") || line.trim().is_empty() {
        Next::Beyond
    } else if so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Text of the runtime at the end of the process.
fn runtime_words(_: &[String], line: &str) -> Next {
    if line.starts_with("fatal runtime error: ") { Next::Last } else { Next::Beyond }
}

const LIBTEST: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed"),
        failed: groups.number("failed"),
        skipped: groups.number("ignored"),
        expected: 0,
    })
};

const NEXTEST: Count = |groups: &Groups<'_>| {
    let failed = groups.number("failed") + groups.number("timed");
    Some(Counts { passed: groups.number("passed"), failed, skipped: groups.number("skipped"), expected: 0 })
};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "cargo.unit",
        pattern: r"^\s+(?:Compiling|Checking|Documenting) (?P<u>\S+) v\d",
        acts: &[Act::Unit(ToolId::CargoBuild)],
    },
    Rule {
        name: "cargo.failed_unit",
        pattern: r"^error: could not (?:compile|document) `(?P<u>[^`]+)`",
        acts: &[Act::FailedUnit(ToolId::CargoBuild)],
    },
    Rule {
        // The total of the tests has this information too.
        name: "cargo.test_failed",
        pattern: r"^error: test failed, to rerun(?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 50)),
            Act::Sign(Sign::FailureToo(ToolId::CargoTest)),
            Act::Summary,
        ],
    },
    Rule {
        name: "cargo.could_not_compile",
        pattern: r"^error: (?:could not compile|aborting due to|test run failed|\d+ targets? failed|doctest failed|process didn't exit)(?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 50)),
            Act::Sign(Sign::Failure(ToolId::Cargo)),
            Act::Summary,
        ],
    },
    Rule {
        // As `--message-format short` has it.
        name: "rust.short",
        pattern: r"^(?P<f>[^\s:]+\.rs):(?P<l>\d+):(?P<c>\d+): (?P<s>error|warning)(?:\[\w+\])?: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 93))],
    },
    Rule {
        name: "rust.error",
        pattern: r"^error(?:\[E\d{4}\])?: (?P<m>.*)",
        acts: &[Act::Problem(DIAGNOSTIC)],
    },
    Rule {
        name: "rust.warning",
        pattern: r"^warning(?:\[\w+\])?: (?P<m>.*)",
        acts: &[Act::Problem(problem(WARNING, Kind::Build, 60).follow(diagnostic).refine(arrow))],
    },
    Rule {
        name: "cargo.finished",
        pattern: r"^\s+Finished (?:`|dev|release|test|bench|\w+ \[)(?P<m>.*)",
        acts: &[Act::Sign(Sign::Success(ToolId::CargoBuild)), Act::Summary],
    },
    Rule {
        name: "cargo.json_finished",
        pattern: r#"^\{"reason":"build-finished","success":true\}$"#,
        acts: &[Act::Sign(Sign::Success(ToolId::CargoBuild))],
    },
    Rule {
        name: "cargo.json_failed",
        pattern: r#"^\{"reason":"build-finished","success":false\}$"#,
        acts: &[Act::Sign(Sign::Failure(ToolId::Cargo))],
    },
    Rule {
        name: "libtest.session",
        pattern: r"^running (?P<n>\d+) tests?$",
        acts: &[Act::Session(ToolId::CargoTest), Act::Announces(ToolId::CargoTest)],
    },
    Rule {
        name: "libtest.captured",
        pattern: r"^---- (?P<t>.+?) (?:stdout|stderr) ----$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 95).follow(captured).owning().refine(panicked))],
    },
    Rule {
        name: "libtest.failed",
        pattern: r"^test (?P<t>.+?)(?: - should panic)? \.\.\. FAILED$",
        acts: &[Act::Test(ToolId::CargoTest, Failed), Act::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        name: "libtest.passed",
        pattern: r"^test (?P<t>.+?) \.\.\. ok$",
        acts: &[Act::Test(ToolId::CargoTest, Passed)],
    },
    Rule {
        name: "libtest.ignored",
        pattern: r"^test (?P<t>.+?) \.\.\. ignored(?:, .*)?$",
        acts: &[Act::Test(ToolId::CargoTest, Skipped)],
    },
    Rule {
        name: "libtest.running",
        // Of a test that printed the beginning of a line, or died, the rest is another's word.
        pattern: r"^test (?P<t>\S.*?) \.\.\. (?:$|error: )",
        acts: &[Act::Test(ToolId::CargoTest, Started)],
    },
    Rule {
        name: "libtest.ok",
        pattern: r"^test result: ok\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<ignored>\d+) ignored",
        acts: &[Act::Counts(ToolId::CargoTest, LIBTEST)],
    },
    Rule {
        name: "libtest.result",
        pattern: r"^test result: FAILED\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<ignored>\d+) ignored",
        acts: &[Act::Counts(ToolId::CargoTest, LIBTEST), Act::Summary],
    },
    Rule {
        name: "cargo.running",
        pattern: r"^\s+(?P<t>Running (?:unittests |tests/|benches/|`).*|Doc-tests \S+)$",
        acts: &[
            Act::Over(ToolId::Nextest, false),
            Act::Heading(ToolId::CargoTest),
            Act::Part(ToolId::CargoTest),
        ],
    },
    Rule {
        name: "nextest.session",
        pattern: r"^(?: Nextest run ID |\s+Starting (?P<n>\d+) tests? across )",
        acts: &[Act::Session(ToolId::Nextest), Act::Announces(ToolId::Nextest)],
    },
    Rule {
        name: "nextest.passed",
        pattern: r"^\s+(?:TRY \d+ )?(?:PASS|LEAK) \[[ >]*[\d.]+s\]\s+(?:\(\s*\d+/\d+\) )?(?P<t>.+)$",
        acts: &[Act::Test(ToolId::Nextest, Passed)],
    },
    Rule {
        name: "nextest.failed",
        pattern: r"^\s+(?:TRY \d+ )?(?:FAIL|TIMEOUT|ABORT|SIG[A-Z]+|LEAK-FAIL) \[\s*[\d.]+s\]\s+(?:\(\s*\d+/\d+\) )?(?P<t>.+)$",
        acts: &[
            Act::Test(ToolId::Nextest, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 92).bare().follow(nextest_output).refine(nextest_words)),
        ],
    },
    Rule {
        name: "nextest.summary",
        pattern: r"^\s+Summary \[\s*[\d.]+s\]\s+\d+(?:/\d+)? tests? run: (?P<passed>\d+) passed(?: \([^)]*\))?(?:, (?P<failed>\d+) failed)?(?:, (?P<timed>\d+) timed out)?(?:, (?P<skipped>\d+) skipped)?",
        acts: &[Act::Counts(ToolId::Nextest, NEXTEST), Act::Summary],
    },
    Rule {
        name: "rust.overflow",
        pattern: r"^(?:test .+ \.\.\. )?thread '(?P<t>[^']*)'(?: \(\d+\))? has overflowed its stack$",
        acts: &[
            Act::Problem(problem(super::FATAL, Kind::Crash, 95).follow(runtime_words)),
            Act::Sign(Sign::Crash(super::Indicator::FatalError)),
        ],
    },
    Rule {
        name: "rust.panic",
        pattern: r"^(?:test .+ \.\.\. )?thread '(?P<t>[^']*)'(?: \(\d+\))? panicked at (?P<m>.*)",
        acts: &[
            Act::Problem(problem(super::FATAL, Kind::Crash, 93).follow(one_more_plain).refine(panicked)),
            Act::Sign(Sign::Crash(super::Indicator::Panic)),
        ],
    },
];
