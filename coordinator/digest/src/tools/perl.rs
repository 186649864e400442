//! Output of Perl.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem};
use crate::tool::Tool;
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Perl") };

fn diagnostics(so_far: &[String], line: &str) -> Next {
    let own = line.starts_with("# ") && !line.starts_with("# Looks like") && !line.contains("Failed test");
    if own && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// `#   at t/a.t line 12.`
fn at_line(diagnostic: &mut Diagnostic) {
    for line in &diagnostic.lines {
        if let Some((_, place)) = line.split_once(" at ").filter(|_| line.ends_with('.'))
            && let Some((file, row)) = place.trim_end_matches('.').split_once(" line ")
        {
            diagnostic.file = Some(file.to_owned());
            diagnostic.line = row.parse().ok();
            return;
        }
    }
}

/// Beginnings of warnings of the interpreter. They have the form of a fatal error.
const WARNINGS: &[&str] = &[
    "Argument \"",
    "Deep recursion",
    "Found = in",
    "Name \"",
    "Odd number of",
    "Possible ",
    "Scalar value",
    "Smartmatch",
    "Statement unlikely",
    "Subroutine ",
    "Unquoted string",
    "Use of ",
    "Useless use",
    "Wide character",
    "\"my\" ",
    "\"our\" ",
    "given is ",
    "when is ",
];

fn died(diagnostic: &mut Diagnostic) {
    if WARNINGS.iter().any(|start| diagnostic.first().starts_with(start)) {
        diagnostic.severity = Some(Severity::Warning);
        diagnostic.fails = Fails::Never;
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "perl.test",
        pattern: r"^#   Failed test (?:'(?P<t>.*)')?",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(diagnostics).refine(at_line))],
    },
    Rule {
        name: "perl.compile",
        pattern: r#"^(?P<m>(?:syntax error|Global symbol |Bareword |Can't locate \S+ in @INC|Missing right |Unmatched |Can't find string terminator).*?) at (?P<f>\S+) line (?P<l>\d+)(?:\.|, (?:near|at|<).*)$"#,
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88))],
    },
    Rule {
        name: "perl.compile_failed",
        pattern: r"^(?:BEGIN failed--compilation aborted|Execution of \S+ aborted due to compilation errors|\S+ had compilation errors)\b.*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40))],
    },
    Rule {
        name: "perl.died",
        pattern: r"^(?P<m>\S.*) at (?P<f>\S+\.(?:pl|pm|t|PL)) line (?P<l>\d+)(?:\.|, (?:near|at|<).*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 65).refine(died).fails(Fails::AtEnd))],
    },
];
