//! xcodebuild, XCTest (serial and parallel), Swift Testing, swift package manager, and the simulator.
//!
//! The glyphs of Swift Testing are `✘ ✔ ◇ ↳ ➜` or, when it runs with SF Symbols, U+1002C0 and its neighbours; patterns
//! take either as their bytes.

use super::TestEvent::{ExpectedFailure, Failed, Passed, Skipped, Started};
use super::{
    Act, Count, Draft, ERROR, FATAL, Indicator, Kind, Next, Rule, Sign, WARNING, indented, indented_or_blank,
    problem,
};
use crate::tally::Counts;
use crate::tool::ToolId;

const EXECUTED: Count = |groups| {
    let (total, failed) = (groups.number("n"), groups.number("failed"));
    let skipped = groups.number("skipped");
    Some(Counts {
        passed: total.saturating_sub(failed + skipped),
        failed: failed.min(total),
        skipped,
        expected: 0,
    })
};

const SWIFT_RUN: Count = |groups| {
    let total = groups.number("n");
    Some(Counts { passed: total, failed: 0, skipped: 0, expected: 0 })
};

/// How many failed is known from their own lines; that some did is known here.
const SWIFT_RUN_FAILED: Count = |groups| {
    let total = groups.number("n");
    Some(Counts { passed: total.saturating_sub(1), failed: total.min(1), skipped: 0, expected: 0 })
};

/// The detail lines that Swift Testing prints under an issue.
fn details(_: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let detail =
        trimmed.starts_with('↳') || trimmed.starts_with('\u{1002c0}') || trimmed.starts_with('\u{10105b}');
    let continued = line.starts_with("  ") && !trimmed.is_empty();
    if detail || continued { Next::Part } else { Next::Beyond }
}

