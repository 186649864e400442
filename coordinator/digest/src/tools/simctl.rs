//! Output of Apple's simctl, which controls simulators.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { uses_simulator: true, rules: RULES, ..Tool::named("simctl") };

/// Most lines of an error.
const LINES_MAX: usize = 12;
/// Message of a boot that had nothing to do.
const BOOTED: &str = "Unable to boot device in current state: Boot";

fn paragraph(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() || so_far.len() >= LINES_MAX { Next::Beyond } else { Next::Part }
}

/// A device that is booted already is harmless. An application that can't be installed or launched is not the machine's fault.
fn reason(diagnostic: &mut Diagnostic) {
    let is_of_app = ["domain=IX", "domain=FBSOpenApplication", "domain=MI"];
    diagnostic.spurious = diagnostic.lines.iter().any(|line| line.starts_with(BOOTED));
    if is_of_app.iter().any(|domain| diagnostic.first().contains(domain)) {
        diagnostic.kind = Some(Kind::Runtime);
    }
    diagnostic.head = (diagnostic.lines.len() > 1).then_some(1);
}

const RULES: &[Rule] = &[
    Rule {
        name: "simctl.error",
        pattern: r"^An error was encountered processing the command \(domain=[\w.]+, code=-?\d+\):",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Infrastructure, 88).follow(paragraph).owning().refine(reason),
        )],
    },
    Rule {
        name: "simctl.booted",
        pattern: r"^Unable to boot device in current state: Boot",
        effects: &[Effect::Harmless, Effect::Alone],
    },
    Rule {
        name: "simctl.device",
        pattern: r"^Invalid (?:device|device type|runtime)(?: or device pair)?: \S",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 85))],
    },
];
