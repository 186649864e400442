//! Output of Kani and CBMC, which check models.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, SORTS, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, commands: &["kani", "cbmc"], rules: RULES, ..Tool::named("Kani") };

/// ` File: "src/lib.rs", line 12, in name`.
fn place(line: &str) -> Option<(String, u32)> {
    let (file, rest) = line.trim_start().strip_prefix("File: \"")?.split_once("\", line ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((file.to_owned(), digits.parse().ok()?))
}

fn file(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && place(line).is_some() { Next::Last } else { Next::Beyond }
}

fn placed(diagnostic: &mut Diagnostic) {
    if let Some((file, line)) = diagnostic.lines.get(1).and_then(|line| place(line)) {
        (diagnostic.file, diagnostic.line) = (Some(file), Some(line));
    }
}

const RULES: &[Rule] = &[
    Rule {
        // A harness that should panic prints them too, and passes.
        name: "kani.check",
        pattern: r"^Failed Checks: (?P<m>\S.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).follow(file).refine(placed))],
    },
    Rule {
        name: "kani.harness_failed",
        pattern: r"^VERIFICATION:- FAILED",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "kani.failed",
        pattern: r"^Verification failed for - (?P<t>\S+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 90).fails(Fails::Always))],
    },
    Rule {
        name: "cbmc.failed",
        pattern: r"^\[\S+\.\d+\] (?:file (?P<f>\S+) )?line (?P<l>\d+) (?P<m>.*): FAILURE$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92).fails(Fails::Always))],
    },
    Rule {
        name: "cbmc.total",
        // Of CBMC. Kani prints another word in the parentheses, for harnesses that should panic too.
        pattern: r"^\*\* [1-9]\d* of \d+ failed \(\d+ (?:of \d+ )?iterations?\)",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "kani.total",
        pattern: r"^Complete - (?P<passed>\d+) successfully verified harnesses, (?P<failed>\d+) failures, \d+ total\.$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
