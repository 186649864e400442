//! Output of compiler.

use crate::rules::{Effect, FATAL, Indicator, Kind, Problem, Rule, indented, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("compiler") };

pub(super) const DIED: Problem = problem(FATAL, Kind::Crash, 93);

/// A tool reports the death of its process, with the signal in group `sig` if the line names one.
pub(super) const CHILD_DIED: Effect = Effect::Crash(Indicator::ChildDied(""));

const RULES: &[Rule] = &[
    Rule {
        name: "compiler.part_died",
        pattern: concat!(
            r"^(?:[\w./+-]*/)?[\w.+-]+: (?:(?:internal compiler |fatal )?error: )?(?P<sig>",
            words!(),
            r") (?:signal terminated program |\(program )[\w.+-]+"
        ),
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "compiler.linker_died",
        pattern: r"^(?:[\w./+-]*/)?collect2(?:\.exe)?: (?:fatal )?error: ld terminated with signal (?P<sig>\d+)",
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "compiler.clang_part_died",
        pattern: concat!(
            r"^(?:[\w./+-]*/)?clang(?:\+\+)?(?:-[\d.]+)?: error: (?:unable to execute command: (?P<sig>",
            words!(),
            r")|(?:clang frontend|linker) command failed due to signal)"
        ),
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "compiler.rustc_died",
        pattern: r"^error: (?:rustc interrupted by (?P<sig>SIG[A-Z]+)|the compiler unexpectedly panicked)",
        effects: &[Effect::Problem(DIED.follow(indented)), CHILD_DIED],
    },
    Rule {
        name: "compiler.linker_signal",
        pattern: r"^error: linking with `[^`]*` failed: signal: \d+ \((?P<sig>SIG[A-Z]+)\)",
        effects: &[Effect::Problem(DIED.follow(indented)), CHILD_DIED],
    },
    Rule {
        // The rules for the compilers' messages find the error itself.
        name: "compiler.internal",
        pattern: concat!(
            r"^(?:(?:[A-Za-z]:)?[^\s:]+:(?:\d+:)* ?|[^\s(]+\(\d+\) ?: )?(?:(?:fatal )?error(?: C\d+)?: )?[Ii]nternal compiler error\b(?:: (?P<sig>",
            words!(),
            r"))?"
        ),
        effects: &[Effect::Crash(Indicator::Died(""))],
    },
];
