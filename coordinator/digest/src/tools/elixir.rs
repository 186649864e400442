//! Output of Elixir.

use super::dotnet::stack;
use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Next, Rule, WARNING, paragraph, problem, set_place,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Elixir") };

/// Applications of Elixir and Erlang in frames: `(elixir 1.14.0) lib/code.ex:422: …`.
const FOREIGN: &[&str] =
    &["elixir ", "mix ", "ex_unit ", "eex ", "iex ", "logger ", "stdlib ", "kernel ", "compiler ", "erts "];

/// The first frame of the program's own: `(app 0.1.0) lib/app.ex:12: App.load/0`.
fn elixir_frame(diagnostic: &mut Diagnostic) {
    let is_foreign = |line: &&String| {
        FOREIGN
            .iter()
            .any(|app| line.trim_start().strip_prefix('(').is_some_and(|rest| rest.starts_with(app)))
    };
    let places: Vec<String> = diagnostic
        .lines
        .iter()
        .skip(1)
        .filter(|line| !is_foreign(line))
        .flat_map(|line| line.split_whitespace())
        .filter(|word| word.contains(".ex"))
        .map(str::to_owned)
        .collect();
    let _found = places.iter().any(|place| set_place(diagnostic, place));
}

/// The message and its place, and the file of the heading without them.
fn compilation(diagnostic: &mut Diagnostic) {
    let file = diagnostic.file.clone();
    elixir_frame(diagnostic);
    diagnostic.file = diagnostic.file.take().or(file);
    diagnostic.head = diagnostic.lines.iter().position(|line| line.trim_start().starts_with("** ("));
    if diagnostic.lines.iter().any(|line| line.ends_with("(errors have been logged)")) {
        diagnostic.kind = Some(Kind::Consequence);
    }
}

/// An exception, with its first own frame. An error of the compiler has the place in front.
fn exception(diagnostic: &mut Diagnostic) {
    elixir_frame(diagnostic);
    let first = diagnostic.first().trim_start().to_owned();
    let is_of_compiler =
        ["CompileError)", "SyntaxError)", "TokenMissingError)"].iter().any(|name| first.contains(name));
    if is_of_compiler {
        let place = first.split_once(") ").and_then(|(_, said)| said.split(": ").next());
        let _placed = place.is_some_and(|place| set_place(diagnostic, place));
        diagnostic.kind = Some(Kind::Build);
    }
}

/// The text of dialyzer's warning, up to its line.
fn below(so_far: &[String], line: &str) -> Next {
    if line.starts_with("____") || so_far.len() > 20 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

fn says_below(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = diagnostic.lines.len() == 1;
    diagnostic.head = Some(1);
}

/// The files that `mix format` would change, below their heading.
fn listed_files(so_far: &[String], line: &str) -> Next {
    let is_heading = so_far.len() == 1 && line.ends_with(':');
    if line.trim().is_empty() {
        Next::Maybe
    } else if (is_heading || line.starts_with("  * ")) && so_far.len() < 40 {
        Next::Part
    } else {
        Next::Beyond
    }
}

fn first_file(diagnostic: &mut Diagnostic) {
    let mut files = diagnostic.lines.iter().filter_map(|line| line.trim_start().strip_prefix("* "));
    diagnostic.file = files.next().map(str::to_owned);
}

/// A script that `elixir` runs ends with an exception.
fn is_of_script(diagnostic: &Diagnostic) -> bool {
    diagnostic.lines.iter().any(|line| line.contains("Code.require_file/2"))
}

const RULES: &[Rule] = &[
    Rule {
        name: "elixir.compilation",
        pattern: r"^== Compilation error in file (?P<f>\S+) ==$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 90).follow(paragraph).owning().refine(compilation),
        )],
    },
    Rule {
        name: "elixir.dialyzer",
        pattern: r"^(?P<f>\S+\.exs?):(?P<l>\d+)(?::(?P<c>\d+))?:(?P<k>[a-z]+(?:_[a-z]+)+)$",
        effects: &[Effect::Problem(
            problem(WARNING, Kind::Lint, 88).follow(below).refine(says_below).fails(Fails::Always),
        )],
    },
    Rule {
        name: "elixir.logged",
        pattern: r"^\s{0,5}\*\* \(CompileError\) .*\(errors have been logged\)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60)), Effect::Alone],
    },
    Rule {
        name: "elixir.format",
        pattern: r"^\*\* \(Mix\) (?P<m>mix format failed due to --(?:check-formatted|dry-run).*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Lint, 90)
                .follow(listed_files)
                .owning()
                .refine(first_file)
                .fails(Fails::Always),
        )],
    },
    Rule {
        name: "elixir.warnings",
        pattern: r"^Compilation failed due to warnings while using the --warnings-as-errors option$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 60).fails(Fails::Always))],
    },
    Rule {
        name: "elixir.exception",
        pattern: r"^\s{0,5}\*\* \([A-Z][\w. #<>]*\) (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 88).follow(stack).refine(exception).ended(is_of_script),
        )],
    },
];
