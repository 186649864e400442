//! Output of ava.

use super::mocha::{JEST, is_message};
use crate::rules::{Act, Draft, ERROR, Kind, Next, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("ava") };

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
fn ava_test(draft: &mut Draft) {
    while draft.lines.first().is_some_and(|line| line.trim().is_empty()) {
        draft.lines.remove(0);
    }
    let is_told = draft.lines.iter().any(|line| line.trim_start().starts_with("› "));
    let title = draft.lines.first().map(|line| line.trim().to_owned());
    draft.spurious = !is_told;
    draft.head = Some(0);
    draft.test = title.filter(|title| !title.contains(".test."));
    let outside = ["Uncaught exception in ", "Unhandled rejection in "];
    if draft.test.as_deref().is_some_and(|title| outside.iter().any(|words| title.starts_with(words))) {
        // A test of its file may have caused it, and which one is not known.
        draft.test = None;
        draft.head = draft.lines.iter().position(|line| is_message(line)).or(draft.head);
    }
}

/// A line of a list names a failed test; the error is elsewhere.
fn listed(draft: &mut Draft) {
    crate::rules::pointed(draft);
    draft.bare = draft.lines.len() == 1;
    if draft.file.is_some() {
        // An excerpt with a place below a mark is a compiler's.
        (draft.test, draft.kind) = (None, Some(Kind::Build));
    } else if draft
        .test
        .as_deref()
        .is_some_and(|test| test.ends_with(':') || draft.bare && test.ends_with('.'))
    {
        // A sentence is no name.
        (draft.test, draft.kind, draft.bare) = (None, Some(Kind::Runtime), false);
    }
    if let Some(test) = &mut draft.test
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
        acts: &[Act::Harmless, Act::Sign(Sign::NoTests), Act::Summary],
    },
    Rule {
        name: "ava.failed_line",
        pattern: r"^\s+(?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:\[fail\]: )?(?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 84).follow(crate::rules::boxed).refine(listed))],
    },
    Rule {
        // Below the name of the test and a blank line.
        name: "ava.place",
        pattern: r"^  (?P<f>\S+\.[cm]?[jt]sx?):(?P<l>\d+)$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 90).lead(ava_title).follow(ava_lines).owning().refine(ava_test),
        )],
    },
    Rule {
        name: "ava.counts",
        pattern: r"^\s+(?:(?P<failed>\d+) tests? (?:failed|remained pending after a timeout)|(?P<passed>\d+) tests? passed|(?P<skipped>\d+) tests? (?:skipped|todo)|(?P<expected>\d+) known failures?)$",
        acts: &[Act::Adds(ToolId::Ava, JEST)],
    },
    Rule {
        name: "ava.amiss",
        pattern: r"^  (?:[1-9]\d* (?:uncaught exceptions?|unhandled rejections?|hooks? failed)|(?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:No tests found in .*|Exiting due to process\.exit\(\) when running .*|Timed out while running tests|Internal error(?: when running .*)?|Error in shared worker|\S+\.[cm]?[jt]sx? exited (?:due to .*|with a non-zero exit code: \d+)|\d+ tests? remaining in .*))$",
        acts: &[Act::Amiss(ToolId::Ava), Act::Summary],
    },
    Rule {
        name: "ava.summary",
        pattern: r"^\s+(?P<n>\d+) (?:tests?|uncaught exceptions?|known failures?|unhandled rejections?)(?: (?:failed|passed|skipped|todo|remaining))?$",
        acts: &[Act::Summary],
    },
];
