//! Compilers whose messages need no rules but these few.

use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Level, Next, Rule, always, indented, one_more, problem,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("compilers") };

/// Most lines of a message with blank lines in it.
const LINES_MAX: usize = 30;

/// Extensions of files that a compiler reads. An error with a place in one of them is a build error.
const COMPILED: &[&str] = &[
    "adb", "ads", "agda", "astro", "bicep", "c", "cc", "coq", "cpp", "cr", "cs", "cu", "cxx", "d", "dart",
    "elm", "erl", "f90", "fs", "gleam", "go", "groovy", "h", "hpp", "hrl", "hs", "hx", "idr", "java", "kt",
    "lean", "lhs", "lpr", "m", "ml", "mli", "mm", "nim", "odin", "pas", "pony", "pp", "proto", "purs", "rs",
    "scala", "sol", "svelte", "sv", "swift", "thrift", "ts", "tsx", "v", "vala", "vb", "vhd", "vhdl", "vue",
    "zig",
];

/// An error with a place in the sources of a compiled language is the compiler's, unless it ends with the name of a
/// linter's rule.
pub(super) fn of_compiler(diagnostic: &mut Diagnostic) {
    super::c::accepted(diagnostic);
    // docutils fails only after severe errors.
    if diagnostic.after_place().starts_with("ERROR/3)") {
        diagnostic.fails = Fails::Never;
    }
    let code =
        diagnostic.first().trim_end().strip_suffix(']').and_then(|line| Some(line.rsplit_once('[')?.1));
    let is_of_hlint = diagnostic.first().contains(": Suggestion: ");
    // Programs log `a.c:7: info: listening [IPV64]` without a column.
    let is_coded = diagnostic.column.is_some() && code.is_some_and(super::c::is_code);
    if is_coded || is_of_hlint || begins_with_rule(diagnostic.after_place()) {
        diagnostic.fails = Fails::Always;
    }
    let extension = diagnostic.file.as_deref().and_then(|file| Some(file.rsplit_once('.')?.1));
    let is_source = extension.is_some_and(|extension| COMPILED.contains(&extension));
    if is_source && !names_rule(diagnostic.first()) {
        diagnostic.kind = Some(Kind::Build);
    }
}

/// Whether a line ends with `[rule-name]` or `(rule_name)`. Compilers name numbers and options there.
pub(super) fn names_rule(line: &str) -> bool {
    let line = line.trim_end();
    let name = line
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once('['))
        .or_else(|| line.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")));
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | ':' | '.' | '@');
    name.is_some_and(|(_, name)| {
        !name.starts_with('-') && name.contains(['-', '_', '/', ':']) && name.chars().all(is_part)
    })
}

/// Whether a message begins with the name of a linter's rule: `style: [assignment_linter] …`.
fn begins_with_rule(message: &str) -> bool {
    let name = message.split_once(": [").and_then(|(severity, rest)| {
        let is_word = severity.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_word.then(|| rest.split_once("] "))?
    });
    name.is_some_and(|(name, _)| {
        name.contains(['-', '_'])
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_'))
    })
}

