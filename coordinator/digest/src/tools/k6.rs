//! Output of k6.

use crate::rules::{ERROR, Effect, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("k6") };

const RULES: &[Rule] = &[
    Rule {
        name: "k6.thresholds",
        pattern: r#"^(?:(?:time="[^"]*" )?level=error msg="|ERRO\[\d+\] )thresholds on metrics '(?P<m>[^']+)' (?:have been|were) crossed"#,
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 92)), Effect::Failure, Effect::Summary],
    },
    Rule {
        // A metric of the summary. The list of thresholds at the end decides.
        name: "k6.metric",
        pattern: r"^ *\xe2\x9c\x97 (?:\{ )?\w[\w:{} ]*\.{3,}: ",
        effects: &[Effect::Harmless, Effect::Alone],
    },
];
