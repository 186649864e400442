//! Output of the Serverless Framework.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { commands: &["serverless", "sls"], rules: RULES, ..Tool::named("Serverless") };

/// The message, up to the next heading.
fn message(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") && !line.ends_with("----------") && so_far.len() < 20 {
        Next::Part
    } else {
        Next::Beyond
    }
}

fn head(diagnostic: &mut Diagnostic) {
    let text = diagnostic.lines.iter().skip(1).position(|line| !line.trim().is_empty());
    diagnostic.head = text.map(|at| at + 1);
    diagnostic.spurious = text.is_none();
}

const RULES: &[Rule] = &[Rule {
    name: "serverless.error",
    pattern: r"^ *(?:Serverless |Type)?Error -{20,}$",
    effects: &[Effect::Problem(
        problem(ERROR, Kind::Runtime, 88).follow(message).owning().refine(head).fails(Fails::Always),
    )],
}];
