//! Output of Packer.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Role, Rule, paragraph, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("packer") };

/// Further lines of the same builder that continue the message.
fn of_builder(so_far: &[String], line: &str) -> Next {
    let builder = so_far[0].trim_start_matches("==> ").split(": ").next().unwrap_or_default();
    let text = line.trim_start().strip_prefix(builder).and_then(|rest| rest.strip_prefix(": "));
    if so_far.len() < 12 && text.is_some_and(|text| text.starts_with(' ')) {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The exit code of a program follows from its output.
fn errored(diagnostic: &mut Diagnostic) {
    if ["exit status", "exit code"].iter().any(|words| diagnostic.first().contains(words)) {
        diagnostic.kind = Some(Kind::Consequence);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "packer.error",
        pattern: r"^==> [\w.-]+: (?P<m>(?:Error|Failed|Failure|Timeout|Unable|Could ?n[o']t|Script (?:exited|disconnected))\b.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 86).follow(of_builder))],
    },
    Rule {
        name: "packer.errored",
        pattern: r"^Build '[^']+' errored(?: after [^:]*)?: (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 84).refine(errored)), Effect::Failure],
    },
    Rule {
        // Lines that a program of the builder prints to standard error.
        name: "packer.program",
        pattern: r"^==> [\w.-]+: (?P<m>[a-z][\w.+-]*: .*(?:annot|o such|ot found|ailed|rror|enied|nvalid).*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 70).role(Role::Vague))],
    },
    Rule {
        name: "packer.template",
        pattern: r"^Failed to parse template: (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).follow(paragraph).fails(Fails::Always))],
    },
    Rule {
        name: "packer.total",
        pattern: r"^==> (?:Some builds didn't complete successfully and had errors:|Builds finished but no artifacts were created\.)$",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
];
