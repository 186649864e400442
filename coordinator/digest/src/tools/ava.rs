//! Output of ava.

use super::mocha::is_message;
use crate::rules::{Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, Kind, Next, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, selections: &["--match"], rules: RULES, ..Tool::named("ava") };

/// Lines above the location of an ava failure.
fn ava_title(line: &str) -> bool {
    let own = line.trim_start();
    own.is_empty() || line.starts_with("  ") && !line.starts_with("   ") && !own.starts_with(['─', '✔', '✘'])
}

/// A failure of ava, up to its stack, which ends it.
fn ava_lines(so_far: &[String], line: &str) -> Next {
    let own = line.trim_start();
    if own.is_empty() {
        Next::Maybe
    } else if so_far.len() > 60 || own.starts_with('─') || !line.starts_with("  ") {
        Next::Beyond
    } else if own.starts_with("› ") {
        Next::Last
    } else {
        Next::Part
    }
}

/// The name stands first; without it the line is a path that something printed.
fn ava_test(diagnostic: &mut Diagnostic) {
    while diagnostic.lines.first().is_some_and(|line| line.trim().is_empty()) {
        diagnostic.lines.remove(0);
    }
    let is_told = diagnostic.lines.iter().any(|line| line.trim_start().starts_with("› "));
    let title = diagnostic.lines.first().map(|line| line.trim().to_owned());
    diagnostic.spurious = !is_told;
    diagnostic.head = Some(0);
    diagnostic.test = title.filter(|title| !title.contains(".test."));
    let outside = ["Uncaught exception in ", "Unhandled rejection in "];
    if diagnostic.test.as_deref().is_some_and(|title| outside.iter().any(|words| title.starts_with(words))) {
        // A test of its file may have caused it, and which one is not known.
        diagnostic.test = None;
        diagnostic.head = diagnostic.lines.iter().position(|line| is_message(line)).or(diagnostic.head);
    }
}

/// A line of a list names a failed test; the error is elsewhere.
fn listed(diagnostic: &mut Diagnostic) {
    crate::rules::pointed(diagnostic);
    diagnostic.bare = diagnostic.lines.len() == 1;
    if diagnostic.file.is_some() {
        // An excerpt with a place below a mark is a compiler's.
        (diagnostic.test, diagnostic.kind) = (None, Some(Kind::Build));
    } else if diagnostic
        .test
        .as_deref()
        .is_some_and(|test| test.ends_with(':') || diagnostic.bare && test.ends_with('.'))
    {
        // A sentence is no name.
        (diagnostic.test, diagnostic.kind, diagnostic.bare) = (None, Some(Kind::Runtime), false);
    }
    if let Some(test) = &mut diagnostic.test
        && let Some((name, time)) = test.rsplit_once(' ')
        && time.ends_with('s')
        && time.starts_with(|c: char| c.is_ascii_digit())
    {
        *test = name.to_owned();
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "ava.none",
        pattern: r"^  (?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:Couldn(?:'|\xe2\x80\x99)t find any (?:matching tests|files to test)|Based on your configuration, \d+ test files? (?:was|were) found, but did not match the filters:)",
        effects: &[Effect::Harmless, FAILS_WITHOUT_TESTS, Effect::Summary],
    },
    Rule {
        name: "ava.failed_line",
        pattern: r"^\s+(?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:\[fail\]: )?(?P<t>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 84).follow(crate::rules::boxed).refine(listed),
        )],
    },
    Rule {
        // Below the name of the test and a blank line.
        name: "ava.place",
        pattern: r"^  (?P<f>\S+\.[cm]?[jt]sx?):(?P<l>\d+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 90).lead(ava_title).follow(ava_lines).owning().refine(ava_test),
        )],
    },
    Rule {
        name: "ava.counts",
        pattern: r"^\s+(?:(?P<failed>\d+) tests? (?:failed|remained pending after a timeout)|(?P<passed>\d+) tests? passed|(?P<skipped>\d+) tests? (?:skipped|todo)|(?P<expected>\d+) known failures?)$",
        effects: &[Effect::Adds(SORTS)],
    },
    Rule {
        name: "ava.other_failure",
        pattern: r"^  (?:[1-9]\d* (?:uncaught exceptions?|unhandled rejections?|hooks? failed)|(?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:No tests found in .*|Exiting due to process\.exit\(\) when running .*|Timed out while running tests|Internal error(?: when running .*)?|Error in shared worker|\S+\.[cm]?[jt]sx? exited (?:due to .*|with a non-zero exit code: \d+)|\d+ tests? remaining in .*))$",
        effects: &[Effect::Own(|line| line.tally.other_failure(line.tool)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "ava.summary",
        pattern: r"^\s+(?P<n>\d+) (?:tests?|uncaught exceptions?|known failures?|unhandled rejections?)(?: (?:failed|passed|skipped|todo|remaining))?$",
        effects: &[Effect::Summary],
    },
];
