//! pytest, unittest, CPython's regrtest, tracebacks, mypy and pyright's own words.

use super::TestEvent::{Failed, Passed, Started};
use super::{Act, Count, Draft, ERROR, FATAL, Indicator, Join, Kind, Next, Rule, Sign, problem};
use crate::tally::Counts;
use crate::tool::ToolId;

/// Beginning of a traceback.
const HEADING: &str = "Traceback (most recent call last):";

fn last_place(draft: &mut Draft) {
    let place = innermost(&draft.lines);
    set(draft, place);
}

/// The last place that is in sources of one's own, if one is.
fn innermost(lines: &[String]) -> Option<(String, Option<u32>)> {
    let places = || lines.iter().rev().filter_map(|line| place_of(line));
    let is_own = |place: &(String, Option<u32>)| !FOREIGN.iter().any(|part| place.0.contains(part));
    places().find(is_own).or_else(|| places().next())
}

/// Parts of the paths of Python's own library and of installed packages.
const FOREIGN: &[&str] = &["/lib/python", "site-packages/", "dist-packages/", "<frozen ", "<string>"];

/// The last location of the last traceback; of a group of exceptions, of its first one.
fn raised_at(draft: &mut Draft) {
    let begins = |line: &String| line.contains(HEADING) && !line.trim_start().starts_with('|');
    let from = draft.lines.iter().rposition(begins).unwrap_or(0);
    let second = |line: &String| line.trim_start().starts_with("+-") && line.contains("- 2 -");
    let lines = &draft.lines[from..];
    let until = lines.iter().position(second).unwrap_or(lines.len());
    let place = innermost(&lines[..until]);
    let names = |line: &String| line.starts_with(char::is_alphabetic) && !line.contains(HEADING);
    draft.head = lines.iter().position(names).map(|at| from + at);
    set(draft, place);
}

