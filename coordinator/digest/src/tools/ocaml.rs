//! Output of OCaml.

use super::places::worded;
use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, indented, one_more, problem};
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

fn ocaml_severity(diagnostic: &mut Diagnostic) {
    let says = |word: &str| diagnostic.lines.iter().any(|line| line.starts_with(word));
    if says("Warning") && !says("Error") {
        diagnostic.severity = Some(buildpool_protocol::report::Severity::Warning);
    }
    diagnostic.head =
        diagnostic.lines.iter().position(|line| line.starts_with("Error") || line.starts_with("Warning"));
}

/// The toplevel reads on after an error, and ends with the exit code 0.
fn of_toplevel(diagnostic: &mut Diagnostic) {
    ocaml_severity(diagnostic);
    // The prompt.
    let first = diagnostic.first().trim_start_matches("# ").to_owned();
    diagnostic.lines[0] = first;
    diagnostic.spurious = diagnostic.head.is_none();
    if diagnostic.severity.is_none() {
        diagnostic.fails = Fails::Always;
    }
}

/// A script ends with it, and the toplevel reads on.
fn raised(diagnostic: &mut Diagnostic) {
    diagnostic.fails = if diagnostic.first().starts_with("# ") { Fails::Always } else { Fails::AtEnd };
    let first = diagnostic.first().trim_start_matches("# ").to_owned();
    diagnostic.lines[0] = first;
}

/// The lines of opam's report about a package, each behind a number sign.
fn report(so_far: &[String], line: &str) -> Next {
    if line.starts_with('#') && so_far.len() < 60 { Next::Part } else { Next::Beyond }
}

/// The reason is the first error below `### output ###`, or its last line.
fn reason(diagnostic: &mut Diagnostic) {
    let from = diagnostic.lines.iter().position(|line| line.starts_with("### ")).map_or(1, |at| at + 1);
    let error = diagnostic.lines.iter().skip(from).position(|line| line.contains("rror"));
    diagnostic.head = error.map(|at| at + from).or_else(|| diagnostic.lines.len().checked_sub(1));
    worded(diagnostic);
}

/// The path, the environment and the names of files in opam's report.
fn is_of_environment(line: &str) -> bool {
    [
        "# context",
        "# path",
        "# env-file",
        "# output-file",
        "# stdout-file",
        "# stderr-file",
        "# os ",
        "# opam-",
    ]
    .iter()
    .any(|word| line.starts_with(word))
}

const RULES: &[Rule] = &[
    Rule {
        name: "opam.report",
        pattern: r"^#=== ERROR while [a-z ]+ (?P<m>\S+) =+#$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 91)
                .follow(report)
                .dispensable(is_of_environment)
                .owning()
                .refine(reason)
                .fails(Fails::Always),
        )],
    },
    Rule {
        name: "opam.failed",
        pattern: r"^\[ERROR\] The (?:compilation|installation|sources?|removal) of (?P<m>\S+ .*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60).fails(Fails::Always))],
    },
    Rule {
        name: "ocaml.place",
        pattern: r#"^File "(?P<f>[^"]+)", lines? (?P<l>\d+)(?:-\d+)?(?:, characters (?P<c>\d+)-\d+)?:"#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 90).follow(ocaml_lines).refine(ocaml_severity),
        )],
    },
    Rule {
        name: "ocaml.toplevel",
        pattern: r"^(?:# )*Lines? (?P<l>\d+)(?:-\d+)?, characters (?P<c>\d+)-\d+:$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 86).follow(ocaml_lines).refine(of_toplevel))],
    },
    Rule {
        // `Exception: Failure "boom".`
        name: "ocaml.exception",
        pattern: r"^(?:# )*Exception: (?P<m>(?:[A-Z]\w*\.)*[A-Z]\w*(?:[ (].*)?\.)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 78).follow(indented).refine(raised))],
    },
];
