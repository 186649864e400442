//! go build, vet and test.

use super::TestEvent::{Failed, Passed, Skipped, Started};
use super::{Act, Draft, ERROR, FATAL, Indicator, Kind, Next, Problem, Rule, Sign, problem};
use crate::tally::Family;

/// Output of a failed test: indented lines.
fn test_lines(_: &[String], line: &str) -> Next {
    if line.starts_with([' ', '\t']) && !line.trim().is_empty() && !line.trim_start().starts_with("--- ") {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// A panic and its goroutines, up to the package's line.
fn goroutines(so_far: &[String], line: &str) -> Next {
    let end = line.starts_with("FAIL\t")
        || line.starts_with("exit status")
        || line == "PASS"
        || line.starts_with("--- ")
        || line.starts_with("=== ")
        || line.starts_with("ok  \t")
        || line == "FAIL";
    if end || so_far.len() > 60 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
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
    line.starts_with("    ") && !line.trim_start().starts_with("--- ")
}

/// Location of the failure in the test: the first line of its log.
pub(super) fn log_place(draft: &mut Draft) {
    let place = draft.lines.iter().find_map(|line| {
        let place = line.trim_start().split_once(": ").map_or(line.trim(), |(place, _)| place);
        place.contains(".go:").then(|| place.to_owned())
    });
    if let Some(place) = place {
        let _placed = super::set_place(draft, &place);
    }
}

const PANIC: Problem = problem(FATAL, Kind::Crash, 95).follow(goroutines).owning().refine(panic_place);

/// The first frame outside Go's own sources: below their `src` are directories without a dot.
fn panic_place(draft: &mut Draft) {
    let frame = draft.lines.iter().find_map(|line| {
        let (place, _) = line.trim_start().split_once(" +0x")?;
        let package = place.rsplit_once("/src/").and_then(|(_, rest)| rest.split('/').next());
        let is_foreign = package.is_some_and(|package| !package.contains('.'));
        (place.contains(".go:") && !is_foreign).then(|| place.to_owned())
    });
    if let Some(frame) = frame {
        let _placed = super::set_place(draft, &frame);
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "go.run",
        pattern: r"^.*=== RUN\s+(?P<t>\S+)$",
        acts: &[Act::Test(Family::Go, Started), Act::Speaks],
    },
    Rule { name: "go.goes_on", pattern: r"^=== (?:CONT|NAME)\s+(?P<t>\S+)$", acts: &[Act::Speaks] },
    // The last output of a test may precede its result on the same line.
    Rule {
        name: "go.pass",
        pattern: r"^.*--- PASS: (?P<t>\S+) \([\d.]+s\)$",
        acts: &[Act::Test(Family::Go, Passed)],
    },
    Rule {
        name: "go.skip",
        pattern: r"^.*--- SKIP: (?P<t>\S+) \([\d.]+s\)$",
        acts: &[Act::Test(Family::Go, Skipped)],
    },
    Rule {
        name: "go.fail",
        pattern: r"^.*--- FAIL: (?P<t>\S+) \([\d.]+s\)$",
        acts: &[
            Act::Test(Family::Go, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 94).follow(test_lines).lead(logged).refine(log_place)),
        ],
    },
    // A test's own log; the line with its result reports the failure.
    Rule { name: "go.log", pattern: r"^ {4,}\S+\.go:\d+: ", acts: &[Act::Harmless, Act::Logs] },
    Rule {
        name: "go.package_failed",
        pattern: r"^FAIL\s+\S+\s+(?:[\d.]+s|\((?:cached|[\d.]+s)\)|\[(?:build|setup) failed\])$",
        acts: &[
            Act::Over(Family::Go, false),
            Act::Sign(Sign::Failure("go test")),
            Act::Summary,
            Act::Harmless,
        ],
    },
    Rule { name: "go.failed", pattern: r"^FAIL$", acts: &[Act::Sign(Sign::StillFailure("go test"))] },
    Rule {
        name: "go.package_ok",
        pattern: r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))",
        acts: &[Act::Over(Family::Go, true), Act::Sign(Sign::Success("go test"))],
    },
    Rule {
        name: "go.panic",
        pattern: r"^panic: (?P<m>.*)",
        acts: &[Act::Problem(PANIC), Act::Sign(Sign::Crash(Indicator::FatalError))],
    },
    Rule {
        name: "go.fatal",
        pattern: r"^fatal error: (?:all goroutines are asleep|concurrent map|stack overflow|unexpected signal|runtime: out of memory|out of memory|sync: |checkptr|found pointer|bad )(?P<m>.*)",
        acts: &[Act::Problem(PANIC), Act::Sign(Sign::Crash(Indicator::FatalError))],
    },
    Rule {
        name: "go.signal",
        pattern: r"^\[signal (?P<m>SIG[A-Z]+): .*",
        acts: &[Act::Sign(Sign::Crash(Indicator::UnexpectedSignal))],
    },
    Rule {
        name: "go.race",
        pattern: r"^WARNING: DATA RACE$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 95).follow(race).owning()),
            Act::Sign(Sign::Crash(Indicator::Sanitizer)),
        ],
    },
    Rule {
        name: "go.build_place",
        pattern: r"^(?:vet: )?(?P<f>\.{0,2}[^\s:]*\.go):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 85).follow(test_lines))],
    },
    Rule {
        name: "go.module",
        pattern: r"^(?:go: (?:\S+: )?(?:.*(?:no required module|not found|cannot find|error|unknown revision|missing go\.sum|requires go|downloading|updates to go\.mod)).*|\S+\.go:\d+:\d+: no required module.*|package \S+ is not in std.*|build .*: cannot (?:load|find).*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 80))],
    },
];
    // A package without a test that the filter selects.
    Rule {
        name: "go.no_tests",
        pattern: r"^testing: warning: no tests to run$",
        acts: &[Act::Sign(Sign::NoTests)],
    },
    Rule {
        name: "go.some_tests",
        pattern: r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))(?:\s+coverage: \S+ of statements(?: in \S+)?)?$",
        acts: &[Act::Sign(Sign::SomeTests)],
    },
