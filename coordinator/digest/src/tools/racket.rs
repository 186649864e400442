//! Output of RackUnit.

use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, SORTS, TOTAL, problem, set_place, up_to_rule,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { commands: &["raco", "racket"], rules: RULES, ..Tool::named("RackUnit") };

const DASHES: &str = "--------------------";

/// The name of the test, between the dashes and the word.
fn is_name(line: &str) -> bool {
    !line.starts_with(DASHES) && !line.trim().is_empty()
}

fn below(so_far: &[String], line: &str) -> Next {
    up_to_rule(DASHES, so_far, line)
}

/// The text of a field: `message:    "sum"`.
fn field<'line>(line: &'line str, name: &str) -> Option<&'line str> {
    line.strip_prefix(name)?.strip_prefix(':').map(str::trim)
}

/// Without the closing dashes, and a failure without a field, it is only a word. The message is the field of that name, or the first line of an error.
fn failed(diagnostic: &mut Diagnostic) {
    let at = diagnostic.lines.iter().position(|line| matches!(line.as_str(), "FAILURE" | "ERROR"));
    let (Some(at), true) = (at, diagnostic.lines.last().is_some_and(|line| line.starts_with(DASHES))) else {
        diagnostic.spurious = true;
        return;
    };
    let has_field = diagnostic
        .lines
        .iter()
        .any(|line| ["name", "location", "message"].iter().any(|name| field(line, name).is_some()));
    if diagnostic.lines[at] == "FAILURE" && !has_field {
        diagnostic.spurious = true;
        return;
    }
    diagnostic.lines.drain(..at.saturating_sub(1));
    let at = at.min(1);
    if at > 0 {
        diagnostic.test = Some(diagnostic.first().trim().to_owned());
    }
    let place = diagnostic.lines.iter().find_map(|line| field(line, "location")).map(str::to_owned);
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
    let of = |name: &str| diagnostic.lines.iter().position(|line| field(line, name).is_some());
    let said = diagnostic.lines.iter().skip(at + 1).position(|line| !line.trim().is_empty());
    diagnostic.head = of("message").or_else(|| of("name")).or(said.map(|said| said + at + 1));
}

const RULES: &[Rule] = &[
    Rule {
        name: "racket.check",
        pattern: r"^(?:FAILURE|ERROR)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 88)
                .lead(is_name)
                .follow(below)
                .owning()
                .refine(failed)
                .fails(Fails::Always),
        )],
    },
    Rule {
        name: "racket.failed",
        pattern: r"^(?P<failed>\d+)/(?P<n>\d+) test failures$",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        name: "racket.total",
        pattern: r"^(?P<passed>\d+) success\(es\) (?P<failed>\d+) failure\(s\) (?P<errors>\d+) error\(s\) \d+ test\(s\) run$",
        effects: &[Effect::Session, Effect::Counts(SORTS), Effect::Summary],
    },
];
