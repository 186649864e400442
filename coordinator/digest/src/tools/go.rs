//! Output of go test.

mod packages;

use super::compiler::{CHILD_DIED, DIED};
use crate::machines::MatchedLine;
use crate::markers::MarkerLine;
use crate::records::{Event, PartOutput, RecordFormat};
use crate::rules::{
    Diagnostic, ERROR, Effect, FAILS_WITHOUT_TESTS, FATAL, Fails, Indicator, Kind, Next, Problem, RUNS, Role,
    Rule, TestEvent, problem,
};
use crate::tool::{Apart, Tool, ToolId};
use packages::{named_failed, named_passed, package_failed, package_passed};
use serde::Deserialize;

pub(super) const TOOL: Tool = Tool {
    runs_tests: true,
    selections: &["-run"],
    apart: Apart::Always,
    by_test: true,
    begins_each: true,
    runs_them_itself: true,
    shares_names_among_parts: true,
    units_of_command: true,
    runs_parts_at_once: true,
    rules: RULES,
    records: &[RecordFormat { name: "go.record", beginnings: BEGINNINGS, read: record }],
    ..Tool::named("go test")
};

pub(super) const VET: Tool = Tool { apart: Apart::Always, ..Tool::named("vet") };

/// Part of each record of `go test -json`.
pub(crate) const PART_RECORD: &[u8] = br#""Action":"#;
/// Bytes with which such records begin.
const BEGINNINGS: &[&[u8]] = &[br#"{"Time":"#, br#"{"Action":"#, br#"{"ImportPath":"#];
/// Values of `Action`.
const ACTIONS: &[&str] = &[
    "start",
    "run",
    "pause",
    "cont",
    "pass",
    "bench",
    "fail",
    "skip",
    "output",
    "build-output",
    "build-fail",
];
/// Beginnings of lines that begin or continue a test. They are needed at once, to name the running test.
const FRAMES: &[&str] = &["=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "];

/// A record of `go test -json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Record {
    action: String,
    #[serde(alias = "ImportPath")]
    package: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

/// Records of several packages are mixed.
fn record(line: &[u8]) -> Option<Vec<Event>> {
    let Record { action, package, test, output } = serde_json::from_slice(line).ok()?;
    let at_once = FRAMES.iter().any(|frame| output.starts_with(frame));
    let has_ended = matches!(action.as_str(), "pass" | "fail" | "skip");
    ACTIONS.contains(&action.as_str()).then(|| {
        vec![Event::Output(PartOutput {
            tool: ToolId::GoTest,
            part: package,
            is_end: has_ended && !test.contains('/'),
            at_once,
            is_hidden: at_once || output.trim_start().starts_with("--- PASS: "),
            test,
            text: output,
        })]
    })
}

/// The last package line, if no test ended after it.
#[derive(Debug)]
struct PackageEnd {
    order: u64,
}

/// The tests before this line are of its package, those after it of another one. The name of that package comes after them.
fn package_ended(line: &mut MatchedLine<'_>) {
    let name = format!("after {}", line.text("u"));
    line.tally.part(ToolId::GoTest, &name);
    let order = line.order;
    line.machines.set(PackageEnd { order });
}

/// `FAIL` ends a package that failed, and below the last package the run. A later run may be of the same packages.
fn run_failed(line: &mut MatchedLine<'_>) {
    let _found = line.markers.runs.fails_still(ToolId::GoTest, 0, line.order);
    if line.machines.get::<PackageEnd>().is_some_and(|end| end.order + 1 == line.order) {
        line.tally.part(ToolId::GoTest, "");
    } else {
        packages::tests_ended(line);
    }
}

/// Returns true for the line with a test's result. `--- Expected` of testify is the title of a difference.
fn is_result(line: &str) -> bool {
    let result = line.trim_start().strip_prefix("--- ");
    result.is_some_and(|result| {
        ["FAIL: ", "PASS: ", "SKIP: ", "BENCH: "].iter().any(|word| result.starts_with(word))
    })
}

/// Output of a failed test: indented lines.
fn test_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with([' ', '\t']) && !line.trim().is_empty() && !is_result(line) {
        return Next::Part;
    }
    // testify prints an empty line between the values and their difference.
    let is_testify = so_far.last().is_some_and(|last| last.trim_start().starts_with("actual "));
    if is_testify && line.trim().is_empty() { Next::Maybe } else { Next::Beyond }
}

/// A panic and its goroutines, up to the package's line.
fn goroutines(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 60 { Next::Beyond } else { dump(so_far, line) }
}

