//! Output of OCaml.

use crate::rules::{ERROR, Effect, Kind, Next, Rule, one_more, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("OCaml") };

fn ocaml_lines(so_far: &[String], line: &str) -> Next {
    let excerpt =
        line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
    if excerpt || line.starts_with("Error") || line.starts_with("Warning") || line.starts_with([' ', '\t']) {
        Next::Part
    } else {
        one_more(so_far, "")
    }
}

fn ocaml_severity(diagnostic: &mut crate::rules::Diagnostic) {
    let says = |word: &str| diagnostic.lines.iter().any(|line| line.starts_with(word));
    if says("Warning") && !says("Error") {
        diagnostic.severity = Some(buildpool_protocol::report::Severity::Warning);
    }
    diagnostic.head =
        diagnostic.lines.iter().position(|line| line.starts_with("Error") || line.starts_with("Warning"));
}

const RULES: &[Rule] = &[Rule {
    name: "ocaml.place",
    pattern: r#"^File "(?P<f>[^"]+)", lines? (?P<l>\d+)(?:-\d+)?(?:, characters (?P<c>\d+)-\d+)?:"#,
    effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(ocaml_lines).refine(ocaml_severity))],
}];
