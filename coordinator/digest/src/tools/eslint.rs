//! Output of eslint.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Level, Next, RUNS, Rule, problem};
use crate::tool::{Apart, Tool};
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("eslint") };

/// The sign of severity that some formats have before the place.
const SIGNS: &[&str] = &["✖", "×", "⚠", "‼"];

fn without_mark(row: &str) -> &str {
    SIGNS.iter().find_map(|sign| row.strip_prefix(sign)).map_or(row, str::trim_start)
}

/// The rows of a file in a report that names each file once, above its rows.
pub(super) fn rows(so_far: &[String], line: &str) -> Next {
    let trimmed = without_mark(line.trim_start());
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let after = trimmed[digits..].strip_prefix(':').unwrap_or_default();
    let flush = so_far.first().is_some_and(|head| head.starts_with("./"));
    let names_severity =
        trimmed.split_whitespace().nth(1).is_some_and(|word| matches!(word, "error" | "warning" | "info"));
    let row = digits > 0
        && (flush || names_severity || line.starts_with(' '))
        && after.starts_with(|c: char| c.is_ascii_digit());
    if row || so_far.len() > 1 && line.starts_with("  ") && !trimmed.is_empty() {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// A heading without rows is only a path; the worst row has the severity, the first one the location.
pub(super) fn worst_row(diagnostic: &mut Diagnostic) {
    let mut severity = None;
    for (at, line) in diagnostic.lines.iter().enumerate().skip(1) {
        let text = line.trim_start();
        let mut words = without_mark(text).split_whitespace();
        let place = words.next().unwrap_or_default();
        let mut numbers = place.split(':').map(|number| number.split('-').next()?.parse::<u32>().ok());
        let (Some(Some(row)), Some(Some(column))) = (numbers.next(), numbers.next()) else { continue };
        let sign = SIGNS.iter().find(|sign| text.starts_with(**sign)).copied();
        let found = match sign.or_else(|| words.next().map(|word| word.trim_end_matches(':'))) {
            Some("error" | "Error" | "✖" | "×") => Severity::Error,
            Some("warning" | "Warning" | "⚠" | "‼") => Severity::Warning,
            _ => continue,
        };
        if severity.is_none_or(|severity| found < severity) {
            severity = Some(found);
            diagnostic.line = Some(row);
            diagnostic.column = Some(column);
            diagnostic.head = Some(at);
        }
    }
    diagnostic.severity = severity;
    diagnostic.spurious = severity.is_none();
}

/// The message below the version, up to the frames.
fn gave_up(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 12 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The message is the first line below the version.
fn reason(diagnostic: &mut Diagnostic) {
    let is_message = |line: &String| !line.trim().is_empty() && !line.starts_with("ESLint: ");
    diagnostic.head = diagnostic.lines.iter().skip(1).position(is_message).map(|at| at + 1);
}

const RULES: &[Rule] = &[
    Rule {
        name: "eslint.gave_up",
        pattern: r"^Oops! Something went wrong! :\($",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 90).follow(gave_up).owning().refine(reason)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "eslint.warnings",
        pattern: r"^\s*(?:\xe2\x9c\x96|\xe2\x9c\x98|\xc3\x97|\xe2\x9a\xa0) \d+ problems? \(0 errors?, \d+ warnings?",
        effects: &[RUNS, Effect::Summary, Effect::Harmless, Effect::Alone],
    },
    Rule {
        name: "eslint.too_many",
        pattern: r"^ESLint found too many warnings \(maximum: \d+\)\.",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "eslint.total",
        pattern: r"^\s*(?:\xe2\x9c\x96|\xe2\x9c\x98|\xc3\x97|\xe2\x9a\xa0) \d+ problems?\b",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "eslint.file",
        pattern: r"^(?: {2,3})?(?P<f>(?:[A-Za-z]:\\)?[^\s:]*\.\w{1,10})$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90).follow(rows).owning().refine(worst_row))],
    },
    Rule {
        name: "eslint.row",
        pattern: r"^\s+(?P<l>\d+):(?P<c>\d+)\s+(?P<s>error|warning|info|\xe2\x9c\x96|\xe2\x9a\xa0|\xc3\x97)\s+(?P<m>\S.*)$",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule {
        name: "eslint.no_files",
        pattern: r"^No files matching the pattern .* (?:was|were) found\.$",
        effects: &[Effect::Failure],
    },
];
