//! Output of pip.

use super::generic::announced;
use super::places::located;
use crate::rules::{Act, Draft, ERROR, Kind, Role, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("pip") };

/// Other programs begin an error in the same way. If they name a place, it is theirs.
fn placed(draft: &mut Draft) {
    located(draft);
    if draft.file.is_some() && draft.kind.is_none() {
        draft.kind = Some(Kind::Runtime);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "pip.error",
        pattern: r"^ERROR: (?P<m>.*)",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Build, 86).follow(announced).refine(placed).role(Role::Vague),
        )],
    },
    Rule {
        name: "pip.installed",
        pattern: r"^Successfully installed ",
        acts: &[Act::Sign(Sign::Success(ToolId::Pip)), Act::Summary],
    },
];
