//! Output of TeX.

use crate::rules::{Act, ERROR, Kind, Next, Rule, problem};
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

const RULES: &[Rule] = &[Rule {
    name: "tex.error",
    pattern: r"^! (?P<m>(?:[A-Z]| ==> ).*)",
    acts: &[Act::Problem(problem(ERROR, Kind::Build, 84).follow(tex_lines))],
}];
