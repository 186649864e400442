//! Output of tsc.

use crate::rules::{ERROR, Effect, Kind, Level, Next, Rule, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("tsc") };

/// Lines under a message of tsc: indented, or an excerpt with its caret line.
fn tsc_lines(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return if so_far.len() < 12 { Next::Maybe } else { Next::Beyond };
    }
    let excerpt = line.starts_with(|c: char| c.is_ascii_digit())
        && !line.contains(" error ")
        && so_far.len() < 12
        && line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(' ');
    if line.starts_with(' ') || excerpt { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "tsc.error",
        pattern: r"^(?:[\w@/.-]+:[\w:.-]+: )?(?P<f>[^\s(][^(]*)\((?P<l>\d+),(?P<c>\d+)\): (?P<s>error|warning|message) TS\d+: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 95).follow(tsc_lines))],
    },
    Rule {
        name: "tsc.pretty",
        // The builders of Angular have the prefix.
        pattern: r"^(?:Error: )?(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+) - (?P<s>error|warning) (?:TS|NG|ts\()-?\d+\)?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 95).follow(tsc_lines))],
    },
    Rule {
        name: "tsc.unplaced",
        pattern: r"^error TS\d+: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 93).follow(tsc_lines))],
    },
    Rule {
        name: "tsc.says",
        // Output of a test follows a sign in TAP.
        pattern: r"^(?:[^\s(#][^(]*\(\d+,\d+\): |[^\s:]+:\d+:\d+ - )?error TS\d+: ",
        effects: &[Effect::Failure],
    },
    Rule {
        name: "tsc.found",
        // mypy prints the number of checked files after it.
        pattern: r"^Found (?P<n>[1-9]\d*) errors?(?: in [^(]*)?\.?$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "tsc.again",
        pattern: r"^(?:\[?\d+:\d+:\d+(?: [AP]M)?\]? ?(?:- )?)?(?:[AP]M\]? )?(?:- )?File change detected\.",
        effects: &[Effect::Own(|line| line.markers.runs.tries_again(ToolId::Tsc, line.order))],
    },
    Rule {
        name: "tsc.clean",
        // A compiler that watches compiles again. Most of its stamp was taken for the stamp of the line.
        pattern: r"^(?:\[?\d+:\d+:\d+(?: [AP]M)?\]? ?(?:- )?)?(?:[AP]M\]? )?(?:- )?Found 0 errors\.",
        effects: &[Effect::Success, Effect::Harmless],
    },
    Rule {
        // As Angular has it.
        name: "tsc.template",
        pattern: r"^ *Error occurs in the template of component \S+\.$",
        effects: &[Effect::Failure],
    },
    Rule { name: "tsc.files", pattern: r"^ {1,6}\d+  \S+\.tsx?:\d+$", effects: &[Effect::Failure] },
];
