//! Output of TeX.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("TeX") };

/// TeX prints the position on a line `l.12 …`, and the unread rest on the next one.
fn tex_lines(so_far: &[String], line: &str) -> Next {
    let last = so_far.last().is_some_and(|line| line.starts_with("l."));
    if last {
        Next::Last
    } else if line.trim().is_empty() || so_far.len() > 8 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// The line is in `l.12 …`.
fn tex_line(diagnostic: &mut Diagnostic) {
    let row = |line: &String| line.strip_prefix("l.")?.split(' ').next()?.parse().ok();
    diagnostic.line = diagnostic.lines.iter().find_map(row);
    if diagnostic.line.is_none() {
        diagnostic.file = None;
    }
}

const RULES: &[Rule] = &[
    Rule {
        // A file that TeX opens and does not close on the same line.
        name: "tex.file",
        pattern: r"^\(?(?:[^()]*\([^()]*\))*\((?P<f>\./[^\s()]+\.(?:tex|ltx|sty|cls))$",
        effects: &[Effect::File],
    },
    Rule {
        name: "tex.error",
        pattern: r"^! (?P<m>(?:[A-Z]| ==> ).*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 84).follow(tex_lines).in_file().refine(tex_line),
        )],
    },
    Rule {
        name: "tex.file_line_error",
        pattern: r"^(?P<f>(?:\./|/)\S+\.(?:tex|ltx|sty|cls)):(?P<l>\d+): (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 84))],
    },
    Rule {
        name: "tex.fatal",
        pattern: r"^\S+:\d+: {2}==> Fatal error occurred, no output PDF file produced!$",
        effects: &[Effect::Failure],
    },
];
