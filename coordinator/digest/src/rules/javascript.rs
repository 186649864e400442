//! tsc, eslint, jest, vitest, mocha, ava, node's own runner and errors, webpack, rollup.

use super::{Act, Count, Draft, ERROR, FATAL, Indicator, Kind, Level, Next, Rule, Sign, problem};
use crate::tally::{Counts, Family};

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

/// A jest failure: from its bullet to the next one, or the suite's end.
fn jest(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let end = [
        "● ",
        "PASS ",
        "FAIL ",
        "Test Suites:",
        "Snapshot Summary",
        "Summary of all failing",
        "Tests: ",
        "A worker process has failed",
    ];
    if end.iter().any(|end| trimmed.starts_with(end)) && !trimmed.starts_with("● Console") {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// A vitest failure: up to the rule or the next heading.
fn vitest(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    if trimmed.starts_with("⎯⎯")
        || trimmed.starts_with("FAIL ")
        || trimmed.starts_with("Test Files")
        || trimmed.starts_with("Tests:")
        || so_far.len() > 40
    {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Numbered failures (mocha, ExUnit, RSpec): up to the next number or a line that is not indented.
pub(super) fn numbered(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let ends = [
        ") ",
        " passing",
        " pending",
        " failing",
        " failed",
        " passed",
        " skipped",
        " flaky",
        " did not run",
    ];
    if digits > 0 && ends.iter().any(|end| trimmed[digits..].starts_with(end)) {
        Next::Beyond
    } else if trimmed.is_empty() {
        Next::Maybe
    } else if line.starts_with("  ") && so_far.len() < 80 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// An uncaught error of node: message, excerpt and `at` lines.
pub(super) fn stack(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let frame = ["at ", "... ", "Caused by", "[cause]"].iter().any(|start| trimmed.starts_with(start));
    let deep = line.starts_with("  ") && !trimmed.is_empty() && so_far.len() < 40;
    let arrow = trimmed.starts_with("--> ") || so_far.len() > 1 && super::is_drawing(line);
    if frame || deep || arrow || trimmed == "}" { Next::Part } else { Next::Beyond }
}

fn node_lines(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 40 || line.starts_with("Node.js v") {
        Next::Last
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The first stack line outside node_modules tells the place.
fn js_place(draft: &mut Draft) {
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

const JEST: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed"),
        failed: groups.number("failed"),
        skipped: groups.number("skipped") + groups.number("todo"),
        expected: groups.number("expected"),
    })
};

const FAILING: Count =
    |groups| Some(Counts { passed: 0, failed: groups.number("n"), skipped: 0, expected: 0 });
const PENDING: Count =
    |groups| Some(Counts { passed: 0, failed: 0, skipped: groups.number("n"), expected: 0 });
const PASSING: Count =
    |groups| Some(Counts { passed: groups.number("n"), failed: 0, skipped: 0, expected: 0 });

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
        name: "tsc.found",
        pattern: r"^Found (?P<n>[1-9]\d*) errors?(?: in .*)?\.?$",
        acts: &[Act::Sign(Sign::Failure("tsc")), Act::Summary],
    },
    Rule {
        name: "eslint.total",
        pattern: r"^\s*(?:\xe2\x9c\x96|\xe2\x9c\x98|\xc3\x97|\xe2\x9a\xa0) \d+ problems?\b",
        acts: &[Act::Sign(Sign::Failure("eslint")), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "jest.file",
        pattern: r"^ ?(?:FAIL|PASS) {1,2}(?:[^\s./]+ )?(?P<f>\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?(?: \([\d.]+ MB heap size\))?$",
        acts: &[Act::File, Act::Harmless],
    },
    Rule {
        name: "jest.bullet",
        pattern: r"^\s*\xe2\x97\x8f (?P<t>.+)$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Test, 93).follow(jest).owning().in_file().refine(jest_console),
        )],
    },
    Rule {
        name: "jest.tests",
        pattern: r"^Tests:\s+(?:(?:(?P<failed>\d+) failed|(?P<skipped>\d+) skipped|(?P<todo>\d+) todo|(?P<passed>\d+) passed)(?:, )?)+(?:, )?\d+ total",
        acts: &[Act::Counts(Family::Jest, JEST), Act::Summary],
    },
    Rule { name: "jest.suites", pattern: r"^Test Suites: +\d+ ", acts: &[Act::Heading(Family::Jest)] },
    Rule {
        name: "jest.bad",
        pattern: r"^Test Suites: +[1-9]\d* failed",
        acts: &[Act::Sign(Sign::Failure("jest"))],
    },
    Rule {
        name: "vitest.heading",
        pattern: r"^\s*FAIL  (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(vitest).owning().refine(js_place))],
    },
    Rule {
        name: "vitest.tests",
        pattern: r"^\s*Tests  +(?:(?:(?P<failed>\d+) failed|(?P<passed>\d+) passed|(?P<expected>\d+) expected fail|(?P<skipped>\d+) skipped|(?P<todo>\d+) todo)(?: \| )?)+ \(\d+\)",
        acts: &[Act::Counts(Family::Vitest, JEST), Act::Summary],
    },
    Rule { name: "vitest.files", pattern: r"^\s*Test Files  +\d+ ", acts: &[Act::Heading(Family::Vitest)] },
    Rule {
        name: "vitest.bad",
        pattern: r"^\s*Test Files  +[1-9]\d* failed",
        acts: &[Act::Sign(Sign::Failure("vitest"))],
    },
    Rule {
        name: "vitest.errors",
        pattern: r"^\s*(?:Errors  +[1-9]\d* errors?|Vitest caught \d+ unhandled errors? during the test run.*)$",
        acts: &[Act::Sign(Sign::Failure("vitest")), Act::Summary],
    },
    Rule {
        name: "mocha.numbered",
        pattern: r"^\s{1,4}(?P<n>\d+)\) (?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88).follow(numbered).owning().refine(mocha_only))],
    },
    Rule {
        name: "mocha.passing",
        pattern: r"^\s+(?P<n>\d+) passing \(",
        acts: &[Act::Counts(Family::Mocha, PASSING), Act::Summary],
    },
    Rule {
        name: "mocha.pending",
        pattern: r"^\s+(?P<n>[1-9]\d*) pending$",
        acts: &[Act::Adds(Family::Mocha, PENDING), Act::Summary],
    },
    Rule {
        name: "mocha.failing",
        pattern: r"^\s+(?P<n>[1-9]\d*) failing$",
        acts: &[Act::Adds(Family::Mocha, FAILING), Act::Summary],
    },
    Rule {
        name: "node_test.heading",
        pattern: r"^\xe2\x9c\x96 failing tests:$",
        acts: &[Act::Harmless, Act::Alone],
    },
    Rule {
        name: "node_test.todo",
        pattern: r"^\s*\xe2\x9c\x96 .* \([\d.]+m?s\) # (?:TODO|SKIP|todo|skip).*",
        acts: &[
            Act::Problem(problem(super::INFO, Kind::Test, 50).follow(super::indented_or_blank).owning()),
            Act::Alone,
        ],
    },
    Rule {
        name: "node_test.failed",
        pattern: r"^\s*\xe2\x9c\x96 (?P<t>.+?) \([\d.]+m?s\)$",
        acts: &[
            Act::Problem(
                problem(ERROR, Kind::Test, 93).follow(super::indented_or_blank).owning().refine(node_test),
            ),
            Act::Alone,
        ],
    },
    Rule {
        name: "ava.failed_line",
        pattern: r"^\s+(?:\xe2\x9c\x98|\xe2\x9c\x96|\xc3\x97) (?:\[fail\]: )?(?P<t>\S.*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 84).follow(super::boxed).refine(super::pointed))],
    },
    Rule {
        name: "ava.counts",
        pattern: r"^\s+(?:(?P<failed>\d+) tests? failed|(?P<passed>\d+) tests? passed|(?P<skipped>\d+) tests? (?:skipped|todo)|(?P<expected>\d+) known failures?)$",
        acts: &[Act::Adds(Family::Ava, JEST)],
    },
    Rule {
        name: "ava.summary",
        pattern: r"^\s+(?P<n>\d+) (?:tests?|uncaught exceptions?|known failures?|unhandled rejections?)(?: (?:failed|passed|skipped|todo|remaining))?$",
        acts: &[Act::Summary],
    },
    Rule {
        name: "node_test.tests",
        pattern: r"^(?:# |\xe2\x84\xb9 )tests (?P<n>\d+)$",
        acts: &[Act::Session(Family::NodeTest), Act::Summary],
    },
    Rule {
        name: "node_test.pass",
        pattern: r"^(?:# |\xe2\x84\xb9 )pass (?P<n>\d+)$",
        acts: &[Act::Adds(Family::NodeTest, PASSING), Act::Summary],
    },
    Rule {
        name: "node_test.skipped",
        pattern: r"^(?:# |\xe2\x84\xb9 )(?:skipped|todo) (?P<n>[1-9]\d*)$",
        acts: &[Act::Adds(Family::NodeTest, PENDING)],
    },
    Rule {
        name: "node_test.fail",
        pattern: r"^(?:# |\xe2\x84\xb9 )fail (?P<n>[1-9]\d*)$",
        acts: &[Act::Adds(Family::NodeTest, FAILING), Act::Summary],
    },
    Rule {
        name: "node.uncaught",
        pattern: r"^(?:node:\S+|file://\S+|/\S+\.[cm]?[jt]sx?):\d+$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 90).follow(node_lines).refine(js_place))],
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
        name: "js.error",
        pattern: r"^(?:\[!\] )?(?:\(plugin .*\) )?(?:[A-Z]\w*)?Error(?: \[\w+\])?: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 82).follow(stack).refine(js_place))],
    },
    Rule {
        name: "webpack.error",
        pattern: r"^ERROR in (?P<f>\S+?)(?:[ :](?P<l>\d+):(?P<c>\d+).*)?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 93).follow(super::paragraph))],
    },
    Rule {
        name: "webpack.compiled",
        pattern: r"^webpack(?: [\d.]+)? compiled with (?P<n>[1-9]\d*) errors?",
        acts: &[Act::Sign(Sign::Failure("webpack")), Act::Summary],
    },
    Rule {
        name: "webpack.compiled_ok",
        pattern: r"^webpack(?: [\d.]+)? compiled (?:successfully|with \d+ warnings?)",
        acts: &[Act::Sign(Sign::Success("webpack")), Act::Summary],
    },
    Rule {
        name: "bundler.failed",
        pattern: r"^error during build:$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 88).follow(super::paragraph).owning())],
    },
    Rule {
        name: "bundler.error",
        pattern: r"^(?:\xe2\x9c\x98|\xe2\x9c\x96|x|X) \[ERROR\] (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 92).follow(super::indented_or_blank))],
    },
    Rule {
        name: "prettier.found",
        pattern: r"^\[(?:warn|error)\] (?P<m>Code style issues .*|\S+: SyntaxError.*|No files matching.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 88)), Act::Sign(Sign::Failure("prettier"))],
    },
    Rule {
        name: "prettier.file",
        pattern: r"^\[warn\] (?P<f>\S+\.\w+)$",
        acts: &[Act::Problem(problem(super::WARNING, Kind::Lint, 60))],
    },
];

/// A bullet that is console output or a heading of the summary is no failure.
fn jest_console(draft: &mut Draft) {
    let heading = draft.test.as_deref().unwrap_or_default();
    draft.spurious =
        heading.starts_with("Console") || heading.starts_with("Deprecation") || draft.lines.len() == 1;
    if heading == "Test suite failed to run" {
        draft.test = None;
    }
    js_place(draft);
}

/// A line without anything under it tells only that the test failed.
fn node_test(draft: &mut Draft) {
    draft.bare = draft.lines.len() == 1;
    js_place(draft);
}

/// A numbered line without anything under it is a line of a spec report, not the failure's own block.
fn mocha_only(draft: &mut Draft) {
    // What RSpec says under an example that is pending begins like a comment.
    let pending = draft.lines.iter().skip(1).find(|line| !line.trim().is_empty());
    let pending = pending.is_some_and(|line| line.trim_start().starts_with("# "));
    draft.spurious = draft.lines.len() == 1 || pending;
    js_place(draft);
}
