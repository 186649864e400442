//! Output of minitest.

use super::bats::place;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, TOTAL, TestEvent, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { selections: &["--name"], rules: RULES, ..Tool::named("minitest") };

fn minitest_lines(so_far: &[String], line: &str) -> Next {
    let named = so_far.len() > 1 || line.contains('#');
    if so_far.len() > 30 || !named {
        return Next::Beyond;
    }
    let is_blank = |line: &String| line.trim().is_empty();
    // Ruby 3.1 and later put the line of code between blank lines before the stack of an error.
    let blanks = so_far.iter().filter(|line| is_blank(line)).count();
    let awaits_stack = blanks == 0 && so_far.first().is_some_and(|title| title.contains("Error:"));
    match (line.trim().is_empty(), so_far.last().is_some_and(is_blank)) {
        (true, _) if !awaits_stack => Next::Beyond,
        (false, true) if !line.starts_with(' ') => Next::Beyond,
        _ => Next::Part,
    }
}

/// `TestApp#test_adds [test/app_test.rb:12]:`, or the name alone and a stack.
fn minitest(diagnostic: &mut Diagnostic) {
    let Some(line) = diagnostic.lines.get(1).cloned() else {
        diagnostic.spurious = true;
        return;
    };
    let name = line.split([' ', ':']).next().unwrap_or_default();
    diagnostic.test = Some(name.to_owned());
    let placed = line.split_once('[').is_some_and(|(_, rest)| crate::rules::set_place(diagnostic, rest));
    if !placed {
        place(diagnostic);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "minitest.running",
        pattern: r"^(?P<t>[A-Z][\w:]*#\w+) = (?:$|.*\[BUG\] )",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "minitest.summary",
        pattern: r"^(?P<n>\d+) (?:runs|tests), \d+ assertions, (?P<failed>\d+) failures, (?P<errors>\d+) errors(?:, (?P<skipped>\d+) skips|, (?P<skipped2>\d+) pendings, (?P<skipped3>\d+) omissions)?",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule {
        name: "minitest.numbered",
        pattern: r"^(?:\s{0,2}\d+\) )?(?:Failure|Error):$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(minitest_lines).owning().refine(minitest),
        )],
    },
];
