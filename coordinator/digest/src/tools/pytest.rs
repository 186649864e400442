//! Output of pytest.

use super::compiler::DIED;
use super::mocha::WORKER_DIED;
use crate::rules::{
    BEGINS, Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, Indicator, Join, Kind, Next, Rule, SORTS,
    TestEvent, problem,
};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    commands: &["pytest", "py.test"],
    runs_tests: true,
    selections: &["-k"],
    selects_tests: |words| words.iter().any(|word| word.contains(".py::")),
    apart: Apart::Always,
    begins_in_silence: true,
    always_totals: true,
    one_total: true,
    announces_in_common_words: true,
    adds_below_a_heading: true,
    rules: RULES,
    ..Tool::named("pytest")
};

pub(super) fn last_place(diagnostic: &mut Diagnostic) {
    let place = innermost(&diagnostic.lines);
    set(diagnostic, place);
}

/// The last place that is in sources of one's own, if one is.
pub(super) fn innermost(lines: &[String]) -> Option<(String, Option<u32>)> {
    let places = || lines.iter().rev().filter_map(|line| place_of(line));
    let is_own = |place: &(String, Option<u32>)| !FOREIGN.iter().any(|part| place.0.contains(part));
    places().find(is_own).or_else(|| places().next())
}

/// Parts of the paths of Python's own library and of installed packages.
const FOREIGN: &[&str] = &["/lib/python", "site-packages/", "dist-packages/", "<frozen ", "<string>"];

pub(super) fn set(diagnostic: &mut Diagnostic, place: Option<(String, Option<u32>)>) {
    if let Some((file, line)) = place {
        (diagnostic.file, diagnostic.line) = (Some(file), line);
    }
}

/// The place that a line of a traceback names: `File "a.py", line 3`, `a.py:3: ValueError`; behind the bars of a group too.
fn place_of(line: &str) -> Option<(String, Option<u32>)> {
    let line = line.strip_prefix("E  ").unwrap_or(line).trim_start_matches([' ', '\t', '|']);
    if let Some(rest) = line.strip_prefix("File \"")
        && let Some((file, rest)) = rest.split_once("\", line ")
    {
        let row = rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|row| row.parse().ok());
        return Some((file.to_owned(), row));
    }
    let mut parts = line.splitn(3, ':');
    let (file, row, _) = (parts.next()?, parts.next()?, parts.next()?);
    let row = row.parse().ok()?;
    (file.ends_with(".py") && !file.contains(' ')).then(|| (file.to_owned(), Some(row)))
}

/// The name that a section's heading and its line in the summary have in common: `Class.test[case]` or a file.
pub(super) fn common_name(test: &str) -> String {
    let inner = test.split_once(".py::").map_or(test, |(_, inner)| inner);
    inner.replace("::", ".")
}

fn title(diagnostic: &mut Diagnostic) {
    diagnostic.join = diagnostic.test.as_deref().map(|test| Join::Title(common_name(test)));
}

fn line_title(diagnostic: &mut Diagnostic) {
    diagnostic.join = diagnostic.test.as_deref().map(|test| Join::Line(common_name(test)));
}

