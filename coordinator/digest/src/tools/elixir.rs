//! Output of Elixir.

use super::dotnet::stack;
use crate::rules::{Act, Draft, ERROR, Kind, Rule, paragraph, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Elixir") };

/// The first frame of the program's own: `(app 0.1.0) lib/app.ex:12: App.load/0`.
fn elixir_frame(draft: &mut Draft) {
    let places: Vec<String> = draft
        .lines
        .iter()
        .skip(1)
        .flat_map(|line| line.split_whitespace())
        .filter(|word| word.contains(".ex"))
        .map(str::to_owned)
        .collect();
    let _found = places.iter().any(|place| set_place(draft, place));
}

/// The message and its place, and the file of the heading without them.
fn compilation(draft: &mut Draft) {
    let file = draft.file.clone();
    elixir_frame(draft);
    draft.file = draft.file.take().or(file);
    draft.head = draft.lines.iter().position(|line| line.trim_start().starts_with("** ("));
    if draft.lines.iter().any(|line| line.ends_with("(errors have been logged)")) {
        draft.kind = Some(Kind::Consequence);
    }
}

/// An exception, with its first own frame. An error of the compiler has the place in front.
fn exception(draft: &mut Draft) {
    elixir_frame(draft);
    let first = draft.first().trim_start().to_owned();
    let is_of_compiler =
        ["CompileError)", "SyntaxError)", "TokenMissingError)"].iter().any(|name| first.contains(name));
    if is_of_compiler {
        let place = first.split_once(") ").and_then(|(_, said)| said.split(": ").next());
        let _placed = place.is_some_and(|place| set_place(draft, place));
        draft.kind = Some(Kind::Build);
    }
}

/// A script that `elixir` runs ends with an exception.
fn is_of_script(draft: &Draft) -> bool {
    draft.lines.iter().any(|line| line.contains("Code.require_file/2"))
}

const RULES: &[Rule] = &[
    Rule {
        name: "elixir.compilation",
        pattern: r"^== Compilation error in file (?P<f>\S+) ==$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90).follow(paragraph).owning().refine(compilation))],
    },
    Rule {
        name: "elixir.logged",
        pattern: r"^\s{0,5}\*\* \(CompileError\) .*\(errors have been logged\)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 60)), Act::Alone],
    },
    Rule {
        name: "elixir.exception",
        pattern: r"^\s{0,5}\*\* \([A-Z][\w. #<>]*\) (?P<m>.*)",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Runtime, 88).follow(stack).refine(exception).ended(is_of_script),
        )],
    },
];
