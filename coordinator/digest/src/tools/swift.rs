//! Output of swift build.

use crate::rules::{ERROR, Effect, FATAL, Indicator, Kind, Marker, Rule, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("swift build") };

pub(super) const TEST: Tool = Tool { runs_tests: true, ..Tool::named("swift test") };

const RULES: &[Rule] = &[
    Rule {
        // SwiftPM 6, of the process that ran the tests.
        name: "swiftpm.died",
        pattern: r"^error: Process '.*' exited with unexpected signal code (?P<sig>\d+)$",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 93)),
            Effect::Marker(Marker::Crash(Indicator::TestRunnerCrashed)),
            Effect::Marker(Marker::Crash(Indicator::ChildDied(""))),
        ],
    },
    Rule {
        name: "swift.command",
        pattern: r"^error: (?:emit-module|compile|merge-module|link) command failed with exit code",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 55)),
            Effect::Marker(Marker::Failure(ToolId::Swift)),
        ],
    },
    Rule {
        name: "swiftpm.failed",
        pattern: r"^(?:error: (?:fatalError|Build failed|terminated\(\d+\)).*|Build failed)$",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 50)),
            Effect::Marker(Marker::Failure(ToolId::Swift)),
            Effect::Summary,
        ],
    },
    Rule {
        name: "swift.fatal",
        pattern: r"^(?:(?P<f>[^:\s][^:]*):(?P<l>\d+): )?(?:Fatal error|Precondition failed|Assertion failed|Simultaneous accesses)(?:: (?P<m>.*)|$)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 95).follow(indented)),
            Effect::Marker(Marker::Crash(Indicator::FatalError)),
        ],
    },
    Rule {
        name: "swift.fatal_in_line",
        pattern: r"^(?:\S+\[[\d:]+\]:? )?(?:\S+/)?(?P<f>[\w+-]+\.swift):(?P<l>\d+): (?:Fatal error|Precondition failed|Assertion failed)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 95)),
            Effect::Marker(Marker::Crash(Indicator::FatalError)),
        ],
    },
    Rule {
        name: "swiftpm.signal",
        pattern: r"^(?:error: )?Exited with (?:unexpected )?signal code (?P<sig>\d+)",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 93)),
            Effect::Marker(Marker::Crash(Indicator::ChildDied(""))),
        ],
    },
    Rule {
        name: "swift.compiler_crash",
        pattern: r"^(?:error: (?:compile|emit-module|merge-module|fatal error encountered|swift-frontend).{0,40}(?:command )?failed due to signal|Please submit a bug report \(https://swift|<unknown>:0: error: fatal error encountered|Stack dump:$)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(indented))],
    },
    Rule {
        name: "swiftpm.complete",
        pattern: r"^Build complete!",
        effects: &[Effect::Marker(Marker::Success(ToolId::Swift)), Effect::Summary],
    },
    Rule {
        name: "swift.macro",
        pattern: r"^(?:.*: )?(?:error: )?(?P<m>Macro \S+ from package .* must be enabled before it can be used|Target .* must be enabled before it can be used|Could not resolve package dependencies:.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90).follow(indented))],
    },
];
