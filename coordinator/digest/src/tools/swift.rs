//! Output of swift build.

use crate::rules::{Act, ERROR, FATAL, Indicator, Kind, Rule, Sign, indented, problem};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("swift build") };

const RULES: &[Rule] = &[
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
        name: "swift.command",
        pattern: r"^error: (?:emit-module|compile|merge-module|link) command failed with exit code",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 55)), Act::Sign(Sign::Failure(ToolId::Swift))],
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
        name: "swift.macro",
        pattern: r"^(?:.*: )?(?:error: )?(?P<m>Macro \S+ from package .* must be enabled before it can be used|Target .* must be enabled before it can be used|Could not resolve package dependencies:.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90).follow(indented))],
    },
];
