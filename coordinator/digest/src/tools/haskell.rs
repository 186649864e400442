//! Output of Haskell.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, indented, problem, set_place};
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

const RULES: &[Rule] = &[
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
