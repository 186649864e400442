//! Output of deno test.

use crate::rules::{
    Diagnostic, ERROR, Effect, Kind, Level, Next, Rule, SORTS, paragraph, problem, set_place,
};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("deno test") };

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

const RULES: &[Rule] = &[
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
        effects: &[
            Effect::Harmless,
            Effect::Session(ToolId::Deno),
            Effect::Counts(ToolId::Deno, SORTS),
            Effect::Summary,
        ],
    },
];