/// The goroutines of a program that hangs, up to the package's line.
fn dump(_: &[String], line: &str) -> Next {
    let end = line.starts_with("FAIL\t")
        || line.starts_with("exit status")
        || line == "PASS"
        || line.starts_with("--- ")
        || line.starts_with("=== ")
        || line.starts_with("ok  \t")
        || line == "FAIL";
    if end {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Packages above an import that fails.
fn imports(line: &str) -> bool {
    line.starts_with("package ") || line.starts_with("\timports ") || line.ends_with(" imports")
}

fn race(_: &[String], line: &str) -> Next {
    if line.starts_with("======") {
        Next::Last
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Log of a test before the line with its result.
fn logged(line: &str) -> bool {
    line.starts_with("    ") && !is_result(line)
}

/// Location of the failure in the test: the first line of its log.
pub(super) fn log_place(diagnostic: &mut Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| {
        let place = line.trim_start().split_once(": ").map_or(line.trim(), |(place, _)| place);
        place.contains(".go:").then(|| place.to_owned())
    });
    // Go's own file reports a data race, whose place the race has.
    if let Some(place) = place.filter(|place| !place.starts_with("testing.go:")) {
        let _placed = crate::rules::set_place(diagnostic, &place);
    }
}

const PANIC: Problem = problem(FATAL, Kind::Crash, 95).follow(goroutines).owning().refine(panic_place);

/// A program that printed its goroutines because it hung.
const HANG: Problem =
    problem(ERROR, Kind::Runtime, 90).follow(dump).dispensable(is_runtime_frame).owning().refine(hang);

/// Returns true for a frame of Go's runtime, or its function.
fn is_runtime_frame(line: &str) -> bool {
    line.starts_with("runtime.") || line.contains("/src/runtime/")
}

/// Returns the location of a frame outside Go's own sources: below their `src` are directories
/// without a dot.
fn own_frame(line: &str) -> Option<&str> {
    let place = line.strip_prefix('\t')?.split(" +0x").next()?.split(" fp=").next()?;
    let package = place.rsplit_once("/src/").and_then(|(_, rest)| rest.split('/').next());
    let is_foreign = package.is_some_and(|package| !package.contains('.'))
        || place.contains("/pkg/mod/")
        || place.starts_with("_testmain.go:");
    (place.contains(".go:") && !is_foreign).then_some(place)
}

/// The first frame in the project's code.
fn panic_place(diagnostic: &mut Diagnostic) {
    if diagnostic.lines.first().is_some_and(|line| line.starts_with("panic: test timed out")) {
        return hang(diagnostic);
    }
    let frame = diagnostic.lines.iter().find_map(|line| own_frame(line)).map(str::to_owned);
    if let Some(frame) = frame {
        let _placed = crate::rules::set_place(diagnostic, &frame);
    }
    // Only a test's own goroutine has the function of the test.
    let runner = diagnostic.lines.iter().position(|line| line.starts_with("testing.tRunner("));
    let test = diagnostic.lines[..runner.unwrap_or(0)].iter().rev().find_map(|line| test_function(line));
    diagnostic.test = diagnostic.test.take().or(test);
}

/// The test in the name of a function: `demo/pkg.TestX.func1(0x0)`.
fn test_function(line: &str) -> Option<String> {
    let function = line.split('(').next()?.rsplit('.').find(|part| part.starts_with("Test"))?;
    Some(function.to_owned())
}

/// The first frame of a data race in the project's code.
fn race_place(diagnostic: &mut Diagnostic) {
    let frame = diagnostic.lines.iter().find_map(|line| {
        let line = line.trim_start();
        own_frame(&format!("\t{line}")).map(str::to_owned)
    });
    if let Some(frame) = frame {
        let _placed = crate::rules::set_place(diagnostic, &frame);
    }
}

/// Keeps the goroutines with code of the project. The test and the location are those of the
/// goroutine that runs the test.
fn hang(diagnostic: &mut Diagnostic) {
    let blocks: Vec<Vec<&str>> = diagnostic
        .lines
        .split(|line| line.trim().is_empty())
        .map(|block| block.iter().map(|line| line.split(" fp=0x").next().unwrap_or(line)).collect())
        .collect();
    let head = blocks.first().cloned().unwrap_or_default();
    let of_test = |block: &&Vec<&str>| block.iter().any(|line| line.starts_with("testing.tRunner("));
    let own: Vec<&Vec<&str>> =
        blocks.iter().skip(1).filter(|block| block.iter().any(|line| own_frame(line).is_some())).collect();
    let Some(first) = own.iter().copied().find(of_test).or_else(|| own.first().copied()) else { return };
    let place = first.iter().find_map(|line| own_frame(line)).map(str::to_owned);
    let test = first.iter().find_map(|line| test_function(line));
    let others = own.iter().copied().filter(|block| !std::ptr::eq(*block, first));
    let mut lines: Vec<String> = head.iter().map(|line| (*line).to_owned()).collect();
    for block in std::iter::once(first).chain(others) {
        lines.push(String::new());
        lines.extend(block.iter().filter(|line| !is_runtime_frame(line)).map(|line| (*line).to_owned()));
    }
    diagnostic.lines = lines;
    diagnostic.test = diagnostic.test.take().or(test);
    if let Some(place) = place {
        let _placed = crate::rules::set_place(diagnostic, &place);
    }
}

/// Later log lines belong to the test in group `t`.
const OUTPUT_FOLLOWS: Effect = Effect::Own(|line| {
    let test = line.text("t");
    line.test_output.set_test(&test);
});

/// A program that died of a signal, until a line shows that go test ran it.
struct Death(MarkerLine<Indicator>);

fn program_died(line: &mut MatchedLine<'_>) {
    let death = Death(line.marker(Indicator::Died("").with_signal(line.groups)));
    line.machines.set(death);
    if line.tally.knows(ToolId::GoTest) || line.markers.tools.contains(&ToolId::GoTest) {
        test_died(line);
    }
}

/// go test ran the program that died before.
fn test_died(line: &mut MatchedLine<'_>) {
    if let Some(Death(seen)) = line.machines.take() {
        line.markers.crashed(seen);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "go.tool_died",
        pattern: concat!(
            r"^(?:go build \S+: (?:\S+: )?|\S*/pkg/tool/\S+: )signal: (?P<sig>",
            words!(),
            r")(?: \(core dumped\))?$"
        ),
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        // Printed by any program written in Go.
        name: "go.program_died",
        pattern: concat!(r"^signal: (?P<sig>", words!(), r")(?: \(core dumped\))?$"),
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 80)), Effect::Own(program_died)],
    },
    Rule {
        name: "vet.failed",
        pattern: r"^vet: \S+\.go:\d+:\d+: ",
        effects: &[Effect::Of(ToolId::Vet, &[Effect::Failure])],
    },
    Rule {
        name: "go.run",
        pattern: r"^.*=== RUN\s+(?P<t>\S+)$",
        effects: &[Effect::Test(TestEvent::Started), OUTPUT_FOLLOWS],
    },
    Rule { name: "go.goes_on", pattern: r"^=== (?:CONT|NAME)\s+(?P<t>\S+)$", effects: &[OUTPUT_FOLLOWS] },
    // The last output of a test may precede its result on the same line.
    Rule {
        name: "go.pass",
        pattern: r"^.*--- PASS: (?P<t>\S+) \([\d.]+s\)$",
        effects: &[Effect::Test(TestEvent::Passed), Effect::Own(named_passed)],
    },
    Rule {
        name: "go.skip",
        pattern: r"^.*--- SKIP: (?P<t>\S+) \([\d.]+s\)$",
        effects: &[Effect::Test(TestEvent::Skipped)],
    },
    Rule {
        name: "go.fail",
        pattern: r"^.*--- FAIL: (?P<t>\S+) \([\d.]+s\)$",
        effects: &[
            Effect::Test(TestEvent::Failed),
            Effect::Own(named_failed),
            Effect::Problem(problem(ERROR, Kind::Test, 94).follow(test_lines).lead(logged).refine(log_place)),
        ],
    },
    // A benchmark has no time.
    Rule {
        name: "go.benchmark_failed",
        pattern: r"^--- FAIL: (?P<t>Benchmark\S*)$",
        effects: &[
            Effect::Own(named_failed),
            Effect::Problem(problem(ERROR, Kind::Test, 94).follow(test_lines).lead(logged).refine(log_place)),
        ],
    },
    Rule { name: "go.benchmarks", pattern: r"^goos: [a-z0-9]+$", effects: &[RUNS] },
    // The name of a benchmark may look like the name of an exception.
    Rule {
        name: "go.benchmark",
        pattern: r"^Benchmark[A-Z0-9_]\S*$",
        effects: &[Effect::IfKnown(ToolId::GoTest), Effect::Harmless],
    },
    // A test's own log; the line with its result reports the failure.
    Rule {
        name: "go.log",
        pattern: r"^ {4,}\S+\.go:\d+: ",
        effects: &[Effect::Harmless, Effect::Own(|line| line.test_output.add(line.body))],
    },
    Rule {
        name: "go.package_failed",
        pattern: r"^FAIL\s+(?P<u>\S+)\s+(?:[\d.]+s|\((?:cached|[\d.]+s)\)|\[(?:build|setup) failed\])$",
        effects: &[
            Effect::Own(test_died),
            Effect::Own(package_failed),
            Effect::Failure,
            Effect::Summary,
            Effect::Harmless,
        ],
    },
    Rule {
        name: "go.package_ended",
        pattern: r"^(?:ok  |FAIL|\?   )\t(?P<u>\S+)\t",
        effects: &[Effect::Own(package_ended)],
    },
    Rule { name: "go.failed", pattern: r"^FAIL$", effects: &[Effect::Own(run_failed)] },
    Rule {
        name: "go.package_ok",
        pattern: r"^ok\s+(?P<u>\S+)\s+(?:[\d.]+s|\(cached\))",
        effects: &[Effect::Own(package_passed), Effect::Success],
    },
    // A package without a test that the filter selects.
    Rule {
        name: "go.no_tests",
        pattern: r"^(?:testing: warning: no tests to run$|\?   \t\S+\t\[no test files\]$|ok\s+\S+\s+(?:[\d.]+s|\(cached\)).*\[no tests to run\]$)",
        effects: &[FAILS_WITHOUT_TESTS],
    },
    Rule {
        name: "go.some_tests",
        pattern: r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))(?:\s+coverage: \S+ of statements(?: in \S+)?)?$",
        effects: &[Effect::Own(|line| line.markers.has_tests = true)],
    },
    Rule {
        name: "go.panic",
        pattern: r"^panic: (?P<m>.*)",
        effects: &[Effect::Problem(PANIC), Effect::Crash(Indicator::FatalError)],
    },
    Rule {
        name: "go.fatal",
        pattern: r"^fatal error: (?:all goroutines are asleep|concurrent map|stack overflow|unexpected signal|runtime: out of memory|out of memory|sync: |checkptr|found pointer|bad )(?P<m>.*)",
        effects: &[Effect::Problem(PANIC), Effect::Crash(Indicator::FatalError)],
    },
    // What a Go program prints at SIGQUIT, which a timeout sends.
    Rule {
        name: "go.quit",
        pattern: r"^SIGQUIT: quit$",
        effects: &[Effect::Problem(HANG.role(Role::Stacks))],
    },
    // A frame is part of a stack, even beyond the lines of its message.
    Rule {
        name: "go.frame",
        pattern: r"^\t\S+\.(?:go|s):\d+(?: \+0x[0-9a-f]+)?(?: fp=0x\S+ sp=\S+ pc=\S+)?$",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "go.signal",
        pattern: r"^\[signal (?P<m>SIG[A-Z]+): .*",
        effects: &[Effect::Crash(Indicator::UnexpectedSignal)],
    },
    Rule {
        name: "go.race",
        pattern: r"^WARNING: DATA RACE$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 95).follow(race).owning().refine(race_place)),
            Effect::Crash(Indicator::Sanitizer),
        ],
    },
    Rule {
        name: "go.build_place",
        pattern: r"^(?:vet: )?(?P<f>\.{0,2}[^\s:]*\.go):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 85).follow(test_lines))],
    },
    Rule {
        // An import that fails, below the packages that lead to it.
        name: "go.import",
        pattern: r"^\t(?:imports )?\S+: (?:import cycle not allowed|build constraints exclude all Go files|use of internal package|module \S+ (?:provides|found)|module lookup disabled|no required module|cannot find (?:module|package)|package \S+ is not in|git |reading )",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).lead(imports).fails(Fails::Always))],
    },
    Rule {
        name: "go.no_directory",
        pattern: r"^(?:stat \S+: directory not found|no Go files in \S+|package \S+: build constraints exclude all Go files in \S+|import cycle not allowed.*)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 85))],
    },
    Rule {
        name: "govulncheck.total",
        pattern: r"^Your code is affected by [1-9]\d* vulnerabilit",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 85).fails(Fails::Always))],
    },
    Rule {
        // `go run` prints it after a program that failed.
        name: "go.exit_status",
        pattern: r"^exit status [1-9]\d*$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 40).role(Role::Vague).fails(Fails::AtEnd))],
    },
    Rule {
        name: "go.module",
        pattern: r"^(?:go: (?:\S+: )?(?:.*(?:no required module|not found|cannot find|error|unknown revision|missing go\.sum|requires go|updates to go\.mod)).*|\S+\.go:\d+:\d+: no required module.*|package \S+ is not in std.*|build .*: cannot (?:load|find).*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 80))],
    },
];
