//! go build, vet and test.

use super::TestEvent::{Failed, Passed, Skipped, Started};
use super::{Act, ERROR, FATAL, Indicator, Kind, Next, Problem, Rule, Sign, problem};
use crate::tally::Family;

/// What a failed test printed: indented lines.
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

const PANIC: Problem = problem(FATAL, Kind::Crash, 95).follow(goroutines).owning();

pub(super) const RULES: &[Rule] = &[
    Rule { name: "go.run", pattern: r"^=== RUN\s+(?P<t>\S+)$", acts: &[Act::Test(Family::Go, Started)] },
    Rule { name: "go.pass", pattern: r"^\s*--- PASS: (?P<t>\S+) \(", acts: &[Act::Test(Family::Go, Passed)] },
    Rule {
        name: "go.skip",
        pattern: r"^\s*--- SKIP: (?P<t>\S+) \(",
        acts: &[Act::Test(Family::Go, Skipped)],
    },
    Rule {
        name: "go.fail",
        pattern: r"^\s*--- FAIL: (?P<t>\S+) \(",
        acts: &[
            Act::Test(Family::Go, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 94).follow(test_lines)),
        ],
    },
    Rule {
        name: "go.package_failed",
        pattern: r"^FAIL\s+\S+(?:\s+(?:[\d.]+s|\[.*\]))?$",
        acts: &[Act::Sign(Sign::Failure("go test")), Act::Summary],
    },
    Rule { name: "go.failed", pattern: r"^FAIL$", acts: &[Act::Sign(Sign::Failure("go test"))] },
    Rule { name: "go.package_ok", pattern: r"^ok  \t\S+\t", acts: &[Act::Sign(Sign::Success("go test"))] },
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
