//! What clients of databases print about a script.

use crate::rules::{ERROR, Effect, Fails, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("database client") };

/// PostgreSQL's details, and the excerpt with its caret.
fn details(so_far: &[String], line: &str) -> Next {
    let says = ["LINE ", "DETAIL:", "HINT:", "CONTEXT:", "QUERY:"].iter().any(|word| line.contains(word));
    if so_far.len() < 12 && (says || line.trim() == "^") { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "database.psql",
        pattern: r"^psql:(?P<f>[^:]+):(?P<l>\d+): (?:ERROR|FATAL|PANIC|error): +(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 90).follow(details).fails(Fails::Always))],
    },
    Rule {
        name: "database.mysql",
        pattern: r"^ERROR \d{4} \(\w{5}\)(?: at line (?P<l>\d+))?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88))],
    },
    Rule {
        // As dbt has it.
        name: "database.model",
        pattern: r"^\s*(?:Database|Compilation|Runtime|Parsing|Dependency|Failure)(?: Error)? in (?:model|test|seed|snapshot|macro|operation) .*\((?P<f>[^)]+)\)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 92).follow(model_lines).fails(Fails::Always),
        )],
    },
];

/// Lines of dbt have no margin of their own: the stamp is before the first one only.
fn model_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("  ") && so_far.len() < 12 { Next::Part } else { Next::Beyond }
}
