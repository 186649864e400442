//! What kubectl and kubeconform print about an object.

use crate::rules::{ERROR, Effect, Fails, Kind, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool =
    Tool { commands: &["kubectl", "kubeconform"], rules: RULES, ..Tool::named("Kubernetes") };

const RULES: &[Rule] = &[
    Rule {
        name: "kubernetes.invalid",
        pattern: r#"^The [A-Z]\w+ "[^"]+" is invalid: (?P<m>.*)"#,
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 90).fails(Fails::Always))],
    },
    Rule {
        name: "kubernetes.schema",
        pattern: r"^(?P<f>\S+\.\w{1,5}) - (?:[A-Z]\w+ \S+ is invalid|failed validation): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Lint, 90).fails(Fails::Always))],
    },
    Rule {
        name: "kubernetes.helm",
        pattern: r"^(?:Error: )?(?:INSTALLATION|UPGRADE|ROLLBACK) FAILED\b",
        effects: &[Effect::Failure],
    },
];
