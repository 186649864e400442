//! Output of ansible.

use crate::rules::{Act, Draft, ERROR, Kind, Next, Rule, Sign, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("ansible") };

/// A failed task with an ignored failure.
fn ignoring(_: &[String], line: &str) -> Next {
    if line.trim() == "...ignoring" { Next::Last } else { Next::Beyond }
}

fn ignored(draft: &mut Draft) {
    draft.spurious = draft.lines.len() > 1;
}

const RULES: &[Rule] = &[
    Rule {
        name: "ansible.fatal",
        pattern: r"^(?:fatal|failed): \[(?P<h>[^\]]+)\](?:: | )(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88).follow(ignoring).refine(ignored))],
    },
    Rule {
        name: "ansible.recap_bad",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +(?:unreachable=[1-9]\d*|unreachable=0 +failed=[1-9]\d*) ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Ansible)), Act::Summary],
    },
    Rule {
        name: "ansible.recap_good",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +unreachable=0 +failed=0 ",
        acts: &[Act::Summary],
    },
];
