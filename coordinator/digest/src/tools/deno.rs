//! Output of deno test.

use super::mocha::js_place;
use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Level, Next, Rule, SORTS, always, paragraph, problem, set_place,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { runs_tests: true, rules: RULES, ..Tool::named("deno test") };

/// The changes of a file: `1 | -const a   =  1`.
fn changed(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let is_change = digits > 0 && text[digits..].starts_with(" | ");
    if is_change && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

/// The place is the first changed line. Without one it is not a change of a formatter.
fn first_change(diagnostic: &mut Diagnostic) {
    let row = diagnostic.lines.get(1).and_then(|line| line.trim_start().split(' ').next()?.parse().ok());
    diagnostic.spurious = row.is_none();
    diagnostic.line = row;
}

/// A message, not the next entry of the list at the end.
fn said(so_far: &[String], line: &str) -> Next {
    let is_entry =
        so_far.len() == 1 && line.split_once(" => ").is_some_and(|(_, place)| !place.contains(' '));
    if is_entry { Next::Beyond } else { paragraph(so_far, line) }
}

/// Without an error below it is an entry of the list at the end, or a line of another program.
fn failed(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.get(1).is_none_or(|line| !line.starts_with("error:"));
    diagnostic.head = Some(1);
}

/// `at file:///w/a.ts:1:7`.
fn at_frame(diagnostic: &mut Diagnostic) {
    let frames = diagnostic.lines.iter().filter_map(|line| line.trim_start().strip_prefix("at file://"));
    let places: Vec<String> = frames.map(str::to_owned).collect();
    let _found = places.iter().any(|place| set_place(diagnostic, place));
}

/// An exception that nothing caught: the excerpt and the frames.
fn uncaught(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start();
    let is_framed = so_far.iter().any(|line| line.trim_start().starts_with("at "));
    if text.starts_with("at ") || line.starts_with("  ") && !text.is_empty() {
        Next::Part
    } else if is_framed || text.is_empty() || so_far.len() > 6 {
        Next::Beyond
    } else {
        // The excerpt is not indented.
        Next::Maybe
    }
}

/// The frame names the place. The list of uncaught errors names the file above.
fn thrown(diagnostic: &mut Diagnostic) {
    js_place(diagnostic);
}

const RULES: &[Rule] = &[
    Rule {
        name: "deno.uncaught",
        pattern: r"^error: (?:Uncaught )?(?:\(in promise\) )?(?P<m>(?:Uncaught |\(in promise\) |[A-Z]\w*(?:Error|Capable|Found): ).*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90).follow(uncaught).refine(thrown).ended(always),
        )],
    },
    Rule {
        name: "deno.module",
        pattern: r"^Uncaught error from (?:\./)?(?P<f>\S+\.\w+) FAILED$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 70).bare())],
    },
    Rule {
        // Below the total of a run that failed.
        name: "deno.ended",
        pattern: r"^error: Test failed$",
        effects: &[Effect::Failure, Effect::Harmless, Effect::Alone],
    },
    Rule {
        name: "deno.formatted",
        pattern: r"^error: Found (?P<n>\d+) not formatted files? in \d+ files?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).fails(Fails::Always)), Effect::Summary],
    },
    Rule {
        name: "deno.formatting",
        pattern: r"^from (?P<f>/\S+\.\w+):$",
        effects: &[Effect::Problem(
            problem(Level::Remark, Kind::Lint, 60).follow(changed).refine(first_change),
        )],
    },
    Rule {
        name: "deno.failed",
        pattern: r"^(?P<t>\S.*?) => (?:\./|file://)?(?P<f>[^\s:]+\.\w+):(?P<l>\d+):(?P<c>\d+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(said).owning().refine(failed))],
    },
    Rule {
        name: "deno.check",
        pattern: r"^(?P<k>TS\d+) \[(?P<s>ERROR|WARN(?:ING)?)\]: (?P<m>\S.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Build, 92).follow(paragraph).owning().refine(at_frame),
        )],
    },
    Rule {
        name: "deno.summary",
        pattern: r"^(?:ok|FAILED) \| (?P<passed>\d+) passed(?: \([^)]*\))? \| (?P<failed>\d+) failed(?: \([^)]*\))?(?: \| (?P<skipped>\d+) ignored)?",
        effects: &[Effect::Harmless, Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
