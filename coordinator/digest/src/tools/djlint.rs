//! Output of djLint.

use crate::rules::{Effect, Fails, Kind, Level, Rule, problem};
use crate::tool::{Apart, Tool};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::Always, lints: true, rules: RULES, ..Tool::named("djlint") };

const RULES: &[Rule] = &[
    Rule {
        name: "djlint.file",
        pattern: r"^(?P<f>[^\s:]+\.(?:html?|j2|jinja2?|hbs|njk|twig|tmpl|mustache))$",
        effects: &[Effect::File],
    },
    Rule {
        name: "djlint.row",
        pattern: r"^(?P<k>[A-Z]\d{3}) (?P<l>\d+):(?P<c>\d+) (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 86).in_file().fails(Fails::AtEnd))],
    },
    Rule {
        name: "djlint.total",
        pattern: r"^(?:Linted \d+ files?, found [1-9]\d* errors?\.)$",
        effects: &[Effect::Failure, Effect::Summary, Effect::Harmless],
    },
];
