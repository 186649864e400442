//! Linters that have a shape of their own.

use super::{
    Act, Draft, ERROR, Kind, Level, Next, Rule, Sign, WARNING, drawn, indented, indented_or_blank, one_more,
    pointed, problem, set_place,
};
use crate::tool::ToolId;
use buildpool_protocol::report::Severity;

/// The rows of a file in a report that names each file once, above its rows.
fn rows(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let after = trimmed[digits..].strip_prefix(':').unwrap_or_default();
    let flush = so_far.first().is_some_and(|head| head.starts_with("./"));
    let row =
        digits > 0 && (flush || line.starts_with(' ')) && after.starts_with(|c: char| c.is_ascii_digit());
    if row || so_far.len() > 1 && line.starts_with("  ") && !trimmed.is_empty() {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Where a simulator's message comes from: `** while parsing`, `** at`.
fn modelsim_lines(so_far: &[String], line: &str) -> Next {
    let body = line.strip_prefix("# ").unwrap_or(line);
    if body.starts_with("** at ") || body.starts_with("** while ") {
        Next::Part
    } else {
        indented(so_far, body)
    }
}

/// A heading without rows is only a path; the worst row has the severity, the first one the location.
fn worst_row(draft: &mut Draft) {
    let mut severity = None;
    for (at, line) in draft.lines.iter().enumerate().skip(1) {
        let mut words = line.split_whitespace();
        let place = words.next().unwrap_or_default();
        let mut numbers = place.split(':').map(|number| number.parse::<u32>().ok());
        let (Some(Some(row)), Some(Some(column))) = (numbers.next(), numbers.next()) else { continue };
        let found = match words.next().map(|word| word.trim_end_matches(':')) {
            Some("error" | "Error" | "✖" | "×") => Severity::Error,
            Some("warning" | "Warning" | "⚠" | "‼") => Severity::Warning,
            _ => continue,
        };
        if severity.is_none_or(|severity| found < severity) {
            severity = Some(found);
            draft.line = Some(row);
            draft.column = Some(column);
            draft.head = Some(at);
        }
    }
    draft.severity = severity;
    draft.spurious = severity.is_none();
}

/// Lines of a difference.
fn difference(so_far: &[String], line: &str) -> Next {
    let part = line.is_empty() || line.starts_with([' ', '+', '-']);
    if part && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

/// A message without an arrow under it is something else.
fn only_pointed(draft: &mut Draft) {
    pointed(draft);
    draft.spurious = draft.file.is_none();
}

/// The place in the line below.
fn place_below(draft: &mut Draft) {
    let words: Vec<String> =
        draft.lines.iter().skip(1).flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
    let _found = words.iter().any(|word| set_place(draft, word));
}

/// The table of a file: ` 12 | ERROR | [x] …`.
fn table(so_far: &[String], line: &str) -> Next {
    let row = line.starts_with("----") || line.starts_with("FOUND ") || line.contains(" | ");
    if row && so_far.len() < 100 { Next::Part } else { Next::Beyond }
}

/// The first row has the location; a table without rows does not count.
fn first_row(draft: &mut Draft) {
    draft.lines.retain(|line| !line.starts_with("----"));
    draft.line = draft.lines.iter().find_map(|line| line.split_once(" | ")?.0.trim().parse().ok());
    draft.spurious = draft.line.is_none();
    if !draft.lines.iter().any(|line| line.contains("| ERROR ")) {
        draft.severity = Some(Severity::Warning);
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "biome",
        pattern: r"^(?P<f>[^\s:]+\.\w+)(?::(?P<l>\d+):(?P<c>\d+))? (?P<m>(?:lint|parse|syntax|assist|suppressions|format|organizeImports|check)\b\S*).* (?:\xe2\x94\x81)+$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 90).follow(indented_or_blank).owning())],
    },
    Rule {
        name: "ruff.pointed",
        pattern: r"^(?P<k>[A-Z]{1,6}\d{3,4}|invalid-syntax:?) (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 86).follow(drawn).refine(only_pointed))],
    },
    Rule {
        name: "hadolint",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+) (?P<k>[A-Z]{2,4}\d{3,5}) (?P<s>error|warning|info|style): (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule {
        name: "rustfmt.difference",
        pattern: r"^Diff in (?P<f>\S+?)(?::(?P<l>\d+)| at line (?P<l2>\d+)):$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 90).follow(difference).owning())],
    },
    Rule {
        name: "formatter.would",
        pattern: r"^[Ww]ould reformat:? (?P<f>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88))],
    },
    Rule {
        name: "formatter.count",
        pattern: r"^\d+ files? would (?:be reformatted|fail to reformat)",
        acts: &[Act::Sign(Sign::Failure(ToolId::Formatter)), Act::Summary],
    },
    Rule {
        name: "credo.issue",
        pattern: r"^\xe2\x94\x83 \[[WRCFD]\] \S+ (?P<m>.*)",
        acts: &[Act::Problem(problem(WARNING, Kind::Lint, 86).follow(one_more).refine(place_below))],
    },
    Rule {
        name: "phpcs.file",
        pattern: r"^FILE: (?P<f>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88).follow(table).owning().refine(first_row))],
    },
    Rule {
        name: "eslint.file",
        pattern: r"^(?P<f>(?:[A-Za-z]:\\)?[^\s:]*\.\w{1,10})$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 90).follow(rows).owning().refine(worst_row))],
    },
    Rule {
        name: "eslint.row",
        pattern: r"^\s+(?P<l>\d+):(?P<c>\d+)\s+(?P<s>error|warning|info|\xe2\x9c\x96|\xe2\x9a\xa0|\xc3\x97)\s+(?P<m>\S.*)$",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule {
        name: "rubocop.place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CWEFRI]): (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85).follow(indented))],
    },
    Rule {
        name: "rubocop.total",
        pattern: r"^\d+ files? inspected, [1-9]\d* offenses? ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Rubocop)), Act::Summary],
    },
    Rule {
        name: "ruff.fixed",
        pattern: r"^Found \d+ errors? \(\d+ fixed, 0 remaining\)\.$",
        acts: &[Act::Sign(Sign::Success(ToolId::Linter)), Act::Summary, Act::Alone],
    },
    Rule {
        name: "ruff.unformatted",
        pattern: r"^unformatted: File would be reformatted$",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88).follow(drawn).refine(pointed))],
    },
    Rule {
        name: "jshint.remark",
        pattern: r"^(?P<f>\S+\.\w+): line (?P<l>\d+), col (?P<c>\d+), (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88))],
    },
    Rule {
        name: "ruff.found",
        pattern: r"^Found (?P<n>[1-9]\d*) (?:errors?|diagnostics?|issues?|problems?|violations?|offenses?)\b.*$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Linter)), Act::Summary],
    },
    Rule {
        name: "ruff.passed",
        pattern: r"^(?:All checks passed!|Found 0 errors?\.?)$",
        acts: &[Act::Sign(Sign::Success(ToolId::Linter)), Act::Summary],
    },
    Rule {
        name: "pylint.code",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CRWEF])\d{4}: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85))],
    },
    Rule {
        name: "puppet_lint.on_line",
        pattern: r"^(?:(?P<f>\S+) - )?(?P<s>ERROR|WARNING): (?P<m>.*) on line (?P<l>\d+)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 88))],
    },
    Rule {
        name: "swiftlint",
        pattern: r"^(?P<f>/[^:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<s>error|warning): (?P<m>.* \([a-z_]+\))$",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule {
        name: "lint.bracketed_place",
        pattern: r"^(?P<f>[^\s:\[\]]+\.\w+)\[(?P<l>\d+), ?(?P<c>\d+)\]: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Remark, Kind::Lint, 72))],
    },
    Rule {
        name: "lint.shellcheck",
        pattern: r"^In (?P<f>\S+) line (?P<l>\d+):$",
        acts: &[Act::Problem(problem(WARNING, Kind::Lint, 80).follow(super::paragraph))],
    },
    Rule {
        name: "lint.lintrunner",
        pattern: r"^>>> Lint for (?P<f>\S+):$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Lint, 88).follow(super::indented_or_blank)),
            Act::Sign(Sign::Failure(ToolId::Lintrunner)),
        ],
    },
    Rule {
        name: "lint.lintrunner_row",
        pattern: r"^\s+(?P<s>Error|Warning|Advice) \((?P<m>[A-Z][A-Z0-9_-]*)\) .*",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 88).follow(super::indented))],
    },
    Rule {
        name: "modelsim",
        pattern: r"^(?:# )?\*\* (?P<s>Error|Warning|Fatal|Note)(?: \([^)]*\))?: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 88).follow(modelsim_lines))],
    },
];
