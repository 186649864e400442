//! Output of zope.testrunner.

use crate::rules::{Effect, Rule, TOTAL};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("zope.testrunner") };

const RULES: &[Rule] = &[
    Rule {
        // One of each layer.
        name: "zope.layer",
        pattern: r"^  Ran (?P<n>\d+) tests with (?P<failed>\d+) failures(?:, | and )(?P<errors>\d+) errors(?: and (?P<skipped>\d+) skipped)? in (?:\d+ \w+ )*[\d.]+ seconds\.$",
        effects: &[Effect::Adds(TOTAL), Effect::Summary],
    },
    Rule {
        // Of all layers, where there were more than one.
        name: "zope.total",
        pattern: r"^Total: (?P<n>\d+) tests, (?P<failed>\d+) failures(?:, | and )(?P<errors>\d+) errors(?: and (?P<skipped>\d+) skipped)? in (?:\d+ \w+ )*[\d.]+ seconds\.$",
        effects: &[Effect::Counts(TOTAL), Effect::Session, Effect::Summary],
    },
];
