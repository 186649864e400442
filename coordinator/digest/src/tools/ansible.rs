//! Output of ansible.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Marker, Next, Rule, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("ansible") };

/// A failed task with an ignored failure.
fn ignoring(_: &[String], line: &str) -> Next {
    if line.trim() == "...ignoring" { Next::Last } else { Next::Beyond }
}

fn ignored(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() > 1;
}

const RULES: &[Rule] = &[
    Rule {
        name: "ansible.fatal",
        pattern: r"^(?:fatal|failed): \[(?P<h>[^\]]+)\](?:: | )(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(ignoring).refine(ignored))],
    },
    Rule {
        name: "ansible.recap_bad",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +(?:unreachable=[1-9]\d*|unreachable=0 +failed=[1-9]\d*) ",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Ansible)), Effect::Summary],
    },
    Rule {
        name: "ansible.recap_good",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +unreachable=0 +failed=0 ",
        effects: &[Effect::Summary],
    },
];
