//! Output of Zig.

use super::compiler::DIED;
use crate::rules::{
    Count, Diagnostic, ERROR, Effect, Indicator, Kind, Next, RUNS, Rule, SORTS, indented_or_blank, problem,
    set_place,
};
use crate::tally::Counts;
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Zig") };

/// `1/3 a.test.adds...expected 3, found 2`: the test and the first line of its message.
fn begun(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(' ')?;
    let is_number = number.split('/').all(|part| part.parse::<u32>().is_ok()) && number.contains('/');
    rest.split_once("...").filter(|(name, _)| is_number && (!name.contains(' ') || name.contains("test.")))
}

/// A line that the failed test printed, or the one that names it.
fn is_of_test(line: &str) -> bool {
    !begun(line).is_some_and(|(_, result)| matches!(result, "OK" | "SKIP"))
}

/// The frames below `FAIL`, up to the next test or the total.
fn frames(so_far: &[String], line: &str) -> Next {
    let has_place = line.contains(": 0x")
        || line.starts_with(' ')
        || so_far.last().is_some_and(|last| last.contains(": 0x"));
    if has_place && begun(line).is_none() && so_far.len() < 60 { Next::Part } else { Next::Beyond }
}

/// The message is between the name of the test and `FAIL`. The place is the last frame, which is in the test.
fn failed(diagnostic: &mut Diagnostic) {
    let at = diagnostic.lines.iter().rposition(|line| begun(line).is_some());
    diagnostic.lines.drain(..at.unwrap_or(0));
    if let Some((name, message)) = diagnostic.lines.first().and_then(|line| begun(line)) {
        let is_alone = message.is_empty();
        diagnostic.test = Some(name.to_owned());
        diagnostic.head = Some(usize::from(is_alone));
    }
    let mut frames =
        diagnostic.lines.iter().filter(|line| line.contains(": 0x") && line.contains(" in test"));
    let frame = frames.next_back().cloned().unwrap_or_default();
    let (place, function) = frame.split_once(": 0x").unwrap_or_default();
    let function = function.split_once(" in ").map(|(_, function)| function);
    let test = function.and_then(|function| function.rsplit_once(" (")).map(|(test, _)| test.to_owned());
    diagnostic.test = diagnostic.test.take().or(test);
    let _placed = set_place(diagnostic, place.trim());
}

/// An error that `main` returns has frames. Without them it may be of any compiler.
fn returned(diagnostic: &mut Diagnostic) {
    if diagnostic.lines.iter().any(|line| line.contains(": 0x")) {
        diagnostic.kind = Some(Kind::Runtime);
        panicked(diagnostic);
    }
}

/// The place is the first frame outside the standard library.
fn panicked(diagnostic: &mut Diagnostic) {
    let is_own = |line: &&String| {
        line.contains(": 0x") && !line.contains("/lib/std/") && !line.contains("/lib/compiler/")
    };
    let place =
        diagnostic.lines.iter().find(is_own).and_then(|line| line.split(": 0x").next()).map(str::to_owned);
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

/// Tests that passed, of all tests of a build.
const OF_BUILD: Count = |groups| {
    let (passed, total, skipped) = (groups.number("passed"), groups.number("n"), groups.number("skipped"));
    Some(Counts {
        passed,
        failed: total.saturating_sub(passed.saturating_add(skipped)),
        skipped,
        expected: 0,
    })
};

const RULES: &[Rule] = &[
    Rule { name: "zig.ok", pattern: r"^\d+/\d+ .*\.{3}(?:OK|SKIP)$", effects: &[RUNS, Effect::Harmless] },
    Rule {
        name: "zig.failed",
        pattern: r"^\d+/\d+ (?P<t>\S.*?)\.{3} ?FAIL \((?P<m>.*)\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(frames).refine(failed))],
    },
    Rule {
        // Below the text of the test's assertion.
        name: "zig.failed_below",
        pattern: r"^FAIL \([A-Z]\w+\)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).lead(is_of_test).follow(frames).refine(failed),
        )],
    },
    Rule {
        // As the build runner prints it.
        name: "zig.test_failed",
        pattern: r"^error: '(?P<t>[^']+)' failed:(?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(indented_or_blank).owning().refine(failed),
        )],
    },
    Rule {
        name: "zig.leak",
        pattern: r"^\[\w+\] \(err\): (?:memory address 0x\w+ leaked|leaked \[addr: )",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90).follow(frames).refine(failed))],
    },
    Rule {
        name: "zig.leaks",
        pattern: r"^[1-9]\d* tests leaked memory\.$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        // The runner ends with the test that panics.
        name: "zig.panic",
        pattern: r"^(?:\d+/\d+ (?P<t>\S.*?)\.{3})?thread \d+ panic: (?P<m>.*)",
        effects: &[
            Effect::Problem(DIED.follow(frames).owning().refine(panicked)),
            Effect::Crash(Indicator::Panic),
        ],
    },
    Rule {
        name: "zig.fault",
        pattern: r"^(?:\d+/\d+ (?P<t>\S.*?)\.{3})?Segmentation fault at address 0x[0-9a-f]+$",
        effects: &[
            Effect::Problem(DIED.follow(frames).owning().refine(panicked)),
            Effect::Crash(Indicator::Died("SIGSEGV")),
        ],
    },
    Rule {
        name: "zig.died",
        pattern: r"^error: (?:the following (?:test |build )?command|while executing test '(?P<t>[^']+)', the following (?:test )?command) terminated (?:with signal|unexpectedly)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 60)),
            Effect::Crash(Indicator::TestProcessCrashed),
        ],
    },
    Rule {
        name: "zig.command",
        pattern: r"^(?:error: (?:the following (?:test |build )?command (?:failed with exit code|exited with error code) \d+|\d+ compilation errors$|the following build command failed)|failed command: )",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 50)), Effect::Failure],
    },
    Rule {
        name: "zig.returned",
        pattern: r"^error: [A-Z][A-Za-z0-9]+$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 75).follow(frames).refine(returned))],
    },
    Rule {
        name: "zig.total",
        pattern: r"^(?P<passed>\d+) passed; (?P<skipped>\d+) skipped; (?P<failed>\d+) failed\.$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "zig.all_passed",
        pattern: r"^All (?P<passed>\d+) tests passed\.$",
        effects: &[Effect::IfKnown(ToolId::Zig), Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "zig.build_tests",
        pattern: r"^Build Summary: .*; (?P<passed>\d+)/(?P<n>\d+) tests passed(?:.*?(?P<skipped>\d+) skipped)?",
        effects: &[Effect::Session, Effect::Counts(OF_BUILD)],
    },
    Rule {
        name: "zig.build_failed",
        pattern: r"^Build Summary: \d+/\d+ steps succeeded.*[; (]\d+ (?:failed|crashed|leaked|timed out)\b",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "zig.built",
        pattern: r"^Build Summary: \d+/\d+ steps succeeded(?:;? \(?\d+ skipped\)?)?(?:; \d+/\d+ tests passed(?:;? \(?\d+ skipped\)?)?)?(?: \(disable with --summary none\))?$",
        effects: &[Effect::Success, Effect::Summary],
    },
    Rule {
        name: "zig.step",
        pattern: r"^[ |`]*\+- (?:run|compile|install|zig) .*\b(?:(?:transitive )?failure|[1-9]\d* errors?|\d+(?:/\d+)? pass(?:ed)?,.* [1-9]\d* (?:fail|crash|leak|timeout)\w*\b.*)$",
        effects: &[Effect::Failure],
    },
];
