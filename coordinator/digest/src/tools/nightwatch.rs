//! Output of Nightwatch.

use crate::rules::{Effect, Rule};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { runs_tests: true, commands: &["nightwatch"], rules: RULES, ..Tool::named("Nightwatch") };

const RULES: &[Rule] = &[Rule {
    // Of the whole run. `FAILED:` of a test case also comes before the case runs again.
    name: "nightwatch.bad",
    pattern: r"^ *TEST FAILURE: +\d+ (?:errors?|assertions?|tests?) (?:during execution|failed)\b.*\(.*\)$",
    effects: &[Effect::Failure, Effect::Summary],
}];
