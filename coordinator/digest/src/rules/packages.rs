//! npm, yarn, pnpm, pip, bundler, git, docker, nix.

use super::{Act, Draft, ERROR, Kind, Next, Rule, Sign, WARNING, indented, indented_or_blank, problem};
use crate::tool::ToolId;

fn same_mark(so_far: &[String], line: &str) -> Next {
    let mark = so_far[0].split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    if line.starts_with(mark.as_str()) && so_far.len() < 30 { Next::Part } else { Next::Beyond }
}

/// That a script failed follows from the output of the script, which is above it, unless npm repeats that here.
fn script_failed(draft: &mut Draft) {
    let says = |text: &str| draft.lines.iter().any(|line| line.contains(text));
    let is_script = says("ELIFECYCLE") || says("Lifecycle script") || says(" command failed");
    if is_script && !says("gyp ERR!") && !says("rror: ") {
        draft.kind = Some(Kind::Consequence);
    }
    let chatter =
        ["A complete log of this run", "To see a list of scripts", "This is probably not a problem"];
    draft.lines.retain(|line| !chatter.iter().any(|text| line.contains(text)));
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "npm.error",
        pattern: r"^npm (?:ERR!|error)(?: (?P<m>.*))?$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 88).follow(same_mark).refine(script_failed)),
            Act::Sign(Sign::Failure(ToolId::Npm)),
        ],
    },
    Rule {
        name: "npm.warning",
        pattern: r"^npm (?:WARN|warn) (?P<m>.*)",
        acts: &[Act::Problem(problem(WARNING, Kind::Build, 40))],
    },
    Rule {
        name: "npm.added",
        pattern: r"^(?:added|changed|removed|up to date)\b.* packages? in [\d.]+m?s",
        acts: &[Act::Sign(Sign::Success(ToolId::Npm)), Act::Summary],
    },
    Rule {
        name: "pnpm.error",
        pattern: r"^\s?(?:\xe2\x80\x89)?ERR_PNPM_\w+(?:\xe2\x80\x89)?\s+(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90)), Act::Sign(Sign::Failure(ToolId::Pnpm))],
    },
    Rule {
        name: "yarn.error",
        pattern: r"^(?:error (?P<m>(?:An unexpected error|Command failed|Couldn't find|Your lockfile|Failed to|Integrity|Package|Found incompatible).*)|\xe2\x9e\xa4 YN\d{4}: .*(?:Failed|Error|error).*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 85).follow(indented)),
            Act::Sign(Sign::Failure(ToolId::Yarn)),
        ],
    },
    Rule {
        name: "pip.error",
        pattern: r"^ERROR: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 86).follow(indented))],
    },
    Rule {
        name: "pip.installed",
        pattern: r"^Successfully installed ",
        acts: &[Act::Sign(Sign::Success(ToolId::Pip)), Act::Summary],
    },
    Rule {
        name: "git.conflict",
        pattern: r"^CONFLICT \(.*\): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 92))],
    },
    Rule {
        name: "git.automatic",
        pattern: r"^Automatic merge failed",
        acts: &[Act::Sign(Sign::Failure(ToolId::Git)), Act::Summary],
    },
    Rule {
        name: "git.fatal",
        pattern: r"^fatal: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88))],
    },
    Rule {
        name: "docker.daemon",
        pattern: r"^(?:docker: )?Error response from daemon: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Infrastructure, 90))],
    },
    Rule {
        name: "docker.build",
        pattern: r"^(?:ERROR: failed to (?:solve|build)|failed to solve): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 92)), Act::Sign(Sign::Failure(ToolId::Docker))],
    },
    Rule {
        name: "nix.error",
        pattern: r"^error: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 88).follow(indented_or_blank))],
    },
    Rule {
        name: "nix.trace",
        pattern: r"^error:$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 80).follow(indented_or_blank))],
    },
];