/// The stacks of all threads, between two banners.
fn stacks(so_far: &[String], line: &str) -> Next {
    if line.starts_with("++++") {
        Next::Last
    } else if line.trim().is_empty() {
        Next::Maybe
    } else if line.starts_with("~~~~") || line.starts_with("  ") || so_far.len() < 3 {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// The module that could not be loaded, and the last line of the trace.
fn conftest(diagnostic: &mut Diagnostic) {
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with("E  "));
    last_place(diagnostic);
}

/// A traceback inside prefixes (`| `, `E   `) belongs to others.
pub(super) fn stack(so_far: &[String], line: &str) -> Next {
    if so_far.len() < 60 && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

/// That pytest stopped follows from the errors above it, unless someone interrupted it.
fn interrupted(diagnostic: &mut Diagnostic) {
    let follows = ["errors during collection", "error during collection", "stopping after"];
    if follows.iter().any(|text| diagnostic.lines[0].contains(text)) {
        diagnostic.kind = Some(Kind::Consequence);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "xdist.down",
        pattern: r"^\[gw\d+\] node down: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Crash, 90)), WORKER_DIED],
    },
    Rule {
        name: "xdist.crashed",
        pattern: r"^(?:E +)?worker '?gw\d+'? crashed (?:while running '(?P<t>[^']+)'|and worker restarting disabled)",
        effects: &[Effect::Problem(DIED), WORKER_DIED],
    },
    Rule {
        name: "pytest.died",
        pattern: concat!(
            r"^(?P<t>\S+\.py::\S+) (?P<sig>",
            shell_words!(),
            r")(?:: \d+)?(?: \(core dumped\))?$"
        ),
        effects: &[
            Effect::Test(TestEvent::Started),
            Effect::Problem(DIED),
            Effect::Crash(Indicator::Died("")),
        ],
    },
    Rule {
        name: "pytest.session",
        pattern: r"^=+ test session starts =+$",
        effects: &[Effect::Session, BEGINS],
    },
    Rule {
        name: "pytest.reruns",
        pattern: r"^run-last-failure: rerun previous \d+ failures?",
        effects: &[Effect::Own(|line| line.tally.reruns_failed(ToolId::Pytest))],
    },
    Rule {
        // A quiet run has no head: its dots after another run's total are the next one's.
        name: "pytest.dots",
        pattern: r"^[.FEsxX]+ +\[ *\d+%\]$",
        effects: &[Effect::Session],
    },
    Rule {
        name: "pytest.collected",
        pattern: r"^(?:collecting \.\.\. )?collected (?P<n>\d+) items?(?: / .*?)?(?: / (?P<selected>\d+) selected)?$",
        effects: &[Effect::Announces],
    },
    Rule {
        name: "pytest.listed",
        pattern: r"^(?:=* ?\d+(?:/\d+)? tests? collected\b.* in [\d.]+s ?=*|=+ \d+ \w+.* in [\d.]+ ?s(?:econds)?(?: \(.*\))? =+|Results \([\d.]+s.*\):)$",
        effects: &[Effect::Own(|line| line.over(false))],
    },
    Rule {
        name: "pytest.line_failed",
        pattern: r"^(?P<t>\S+\.py::\S.*?) (?:FAILED|ERROR)(?: \(.*\))?(?: +\[ *\d+%\])? *$",
        effects: &[
            Effect::Test(TestEvent::Failed),
            Effect::Problem(problem(ERROR, Kind::Test, 90).bare().refine(line_title)),
        ],
    },
    Rule {
        name: "pytest.worker_failed",
        pattern: r"^\[gw\d+\] \[ *\d+%\] (?:FAILED|ERROR) (?P<t>\S+\.py::\S.*?) *$",
        effects: &[
            Effect::Test(TestEvent::Failed),
            Effect::Problem(problem(ERROR, Kind::Test, 90).bare().refine(line_title)),
        ],
    },
    Rule {
        name: "pytest.line_passed",
        pattern: r"^(?P<t>\S+\.py::\S.*?) PASSED(?: +\[ *\d+%\])? *$",
        effects: &[Effect::Test(TestEvent::Passed)],
    },
    Rule {
        name: "pytest.timeout",
        pattern: r"^(?:\S+\.py(?:::\S+)? [.FEsxX]*)?\+{4,} Timeout \+{4,}$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 94).follow(stacks).owning().refine(last_place)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "pytest.failed",
        pattern: r"^(?:FAILED|ERROR)(?: \[[\d.]+s\])? (?P<t>\S+?\.py(?:::[^\s\[]+)*(?:\[.*?\])?)(?: - (?P<m>.*)|\s*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 93).refine(title))],
    },
    Rule {
        // A quiet run (`-qq`) ends with these lines and has no total.
        name: "pytest.failed_test",
        pattern: r"^(?:FAILED|ERROR)(?: \[[\d.]+s\])? \S+?\.py::[^\s\[]+(?:\[.*?\])?(?: - .*|\s*)$",
        effects: &[Effect::Failure],
    },
    Rule {
        name: "pytest.summary",
        pattern: r"^=* ?(?:(?:no tests (?:ran|collected)|(?P<failed>\d+) failed|(?P<passed>\d+) passed|(?P<skipped>\d+) skipped|(?P<errors>\d+) errors?|(?P<expected>\d+) xfailed|(?P<passed2>\d+) xpassed|\d+ (?:deselected|warnings?|rerun|reruns|retried|subtests \w+))(?:, )?)+ in [\d.]+ ?s(?:econds)?(?: \(.*\))? ?=*$",
        effects: &[Effect::Counts(SORTS), Effect::Summary],
    },
    Rule {
        name: "pytest.none",
        pattern: r"^=* ?(?:no tests (?:ran|collected)(?: \(.*\))?|\d+ deselected(?:, \d+ warnings?)?) in [\d.]+ ?s(?:econds)?(?: \(.*\))? ?=*$",
        effects: &[FAILS_WITHOUT_TESTS],
    },
    Rule {
        name: "pytest.interrupted",
        pattern: r"^!{4,} (?P<m>.*?) !{4,}$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 85).refine(interrupted)), Effect::Failure],
    },
    Rule {
        name: "pytest.internal",
        pattern: r"^INTERNALERROR> (?P<m>\S+(?:Error|Exception)\b.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 88)), Effect::Failure],
    },
    Rule {
        name: "pytest.conftest",
        pattern: r"^ImportError while loading conftest '(?P<f>[^']+)'\.$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 92).follow(stack).refine(conftest)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "pytest.usage",
        pattern: r"^(?:ERROR: (?:usage|file not found)|pytest: error:).*",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 90).follow(crate::rules::indented)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "pytest.not_found",
        pattern: r"^ERROR: (?:file or directory )?not found: ",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Runtime, 90).follow(crate::rules::indented)),
            Effect::Summary,
            Effect::IfKnown(ToolId::Pytest),
            Effect::Failure,
            FAILS_WITHOUT_TESTS,
        ],
    },
    Rule {
        name: "sugar.results",
        pattern: r"^Results \([\d.:]+(?:s| ?\([\d:.]+\))?\):$",
        effects: &[Effect::Heading],
    },
    Rule {
        name: "sugar.count",
        pattern: r"^ {7}(?:(?P<passed>\d+) (?:passed|xpassed)|(?P<failed>\d+) failed|(?P<errors>\d+) errors?|(?P<skipped>\d+) skipped|(?P<expected>\d+) xfailed)$",
        effects: &[Effect::Adds(SORTS), Effect::Summary, Effect::Harmless],
    },
    Rule {
        name: "pytest.running",
        // A death may have ended the line.
        pattern: r"^(?P<t>\S+\.py::\S+) (?:$|Fatal Python error: )",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "pytest.ended",
        pattern: r"^.*(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.*\))? +\[ *\d+%\]$",
        effects: &[Effect::Own(|line| line.tally.ends(ToolId::Pytest))],
    },
];
