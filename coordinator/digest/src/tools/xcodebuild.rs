//! Output of xcodebuild.

mod actions;

use crate::rules::{
    BEGINS, Diagnostic, ERROR, Effect, FATAL, Fails, Indicator, Kind, Next, RUNS, Rule, WARNING, indented,
    indented_or_blank, problem,
};
use crate::tool::{ReportFormat, Stage, Tool};

pub(super) const TOOL: Tool = Tool {
    selects_tests: |words| words.iter().any(|word| word.starts_with("-only-testing:")),
    build_report: Some(ReportFormat { name: "xcresult", has_priority: true }),
    code_meaning,
    missing_result: actions::missing_result,
    uses_simulator: true,
    drives: true,
    units_of_command: true,
    stage,
    rules: RULES,
    ..Tool::named("xcodebuild")
};

const fn code_meaning(code: i32) -> Option<&'static str> {
    Some(match code {
        64 => ": xcodebuild did not understand its arguments",
        65 => {
            ": xcodebuild's code for a failed build or test, a missing scheme, signing or a locked build database"
        }
        66 => ": xcodebuild's code for an input that is not there (project, workspace or bundle)",
        70 => ": xcodebuild's code for a destination or device that was not found, or an internal error",
        74 => ": xcodebuild's code for a file that could not be read or written",
        _ => return None,
    })
}

/// `** TEST BUILD FAILED **`. After a failed build it prints `TEST FAILED` as well.
fn stage(line: &str) -> Stage {
    let result = line.split_once("** ").map_or("", |(_, result)| result);
    match result.rsplit_once(" **").and_then(|(result, _)| result.rsplit_once(' ')) {
        Some(("BUILD" | "TEST BUILD" | "ARCHIVE", _)) => Stage::Build,
        Some(("TEST" | "TEST EXECUTE", _)) => Stage::Tests,
        _ => Stage::Unknown,
    }
}

/// `The following build commands failed:` and the indented list after it. A formatter removes the indentation.
fn failed_commands(so_far: &[String], line: &str) -> Next {
    let is_count = line.starts_with('(') && line.ends_with(')');
    let is_indented = so_far.get(1).map_or(line, String::as_str).starts_with([' ', '\t']);
    if is_count {
        Next::Last
    } else if is_indented || line.trim().is_empty() || so_far.len() > 20 {
        indented(so_far, line)
    } else {
        Next::Maybe
    }
}

/// Other runners print the same heading without an indented list.
fn has_entries(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() == 1;
}

/// A missing certificate or profile is not a fault of the code.
fn of_signing(diagnostic: &mut Diagnostic) {
    let words =
        ["Provisioning profile", "No profiles for", "signing certificate", "requires a development team"];
    if words.iter().any(|word| diagnostic.first().contains(word)) {
        diagnostic.kind = Some(Kind::Infrastructure);
    }
}

