//! Reports that name a file in a heading and have rows with a line and a message.

use super::c::excerpt;
use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Level, Next, Rule, WARNING, paragraph, problem};
use crate::tool::{Apart, Tool};
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool = Tool { apart: Apart::Always, rules: RULES, ..Tool::named("table of remarks") };

/// Most rows of a table in one finding.
const ROWS_MAX: usize = 40;

/// The rows between the two lines of dashes.
fn phpstan_rows(so_far: &[String], line: &str) -> Next {
    let is_border = line.trim_start().starts_with("------");
    if is_border && so_far.len() > 1 || so_far.len() > ROWS_MAX {
        Next::Last
    } else if is_border || line.starts_with("  ") {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The first row has the place and the message.
fn first_row(diagnostic: &mut Diagnostic) {
    let row = |line: &String| line.split_whitespace().next()?.parse::<u32>().ok();
    diagnostic.head = diagnostic.lines.iter().skip(1).position(|line| row(line).is_some()).map(|at| at + 1);
    diagnostic.line = diagnostic.head.and_then(|at| row(&diagnostic.lines[at]));
    diagnostic.spurious = diagnostic.head.is_none();
}

fn sqlfluff_rows(so_far: &[String], line: &str) -> Next {
    let is_row = line.starts_with("L: ") || line.trim_start().starts_with("| ");
    if is_row && so_far.len() < ROWS_MAX { Next::Part } else { Next::Beyond }
}

/// `L:   3 | P:   8 | CP01 | message`.
fn first_sqlfluff_row(diagnostic: &mut Diagnostic) {
    let Some(row) = diagnostic.lines.get(1) else {
        diagnostic.spurious = true;
        return;
    };
    let mut numbers = row.split('|').map(|part| part.split_whitespace().nth(1)?.parse().ok());
    (diagnostic.line, diagnostic.column) = (numbers.next().flatten(), numbers.next().flatten());
    diagnostic.head = Some(1);
}

/// bandit's `Location: ./app.py:3:0`.
fn location_line(diagnostic: &mut Diagnostic) {
    let place =
        diagnostic.lines.iter().find_map(|line| Some(line.trim().strip_prefix("Location: ")?.to_owned()));
    let _placed = place.is_some_and(|place| crate::rules::set_place(diagnostic, &place));
}

/// brakeman's `File: app/a.rb` and `Line: 5`.
fn brakeman_place(diagnostic: &mut Diagnostic) {
    let value = |name: &str| {
        diagnostic.lines.iter().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    let (file, line) = (value("File: "), value("Line: ").and_then(|line| line.parse().ok()));
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with("Message: "));
    diagnostic.spurious = file.is_none() || diagnostic.head.is_none();
    (diagnostic.file, diagnostic.line) = (file, line);
}

/// checkov's `Check: CKV_AWS_9: "…"` above the result.
fn is_check(line: &str) -> bool {
    line.starts_with("Check: CKV")
}

fn checkov_rows(so_far: &[String], line: &str) -> Next {
    if line.starts_with('\t') && !line.trim().is_empty() && so_far.len() < 4 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// `File: /main.tf:1-12` names the first and the last line.
fn file_row(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| line.trim().strip_prefix("File: "));
    let first = place.map(|place| place.rsplit_once('-').map_or(place, |(first, _)| first).to_owned());
    let _placed = first.is_some_and(|place| crate::rules::set_place(diagnostic, &place));
    diagnostic.head = Some(0);
}

/// The message of an advisory of cargo audit is its `Title:`.
fn title(diagnostic: &mut Diagnostic) {
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with("Title:"));
    diagnostic.spurious = diagnostic.head.is_none();
}

/// The entries of a list below its heading.
fn entries(so_far: &[String], line: &str) -> Next {
    let text = line.trim();
    let is_heading = text.ends_with(':') && line == text || text.ends_with(')') && text.contains(" (");
    if text.is_empty()
        || is_heading
        || LISTED.iter().any(|word| text.starts_with(word))
        || so_far.len() > ROWS_MAX
    {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// Words that begin a heading of such a list.
const LISTED: &[&str] =
    &["Unused ", "Unlisted ", "Unresolved ", "Missing ", "Duplicate ", "Unlinted ", "Invalid "];

/// A heading without entries is no remark. The first entry may have a place.
fn first_entry(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() == 1;
    super::places::worded(diagnostic);
}

fn is_path(line: &str) -> bool {
    let text = line.trim();
    line.starts_with("  ") && !text.contains(' ') && text.contains('.')
}

fn deeper(so_far: &[String], line: &str) -> Next {
    let text = line.trim();
    if so_far.len() > 12 || text.is_empty() && so_far.len() > 6 {
        Next::Beyond
    } else if text.is_empty() {
        Next::Maybe
    } else if line.starts_with("       ") {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The path is above, and the number of the line before its text: `2┆ eval(input())`.
fn semgrep_place(diagnostic: &mut Diagnostic) {
    let path = diagnostic.lines.first().filter(|line| is_path(line)).map(|line| line.trim().to_owned());
    let row = diagnostic.lines.iter().find_map(|line| line.trim().split_once('┆')?.0.trim().parse().ok());
    diagnostic.spurious = path.is_none() && row.is_none();
    (diagnostic.file, diagnostic.line) = (path, row);
    let mark = diagnostic.lines.iter().position(|line| line.contains('❱')).unwrap_or(0);
    diagnostic.head = diagnostic
        .lines
        .iter()
        .skip(mark + 1)
        .position(|line| !line.trim().is_empty())
        .map(|at| mark + 1 + at);
}

/// A linter that fails after each remark has no remarks that only inform.
pub(super) fn not_informal(diagnostic: &mut Diagnostic) {
    let first = diagnostic.first();
    if ["[LOW]", "[STYLE]", "[UNSPECIFIED]"].iter().any(|word| first.starts_with(word))
        || first.contains(": Suggestion: ")
    {
        diagnostic.severity = Some(Severity::Warning);
    }
}

const RULES: &[Rule] = &[
    Rule {
        // As haml-lint, slim-lint and scss-lint have it, which fail after a warning too.
        name: "lint_reports.lettered",
        pattern: r"^(?P<f>[^\s:]+\.(?:haml|slim|scss|sass|erb)):(?P<l>\d+)(?::(?P<c>\d+))? \[(?P<s>[EW])\] (?P<m>[A-Z]\w+: .*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 88).fails(Fails::Always))],
    },
    Rule {
        // As CodeChecker has it.
        name: "lint_reports.severity_in_front",
        pattern: r"^\[(?P<s>CRITICAL|HIGH|MEDIUM|LOW|STYLE|UNSPECIFIED)\] (?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Lint, 90).follow(excerpt).refine(not_informal).fails(Fails::Always),
        )],
    },
    Rule {
        // A code in front, and the place at the end, as foodcritic has it.
        name: "lint_reports.place_at_end",
        pattern: r"^(?P<k>[A-Z]{2,4}\d{3,4}): (?P<m>\S.*): (?P<f>[^\s:]+\.\w{1,8}):(?P<l>\d+)$",
        effects: &[Effect::Problem(problem(WARNING, Kind::Lint, 88).fails(Fails::Always))],
    },
    Rule {
        name: "lint_reports.dotenv",
        pattern: r"^(?P<f>(?:\S*/)?\.env(?:\.[\w.-]+)?):(?P<l>\d+) (?P<m>[A-Z]\w+.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Lint, 85).fails(Fails::Always))],
    },
    Rule {
        name: "lint_reports.fasterer",
        pattern: r"^(?P<f>[^\s:]+\.rb):(?P<l>\d+) (?P<m>\S.* is slower than .*\.)$",
        effects: &[Effect::Problem(problem(WARNING, Kind::Lint, 88).fails(Fails::Always))],
    },
    Rule {
        name: "lint_reports.listed",
        pattern: r"^(?:Unused|Unlisted|Unresolved|Missing|Duplicate|Unlinted|Invalid) (?:[a-z]+ ){0,2}[a-z]+s(?: \(\d+\)|:)?$",
        effects: &[Effect::Problem(
            problem(Level::Remark, Kind::Lint, 80)
                .follow(entries)
                .owning()
                .refine(first_entry)
                .fails(Fails::AtEnd),
        )],
    },
    Rule {
        name: "lint_reports.semgrep",
        pattern: r"^ {2,6}(?:\xe2\x9d\xaf)*\xe2\x9d\xb1 (?P<k>\S+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Lint, 90).lead(is_path).follow(deeper).owning().refine(semgrep_place),
        )],
    },
    Rule {
        name: "lint_reports.phpstan",
        pattern: r"^  Line   (?P<f>\S.*?)\s*$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Lint, 92).follow(phpstan_rows).owning().refine(first_row),
        )],
    },
    Rule {
        name: "lint_reports.phpstan_total",
        pattern: r"^ \[ERROR\] Found \d+ errors?\s*$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40))],
    },
    Rule {
        name: "lint_reports.psalm",
        pattern: r"^(?:ERROR|Error): (?P<k>[A-Z]\w+) - (?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+) - (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 92).follow(paragraph))],
    },
    Rule {
        name: "lint_reports.sqlfluff",
        pattern: r"^== \[(?P<f>[^\]]+)\] FAIL$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Lint, 92).follow(sqlfluff_rows).owning().refine(first_sqlfluff_row),
        )],
    },
    Rule {
        name: "lint_reports.bandit",
        pattern: r"^>> Issue: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90).follow(paragraph).refine(location_line))],
    },
    Rule {
        name: "lint_reports.brakeman",
        pattern: r"^Confidence: (?:High|Medium|Weak)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).follow(paragraph).refine(brakeman_place))],
    },
    Rule {
        // A row of its table: file, line, sort, class, message, confidence.
        name: "lint_reports.brakeman_row",
        pattern: r"^(?P<f>[^\s:]+\.(?:rb|erb|haml|slim))(?:\t| {2,})(?P<l>\d+)(?:\t| {2,})(?P<m>[A-Z].*)\s(?:High|Medium|Weak)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 88).fails(Fails::Always))],
    },
    Rule {
        name: "lint_reports.checkov",
        pattern: r"^\tFAILED for resource: (?P<m>\S+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Lint, 90)
                .lead(is_check)
                .follow(checkov_rows)
                .refine(file_row)
                .fails(Fails::Always),
        )],
    },
    Rule {
        name: "lint_reports.checkov_total",
        pattern: r"^Passed checks: \d+, Failed checks: [1-9]\d*, Skipped checks: \d+$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "lint_reports.advisory",
        pattern: r"^Crate: +\S+$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90).follow(paragraph).refine(title))],
    },
    Rule {
        name: "lint_reports.django",
        pattern: r"^(?:\?|[\w.]+): \([\w.]+\.E\d{3}\) (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90).fails(Fails::Always))],
    },
    Rule {
        name: "lint_reports.sqlfluff_row",
        pattern: r"^L: +\d+ \| P: +\d+ \| [A-Z]{2}\d\d \| (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 85).fails(Fails::Always))],
    },
];
