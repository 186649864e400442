//! tsc, eslint, rollup, and errors of node.

use super::{Act, Draft, ERROR, FATAL, Indicator, Kind, Level, Next, Rule, Sign, problem};
use crate::tool::ToolId;

/// Lines under a message of tsc: indented, or an excerpt with its caret line.
fn tsc_lines(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return if so_far.len() < 12 { Next::Maybe } else { Next::Beyond };
    }
    let excerpt = line.starts_with(|c: char| c.is_ascii_digit())
        && !line.contains(" error ")
        && so_far.len() < 12
        && line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(' ');
    if line.starts_with(' ') || excerpt { Next::Part } else { Next::Beyond }
}

/// An uncaught error of node: message, excerpt and `at` lines.
pub(super) fn stack(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let frame = ["at ", "... ", "Caused by", "[cause]", "❯ "].iter().any(|start| trimmed.starts_with(start));
    let deep = line.starts_with("  ") && !trimmed.is_empty() && so_far.len() < 40;
    let arrow = trimmed.starts_with("--> ") || so_far.len() > 1 && super::is_drawing(line);
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

/// The first stack line outside node_modules has the location.
pub(super) fn js_place(draft: &mut Draft) {
    for line in &draft.lines {
        let trimmed = line.trim_start();
        let Some(rest) = trimmed.strip_prefix("at ").or_else(|| trimmed.strip_prefix("❯ ")) else {
            continue;
        };
        if rest.contains("node_modules") || rest.contains("node:") {
            continue;
        }
        let place = rest.rsplit_once('(').map_or(rest, |(_, place)| place).trim_end_matches(')');
        let place = place.rsplit(' ').next().unwrap_or(place).trim_start_matches("file://");
        let mut parts = place.rsplitn(3, ':');
        if let (Some(column), Some(row), Some(file)) = (parts.next(), parts.next(), parts.next())
            && let (Ok(column), Ok(row)) = (column.parse(), row.parse())
        {
            draft.file = Some(file.to_owned());
            draft.line = Some(row);
            draft.column = Some(column);
            return;
        }
    }
    super::pointed(draft);
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "tsc.error",
        pattern: r"^(?:[\w@/.-]+:[\w:.-]+: )?(?P<f>[^\s(][^(]*)\((?P<l>\d+),(?P<c>\d+)\): (?P<s>error|warning|message) TS\d+: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 95).follow(tsc_lines))],
    },
    Rule {
        name: "tsc.pretty",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+) - (?P<s>error|warning) TS\d+: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 95).follow(tsc_lines))],
    },
    Rule {
        name: "tsc.unplaced",
        pattern: r"^error TS\d+: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 93).follow(tsc_lines))],
    },
    Rule {
        name: "tsc.says",
        // Output of a test follows a sign in TAP.
        pattern: r"^(?:[^\s(#][^(]*\(\d+,\d+\): |[^\s:]+:\d+:\d+ - )?error TS\d+: ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Tsc))],
    },
    Rule {
        name: "tsc.found",
        // mypy prints the number of checked files after it.
        pattern: r"^Found (?P<n>[1-9]\d*) errors?(?: in [^(]*)?\.?$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Tsc)), Act::Summary],
    },
    Rule {
        name: "tsc.again",
        pattern: r"^(?:\[?\d+:\d+:\d+(?: [AP]M)?\]? ?(?:- )?)?(?:[AP]M\]? )?(?:- )?File change detected\.",
        acts: &[Act::TriesAgain(ToolId::Tsc)],
    },
    Rule {
        name: "tsc.clean",
        // A compiler that watches compiles again. Most of its stamp was taken for the stamp of the line.
        pattern: r"^(?:\[?\d+:\d+:\d+(?: [AP]M)?\]? ?(?:- )?)?(?:[AP]M\]? )?(?:- )?Found 0 errors\.",
        acts: &[Act::Sign(Sign::Success(ToolId::Tsc)), Act::Harmless],
    },
    Rule {
        name: "eslint.warnings",
        pattern: r"^\s*(?:\xe2\x9c\x96|\xe2\x9c\x98|\xc3\x97|\xe2\x9a\xa0) \d+ problems? \(0 errors?, \d+ warnings?",
        acts: &[Act::Sign(Sign::Tool(ToolId::Eslint)), Act::Summary, Act::Harmless, Act::Alone],
    },
    Rule {
        name: "eslint.too_many",
        pattern: r"^ESLint found too many warnings \(maximum: \d+\)\.",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Lint, 90)),
            Act::Sign(Sign::Failure(ToolId::Eslint)),
            Act::Summary,
        ],
    },
    Rule {
        name: "eslint.total",
        pattern: r"^\s*(?:\xe2\x9c\x96|\xe2\x9c\x98|\xc3\x97|\xe2\x9a\xa0) \d+ problems?\b",
        acts: &[Act::Sign(Sign::Failure(ToolId::Eslint)), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "node.uncaught",
        pattern: r"^(?:node:\S+|file://\S+|/\S+\.[cm]?[jt]sx?):\d+$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 90).follow(node_lines).refine(uncaught_place))],
    },
    Rule {
        name: "node.uncaught_prefix",
        pattern: r"^Uncaught(?: exception)?:? (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 85).follow(stack).refine(js_place))],
    },
    Rule {
        name: "node.oom",
        pattern: r"^(?:FATAL ERROR: .*(?:out of memory|Allocation failed).*|#\s*Fatal error in .*)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 95)),
            Act::Sign(Sign::Crash(Indicator::OutOfMemory)),
        ],
    },
    Rule {
        name: "node.version",
        pattern: r"^Node\.js v\d+\.\d+\.\d+$",
        acts: &[Act::Within("    at ", &Act::Sign(Sign::Failure(ToolId::Node)))],
    },
    Rule {
        name: "rollup.failed",
        pattern: r"^\[!\] (?:\(plugin .*\) )?(?:[A-Z]\w*)?Error: ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Rollup))],
    },
    Rule {
        name: "js.error",
        pattern: r"^(?:\[!\] )?(?:\(plugin .*\) )?(?:[A-Z]\w*)?Error(?: \[\w+\])?: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 82).follow(stack).refine(js_place))],
    },
    Rule {
        name: "js.deep_error",
        pattern: r"^  (?:[A-Z]\w*)?Error(?: \[\w+\])?: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 82).follow(stack).refine(with_stack))],
    },
];

/// Where one's own frames name no place, it is the one that stands first.
fn uncaught_place(draft: &mut Draft) {
    js_place(draft);
    let first = draft.lines.first().map(|line| line.trim_start_matches("file://").to_owned());
    if let (None, Some(first)) = (&draft.file, first.filter(|first| first.starts_with('/'))) {
        let _placed = super::set_place(draft, &first);
    }
    // The thrown value is below the excerpt, and may not be an error.
    let position =
        |is: fn(&str) -> bool| draft.lines.iter().skip(1).position(|line| is(line)).map(|at| at + 1);
    let is_caret =
        |line: &str| line.trim_start().starts_with('^') && line.trim().trim_matches('^').is_empty();
    let below = || {
        let caret = position(is_caret)?;
        let said = draft.lines.iter().skip(caret + 1).position(|line| !line.trim().is_empty())?;
        Some(caret + 1 + said)
    };
    draft.head = position(super::javascript_tests::is_message).or_else(below);
}

/// An error that is printed deeper than the margin is one with its stack only.
fn with_stack(draft: &mut Draft) {
    js_place(draft);
    draft.spurious = !draft.lines.iter().skip(1).any(|line| line.trim_start().starts_with("at "));
}
