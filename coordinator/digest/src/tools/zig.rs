//! Output of Zig.

use super::compiler::DIED;
use super::gotestsum::text_lines;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, problem, set_place};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Zig") };

/// `1/3 a.test.adds...expected 3, found 2`: the test and the first line of its message.
fn begun(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(' ')?;
    let is_number = number.split('/').all(|part| part.parse::<u32>().is_ok()) && number.contains('/');
    rest.split_once("...").filter(|(name, _)| is_number && !name.contains(' '))
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
    let place = frames.next_back().and_then(|line| line.split(": 0x").next()).map(str::to_owned);
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

/// The place is the first frame outside the standard library.
fn panicked(diagnostic: &mut Diagnostic) {
    let is_own = |line: &&String| line.contains(": 0x") && !line.contains("/lib/std/");
    let place =
        diagnostic.lines.iter().find(is_own).and_then(|line| line.split(": 0x").next()).map(str::to_owned);
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

const RULES: &[Rule] = &[
    Rule {
        name: "zig.failed",
        pattern: r"^\d+/\d+ (?P<t>\S+?)\.{3} ?FAIL \((?P<m>.*)\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(text_lines))],
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
        // The runner ends with the test that panics.
        name: "zig.panic",
        pattern: r"^(?:\d+/\d+ (?P<t>\S+?)\.{3})?thread \d+ panic: (?P<m>.*)",
        effects: &[Effect::Problem(DIED.follow(frames).owning().refine(panicked))],
    },
    Rule {
        name: "zig.total",
        pattern: r"^(?P<passed>\d+) passed; (?P<skipped>\d+) skipped; (?P<failed>\d+) failed\.$",
        effects: &[Effect::Session(ToolId::Zig), Effect::Counts(ToolId::Zig, SORTS), Effect::Summary],
    },
];
