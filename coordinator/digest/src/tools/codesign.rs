//! Output of Apple's codesign, spctl and security.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("codesign") };

/// Files that codesign names below its message.
fn files(_: &[String], line: &str) -> Next {
    let is_part =
        ["file modified: ", "file added: ", "file missing: ", "In architecture: ", "In subcomponent: "];
    if is_part.iter().any(|start| line.starts_with(start)) { Next::Part } else { Next::Beyond }
}

/// The reason of a rejection is on the next line.
fn source(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && line.starts_with("source=") { Next::Last } else { Next::Beyond }
}

/// Other programs reject things too, and give no source.
fn has_source(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() == 1;
}

const RULES: &[Rule] = &[
    Rule {
        name: "codesign.refused",
        pattern: concat!(
            r"^(?P<f>\S[^:]*): (?:a sealed resource is missing or invalid|code object is not signed at all",
            r"|invalid signature \(code or signature have been modified\)|bundle format (?:unrecognized|is ambiguous)",
            r"|resource fork, Finder information, or similar detritus not allowed|code failed to satisfy",
            r"|nested code is modified or invalid|the signature (?:of code|could not be read)",
            r"|unsealed contents present in the (?:bundle root|root directory)|is already signed$)"
        ),
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(files).fails(Fails::Always))],
    },
    Rule {
        name: "codesign.identity",
        pattern: r"^(?:\S.*: no identity found$|error: The specified item could not be found in the keychain\.)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 90).fails(Fails::Always))],
    },
    Rule {
        name: "spctl.rejected",
        pattern: r"^\S.*: rejected(?: \(.*\))?$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 90).follow(source).refine(has_source).fails(Fails::Always),
        )],
    },
];
