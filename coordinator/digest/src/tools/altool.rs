//! Output of Apple's altool, which uploads applications.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { judges_by_itself: true, rules: RULES, ..Tool::named("altool") };

const RULES: &[Rule] = &[
    Rule {
        // The service's own error follows.
        name: "altool.package",
        pattern: r"^(?:\d\S+ \d\S+ +)?ERROR: \[altool\.\w+\] Failed to upload package",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60))],
    },
    Rule {
        name: "altool.error",
        pattern: r"^(?:\d\S+ \d\S+ +)?ERROR: \[(?:altool|ContentDelivery\.\w+)\.\w+\] (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90))],
    },
    // It repeats the error of the service.
    Rule {
        name: "altool.failed",
        pattern: r"^(?:\d\S+ \d\S+ +)?\*\*\* Error: (?:Error uploading|Unable to |Failed to |Asset validation failed|.*\(-?\d{3,}\)$)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 80)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "altool.result_bad",
        pattern: r"^(?:UPLOAD|VERIFY|VALIDATION) FAILED with \d+ errors?",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "altool.result_good",
        pattern: r"^(?:(?:UPLOAD|VERIFY|VALIDATION) SUCCEEDED with no errors|No errors (?:uploading|validating) )",
        effects: &[Effect::Success, Effect::Summary],
    },
];
