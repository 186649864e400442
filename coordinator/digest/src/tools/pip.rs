//! Output of pip.

use super::generic::announced;
use super::places::located;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, RUNS, Role, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { only_installs: true, rules: RULES, ..Tool::named("pip") };

/// Other programs begin an error in the same way. If they name a place, it is theirs.
fn placed(diagnostic: &mut Diagnostic) {
    located(diagnostic);
    if diagnostic.file.is_some() && diagnostic.kind.is_none() {
        diagnostic.kind = Some(Kind::Runtime);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "pip.error",
        pattern: r"^ERROR: (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 86).follow(announced).refine(placed).role(Role::Vague),
        )],
    },
    Rule {
        name: "pip.refused",
        pattern: r"^ERROR: (?:ResolutionImpossible|No matching distribution found for|Could not (?:find a version that|install packages due)|Cannot install )",
        effects: &[Effect::Failure],
    },
    Rule { name: "pip.installs", pattern: r"^Installing collected packages: ", effects: &[RUNS] },
    Rule {
        // buck prints these words too.
        name: "pip.installed",
        pattern: r"^Successfully installed ",
        effects: &[Effect::Summary, Effect::IfKnown(ToolId::Pip), Effect::Success],
    },
];
