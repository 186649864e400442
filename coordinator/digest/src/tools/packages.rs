//! Output of package managers.

use super::compiler::{CHILD_DIED, DIED};
use crate::rules::{Act, ERROR, Kind, Rule, indented, indented_or_blank, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("package managers") };

const RULES: &[Rule] = &[
    Rule {
        name: "packages.script_died",
        pattern: r#"^(?:npm (?:ERR!|error) signal |(?:error |.*ELIFECYCLE\S* +|\[\S+\] )?Command failed with signal "?)(?P<sig>SIG[A-Z]+)\b"#,
        acts: &[Act::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "packages.unsolved",
        pattern: r"^(?:Because .*(?:version solving failed|requirements are unsatisfiable)|Could not find (?:gem|compatible versions) |Your requirements could not be resolved|E: [A-Z])(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 88).follow(indented_or_blank))],
    },
    Rule {
        name: "packages.bang",
        pattern: r"^\[!\] (?P<m>[A-Z].*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 80).follow(indented))],
    },
];
