//! Output of specs2, below sbt or bloop.

use super::places::worded;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("specs2") };

/// A line without the mark of sbt or bloop.
fn unmarked(line: &str) -> &str {
    line.strip_prefix("[error] ").or_else(|| line.strip_prefix("[E] ")).unwrap_or(line)
}

/// The marked lines below the name of an example.
fn message(so_far: &[String], line: &str) -> Next {
    let text = unmarked(line);
    let is_next = ["+ ", "x ", "! ", "o "].iter().any(|mark| text.trim_start().starts_with(mark));
    let is_part = text.len() < line.len() && text.starts_with("  ") && !text.trim().is_empty() && !is_next;
    if is_part && so_far.len() < 20 { Next::Part } else { Next::Beyond }
}

/// A name without a message may be of any list.
fn failed(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() == 1;
    worded(diagnostic);
}

const EXAMPLE: Effect =
    Effect::Problem(problem(ERROR, Kind::Test, 92).follow(message).owning().refine(failed));

const RULES: &[Rule] = &[
    Rule { name: "specs2.failed", pattern: r"^\[error\]  +[x!] (?P<t>\S.*)$", effects: &[EXAMPLE] },
    Rule {
        name: "specs2.failed_unmarked",
        pattern: r"^  +[x!] (?P<t>\S.*)$",
        effects: &[Effect::IfKnown(ToolId::Bloop), EXAMPLE],
    },
];
