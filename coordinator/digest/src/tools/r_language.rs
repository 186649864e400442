//! Output of R.

use super::compiler::DIED;
use super::places::worded;
use crate::rules::{Diagnostic, ERROR, Effect, Indicator, Kind, Level, Next, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("R") };

/// The heading of a check without its result, and the files that it has run.
fn is_check(line: &str) -> bool {
    line.starts_with("* checking ") && line.ends_with("...")
        || line.starts_with("  Running ")
        || line.starts_with("  Comparing ")
}

/// The text below a check, up to the next one.
fn up_to_check(so_far: &[String], line: &str) -> Next {
    if line.starts_with("* ") || so_far.len() > 60 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The message is R's error below, if it printed one. The place is the file of the tests.
fn check(diagnostic: &mut Diagnostic) {
    let error = diagnostic.lines.iter().position(|line| line.trim_start().starts_with("Error"));
    let heading = diagnostic.lines.iter().position(|line| line.starts_with("* checking "));
    diagnostic.head = error.or(heading);
    let file = diagnostic.lines.iter().find_map(|line| {
        let (_, rest) = line.split_once("Running the tests in ")?;
        rest.trim_start_matches(['‘', '\'', '`']).split(['’', '\'']).next().map(str::to_owned)
    });
    diagnostic.file = file;
}

/// The lines of the message, and the excerpt of a file that R could not parse: `1: f <- function( {`.
fn said(so_far: &[String], line: &str) -> Next {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let is_excerpt = digits > 0 && line[digits..].starts_with(": ") && so_far.len() < 8;
    if is_excerpt { Next::Part } else { indented(so_far, line) }
}

/// The message of a parser names the place: `f.R:1:16: unexpected '{'`.
fn parsed(diagnostic: &mut Diagnostic) {
    worded(diagnostic);
    if diagnostic.column.is_some() {
        diagnostic.kind = Some(Kind::Build);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "r.check",
        pattern: r"^\* (?:checking|creating|building|installing) .* \.\.\. (?P<s>ERROR|WARNING)$",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Build, 88).follow(up_to_check).owning().refine(check),
        )],
    },
    Rule {
        name: "r.check_below",
        pattern: r"^ (?P<s>ERROR|WARNING)$",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Build, 88).lead(is_check).follow(up_to_check).owning().refine(check),
        )],
    },
    Rule {
        name: "r.check_failed",
        pattern: r"^Status: [1-9]\d* ERRORs?\b",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "r.segfault",
        pattern: r"^ ?\*\*\* caught (?:segfault|bus error|illegal operation) \*\*\*",
        effects: &[
            Effect::Problem(DIED.follow(crate::rules::one_more)),
            Effect::Crash(Indicator::Died("SIGSEGV")),
        ],
    },
    Rule {
        name: "r.error",
        pattern: r"^Error in (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 78).follow(said).refine(parsed))],
    },
    Rule {
        name: "r.not_installed",
        pattern: r"^ERROR: (?P<m>.* for package [\x22'\xe2].*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 70)), Effect::Failure, Effect::Summary],
    },
    Rule { name: "r.halted", pattern: r"^Execution halted$", effects: &[Effect::Failure, Effect::Summary] },
];
