//! Output of GNAT and of the programs that it compiles.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Rule, always, problem};
use crate::tool::Tool;
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool = Tool {
    commands: &["gnatmake", "gprbuild", "gnat", "alr"],
    builds: true,
    rules: RULES,
    ..Tool::named("GNAT")
};

/// GNAT prints errors without a severity word, and style checks and notes with one.
fn by_word(diagnostic: &mut Diagnostic) {
    let text = diagnostic.after_place();
    let is_note = ["info: ", "note: ", "(style)", "remark: "].iter().any(|word| text.starts_with(word));
    if is_note {
        diagnostic.severity = Some(Severity::Info);
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "ada.raised",
        pattern: r"^raised (?:[A-Z]\w*\.)*[A-Z]\w+ : (?:(?P<f>[^\s:]+\.ad[abs]):(?P<l>\d+) )?(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 90).ended(always))],
    },
    Rule {
        name: "ada.error",
        pattern: r"^(?P<f>[^\s:]+\.(?:ad[abs]|gpr)):(?P<l>\d+):(?P<c>\d+): (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).refine(by_word))],
    },
    Rule {
        name: "ada.driver",
        pattern: r"^(?:gprbuild|gnatmake|gnatbind|gnatlink|gprinstall|gprclean|gprconfig|gnatprove): (?P<m>(?:\*\*\* .* failed|.* (?:processing failed|compilation error|not found\b.*|compilation failed.*))\.?)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 75)), Effect::Failure, Effect::Summary],
    },
];
