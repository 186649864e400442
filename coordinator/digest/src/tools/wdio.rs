//! Output of WebdriverIO. Each line of its reporter begins with the browser and the number of the worker.

use super::places::worded;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, problem, set_place};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, apart: Apart::Always, rules: RULES, ..Tool::named("wdio") };

/// The bracket before each line: `[chrome 124.0 linux #0-0]`.
fn mark(line: &str) -> Option<(&str, &str)> {
    let end = line.find(']')?;
    let (mark, rest) = line.split_at(end + 1);
    mark.contains(" #").then_some((mark, rest))
}

/// Lines of the same worker up to the next failure. A blank one ends the list.
fn of_worker(so_far: &[String], line: &str) -> Next {
    let head = so_far.first().and_then(|head| mark(head)).map(|(mark, _)| mark);
    match mark(line) {
        Some((mark, rest)) if Some(mark) == head => {
            let number = rest.trim_start().split_once(") ").map_or("", |(number, _)| number);
            let is_next = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            if rest.trim().is_empty() || is_next || so_far.len() > 30 { Next::Beyond } else { Next::Part }
        }
        _ => Next::Beyond,
    }
}

/// The message is on the next line, and the place in the first frame of the project.
fn without_marks(diagnostic: &mut Diagnostic) {
    let text =
        |line: &String| mark(line).map_or(line.as_str(), |(_, rest)| rest).trim_start_matches(' ').to_owned();
    diagnostic.lines = diagnostic.lines.iter().map(text).collect();
    diagnostic.head = Some(1).filter(|_| diagnostic.lines.len() > 1);
    let frames = diagnostic.lines.iter().filter_map(|line| line.strip_prefix("at "));
    let places: Vec<String> = frames
        .filter(|frame| !frame.contains("node_modules") && !frame.contains("node:"))
        .map(|frame| frame.rsplit(['(', ' ']).next().unwrap_or_default().trim_end_matches(')').to_owned())
        .collect();
    if !places.iter().any(|place| set_place(diagnostic, place)) {
        worded(diagnostic);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "wdio.failed",
        pattern: r"^\[[^\]]+ #\d+-\d+\] +\d+\) (?P<t>\S.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(of_worker).owning().refine(without_marks),
        )],
    },
    Rule {
        name: "wdio.bad",
        pattern: r"^Spec Files:\s+(?:\d+ passed, )?(?:\d+ retries, )?[1-9]\d* failed, ",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "wdio.good",
        pattern: r"^Spec Files:\s+[1-9]\d* passed, (?:\d+ retries, )?(?:\d+ skipped, )?\d+ total ",
        effects: &[Effect::Success, Effect::Summary],
    },
];
