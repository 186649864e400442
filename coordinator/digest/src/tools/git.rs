//! Output of git.

use crate::rules::{Act, Draft, ERROR, Kind, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("git") };

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

fn is_no_answer(draft: &Draft) -> bool {
    !ANSWERS.iter().any(|answer| draft.first().contains(answer))
}

const RULES: &[Rule] = &[
    Rule {
        name: "git.conflict",
        pattern: r"^CONFLICT \(.*\): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 92))],
    },
    Rule {
        name: "git.automatic",
        pattern: r"^Automatic merge failed",
        acts: &[Act::Sign(Sign::Failure(ToolId::Git)), Act::Summary],
    },
    Rule {
        name: "git.fatal",
        pattern: r"^fatal: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88).ended(is_no_answer))],
    },
];
