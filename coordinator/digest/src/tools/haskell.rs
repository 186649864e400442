//! Output of Haskell.

use super::lint_reports::not_informal;
use crate::rules::{Diagnostic, ERROR, Effect, Fails, Kind, Level, Next, Rule, indented, problem, set_place};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Haskell") };

fn names_a_program(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(program, _)| !program.is_empty() && !program.contains(' '))
}

/// `app: A.hs:3:1-20: Non-exhaustive patterns in function f`
fn in_source(diagnostic: &mut Diagnostic) {
    let place = diagnostic.first().split(": ").nth(1).filter(|place| place.contains(".hs:"));
    let place = place.map(|place| place.rsplit_once('-').map_or(place, |(start, _)| start).to_owned());
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

/// The call stack below the message.
fn stack(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && line == "CallStack (from HasCallStack):" {
        Next::Part
    } else {
        indented(so_far, line)
    }
}

/// hlint's `Found:` and `Perhaps:` with their indented lines.
fn hint(so_far: &[String], line: &str) -> Next {
    let is_title = ["Found:", "Perhaps:", "Why not remove it."].contains(&line) || line.starts_with("Note: ");
    if (is_title || line.starts_with("  ")) && so_far.len() < 20 { Next::Part } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        // hlint fails after a suggestion, too.
        name: "haskell.hint",
        pattern: r"^(?P<f>[^\s:]+\.l?hs):(?P<l>\d+)(?::(?P<c>\d+))?(?:-\d+)?: (?P<s>Suggestion|Warning|Error): (?P<m>[A-Z].*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Lint, 88).follow(hint).refine(not_informal).fails(Fails::Always),
        )],
    },
    Rule {
        name: "cabal.error",
        pattern: r"^(?:dieVerbatim: user error \(cabal: (?P<m>.*)|No cabal\.project file or cabal file matching .* was found\.|(?:Error: )?\[?cabal(?:-[\d.]+)?[:\]] .*(?:There is no <pkgname>\.cabal|Could not resolve dependencies|No targets given|no package index|does not exist).*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88).follow(indented).fails(Fails::Always))],
    },
    Rule {
        name: "haskell.exception",
        pattern: r"^CallStack \(from HasCallStack\):$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 82).follow(indented).lead(names_a_program))],
    },
    Rule {
        // An exception that ends a program: `app: Prelude.head: empty list`
        name: "haskell.uncaught",
        pattern: r"^[\w.+-]+: (?P<m>Prelude\.[\w.!]+: .*|Map\.!: .*|<<loop>>|thread blocked indefinitely in .*|user error \(.*\)|(?:arithmetic overflow|divide by zero|stack overflow|heap overflow)|[^\s:]+\.hs:\d+:\d+(?:-\d+)?: Non-exhaustive .*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 82).follow(stack).owning().refine(in_source),
        )],
    },
];
