//! Output of webpack.

use crate::rules::{ERROR, Effect, Kind, Marker, Rule, paragraph, problem};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool =
    Tool { apart: Apart::Always, builds: true, rules: RULES, ..Tool::named("webpack") };

const RULES: &[Rule] = &[
    Rule {
        name: "webpack.error",
        pattern: r"^ERROR in (?P<f>\S+?)(?:[ :](?P<l>\d+):(?P<c>\d+).*)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 93).follow(paragraph))],
    },
    Rule {
        name: "webpack.compiled",
        pattern: r"^webpack(?: [\d.]+)? compiled with (?P<n>[1-9]\d*) errors?",
        effects: &[Effect::Marker(Marker::Failure(ToolId::Webpack)), Effect::Summary],
    },
    Rule {
        name: "webpack.compiled_ok",
        pattern: r"^webpack(?: [\d.]+)? compiled (?:successfully|with \d+ warnings?)",
        effects: &[Effect::Marker(Marker::Success(ToolId::Webpack)), Effect::Summary],
    },
];
