//! Output of npm.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, WARNING, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { only_installs: true, rules: RULES, ..Tool::named("npm") };

fn same_mark(so_far: &[String], line: &str) -> Next {
    let mark = so_far[0].split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    if line.starts_with(mark.as_str()) && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// That a script failed follows from the output of the script, which is above it, unless npm repeats that here.
fn script_failed(diagnostic: &mut Diagnostic) {
    let says = |text: &str| diagnostic.lines.iter().any(|line| line.contains(text));
    let is_script = says("ELIFECYCLE") || says("Lifecycle script") || says(" command failed");
    if is_script && !says("gyp ERR!") && !says("rror: ") {
        diagnostic.kind = Some(Kind::Consequence);
    }
    let chatter =
        ["A complete log of this run", "To see a list of scripts", "This is probably not a problem"];
    diagnostic.lines.retain(|line| !chatter.iter().any(|text| line.contains(text)));
}

const RULES: &[Rule] = &[
    Rule {
        name: "npm.error",
        pattern: r"^npm (?:ERR!|error)(?: (?P<m>.*))?$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 88).follow(same_mark).refine(script_failed)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "npm.warning",
        pattern: r"^npm (?:WARN|warn) (?P<m>.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Build, 40))],
    },
    Rule {
        name: "npm.added",
        pattern: r"^(?:added|changed|removed|up to date)\b.* packages? in [\d.]+m?s",
        effects: &[Effect::Success],
    },
];
