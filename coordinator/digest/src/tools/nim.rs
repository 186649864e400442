//! Output of nim.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("nim") };

/// Lines of Nim's unittest about a check, up to the line that names the failed test.
fn nim_lines(so_far: &[String], line: &str) -> Next {
    let said = line.trim_start();
    if said.starts_with("[FAILED] ") {
        Next::Last
    } else if said.starts_with("[OK] ") || said.contains(".nim(") || so_far.len() > 20 {
        Next::Beyond
    } else if said.is_empty() {
        Next::Maybe
    } else if line.starts_with(' ') {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The test is named in the last line. Without it and without a place it may be anybody's exception.
fn nim_test(diagnostic: &mut Diagnostic) {
    let last = diagnostic.lines.last().map_or("", |line| line.trim_start());
    diagnostic.test = last.strip_prefix("[FAILED] ").map(str::to_owned);
    diagnostic.spurious = diagnostic.test.is_none() && diagnostic.file.is_none();
}

/// `/w/a.nim(2) a`
fn is_frame(line: &str) -> bool {
    line.split_once(".nim(").is_some_and(|(file, rest)| !file.contains(' ') && rest.contains(") "))
}

/// The place is the innermost frame outside the library, which comes last.
fn uncaught(diagnostic: &mut Diagnostic) {
    let is_own =
        |line: &&String| is_frame(line) && !line.contains("/lib/nim/") && !line.contains("/nim/lib/");
    let frame = diagnostic.lines.iter().rev().find(is_own).cloned();
    if let Some((file, rest)) = frame.as_deref().and_then(|frame| frame.split_once('(')) {
        diagnostic.file = Some(file.to_owned());
        diagnostic.line = rest.split(')').next().and_then(|line| line.parse().ok());
    }
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with("Error: "));
}

const RULES: &[Rule] = &[
    Rule {
        name: "nim.uncaught",
        pattern: r"^Error: unhandled exception: (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).lead(is_frame).refine(uncaught))],
    },
    Rule {
        name: "nim.check",
        pattern: r"^ +(?:(?P<f>\S+\.nim)\((?P<l>\d+), (?P<c>\d+)\): (?:Check failed: |Expect Failed, )|Unhandled exception: .* \[\w+\]$)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).follow(nim_lines).refine(nim_test))],
    },
    Rule {
        name: "nim.program",
        pattern: r"^Error: execution of an external program failed: ",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 50)), Effect::Failure, Effect::Summary],
    },
];
