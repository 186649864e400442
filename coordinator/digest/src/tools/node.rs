//! Output of node.

use super::mocha::js_place;
use super::places::located;
use crate::rules::{Diagnostic, ERROR, Effect, FATAL, Indicator, Kind, Next, Role, Rule, always, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool = Tool { apart: Apart::WithoutCode, rules: RULES, ..Tool::named("node") };

/// An uncaught error of node: message, excerpt and `at` lines.
pub(super) fn stack(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let frame = ["at ", "... ", "Caused by", "[cause]", "❯ "].iter().any(|start| trimmed.starts_with(start));
    let deep = line.starts_with("  ") && !trimmed.is_empty() && so_far.len() < 40;
    let arrow = trimmed.starts_with("--> ") || so_far.len() > 1 && crate::rules::is_drawing(line);
    if frame || deep || arrow || trimmed == "}" { Next::Part } else { Next::Beyond }
}

fn node_lines(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 40 {
        Next::Last
    } else if so_far.last().is_some_and(|last| last.starts_with("Node.js v")) {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Where one's own frames name no place, it is the one that stands first.
fn uncaught_place(diagnostic: &mut Diagnostic) {
    js_place(diagnostic);
    let first = diagnostic.lines.first().map(|line| line.trim_start_matches("file://").to_owned());
    if let (None, Some(first)) = (&diagnostic.file, first.filter(|first| first.starts_with('/'))) {
        let _placed = crate::rules::set_place(diagnostic, &first);
    }
    // The thrown value is below the excerpt, and may not be an error.
    let position =
        |is: fn(&str) -> bool| diagnostic.lines.iter().skip(1).position(|line| is(line)).map(|at| at + 1);
    let is_caret =
        |line: &str| line.trim_start().starts_with('^') && line.trim().trim_matches('^').is_empty();
    let below = || {
        let caret = position(is_caret)?;
        let said = diagnostic.lines.iter().skip(caret + 1).position(|line| !line.trim().is_empty())?;
        Some(caret + 1 + said)
    };
    diagnostic.head = position(super::mocha::is_message).or_else(below);
    // A program that node ran has failed, and printed the reason itself.
    if diagnostic.head.is_some_and(|at| diagnostic.lines[at].starts_with("Error: Command failed: ")) {
        diagnostic.kind = Some(Kind::Consequence);
    }
}

/// The stack of an error, or terraform's place with its excerpt and explanation.
fn stack_or_place(so_far: &[String], line: &str) -> Next {
    let is_place = |line: &str| line.starts_with("  on ") && line.contains(" line ");
    if so_far.iter().any(|line| is_place(line)) {
        let goes_on =
            line.starts_with("  ") || line.starts_with(char::is_uppercase) && !line.starts_with("Error");
        match (line.trim().is_empty(), goes_on && so_far.len() < 16) {
            (true, _) => Next::Maybe,
            (false, true) => Next::Part,
            (false, false) => Next::Beyond,
        }
    } else if line == "Require stack:"
        || line.starts_with("- /") && so_far.iter().any(|line| line == "Require stack:")
    {
        Next::Part
    } else if so_far.len() == 1 && line.is_empty() {
        Next::Maybe
    } else if so_far.len() <= 2 && is_place(line) {
        Next::Part
    } else if so_far.last().is_some_and(|last| last.is_empty()) {
        Next::Beyond
    } else {
        stack(so_far, line)
    }
}

/// An error with its stack, or with a place in its message.
fn thrown(diagnostic: &mut Diagnostic) {
    js_place(diagnostic);
    located(diagnostic);
    // An arrow to an excerpt is a compiler's, and so is `on main.tf line 3, in …` of terraform.
    let points = |line: &String| {
        let text = line.trim_start();
        text.starts_with("--> ") || text.starts_with("on ") && text.contains(" line ")
    };
    if diagnostic.file.is_some() && diagnostic.lines.iter().skip(1).any(points) {
        diagnostic.kind = Some(Kind::Build);
    }
    if diagnostic.first().contains("Error: Command failed: ") {
        diagnostic.kind = Some(Kind::Consequence);
    }
}

/// An error that is printed deeper than the margin is one with its stack only.
fn with_stack(diagnostic: &mut Diagnostic) {
    js_place(diagnostic);
    diagnostic.spurious = !diagnostic.lines.iter().skip(1).any(|line| line.trim_start().starts_with("at "));
}

/// Returns true for a frame that is not of the project.
fn is_foreign(line: &str) -> bool {
    let place = line.rsplit_once('(').map_or(line, |(_, place)| place);
    line.starts_with("    at ")
        && (place.contains("node_modules") || place.contains("node:") || !place.contains('/'))
}

/// The frames of a process, up to the end of its stack.
fn paused(_: &[String], line: &str) -> Next {
    if line.starts_with("    at ") { Next::Part } else { Next::Beyond }
}

/// A stack of a process that hangs. The first frame of a file of tests names the test's file.
fn hang(diagnostic: &mut Diagnostic) {
    js_place(diagnostic);
    diagnostic.lines.retain(|line| !is_foreign(line));
    let is_test = |file: &&str| {
        [".test.", ".spec.", "/test/", "/tests/", "/__tests__/"].iter().any(|part| file.contains(part))
    };
    let file = |line: &String| {
        let place = line.trim_start().strip_prefix("at ")?.rsplit('(').next()?.trim_end_matches(')');
        let file = place.rsplitn(3, ':').nth(2).filter(is_test)?;
        file.rsplit('/').next().map(str::to_owned)
    };
    let test = diagnostic.lines.iter().find_map(file);
    diagnostic.test = diagnostic.test.take().or(test);
}

const RULES: &[Rule] = &[
    Rule {
        name: "node.stack",
        pattern: r"^Stack of node \(pid \d+\)(?:, with lines of the transformed code)?:$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90)
                .follow(paused)
                .dispensable(is_foreign)
                .owning()
                .refine(hang)
                .role(Role::Stacks),
        )],
    },
    Rule {
        name: "node.uncaught",
        pattern: r"^(?:node:\S+|file://\S+|/\S+\.[cm]?[jt]sx?|\[eval\d*\]):\d+$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90).follow(node_lines).refine(uncaught_place).ended(always),
        )],
    },
    Rule {
        name: "node.uncaught_prefix",
        pattern: r"^Uncaught(?: exception)?:? (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 85).follow(stack).refine(js_place))],
    },
    Rule {
        name: "node.oom",
        pattern: r"^(?:FATAL ERROR: .*(?:out of memory|Allocation failed).*|#\s*Fatal error in .*)",
        effects: &[Effect::Problem(problem(FATAL, Kind::Crash, 95)), Effect::Crash(Indicator::OutOfMemory)],
    },
    Rule {
        name: "node.version",
        pattern: r"^Node\.js v\d+\.\d+\.\d+$",
        effects: &[Effect::Within("    at ", &Effect::Failure)],
    },
    Rule {
        name: "js.error",
        pattern: r"^(?:\[!\] )?(?:\(plugin .*\) )?(?:[A-Z]\w*)?Error(?: \[\w+\])?: (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 82).follow(stack_or_place).refine(thrown).role(Role::Vague),
        )],
    },
    Rule {
        name: "js.deep_error",
        pattern: r"^  (?:[A-Z]\w*)?Error(?: \[\w+\])?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 82).follow(stack).refine(with_stack))],
    },
];