fn set(draft: &mut Draft, place: Option<(String, Option<u32>)>) {
    if let Some((file, line)) = place {
        (draft.file, draft.line) = (Some(file), line);
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
fn common_name(test: &str) -> String {
    let inner = test.split_once(".py::").map_or(test, |(_, inner)| inner);
    inner.replace("::", ".")
}

/// The test at which a worker died, of which the section names only the file.
fn died_at(draft: &mut Draft) {
    let test = draft.lines.iter().find_map(|line| {
        let (worker, rest) = line.split_once(" crashed while running '")?;
        worker.starts_with("worker '").then(|| rest.split('\'').next().map(str::to_owned)).flatten()
    });
    draft.test = test.or(draft.test.take());
}

fn block(draft: &mut Draft) {
    last_place(draft);
    died_at(draft);
    draft.join = draft.test.as_deref().map(|test| Join::Block(common_name(test)));
}

fn title(draft: &mut Draft) {
    draft.join = draft.test.as_deref().map(|test| Join::Title(common_name(test)));
}

fn line_title(draft: &mut Draft) {
    draft.join = draft.test.as_deref().map(|test| Join::Line(common_name(test)));
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

/// A section of pytest's failures: up to the next heading or rule.
fn section(_: &[String], line: &str) -> Next {
    let rule = |mark: &str| line.starts_with(mark) && line.ends_with(mark);
    if rule("====")
        || rule("____") && line.contains(' ') && !line.starts_with("_ _")
        || rule("!!!!")
        || rule("―――")
    {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// A test that unittest reports: heading, rule, traceback, up to the next rule.
fn unittest(so_far: &[String], line: &str) -> Next {
    // Below the heading, and the first line of the test's description, there is a rule.
    let is_rule = |line: &str| line.starts_with("------");
    let short = so_far[0].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let ruled = is_rule(line) || so_far.iter().any(|line| is_rule(line));
    if !ruled && so_far.len() >= if short { 1 } else { 2 } {
        return Next::Beyond;
    }
    if line.starts_with("======") || line.starts_with("------") && so_far.len() > 3 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// A traceback ends with the first line that is not indented, which names the exception; that of a group with its drawing.
fn traceback(so_far: &[String], line: &str) -> Next {
    let chained =
        ["Traceback (most recent", "+ Exception Group", "During handling of", "The above exception was"];
    let own = line.trim_start();
    if own.is_empty() {
        return Next::Maybe;
    }
    if own.starts_with(HEADING) && own.len() == line.len() && ended(so_far) {
        // Nothing chains it to the one before.
        return Next::Beyond;
    }
    if chained.iter().any(|start| own.starts_with(start)) {
        return Next::Part;
    }
    let is_drawn = |line: &str| {
        let own = line.trim_start();
        own.len() < line.len() && (own.starts_with('|') || own.starts_with("+-"))
    };
    let heading = so_far.iter().rev().find(|line| line.contains(HEADING) && !is_drawn(line));
    if heading.is_some_and(|heading| heading.trim_start().starts_with('+')) {
        let is_closed = so_far.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty());
        let is_closed =
            is_closed.is_some_and(|last| last.starts_with('+') && last[1..].chars().all(|c| c == '-'));
        return match (is_drawn(line), is_closed) {
            (true, _) => Next::Part,
            // Further lines of a message have no bar.
            (false, false) => Next::Maybe,
            (false, true) => Next::Beyond,
        };
    }
    if ended(so_far) { Next::Beyond } else { Next::Part }
}

/// Whether the exception's own line is there already.
fn ended(so_far: &[String]) -> bool {
    let last = so_far.iter().rev().find(|line| !line.trim().is_empty());
    so_far.len() > 1
        && last.is_some_and(|line| {
            !line.starts_with([' ', '\t'])
                && !line.starts_with("Traceback")
                && !line.starts_with("During handling")
                && !line.starts_with("The above")
        })
}

/// The module that could not be loaded, and the last line of the trace.
fn conftest(draft: &mut Draft) {
    draft.head = draft.lines.iter().position(|line| line.starts_with("E  "));
    last_place(draft);
}

/// A traceback inside prefixes (`| `, `E   `) belongs to others.
fn stack(so_far: &[String], line: &str) -> Next {
    if so_far.len() < 60 && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

const PYTEST: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed") + groups.number("xpassed"),
        failed: groups.number("failed") + groups.number("errors"),
        skipped: groups.number("skipped"),
        expected: groups.number("xfailed"),
    })
};

const UNITTEST: Count =
    |groups| Some(Counts { passed: groups.number("n"), failed: 0, skipped: 0, expected: 0 });

const UNITTEST_REST: Count = |groups| {
    // The names of green's counts come in any order.
    Some(Counts {
        passed: 0,
        failed: groups.number("failed") + groups.number("errors") + groups.number("unexpected"),
        skipped: groups.number("skipped"),
        expected: groups.number("expected"),
    })
};

const SUGAR: Count = |groups| {
    Some(Counts {
        passed: groups.number("passed"),
        failed: groups.number("failed") + groups.number("errors"),
        skipped: groups.number("skipped"),
        expected: groups.number("expected"),
    })
};

/// That pytest stopped follows from the errors above it, unless someone interrupted it.
fn interrupted(draft: &mut Draft) {
    let follows = ["errors during collection", "error during collection", "stopping after"];
    if follows.iter().any(|text| draft.lines[0].contains(text)) {
        draft.kind = Some(Kind::Consequence);
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "pytest.session",
        pattern: r"^=+ test session starts =+$",
        acts: &[Act::Session(ToolId::Pytest), Act::Sign(Sign::Begins(ToolId::Pytest))],
    },
    Rule {
        name: "pytest.reruns",
        pattern: r"^run-last-failure: rerun previous \d+ failures?",
        acts: &[Act::RerunsFailed(ToolId::Pytest)],
    },
    Rule {
        // A quiet run has no head: its dots after another run's total are the next one's.
        name: "pytest.dots",
        pattern: r"^[.FEsxX]+ +\[ *\d+%\]$",
        acts: &[Act::Session(ToolId::Pytest)],
    },
    Rule {
        name: "pytest.collected",
        pattern: r"^(?:collecting \.\.\. )?collected (?P<n>\d+) items?(?: / .*?)?(?: / (?P<selected>\d+) selected)?$",
        acts: &[Act::Announces(ToolId::Pytest)],
    },
    Rule {
        name: "pytest.listed",
        pattern: r"^(?:=* ?\d+(?:/\d+)? tests? collected\b.* in [\d.]+s ?=*|=+ \d+ \w+.* in [\d.]+ ?s(?:econds)?(?: \(.*\))? =+|Results \([\d.]+s.*\):)$",
        acts: &[Act::Over(ToolId::Pytest, false)],
    },
    Rule {
        name: "pytest.line_failed",
        pattern: r"^(?P<t>\S+\.py::\S.*?) (?:FAILED|ERROR)(?: \(.*\))?(?: +\[ *\d+%\])? *$",
        acts: &[
            Act::Test(ToolId::Pytest, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 90).bare().refine(line_title)),
        ],
    },
    Rule {
        name: "pytest.worker_failed",
        pattern: r"^\[gw\d+\] \[ *\d+%\] (?:FAILED|ERROR) (?P<t>\S+\.py::\S.*?) *$",
        acts: &[
            Act::Test(ToolId::Pytest, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 90).bare().refine(line_title)),
        ],
    },
    Rule {
        name: "pytest.line_passed",
        pattern: r"^(?P<t>\S+\.py::\S.*?) PASSED(?: +\[ *\d+%\])? *$",
        acts: &[Act::Test(ToolId::Pytest, Passed)],
    },
    Rule {
        name: "pytest.timeout",
        pattern: r"^(?:\S+\.py(?:::\S+)? [.FEsxX]*)?\+{4,} Timeout \+{4,}$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 94).follow(stacks).owning().refine(last_place)),
            Act::Sign(Sign::Failure(ToolId::Pytest)),
        ],
    },
    Rule { name: "coverage.heading", pattern: r"^_+ coverage: platform .* _+$", acts: &[Act::Harmless] },
    Rule {
        name: "pytest.section",
        pattern: r"^(?:_{3,}|(?:\xe2\x80\x95){3,}) (?:ERROR (?:collecting|at (?:setup|teardown) of) )?(?P<t>\S.*?) (?:_{3,}|(?:\xe2\x80\x95){3,})$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(section).owning().refine(block))],
    },
    Rule {
        name: "pytest.failed",
        pattern: r"^(?:FAILED|ERROR)(?: \[[\d.]+s\])? (?P<t>\S+?\.py(?:::[^\s\[]+)*(?:\[.*?\])?)(?: - (?P<m>.*)|\s*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).refine(title))],
    },
    Rule {
        // A quiet run (`-qq`) ends with these lines and has no total.
        name: "pytest.failed_test",
        pattern: r"^(?:FAILED|ERROR)(?: \[[\d.]+s\])? \S+?\.py::[^\s\[]+(?:\[.*?\])?(?: - .*|\s*)$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Pytest))],
    },
    Rule {
        // Its tests may all have passed.
        name: "coverage.short",
        pattern: r"^(?:FAIL Required test coverage of [\d.]+% not reached\.|(?:ERROR: )?Coverage failure: total of [\d.]+ is less than fail-under=[\d.]+$).*",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 88)),
            Act::Sign(Sign::Failure(ToolId::Coverage)),
            Act::Summary,
        ],
    },
    Rule {
        name: "coverage.reached",
        pattern: r"^Required test coverage of [\d.]+% reached\. Total coverage: ",
        acts: &[Act::Sign(Sign::TakesBack(ToolId::Coverage))],
    },
    Rule {
        name: "pytest.summary",
        pattern: r"^=* ?(?:(?:no tests (?:ran|collected)|(?P<failed>\d+) failed|(?P<passed>\d+) passed|(?P<skipped>\d+) skipped|(?P<errors>\d+) errors?|(?P<xfailed>\d+) xfailed|(?P<xpassed>\d+) xpassed|\d+ (?:deselected|warnings?|rerun|reruns|retried|subtests \w+))(?:, )?)+ in [\d.]+ ?s(?:econds)?(?: \(.*\))? ?=*$",
        acts: &[Act::Counts(ToolId::Pytest, PYTEST), Act::Summary],
    },
    Rule {
        name: "pytest.none",
        pattern: r"^=* ?(?:no tests (?:ran|collected)(?: \(.*\))?|\d+ deselected(?:, \d+ warnings?)?) in [\d.]+ ?s(?:econds)?(?: \(.*\))? ?=*$",
        acts: &[Act::Sign(Sign::NoTests)],
    },
    Rule {
        name: "pytest.interrupted",
        pattern: r"^!{4,} (?P<m>.*?) !{4,}$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 85).refine(interrupted)),
            Act::Sign(Sign::Failure(ToolId::Pytest)),
        ],
    },
    Rule {
        name: "pytest.internal",
        pattern: r"^INTERNALERROR> (?P<m>\S+(?:Error|Exception)\b.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 88)), Act::Sign(Sign::Failure(ToolId::Pytest))],
    },
    Rule {
        name: "pytest.conftest",
        pattern: r"^ImportError while loading conftest '(?P<f>[^']+)'\.$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Runtime, 92).follow(stack).refine(conftest)),
            Act::Sign(Sign::Failure(ToolId::Pytest)),
        ],
    },
    Rule {
        name: "isort.unsorted",
        pattern: r"^ERROR: (?P<f>\S+\.\w+) Imports are incorrectly sorted.*",
        acts: &[Act::Problem(problem(ERROR, Kind::Lint, 90)), Act::Sign(Sign::Failure(ToolId::Formatter))],
    },
    Rule {
        name: "pytest.usage",
        pattern: r"^(?:ERROR: (?:usage|not found|file or directory not found|file not found)|pytest: error:).*",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 90).follow(super::indented)),
            Act::Sign(Sign::Failure(ToolId::Pytest)),
        ],
    },
    Rule {
        name: "unittest.heading",
        pattern: r"^(?:FAIL|ERROR): (?P<t>\S+ \(.*?\).*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(unittest).owning().refine(last_place))],
    },
    Rule {
        name: "unittest.heading_short",
        pattern: r"^(?:FAIL|ERROR): (?P<t>[A-Za-z_]\w*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 90).follow(unittest).owning().refine(last_place))],
    },
    Rule {
        name: "unittest.line_failed",
        pattern: r"^(?P<t>\S+ \([\w.]+\))(?: \[.*\])? \.\.\. (?:FAIL|ERROR)$",
        acts: &[Act::Test(ToolId::Unittest, Failed), Act::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        // Output of the test may follow on the same line.
        name: "unittest.at_work",
        pattern: r"^\w+ \([\w.]+\)(?: \[.*\])? \.\.\. ",
        acts: &[Act::AtWork(ToolId::Unittest)],
    },
    // trial's is longer.
    Rule { name: "unittest.rule", pattern: r"^(?:-{70}|-{79})$", acts: &[Act::Heading(ToolId::Unittest)] },
    Rule {
        name: "unittest.ran",
        pattern: r"^Ran (?P<n>\d+) tests? in [\d.]+s",
        acts: &[Act::Partial(ToolId::Unittest, UNITTEST), Act::Summary],
    },
    Rule {
        name: "unittest.failed",
        pattern: r"^FAILED \((?:(?:failures=(?P<failed>\d+)|errors=(?P<errors>\d+)|skip(?:ped|s)=(?P<skipped>\d+)|expected(?:[ _]f|F)ailures=(?P<expected>\d+)|unexpected[ _]successes=(?P<unexpected>\d+)|(?:passes|unexpectedSuccesses|successes)=\d+)(?:, )?)+\)",
        acts: &[Act::Moves(ToolId::Unittest, UNITTEST_REST), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "unittest.ok",
        pattern: r"^OK(?: \((?:(?:skip(?:ped|s)=(?P<skipped>\d+)|expected[ _]failures=(?P<expected>\d+)|unexpected successes=\d+|passes=\d+)(?:, )?)+\))?$",
        acts: &[Act::Moves(ToolId::Unittest, UNITTEST_REST)],
    },
    Rule {
        // An unexpected success does not count as a failure, in its text and in its exit code.
        name: "trial.passed",
        pattern: r"^PASSED \((?:(?:skips=(?P<skipped>\d+)|expectedFailures=(?P<expected>\d+)|(?:unexpectedSuccesses|successes)=\d+)(?:, )?)+\)$",
        acts: &[Act::Moves(ToolId::Unittest, UNITTEST_REST), Act::Summary],
    },
    Rule {
        name: "unittest.unexpected",
        pattern: r"^UNEXPECTED SUCCESS: (?P<t>\S+ \(.*?\).*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92))],
    },
    Rule {
        name: "sugar.results",
        pattern: r"^Results \([\d.:]+(?:s| ?\([\d:.]+\))?\):$",
        acts: &[Act::Heading(ToolId::Pytest)],
    },
    Rule {
        name: "sugar.count",
        pattern: r"^ {7}(?:(?P<passed>\d+) (?:passed|xpassed)|(?P<failed>\d+) failed|(?P<errors>\d+) errors?|(?P<skipped>\d+) skipped|(?P<expected>\d+) xfailed)$",
        acts: &[Act::Adds(ToolId::Pytest, SUGAR), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "regrtest.success",
        pattern: r"^(?:== Tests result: SUCCESS ==|Result: SUCCESS|Tests result: SUCCESS)",
        acts: &[Act::Sign(Sign::Success(ToolId::Regrtest)), Act::Summary],
    },
    Rule {
        name: "regrtest.failure",
        pattern: r"^(?:== Tests result: FAILURE.*|Result: FAILURE|Tests result: FAILURE.*)",
        acts: &[Act::Sign(Sign::Failure(ToolId::Regrtest)), Act::Summary],
    },
    Rule {
        name: "regrtest.total",
        pattern: r"^Total tests: run=(?P<n>[\d,]+)(?: failures=(?P<failed>[\d,]+))?(?: skipped=(?P<skipped>[\d,]+))?",
        acts: &[
            Act::Session(ToolId::Regrtest),
            Act::Counts(ToolId::Regrtest, |groups| {
                let (run, failed, skipped) =
                    (groups.number("n"), groups.number("failed"), groups.number("skipped"));
                Some(Counts { passed: run.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
            }),
            Act::Summary,
        ],
    },
    Rule {
        name: "python.traceback",
        pattern: r"^\s*(?:\+ Exception Group )?Traceback \(most recent call last\):$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Runtime, 88).follow(traceback).refine(raised_at)),
            Act::Sign(Sign::Trace),
        ],
    },
    Rule {
        name: "python.oom",
        pattern: r"^(?:[A-Za-z_]\w*\.)*_?(?:Array)?MemoryError(?:: .*)?$",
        acts: &[Act::Within(HEADING, &Act::Sign(Sign::Raised(Indicator::OutOfMemory)))],
    },
    Rule {
        name: "python.fatal",
        // The program that runs a test may have begun its line.
        pattern: r"^(?:\S+\.py(?:::\S+)? |\w+ \([\w.]+\) \.\.\. )?[.FEsxX]*Fatal Python error: (?P<m>.*)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 96).follow(fatal_lines).refine(fatal_place)),
            Act::Sign(Sign::Crash(Indicator::FatalError)),
        ],
    },
    Rule {
        name: "python.exception",
        pattern: r"^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout)(?:: (?P<m>.*))?$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 72).follow(stack_if_indented))],
    },
    Rule {
        name: "python.syntax",
        pattern: r#"^  File "(?P<f>[^"]+)", line (?P<l>\d+)$"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 80).follow(syntax).refine(syntax_only))],
    },
    Rule {
        name: "python.start",
        pattern: r"^\S*(?:python|pypy)[\d.]*(?:\.exe)?: (?P<m>.*(?:No module named|can't |cannot |Error while|No code object|is a package).*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 90))],
    },
    Rule {
        name: "mypy.found",
        pattern: r"^Found \d+ errors? in \d+ files?",
        acts: &[Act::Sign(Sign::Failure(ToolId::Mypy)), Act::Summary, Act::Alone],
    },
    Rule {
        name: "mypy.success",
        pattern: r"^Success: no issues found in \d+ source files?",
        acts: &[Act::Sign(Sign::Success(ToolId::Mypy)), Act::Summary],
    },
    Rule {
        name: "pyright.found",
        pattern: r"^[1-9]\d* errors?, \d+ warnings?, \d+ (?:informations?|notes?)",
        acts: &[Act::Sign(Sign::Failure(ToolId::Pyright)), Act::Summary],
    },
    Rule {
        name: "pyright.clean",
        pattern: r"^0 errors, \d+ warnings?, \d+ (?:informations?|notes?)",
        acts: &[Act::Sign(Sign::Success(ToolId::Pyright)), Act::Summary],
    },
    Rule {
        name: "pytest.running",
        // A death may have ended the line.
        pattern: r"^(?P<t>\S+\.py::\S+) (?:$|Fatal Python error: )",
        acts: &[Act::Test(ToolId::Pytest, Started)],
    },
    Rule {
        name: "unittest.running",
        pattern: r"^(?P<t>\w+ \([\w.]+\)) \.\.\. (?:$|Fatal Python error: )",
        acts: &[Act::Test(ToolId::Unittest, Started)],
    },
    Rule {
        name: "pytest.ended",
        pattern: r"^.*(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.*\))? +\[ *\d+%\]$",
        acts: &[Act::Ends(ToolId::Pytest)],
    },
];

/// Location and test of a stack of `faulthandler`, which begins with the innermost frame: the first
/// frame of the project, and the last one of a test function.
fn fatal_place(draft: &mut Draft) {
    let own = |line: &str| {
        let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
        let (number, function) = rest.split_once(" in ")?;
        let is_foreign = file.starts_with('<')
            || ["/site-packages/", "/lib/python"].iter().any(|part| file.contains(part));
        (!is_foreign).then(|| (format!("{file}:{number}"), function.trim().to_owned()))
    };
    let frames: Vec<(String, String)> = draft.lines.iter().filter_map(|line| own(line)).collect();
    if let Some((place, _)) = frames.first() {
        let _placed = super::set_place(draft, place);
    }
    let test = frames.into_iter().rev().map(|(_, function)| function).find(|name| name.starts_with("test"));
    draft.test = draft.test.take().or(test);
}

fn fatal_lines(so_far: &[String], line: &str) -> Next {
    let known = line.starts_with("Current thread")
        || line.starts_with("Thread ")
        || line.starts_with("Extension modules");
    if line.trim().is_empty() {
        Next::Maybe
    } else if known || line.starts_with("  ") {
        stack(so_far, line)
    } else {
        Next::Beyond
    }
}

fn stack_if_indented(_: &[String], line: &str) -> Next {
    if line.starts_with("    ") && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

/// The code, the caret and the error under a place without a traceback's heading.
fn syntax(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 6 {
        Next::Beyond
    } else if line.starts_with("    ") {
        Next::Part
    } else if line.contains("Error: ") && !line.starts_with(' ') {
        Next::Last
    } else {
        Next::Beyond
    }
}

fn syntax_only(draft: &mut Draft) {
    draft.spurious = !draft.lines.last().is_some_and(|line| line.contains("Error: "));
    draft.head = draft.lines.len().checked_sub(1);
}