/// The lines of a report up to the next heading.
fn up_to_heading(so_far: &[String], line: &str) -> Next {
    if line.starts_with("-- ") || so_far.len() > LINES_MAX {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The excerpt has the line, as in `12|     add "a" 3`.
fn line_of_excerpt(diagnostic: &mut Diagnostic) {
    let numbered = |line: &String| {
        let (number, _) = line.split_once('|')?;
        number.trim().parse().ok()
    };
    diagnostic.line = diagnostic.lines.iter().find_map(numbered);
    diagnostic.head =
        diagnostic.lines.iter().skip(1).position(|line| !line.trim().is_empty()).map(|at| at + 1);
}

/// The lines up to the one that begins with `Error:`.
fn up_to_error(so_far: &[String], line: &str) -> Next {
    if line.starts_with("Error: ") {
        Next::Last
    } else if line.starts_with("In ") || so_far.len() > LINES_MAX {
        Next::Beyond
    } else {
        Next::Maybe
    }
}

/// Without an error it is only a path.
fn last_says(diagnostic: &mut Diagnostic) {
    diagnostic.head = diagnostic.lines.iter().rposition(|line| line.starts_with("Error: "));
    diagnostic.spurious = diagnostic.head.is_none();
}

/// The lines of PureScript's report up to its reference.
fn up_to_reference(so_far: &[String], line: &str) -> Next {
    if line.starts_with("See https://") || line.starts_with('[') || so_far.len() > LINES_MAX {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// `at src/Main.purs:8:13 - 8:16 (line 8, column 13 - line 8, column 16)`; the message is the first indented line.
fn purescript_place(diagnostic: &mut Diagnostic) {
    let place = diagnostic
        .lines
        .iter()
        .find_map(|line| line.strip_prefix("at ")?.split(' ').next().map(str::to_owned));
    diagnostic.spurious = !place.is_some_and(|place| crate::rules::set_place(diagnostic, &place));
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with("  "));
}

/// The lines up to the next report.
fn up_to_next(so_far: &[String], line: &str) -> Next {
    let begins = line.contains(" ----") || line.starts_with("Found ");
    if begins || so_far.len() > LINES_MAX {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The message is the first line below the heading.
fn below(diagnostic: &mut Diagnostic) {
    diagnostic.head =
        diagnostic.lines.iter().skip(1).position(|line| !line.trim().is_empty()).map(|at| at + 1);
}

fn is_at_margin(line: &str) -> bool {
    line.starts_with(|c: char| !c.is_whitespace())
}

fn tcl_lines(so_far: &[String], line: &str) -> Next {
    let part = line.starts_with("    ") || line.starts_with('"');
    if part && so_far.len() < LINES_MAX { Next::Part } else { Next::Beyond }
}

/// Only the line right above is the message.
fn tcl_place(diagnostic: &mut Diagnostic) {
    let at = diagnostic.lines.iter().position(|line| line == "    while executing").unwrap_or(0);
    diagnostic.lines.drain(..at.saturating_sub(1));
    diagnostic.head = Some(0);
    super::places::worded(diagnostic);
}

fn lisp_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("  ") && so_far.len() < 12 { Next::Part } else { Next::Beyond }
}

/// The message of Fortran's runtime is the line below the place.
fn of_runtime(diagnostic: &mut Diagnostic) {
    diagnostic.spurious =
        !diagnostic.lines.get(1).is_some_and(|line| line.starts_with("Fortran runtime error: "));
    diagnostic.head = Some(1);
}

fn has_place(diagnostic: &Diagnostic) -> bool {
    diagnostic.file.is_some()
}

/// The message of Racket, with its indented fields.
fn is_racket(line: &str) -> bool {
    !line.trim().is_empty()
}

/// Only the last line at the margin, and the fields below it, are the message.
fn racket_message(diagnostic: &mut Diagnostic) {
    let context = diagnostic.lines.iter().position(|line| line.ends_with("...:")).unwrap_or(0);
    let at = diagnostic.lines[..context].iter().rposition(|line| is_at_margin(line));
    diagnostic.lines.drain(..at.unwrap_or(0));
    diagnostic.spurious = at.is_none();
    diagnostic.head = Some(0);
}

/// SBCL prints this line only if its debugger is disabled.
fn is_without_debugger(diagnostic: &Diagnostic) -> bool {
    diagnostic.first().contains(" in thread #<")
}

const RULES: &[Rule] = &[
    Rule {
        name: "other_compilers.elm",
        pattern: r"^-- [A-Z][A-Z' -]+ -{3,} (?P<f>\S+\.elm)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 93).follow(up_to_heading).owning().refine(line_of_excerpt),
        )],
    },
    Rule {
        name: "other_compilers.crystal",
        pattern: r"^In (?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 93).follow(up_to_error).owning().refine(last_says),
        )],
    },
    Rule {
        name: "other_compilers.purescript",
        pattern: r"^Error (?:\d+ of \d+|found):$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 93).follow(up_to_reference).owning().refine(purescript_place),
        )],
    },
    Rule {
        name: "other_compilers.flow",
        pattern: r"^(?P<s>Error|Warning) -{4,} (?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+)$",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Build, 92).follow(up_to_next).owning().refine(below),
        )],
    },
    Rule {
        // An assertion in a simulation.
        name: "other_compilers.vhdl_assertion",
        pattern: r"^(?P<f>[^\s:]+\.vhdl?):(?P<l>\d+):(?P<c>\d+):@[^:]+:\((?:assertion|report) (?P<s>warning|error|failure)\): (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90))],
    },
    Rule {
        // The stack of Tcl stands below the message.
        name: "other_compilers.tcl",
        pattern: r"^    while executing$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 84).lead(is_at_margin).follow(tcl_lines).refine(tcl_place),
        )],
    },
    Rule {
        name: "other_compilers.fortran_stop",
        pattern: r"^ERROR STOP(?: .*)?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).ended(always))],
    },
    Rule {
        name: "other_compilers.fortran_runtime",
        pattern: r"^At line (?P<l>\d+) of file (?P<f>\S+)(?: \(unit = .*\))?$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90).follow(one_more).refine(of_runtime).ended(has_place),
        )],
    },
    Rule {
        name: "other_compilers.escript",
        pattern: r"^escript: exception (?:error|exit|throw): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 88).follow(indented).ended(always))],
    },
    Rule {
        name: "other_compilers.racket",
        pattern: r"^  (?:context|errortrace)\.\.\.:$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 84).lead(is_racket).follow(indented).refine(racket_message),
        )],
    },
    Rule {
        name: "other_compilers.lisp",
        pattern: r"^Unhandled (?P<k>[\w:-]+)(?: in thread .*)?:?.*$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 84).follow(lisp_lines).ended(is_without_debugger),
        )],
    },
    Rule {
        // Compilers that name no severity, except for a warning.
        name: "other_compilers.place",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.(?:adb|ads|erl|hrl|idr|proto|pyx|pxd|rkt|sv|thrift|v|vhdl?|xrl|yrl)):(?P<l>\d+):(?:(?P<c>\d+):)? (?:(?P<s>[Ww]arning|[Ee]rror|ERROR): )?(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 88).refine(of_linter))],
    },
    Rule {
        // As buf has it.
        name: "other_compilers.buf",
        pattern: r"^(?P<f>[^\s:]+\.proto):(?P<l>\d+):(?P<c>\d+):(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90))],
    },
    Rule {
        name: "other_compilers.haxe",
        pattern: r"^(?P<f>[^\s:]+\.hx):(?P<l>\d+): (?:characters|lines) (?P<c>\d+)-\d+ : (?:(?P<s>[Ww]arning) : )?(?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90))],
    },
    Rule {
        name: "other_compilers.lean",
        pattern: r"^error: (?P<f>[^\s:]+\.lean):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 93).follow(one_more))],
    },
    Rule {
        // As the compiler of NAG has it.
        name: "other_compilers.nag",
        pattern: r"^(?P<s>(?:Fatal |Runtime )?Error|Panic|Warning): (?P<f>[^\s,]+\.[fF]\w{0,4})(?:, line (?P<l>\d+))?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90).follow(super::c::indented_no_head))],
    },
    Rule {
        name: "other_compilers.groovy",
        pattern: r"^(?P<f>[^\s:]+\.(?:groovy|gradle)): (?P<l>\d+): (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88))],
    },
];

fn of_linter(diagnostic: &mut Diagnostic) {
    if names_rule(diagnostic.first()) {
        diagnostic.kind = Some(Kind::Lint);
    }
}
