//! Output of git.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("git") };

/// Its rules come before those of compilers.
pub(super) const REPLIES: Tool = Tool {
    rules: REPLIES_RULES,
    program: Some(ToolId::Git),
    reports_as: Some(ToolId::Git),
    ..Tool::named("git")
};

/// Error messages of git queries that build scripts make and then ignore.
const ANSWERS: &[&str] = &[
    "not a git repository",
    "No names found",
    "No tags can describe",
    "no tag exactly matches",
    "No annotated tags can describe",
    "ambiguous argument",
    "Needed a single revision",
    "your current branch",
    "no upstream configured",
    "No such remote",
    "bad revision",
];

fn is_no_answer(diagnostic: &Diagnostic) -> bool {
    !ANSWERS.iter().any(|answer| diagnostic.first().contains(answer))
}

/// Hints that git prints below a rejected branch.
fn push_lines(so_far: &[String], line: &str) -> Next {
    let is_part = ["error: failed to push", "hint: ", " ! ["].iter().any(|start| line.starts_with(start));
    if is_part && so_far.len() < 12 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "git.conflict",
        pattern: r"^CONFLICT \(.*\): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 92))],
    },
    Rule {
        name: "git.automatic",
        pattern: r"^(?:Automatic merge failed|Patch failed at \d{4} )",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "git.fatal",
        pattern: r"^fatal: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).ended(is_no_answer))],
    },
];

/// Refusals that begin with `error:`, as messages of compilers do.
const REPLIES_RULES: &[Rule] = &[
    Rule {
        name: "git.rejected",
        pattern: r"^ ! \[(?:remote )?rejected\] +(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 92).follow(push_lines))],
    },
    Rule {
        name: "git.error",
        pattern: r"^error: (?:failed to push some refs|src refspec |pathspec '|patch failed: |\S+: patch does not apply|Your local changes |The following untracked |could not (?:apply|lock|revert|fetch)|cannot lock ref|RPC failed|remote unpack failed|you need to resolve )",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(crate::rules::indented))],
    },
];
