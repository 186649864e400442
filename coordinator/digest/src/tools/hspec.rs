//! Failures of hspec, tasty and HUnit, the test frameworks of Haskell.

use crate::rules::{Count, Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, TOTAL, problem, set_place};
use crate::tally::Counts;
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: HSPEC, ..Tool::named("hspec") };

pub(super) const TASTY: Tool = Tool { rules: TASTY_RULES, ..Tool::named("tasty") };

pub(super) const HUNIT: Tool = Tool { rules: HUNIT_RULES, ..Tool::named("HUnit") };

/// Most lines of a failure.
const LINES_MAX: usize = 40;

const fn depth(line: &str) -> usize {
    line.len() - line.trim_ascii_start().len()
}

/// `1) Math adds` below the place, and its deeper lines.
fn numbered(so_far: &[String], line: &str) -> Next {
    let is_title =
        || line.trim_start().split_once(") ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    match so_far.len() {
        1 if is_title() => Next::Part,
        1 | LINES_MAX.. => Next::Beyond,
        _ if line.trim().is_empty() => Next::Maybe,
        _ if depth(line) > 2 => Next::Part,
        _ => Next::Beyond,
    }
}

fn named_below(diagnostic: &mut Diagnostic) {
    let title = diagnostic.lines.get(1).and_then(|line| line.trim_start().split_once(") "));
    diagnostic.test = title.map(|(_, name)| name.to_owned());
    diagnostic.spurious = diagnostic.test.is_none();
    diagnostic.head = Some(1);
}

/// Lines deeper than the test's.
fn deeper(so_far: &[String], line: &str) -> Next {
    let head = so_far.first().map_or(0, |head| depth(head));
    if !line.trim().is_empty() && depth(line) > head && so_far.len() < LINES_MAX {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The place is the first line of the message, or in the call stack.
fn placed_below(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().skip(1).find_map(|line| {
        let line = line.split_once(" called at ").map_or(line.trim(), |(_, place)| place);
        let place = line.split(' ').next().unwrap_or_default().trim_end_matches(':');
        place.contains(".hs:").then(|| place.to_owned())
    });
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
    // Without a message it may be a line of any list.
    diagnostic.spurious = diagnostic.lines.len() == 1;
}

/// The message below a title: up to the next title or total.
fn message(so_far: &[String], line: &str) -> Next {
    let ends = line.starts_with("### ") || line.starts_with("Cases: ") || so_far.len() >= LINES_MAX;
    if ends { Next::Beyond } else { Next::Part }
}

// A line without all cases is of a run under way.
const HUNIT_TOTAL: Count = |groups| {
    if groups.number("n") != groups.number("n2") {
        return None;
    }
    let failed = groups.number("failed").saturating_add(groups.number("errors"));
    Some(Counts { passed: groups.number("n").saturating_sub(failed), failed, skipped: 0, expected: 0 })
};

const HSPEC: &[Rule] = &[Rule {
    name: "hspec.place",
    pattern: r"^  (?P<f>[^\s:]+\.l?hs):(?P<l>\d+):(?P<c>\d+): ?$",
    effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(numbered).owning().refine(named_below))],
}];

const TASTY_RULES: &[Rule] = &[
    Rule {
        name: "tasty.failed",
        pattern: r"^ {2,}(?P<t>\S.*?): +FAIL(?: \([\d.]+s\))?$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(deeper).owning().refine(placed_below),
        )],
    },
    Rule {
        name: "tasty.total_bad",
        pattern: r"^(?P<failed>\d+) out of (?P<n>\d+) tests? failed \([\d.]+s\)$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "tasty.total_good",
        pattern: r"^All (?P<passed>\d+) tests? passed \([\d.]+s\)$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];

const HUNIT_RULES: &[Rule] = &[
    Rule {
        name: "hunit.failed",
        // The count of the tests so far comes before it on the same line.
        pattern: r"^(?:Cases: .* )?### (?:Failure|Error) in: +(?P<t>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(message).owning().refine(placed_below),
        )],
    },
    Rule {
        name: "hunit.total",
        pattern: r"^Cases: (?P<n2>\d+)  Tried: (?P<n>\d+)  Errors: (?P<errors>\d+)  Failures: (?P<failed>\d+)$",
        effects: &[Effect::Session, Effect::Counts(HUNIT_TOTAL), Effect::Summary],
    },
];
