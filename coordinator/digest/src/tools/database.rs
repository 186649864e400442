//! What clients of databases print about a script.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, problem};
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
        name: "database.liquibase",
        pattern: r"^Unexpected error running Liquibase: (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 92).follow(crate::rules::indented).fails(Fails::Always),
        )],
    },
    Rule {
        name: "database.alembic",
        pattern: r"^ERROR +\[alembic\.util\.messaging\] (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 90).fails(Fails::Always))],
    },
    Rule {
        name: "database.change_set",
        pattern: r"^ *(?:[\w.]+Exception: )?Migration failed for change ?set (?P<m>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 88).follow(crate::rules::indented).fails(Fails::Always),
        )],
    },
    Rule {
        name: "database.liquibase_reason",
        pattern: r"^ *Reason: liquibase\.exception\.\S+: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).fails(Fails::Always))],
    },
    Rule {
        // Flyway's description of the statement stands below.
        name: "database.flyway",
        pattern: r"^(?:ERROR: )?Migration \S+ failed$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90).follow(statement).refine(of_statement).fails(Fails::Always),
        )],
    },
    Rule {
        name: "database.flyway_message",
        pattern: r"^Message {4}: (?P<m>ERROR: .*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).fails(Fails::Always))],
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

/// Flyway's table: `Message    : …`, `Location   : a.sql (/w/a.sql)`, `Line       : 3`.
fn statement(so_far: &[String], line: &str) -> Next {
    let is_row = line.starts_with("-----") || line.get(10..13).is_some_and(|sign| sign.contains(": "));
    if is_row && so_far.len() < 12 { Next::Part } else { Next::Beyond }
}

fn of_statement(diagnostic: &mut Diagnostic) {
    let value = |name: &str| {
        let row = diagnostic.lines.iter().find(|line| line.starts_with(name))?;
        row.split_once(": ").map(|(_, value)| value.split(" (").next().unwrap_or(value).to_owned())
    };
    let (file, line) = (value("Location "), value("Line ").and_then(|line| line.trim().parse().ok()));
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with("Message "));
    (diagnostic.file, diagnostic.line) = (file, line);
}

/// Lines of dbt have no margin of their own: the stamp is before the first one only.
fn model_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("  ") && so_far.len() < 12 { Next::Part } else { Next::Beyond }
}