/// Lines of an assertion's message that XCTest prints after the first one.
fn assertion(so_far: &[String], line: &str) -> Next {
    let ends = ["Test Case '", "Test case '", "Test Suite '", "Executed ", "◇", "✔", "✘"];
    if ends.iter().any(|end| line.trim_start().starts_with(end)) || so_far.len() > 40 {
        return Next::Beyond;
    }
    let open = so_far.iter().flat_map(|line| line.chars()).filter(|c| matches!(c, '"')).count() % 2 == 1;
    let diff =
        line.starts_with(['+', '-', '−', ' ', '\t', '@', '"', ')', ']', '}']) && !line.trim().is_empty();
    if diff || open && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

fn xctest_name(draft: &mut Draft) {
    if let Some(test) = &mut draft.test {
        *test = test.trim_start_matches("-[").trim_end_matches(']').to_owned();
    }
}

/// `The following build commands failed:` and the indented list after it.
fn failed_commands(so_far: &[String], line: &str) -> Next {
    if line.starts_with('(') && line.ends_with(')') { Next::Last } else { indented(so_far, line) }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "xctest.started",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' started(?: at .*|\.)?$",
        acts: &[Act::Test(ToolId::XcTest, Started)],
    },
    Rule {
        name: "xctest.passed",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' passed (?:on '|\()",
        acts: &[Act::Test(ToolId::XcTest, Passed)],
    },
    Rule {
        name: "xctest.skipped",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' skipped (?:on '|\()",
        acts: &[Act::Test(ToolId::XcTest, Skipped)],
    },
    Rule {
        name: "xctest.failed",
        pattern: r"^.*Test [Cc]ase '(?P<t>[^']+)' failed (?:on '|\()",
        acts: &[
            Act::Test(ToolId::XcTest, Failed),
            Act::Problem(problem(ERROR, Kind::Test, 90).bare().refine(xctest_name)),
        ],
    },
    Rule {
        name: "xctest.expected",
        pattern: r"^(?P<f>[^:]+):(?P<l>\d+): (?:-\[.*\]|[\w.]+) : Expected failure",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "xctest.skip_reason",
        pattern: r"^(?P<f>/[^:]+):(?P<l>\d+): (?P<t>-\[.*?\]|[\w.]+) : Test skipped(?: - .*)?",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "xctest.assertion",
        pattern: r"^(?P<f>[^:]+):(?P<l>\d+): error: (?P<t>-\[.*?\]|[\w]+\.[\w.]+(?:\(\))?) : (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 95).follow(assertion).refine(xctest_name))],
    },
    Rule {
        name: "xctest.executed",
        pattern: r"^\s*Executed (?P<n>\d+) tests?, with (?:(?P<skipped>\d+) tests? skipped and )?(?P<failed>\d+) failures?",
        acts: &[Act::Partial(ToolId::XcTest, EXECUTED)],
    },
    Rule {
        name: "xctest.executed_failed",
        pattern: r"^\s*Executed \d+ tests?, with (?:\d+ tests? skipped and )?[1-9]\d* failures?",
        acts: &[Act::Sign(Sign::Failure(ToolId::XcTest)), Act::Summary],
    },
    Rule {
        name: "xctest.all_passed",
        pattern: r"^Test Suite '(?:All tests|Selected tests)' passed",
        acts: &[Act::Sign(Sign::Success(ToolId::XcTest)), Act::Summary],
    },
    Rule {
        name: "xctest.all_failed",
        pattern: r"^Test Suite '(?:All tests|Selected tests|.*\.xctest)' failed",
        acts: &[Act::Sign(Sign::Failure(ToolId::XcTest))],
    },
    Rule {
        name: "swift_testing.started",
        pattern: r"^(?:\xe2\x97\x87|\xf4\x80\x9f\x88|\xf4\x80\x80\x80|>) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) started\.$",
        acts: &[Act::Test(ToolId::SwiftTesting, Started)],
    },
    Rule {
        name: "swift_testing.passed",
        pattern: r"^(?:\xe2\x9c\x94|\xf4\x81\x81\x9b|\xe2\x9c\x93) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\))(?: with \d+ test cases?)? passed after ",
        acts: &[Act::Test(ToolId::SwiftTesting, Passed)],
    },
    Rule {
        name: "swift_testing.failed",
        pattern: r"^(?:\xe2\x9c\x98|\xf4\x80\xa2\x84|\xe2\x9c\x96|\xf4\x80\x80\xb3) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\))(?: with \d+ test cases?)? failed after [\d.]+ seconds",
        acts: &[Act::Test(ToolId::SwiftTesting, Failed), Act::Problem(problem(ERROR, Kind::Test, 90).bare())],
    },
    Rule {
        name: "swift_testing.skipped",
        pattern: r"^(?:\xe2\x9e\x9c|\xe2\x86\xb7|\xf4\x80\x99\x9f|\xf4\x81\x99\x8d) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) skipped",
        acts: &[Act::Test(ToolId::SwiftTesting, Skipped)],
    },
    Rule {
        name: "swift_testing.known_issue",
        pattern: r"^(?:\xe2\x9c\x98|\xc3\x97|\xf4\x80\xa2\x84) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) (?:with .*? )?recorded a known issue",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "swift_testing.expected",
        pattern: r"^\S+ +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) passed after .* with \d+ known issues?",
        acts: &[Act::Test(ToolId::SwiftTesting, ExpectedFailure)],
    },
    Rule {
        name: "swift_testing.issue",
        pattern: r"^(?:\xe2\x9c\x98|\xf4\x80\xa2\x84|\xe2\x9c\x96|\xf4\x80\x80\xb3) +Test (?P<t>\x22(?:[^\x22\\]|\\.)*\x22|`[^`]+`\([^)]*\)|[^\s\x22`]+\([^)]*\)) (?:with \d+ argument.*? )?recorded an issue(?: with \d+ arguments?.*?)?(?: at (?P<f>[^:]+):(?P<l>\d+):(?P<c>\d+))?: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 95).follow(details))],
    },
    Rule {
        name: "swift_testing.suite",
        pattern: r"^(?:\xe2\x9c\x98|\xf4\x80\xa2\x84) +Suite (?P<t>.+?) failed after",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "swift_testing.run_passed",
        pattern: r"^\S+ +Test run with (?P<n>\d+) tests?(?: in \d+ suites?)? passed after",
        acts: &[
            Act::Partial(ToolId::SwiftTesting, SWIFT_RUN),
            Act::Session(ToolId::SwiftTesting),
            Act::Sign(Sign::Success(ToolId::SwiftTesting)),
            Act::Summary,
        ],
    },
    Rule {
        name: "swift_testing.run_failed",
        pattern: r"^\S+ +Test run with (?P<n>\d+) tests?(?: in \d+ suites?)? failed after",
        acts: &[
            Act::Partial(ToolId::SwiftTesting, SWIFT_RUN_FAILED),
            Act::Session(ToolId::SwiftTesting),
            Act::Sign(Sign::Failure(ToolId::SwiftTesting)),
            Act::Summary,
        ],
    },
    Rule {
        name: "xcodebuild.succeeded",
        pattern: r"^\*\* (?P<u>BUILD|TEST|TEST BUILD|TEST EXECUTE|ARCHIVE|CLEAN|ANALYZE|INSTALL|EXPORT|DOCBUILD) SUCCEEDED \*\*",
        acts: &[
            Act::ActionResult,
            Act::Sign(Sign::Success(ToolId::Xcodebuild)),
            Act::Sign(Sign::Tool(ToolId::Xcodebuild)),
            Act::Summary,
        ],
    },
    Rule {
        name: "xcodebuild.failed",
        pattern: r"^\*\* (?P<u>BUILD|TEST|TEST BUILD|TEST EXECUTE|ARCHIVE|CLEAN|ANALYZE|INSTALL|EXPORT|DOCBUILD) (?:FAILED|INTERRUPTED) \*\*",
        acts: &[
            Act::ActionResult,
            Act::Sign(Sign::Failure(ToolId::Xcodebuild)),
            Act::Sign(Sign::Tool(ToolId::Xcodebuild)),
            Act::Summary,
        ],
    },
    Rule {
        // As xcpretty and xcbeautify have it. Their words of success may follow a failure of Swift Testing.
        name: "xcodebuild.formatted_failed",
        pattern: r"^(?:\xe2\x96\xb8 )?(?:Test|Build|Archive|Analyze|Clean) Failed$",
        acts: &[
            Act::Sign(Sign::Failure(ToolId::Xcodebuild)),
            Act::Sign(Sign::Tool(ToolId::Xcodebuild)),
            Act::Summary,
        ],
    },
    Rule {
        name: "xcpretty.error",
        pattern: r"^\xe2\x9d\x8c +(?P<f>/[^:]+):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 94).follow(indented_or_blank))],
    },
    Rule {
        name: "fastlane.failed",
        pattern: r"^fastlane finished with errors$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Fastlane)), Act::Summary],
    },
    Rule {
        // SwiftPM 6, of the process that ran the tests.
        name: "swiftpm.died",
        pattern: r"^error: Process '.*' exited with unexpected signal code (?P<sig>\d+)$",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 93)),
            Act::Sign(Sign::Crash(Indicator::TestRunnerCrashed)),
            Act::Sign(Sign::Crash(Indicator::ChildDied(""))),
        ],
    },
    Rule {
        name: "xcodebuild.error",
        pattern: r"^(?:\S+ )?xcodebuild(?:\[[\d:]+\])?:? ?error: (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 95).follow(indented_or_blank)),
            Act::Sign(Sign::Failure(ToolId::Xcodebuild)),
            Act::Sign(Sign::Tool(ToolId::Xcodebuild)),
        ],
    },
    Rule {
        name: "xcodebuild.tool",
        pattern: r"^(?:Command line invocation:|Build settings from command line:|User defaults from command line:|\S+ xcodebuild\[\d+:\d+\])",
        acts: &[Act::Sign(Sign::Tool(ToolId::Xcodebuild))],
    },
    Rule {
        name: "xcodebuild.begins",
        pattern: r"^Command line invocation:$",
        acts: &[Act::Sign(Sign::Begins(ToolId::Xcodebuild))],
    },
    Rule {
        name: "xcodebuild.invocation",
        pattern: r"^\s+(?:/\S+/)?xcodebuild (?P<m>\S.*)$",
        acts: &[Act::XcodebuildCommand],
    },
    Rule {
        name: "xcodebuild.command_died",
        pattern: r"^Command (?P<m>\S+) failed due to signal",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 72))],
    },
    Rule {
        // The command's own words are above it.
        name: "xcodebuild.command",
        pattern: r"^Command (?P<m>\S+) (?:failed with a nonzero exit code|emitted errors but did not return)",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 60))],
    },
    Rule {
        name: "xcodebuild.no_archive",
        pattern: r"^(?:xcodebuild: )?error: archive not found at path ",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 60)),
            Act::Sign(Sign::Failure(ToolId::Xcodebuild)),
            Act::Summary,
        ],
    },
    Rule {
        name: "swift.command",
        pattern: r"^error: (?:emit-module|compile|merge-module|link) command failed with exit code",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 55)), Act::Sign(Sign::Failure(ToolId::Swift))],
    },
    Rule {
        name: "xcodebuild.commands",
        pattern: r"^The following build commands failed:",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 60).follow(failed_commands))],
    },
    Rule {
        name: "xcodebuild.failing_tests",
        pattern: r"^Failing tests:",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 69).follow(indented))],
    },
    Rule {
        name: "xcodebuild.database_locked",
        pattern: r"^(?:error: )?(?:unable to attach DB|.*build\.db.*): (?:error: )?.*(?:database is locked|locked database)",
        acts: &[Act::Problem(problem(ERROR, Kind::Infrastructure, 95))],
    },
    Rule {
        name: "xcodebuild.destination",
        pattern: r"^(?:xcodebuild: error: )?(?:Unable to find a (?:destination|device) matching|Failed to build workspace .* with scheme|Timed out waiting for all destinations)",
        acts: &[Act::Problem(problem(ERROR, Kind::Infrastructure, 88).follow(indented_or_blank))],
    },
    Rule {
        name: "xcodebuild.testing_failed",
        pattern: r"^Testing failed:",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Test, 75).follow(indented)),
            Act::Sign(Sign::Failure(ToolId::Xcodebuild)),
        ],
    },
    Rule {
        name: "simulator.launch",
        pattern: r"^.*(?:Failed to install or launch the test runner|Failed to background test runner|Timed out registering for testing event|Failed to launch app|Unable to (?:boot|lookup in current state)|The device .* (?:could not be|is not available))",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Infrastructure, 85)),
            Act::Sign(Sign::Crash(Indicator::RunnerNotLaunched)),
        ],
    },
    Rule {
        name: "simulator.boot",
        pattern: r"^.*(?:Failed to boot simulator|Simulator (?:device )?failed to boot|\bSimulator(?: .{0,60})? timed out\b|Unable to boot (?:the )?[Ss]imulator)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Infrastructure, 85)),
            Act::Sign(Sign::Crash(Indicator::SimulatorBootTimeout)),
        ],
    },
    Rule {
        name: "runner.restarted",
        pattern: r"^\s*Restarting after unexpected exit, crash, or test timeout(?: in (?P<t>.+?))?; summary will include",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 92)),
            Act::Sign(Sign::Crash(Indicator::RestartedAfterCrash)),
            Act::Sign(Sign::Tool(ToolId::Xcodebuild)),
        ],
    },
    Rule {
        name: "runner.crashed",
        pattern: r"^.*(?:[Tt]est runner .{0,80}crashed|The test runner (?:crashed|hung|exited|timed out)|Testing failed.{0,80}crashed|Test crashed with signal)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 92)),
            Act::Sign(Sign::Crash(Indicator::TestRunnerCrashed)),
        ],
    },
    Rule {
        name: "runner.process_crashed",
        pattern: r"^.*Test process crashed",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 90)),
            Act::Sign(Sign::Crash(Indicator::TestProcessCrashed)),
        ],
    },
    Rule {
        name: "runner.early_exit",
        pattern: r"^.*(?:Early unexpected exit|operation never finished bootstrapping)",
        acts: &[Act::Problem(problem(FATAL, Kind::Crash, 90)), Act::Sign(Sign::Crash(Indicator::EarlyExit))],
    },
    Rule {
        name: "runner.never_began",
        pattern: r"^.*(?:Test runner never began executing tests|never began testing)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Infrastructure, 88)),
            Act::Sign(Sign::Crash(Indicator::NeverBeganTesting)),
        ],
    },
    Rule {
        name: "runner.bundle",
        pattern: r"^.*(?:Failed to load the test bundle|The bundle .{0,200} couldn.{1,3}t be loaded)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 88)),
            Act::Sign(Sign::Crash(Indicator::BundleLoadFailed)),
        ],
    },
    Rule {
        name: "runner.error",
        pattern: r"^.*\S+ \(\d+\) encountered an error \((?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Infrastructure, 80)),
            Act::Sign(Sign::Crash(Indicator::RunnerError)),
        ],
    },
    Rule {
        name: "runner.connection",
        pattern: r"^.*(?:Connection interrupted|Connection with the remote side was unexpectedly closed|lost connection to (?:the )?test ?manager|Lost connection to testmanagerd)",
        acts: &[Act::Sign(Sign::Crash(Indicator::ConnectionInterrupted))],
    },
    Rule {
        name: "swiftpm.failed",
        pattern: r"^(?:error: (?:fatalError|Build failed|terminated\(\d+\)).*|Build failed)$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 50)),
            Act::Sign(Sign::Failure(ToolId::Swift)),
            Act::Summary,
        ],
    },
    Rule {
        name: "swift.fatal",
        pattern: r"^(?:(?P<f>[^:\s][^:]*):(?P<l>\d+): )?(?:Fatal error|Precondition failed|Assertion failed|Simultaneous accesses)(?:: (?P<m>.*)|$)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 95).follow(indented)),
            Act::Sign(Sign::Crash(Indicator::FatalError)),
        ],
    },
    Rule {
        name: "swift.fatal_in_line",
        pattern: r"^(?:\S+\[[\d:]+\]:? )?(?:\S+/)?(?P<f>[\w+-]+\.swift):(?P<l>\d+): (?:Fatal error|Precondition failed|Assertion failed)",
        acts: &[Act::Problem(problem(FATAL, Kind::Crash, 95)), Act::Sign(Sign::Crash(Indicator::FatalError))],
    },
    Rule {
        name: "objc.exception",
        pattern: r"^.*\*\*\* Terminating app due to uncaught exception",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 95).follow(indented_or_blank)),
            Act::Sign(Sign::Crash(Indicator::UncaughtException)),
        ],
    },
    Rule {
        name: "swiftpm.signal",
        pattern: r"^(?:error: )?Exited with (?:unexpected )?signal code (?P<sig>\d+)",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 93)),
            Act::Sign(Sign::Crash(Indicator::ChildDied(""))),
        ],
    },
    Rule {
        name: "swift.compiler_crash",
        pattern: r"^(?:error: (?:compile|emit-module|merge-module|fatal error encountered|swift-frontend).{0,40}(?:command )?failed due to signal|Please submit a bug report \(https://swift|<unknown>:0: error: fatal error encountered|Stack dump:$)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90).follow(indented))],
    },
    Rule {
        name: "swiftpm.complete",
        pattern: r"^Build complete!",
        acts: &[Act::Sign(Sign::Success(ToolId::Swift)), Act::Summary],
    },
    Rule {
        name: "apple.code_sign",
        pattern: r"^(?:error: )?(?:No (?:signing certificate|profiles? for|account for team)|Provisioning profile .* (?:doesn|has expired)|Code ?[Ss]ign(?:ing)? (?:error|Error)|Signing for .* requires|errSecInternalComponent)",
        acts: &[Act::Problem(problem(ERROR, Kind::Infrastructure, 88))],
    },
    Rule {
        name: "apple.unplaced",
        pattern: r"^(?P<f>/[^:]*): (?P<s>error|warning): (?P<m>.*)",
        acts: &[Act::Problem(problem(super::Level::Word, Kind::Build, 88).follow(indented))],
    },
    Rule {
        name: "apple.targets",
        pattern: r"^(?:.*\(in target '.*' from project '.*'\)|error: .*): error: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 88))],
    },
    Rule {
        name: "swift.macro",
        pattern: r"^(?:.*: )?(?:error: )?(?P<m>Macro \S+ from package .* must be enabled before it can be used|Target .* must be enabled before it can be used|Could not resolve package dependencies:.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90).follow(indented))],
    },
    Rule {
        name: "apple.runtime",
        pattern: r"^(?P<f>[^:\s][^:]*):(?P<l>\d+): runtime: (?P<m>.*)",
        acts: &[Act::Problem(problem(WARNING, Kind::Runtime, 50))],
    },
];
