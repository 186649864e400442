//! Output of Ginkgo, below go test or not.

use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, indented, place, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { commands: &["ginkgo"], rules: RULES, ..Tool::named("Ginkgo") };

/// The place of a failure, in its last line: `In [It] at: /a/b_test.go:12 @ 10/20/21 10:00:00.000`.
fn at(line: &str) -> Option<&str> {
    Some(
        line.trim_start()
            .strip_prefix("In [")?
            .split_once("] at: ")?
            .1
            .split(" @ ")
            .next()
            .unwrap_or_default(),
    )
}

/// The message, up to the line with its place.
fn message(so_far: &[String], line: &str) -> Next {
    if at(line).is_some() {
        Next::Last
    } else if so_far.len() > 40 || line.starts_with("----------") {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

fn with_place(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.last().and_then(|line| at(line)).map(str::to_owned);
    diagnostic.spurious = !place.is_some_and(|place| set_place(diagnostic, &place));
}

/// The place below a name in the list of failures.
fn listed(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && place(line).is_some() { Next::Last } else { Next::Beyond }
}

fn list_place(diagnostic: &mut Diagnostic) {
    diagnostic.test = diagnostic.test.take().map(|name| name.trim_end().to_owned());
    let below = diagnostic.lines.get(1).cloned();
    let _placed = below.is_some_and(|below| set_place(diagnostic, below.trim()));
}

/// The report of version 1: the names and their places, the message and its place.
fn report(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 60 || line.starts_with("----------") || line.starts_with('•') {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

fn report_place(diagnostic: &mut Diagnostic) {
    let spec =
        diagnostic.lines.iter().rposition(|line| line.trim_end().ends_with(']') && line.contains(" ["));
    let is_text = |line: &String| line.starts_with(' ') && place(line).is_none();
    let message =
        spec.and_then(|spec| Some(diagnostic.lines.iter().skip(spec + 1).position(is_text)? + spec + 1));
    diagnostic.head = message;
    let place = diagnostic.lines.iter().rev().find(|line| place(line).is_some()).cloned();
    diagnostic.spurious = !place.is_some_and(|place| set_place(diagnostic, place.trim()));
}

const RULES: &[Rule] = &[
    Rule {
        name: "ginkgo.message",
        pattern: r"^ *\[(?:FAILED|PANICKED|TIMEDOUT|INTERRUPTED)\] (?P<m>\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(message).owning().refine(with_place),
        )],
    },
    Rule {
        name: "ginkgo.report",
        pattern: r"^\xe2\x80\xa2(?:\.\.\.|!)? (?:Failure|Panic)(?: in .*)? \[\d",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(report).owning().refine(report_place),
        )],
    },
    Rule {
        name: "ginkgo.failed",
        pattern: r"^ *\[(?:Fail|FAIL|Panic!|PANICKED!?|Timeout\.\.\.|TIMEDOUT|INTERRUPTED|ABORTED)\] (?P<t>\S.*\[[A-Z]\w+\].*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 90).follow(listed).refine(list_place).fails(Fails::Always),
        )],
    },
    Rule {
        name: "ginkgo.bad",
        pattern: r"^FAIL! -- \d+ Passed \| \d+ Failed \| ",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "ginkgo.suites",
        pattern: r"^There were failures detected in the following suites:$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 60).follow(indented).fails(Fails::Always))],
    },
];
