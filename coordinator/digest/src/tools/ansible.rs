//! Output of ansible and molecule.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("ansible") };

/// A failed task with an ignored failure.
fn ignoring(_: &[String], line: &str) -> Next {
    if line.trim() == "...ignoring" { Next::Last } else { Next::Beyond }
}

fn ignored(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() > 1;
}

/// The excerpt below the message, with the place in its line `Origin: site.yml:4:7`, and the result of the task.
fn task(so_far: &[String], line: &str) -> Next {
    let is_result = |line: &str| line.starts_with("fatal: [") || line.starts_with("failed: [");
    if line.trim() == "...ignoring" {
        Next::Last
    } else if so_far.iter().any(|line| is_result(line)) {
        Next::Beyond
    } else if is_result(line)
        || line.starts_with("Origin: ")
        || line.starts_with(|c: char| c.is_ascii_digit())
        || line.starts_with(' ')
    {
        Next::Part
    } else if so_far.len() < 40 && !NEXT.iter().any(|next| line.starts_with(next)) {
        Next::Maybe
    } else {
        Next::Beyond
    }
}

/// Beginnings of the lines of other tasks.
const NEXT: &[&str] = &["TASK [", "PLAY ", "ok: ", "changed: ", "skipping: ", "[", "RUNNING HANDLER "];

fn origin(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| line.strip_prefix("Origin: ").map(str::to_owned));
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
    diagnostic.spurious = diagnostic.lines.last().is_some_and(|line| line.trim() == "...ignoring");
}

/// The tasks that changed again.
fn tasks(so_far: &[String], line: &str) -> Next {
    let is_task = line.strip_prefix("ERROR: ").unwrap_or(line).starts_with("* ");
    if is_task && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "molecule.changed",
        pattern: r"^(?:CRITICAL|ERROR:?) +(?P<m>Idempotence test failed because of the following tasks:)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90).follow(tasks).owning().fails(Fails::Always),
        )],
    },
    Rule {
        name: "ansible.error",
        pattern: r"^\[ERROR\]: (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(task).owning().refine(origin))],
    },
    Rule {
        name: "ansible.fatal",
        pattern: r"^(?:fatal|failed): \[(?P<h>[^\]]+)\](?:: | )(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(ignoring).refine(ignored))],
    },
    Rule {
        name: "ansible.recap_bad",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +(?:unreachable=[1-9]\d*|unreachable=0 +failed=[1-9]\d*) ",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "ansible.recap_good",
        pattern: r"^\S+ +: ok=\d+ +changed=\d+ +unreachable=0 +failed=0 ",
        effects: &[Effect::Summary],
    },
];
