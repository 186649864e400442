//! Output of linter.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Level, Next, Rule, WARNING, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool {
    apart: Apart::Always,
    commands: COMMANDS,
    lints: true,
    rules: RULES,
    records: &[super::json_problems::FORMAT],
    ..Tool::named("linter")
};

/// Linters without rules of their own that fail after each remark.
const COMMANDS: &[&str] = &[
    "actionlint",
    "ansible-lint",
    "bandit",
    "cfn-lint",
    "checkbashisms",
    "codespell",
    "cpplint",
    "cspell",
    "deptry",
    "doc8",
    "dotenv-linter",
    "erblint",
    "fasterer",
    "flake8",
    "foodcritic",
    "go-consistent",
    "golangci-lint",
    "gosec",
    "haml-lint",
    "hlint",
    "knip",
    "ktlint",
    "luacheck",
    "madge",
    "markdownlint",
    "mdl",
    "misspell",
    "pycodestyle",
    "pydocstyle",
    "pyflakes",
    "reek",
    "ruff",
    "scss-lint",
    "shellcheck",
    "slim-lint",
    "sqlfluff",
    "standardrb",
    "staticcheck",
    "textlint",
    "typos",
    "shfmt",
    "vulture",
    "xo",
    "yapf",
];

/// The list below a heading and a blank line.
fn listed(so_far: &[String], line: &str) -> Next {
    let is_part = line.starts_with("-  ") || line.starts_with("   ");
    match (line.is_empty(), is_part) {
        (true, _) if so_far.len() == 1 => Next::Maybe,
        (false, true) => Next::Part,
        _ => Next::Beyond,
    }
}

fn says_something(line: &str) -> bool {
    !line.trim().is_empty()
}

/// The message is the line above the place.
fn above(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.len() - 1;
    diagnostic.spurious = place == 0;
    diagnostic.lines.drain(..place.saturating_sub(1));
    diagnostic.head = Some(0);
}

const RULES: &[Rule] = &[
    Rule {
        name: "lint.bracketed_place",
        pattern: r"^(?P<f>[^\s:\[\]]+\.\w+)\[(?P<l>\d+), ?(?P<c>\d+)\]: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 72))],
    },
    Rule {
        name: "lint.shellcheck",
        pattern: r"^In (?P<f>\S+) line (?P<l>\d+):$",
        effects: &[Effect::Problem(
            problem(WARNING, Kind::Lint, 80).follow(crate::rules::paragraph).fails(Fails::Always),
        )],
    },
    Rule {
        // erb-lint prints the message above the place.
        name: "lint.erb",
        pattern: r"^In file: (?P<f>\S+):(?P<l>\d+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).lead(says_something).refine(above))],
    },
    Rule {
        // Totals of linters that fail after each remark.
        name: "lint.total",
        pattern: r"^(?:Total: (?:[1-9]\d* warnings? / \d+|\d+ warnings? / [1-9]\d*) errors? in \d+ files?|Total (?:accumulated )?errors(?: found)?(?::| =) [1-9]\d*|CSpell: .*Issues found: [1-9]\d* in .*|[1-9]\d* hints?(?: \(\d+ ignored\))?|Found [1-9]\d* dependency issues?\.|Contracts: \d+ kept, [1-9]\d* broken\.|Analysis failed with [1-9]\d* (?:weighted )?issues?\.|\xe2\x9c\x96 {3}found [1-9]\d* problems, \d+ warnings|error: [1-9]\d* vulnerabilit(?:y|ies) found!|Failed: [1-9]\d* failure\(s\), \d+ warning\(s\) .*|\xe2\x9c\x96 Found [1-9]\d* circular dependenc(?:y|ies)!|[1-9]\d* issues:|[1-9]\d* error\(s\) were found in ERB files|\d+ files? inspected, [1-9]\d* lints? detected|(?:\w+ ok, )*(?:advisories|bans|licenses|sources) FAILED(?:, \w+ (?:ok|FAILED))*)$",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "lint.clean",
        pattern: r"^(?:Total: 0 warnings / 0 errors in \d+ files?|Total (?:accumulated )?errors(?: found)?(?::| =) 0|CSpell: .*Issues found: 0 in .*|No hints|Success! No dependency issues found\.|Contracts: \d+ kept, 0 broken\.|Woohoo! Your API descriptions? (?:is|are) valid\..*|Passed: 0 failure\(s\), \d+ warning\(s\) .*|\xe2\x9c\x94 No circular dependency found!)$",
        effects: &[Effect::Success, Effect::Summary, Effect::Harmless],
    },
    Rule {
        // As import-linter has it.
        name: "lint.forbidden_import",
        pattern: r"^(?P<k>\S+) is not allowed to import (?P<m>\S+):$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).follow(listed))],
    },
    Rule {
        name: "lint.lintrunner_row",
        pattern: r"^\s+(?P<s>Error|Warning|Advice) \((?P<m>[A-Z][A-Z0-9_-]*)\) .*",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 88).follow(crate::rules::indented))],
    },
    Rule {
        name: "lint.shellcheck_code",
        pattern: r"^ *\^(?:-*\^)? ?SC\d{4} \((?P<s>error|warning|info|style)\): (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 80).fails(Fails::Always))],
    },
];
