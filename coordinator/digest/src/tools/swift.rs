//! Output of swift build.

use super::places::worded;
use crate::rules::{
    Diagnostic, ERROR, Effect, FATAL, Fails, Indicator, Kind, Next, Rule, indented, paragraph, problem,
    set_place,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("swift build") };

pub(super) const TEST: Tool = Tool { runs_tests: true, ..Tool::named("swift test") };

/// OCaml prints the same words and names the place in the message.
fn raised(diagnostic: &mut Diagnostic) {
    if diagnostic.file.is_none() {
        worded(diagnostic);
    }
}

/// The numbered steps of a stack dump.
fn steps(so_far: &[String], line: &str) -> Next {
    let number = line.split_once(['.', '\t']).map_or("", |(number, _)| number);
    let is_step = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_step && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// The place is in one of the steps. The first step repeats the command line.
fn at_step(diagnostic: &mut Diagnostic) {
    diagnostic.lines.retain(|line| !line.contains("Program arguments: "));
    diagnostic.spurious = diagnostic.lines.len() == 1;
    let place = diagnostic.lines.iter().find_map(|line| {
        let at = [" at [", " (at ", "_@"].iter().find_map(|mark| Some(line.split_once(mark)?.1))?;
        let place = at.split([' ', ']', ')']).next()?;
        Some(place.to_owned()).filter(|place| place.starts_with('/') && !place.contains(".sdk/"))
    });
    let placed = place.is_some_and(|place| set_place(diagnostic, &place));
    let file =
        diagnostic.lines.iter().find_map(|line| line.split_once("source_file \"")?.1.split('"').next());
    if let (false, Some(file)) = (placed, file.map(str::to_owned)) {
        diagnostic.file = Some(file);
    }
    let head = diagnostic.lines.iter().position(|line| line.contains("\tWhile "));
    diagnostic.head = head;
}

const RULES: &[Rule] = &[
    Rule {
        // SwiftPM 6, of the process that ran the tests.
        name: "swiftpm.died",
        pattern: r"^error: Process '.*' exited with unexpected signal code (?P<sig>\d+)$",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 93)),
            Effect::Crash(Indicator::TestRunnerCrashed),
            Effect::Crash(Indicator::ChildDied("")),
        ],
    },
    Rule {
        name: "swift.command",
        pattern: r"^error: (?:emit-module|compile|merge-module|link) command failed with exit code",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 55)), Effect::Failure],
    },
    Rule {
        name: "swiftpm.failed",
        pattern: r"^(?:error: (?:fatalError|Build failed|terminated\(\d+\)).*|Build failed)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 50)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "swift.fatal",
        pattern: r"^(?:(?P<f>[^:\s\[][^:]*):(?P<l>\d+): )?(?:Fatal error|Precondition failed|Assertion failed|Simultaneous accesses)(?:: (?P<m>.*)|$)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 95).follow(indented).refine(raised)),
            Effect::Crash(Indicator::FatalError),
        ],
    },
    Rule {
        name: "swift.fatal_in_line",
        pattern: r"^(?:\S+\[[\d:]+\]:? )?(?:\S+/)?(?P<f>[\w+-]+\.swift):(?P<l>\d+): (?:Fatal error|Precondition failed|Assertion failed)",
        effects: &[Effect::Problem(problem(FATAL, Kind::Crash, 95)), Effect::Crash(Indicator::FatalError)],
    },
    Rule {
        name: "swiftpm.signal",
        pattern: r"^(?:error: )?Exited with (?:unexpected )?signal code (?P<sig>\d+)",
        effects: &[Effect::Problem(problem(FATAL, Kind::Crash, 93)), Effect::Crash(Indicator::ChildDied(""))],
    },
    Rule {
        name: "swift.compiler_crash",
        pattern: r"^(?:error: (?:compile|emit-module|merge-module|fatal error encountered|swift-frontend).{0,40}(?:command )?failed due to signal|Please submit a bug report \(https://swift|<unknown>:0: error: fatal error encountered)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(indented).fails(Fails::Always))],
    },
    Rule {
        // The work of a compiler made with LLVM at its crash.
        name: "swift.stack_dump",
        pattern: r"^Stack dump:$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 91).follow(steps).owning().refine(at_step).fails(Fails::Always),
        )],
    },
    Rule {
        // Errors of the package manager before it compiles.
        name: "swiftpm.error",
        pattern: r"^error: (?:Dependencies could not be resolved because|Failed to clone repository|failed to (?:clone|resolve|fetch)|no such module|Could not find Package\.swift|no tests found; create a target|package at '|the package manifest at|'[^']+': (?:Invalid manifest|the package manifest|Source files for target|unable to))",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).follow(paragraph)), Effect::Failure],
    },
    Rule {
        name: "swiftpm.complete",
        pattern: r"^Build complete!",
        effects: &[Effect::Success, Effect::Summary],
    },
    Rule {
        name: "swift.macro",
        pattern: r"^(?:.*: )?(?:error: )?(?P<m>Macro \S+ from package .* must be enabled before it can be used|Target .* must be enabled before it can be used|Could not resolve package dependencies:.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(indented))],
    },
    Rule {
        name: "swift.unresolved",
        pattern: r"^Dependencies could not be resolved because ",
        effects: &[Effect::Failure],
    },
];