/// A simulator that did not boot is not a failed test.
fn of_machine(diagnostic: &mut Diagnostic) {
    let words =
        ["Unable to boot the Simulator", "launchd_sim", "Failed to prepare device", "Timed out waiting"];
    if diagnostic.lines.iter().any(|line| words.iter().any(|word| line.contains(word))) {
        diagnostic.kind = Some(Kind::Infrastructure);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "xcodebuild.succeeded",
        pattern: r"^\*\* (?P<u>BUILD|TEST|TEST BUILD|TEST EXECUTE|ARCHIVE|CLEAN|ANALYZE|INSTALL|EXPORT|DOCBUILD) SUCCEEDED \*\*",
        effects: &[Effect::Own(actions::result), Effect::Success, RUNS, Effect::Summary],
    },
    Rule {
        name: "xcodebuild.failed",
        pattern: r"^\*\* (?P<u>BUILD|TEST|TEST BUILD|TEST EXECUTE|ARCHIVE|CLEAN|ANALYZE|INSTALL|EXPORT|DOCBUILD) (?:FAILED|INTERRUPTED) \*\*",
        effects: &[Effect::Own(actions::result), Effect::Failure, RUNS, Effect::Summary],
    },
    Rule {
        // As xcpretty and xcbeautify have it. Their words of success may follow a failure of Swift Testing.
        name: "xcodebuild.formatted_failed",
        pattern: r"^(?:\xe2\x96\xb8 )?(?:Test|Build|Archive|Analyze|Clean) Failed$",
        effects: &[Effect::Failure, RUNS, Effect::Summary],
    },
    Rule {
        name: "xcpretty.error",
        pattern: r"^(?:\xe2\x9d\x8c|\[x\]) +(?P<f>/[^:]+):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 94).follow(indented_or_blank))],
    },
    Rule {
        name: "xcpretty.unplaced",
        pattern: r"^(?:\xe2\x9d\x8c  |(?:\xe2\x9d\x8c|\[x\]) +(?:error|ld|clang): |\[x\] )(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 92).refine(of_signing))],
    },
    Rule {
        name: "xcodebuild.error",
        pattern: r"^(?:\S+ )?xcodebuild(?:\[[\d:]+\])?:? ?error: (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Build, 95).follow(indented_or_blank)),
            Effect::Failure,
            RUNS,
        ],
    },
    Rule {
        name: "xcodebuild.tool",
        pattern: r"^(?:Command line invocation:|Build settings from command line:|User defaults from command line:|\S+ xcodebuild\[\d+:\d+\])",
        effects: &[RUNS],
    },
    Rule { name: "xcodebuild.begins", pattern: r"^Command line invocation:$", effects: &[BEGINS] },
    Rule {
        name: "xcodebuild.invocation",
        pattern: r"^\s+(?:/\S+/)?xcodebuild (?P<m>\S.*)$",
        effects: &[Effect::Own(actions::command)],
    },
    Rule {
        name: "xcodebuild.command_died",
        pattern: r"^Command (?P<m>\S+) failed due to signal",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 72))],
    },
    Rule {
        // The command's own words are above it.
        name: "xcodebuild.command",
        pattern: r"^Command (?P<m>\S+) (?:failed with a nonzero exit code|emitted errors but did not return)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60).fails(Fails::Always))],
    },
    Rule {
        name: "xcodebuild.no_archive",
        pattern: r"^(?:xcodebuild: )?error: archive not found at path ",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "xcodebuild.commands",
        pattern: r"^The following build commands failed:",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60).follow(failed_commands))],
    },
    Rule {
        name: "xcodebuild.failing_tests",
        pattern: r"^Failing tests:",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Consequence, 69).follow(indented).refine(has_entries),
        )],
    },
    Rule {
        name: "xcodebuild.database_locked",
        pattern: r"^(?:error: )?(?:unable to attach DB|.*build\.db.*): (?:error: )?.*(?:database is locked|locked database)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 95))],
    },
    Rule {
        name: "xcodebuild.destination",
        pattern: r"^(?:xcodebuild: error: )?(?:Unable to find a (?:destination|device) matching|Failed to build workspace .* with scheme|Timed out waiting for all destinations)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 88).follow(indented_or_blank))],
    },
    Rule {
        name: "xcodebuild.testing_failed",
        pattern: r"^Testing failed:",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 75).follow(indented).refine(of_machine)),
            Effect::Failure,
        ],
    },
    Rule {
        name: "simulator.launch",
        pattern: r"^.*(?:Failed to install or launch the test runner|Failed to background test runner|Timed out registering for testing event|Failed to launch app|Unable to (?:boot|lookup in current state)|The device .* (?:could not be|is not available))",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Infrastructure, 85)),
            Effect::Crash(Indicator::RunnerNotLaunched),
        ],
    },
    Rule {
        name: "simulator.boot",
        pattern: r"^.*(?:Failed to boot simulator|Simulator (?:device )?failed to boot|\bSimulator(?: .{0,60})? timed out\b|Unable to boot (?:the )?[Ss]imulator)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Infrastructure, 85)),
            Effect::Crash(Indicator::SimulatorBootTimeout),
        ],
    },
    Rule {
        name: "objc.exception",
        pattern: r"^.*\*\*\* Terminating app due to uncaught exception",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 95).follow(indented_or_blank)),
            Effect::Crash(Indicator::UncaughtException),
        ],
    },
    Rule {
        name: "apple.code_sign",
        pattern: r"^(?:error: )?(?:No (?:signing certificate|profiles? for|account for team)|Provisioning profile .* (?:doesn|has expired)|Code ?[Ss]ign(?:ing)? (?:error|Error)|Signing for .* requires|errSecInternalComponent)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Infrastructure, 88))],
    },
    Rule {
        name: "apple.unplaced",
        pattern: r"^(?P<f>/[^:]*): (?P<s>error|warning): (?P<m>.*)",
        effects: &[Effect::Problem(problem(crate::rules::Level::Word, Kind::Build, 88).follow(indented))],
    },
    Rule {
        name: "apple.targets",
        pattern: r"^(?:.*\(in target '.*' from project '.*'\)|error: .*): error: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88))],
    },
    Rule {
        name: "apple.runtime",
        pattern: r"^(?P<f>[^:\s][^:]*):(?P<l>\d+): runtime: (?P<m>.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Runtime, 50))],
    },
    Rule { name: "xcodebuild.failures", pattern: r"^\([1-9]\d* failures?\)$", effects: &[Effect::Failure] },
];
