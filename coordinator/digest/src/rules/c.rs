//! C, C++, Fortran, Ada and assembler compilers, linkers, and their build drivers: make, ninja, cmake.

use super::{
    Act, Draft, ERROR, FATAL, Kind, Level, Next, Problem, Rule, Sign, WARNING, indented_or_blank, one_more,
    problem,
};
use crate::tool::ToolId;

/// Source excerpts under a message: `  12 |  code`, `     |  ^~~`, or clang's bare source line above a caret line;
/// `note:` lines with the same.
fn excerpt(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    if trimmed.is_empty() {
        return Next::Beyond;
    }
    let in_excerpt = trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
    let caret = trimmed.chars().all(|c| matches!(c, '^' | '~' | '-' | '|' | '+' | ' ' | '\t' | '.'))
        && trimmed.contains('^');
    if in_excerpt || caret {
        return Next::Part;
    }
    // javac's lines about a symbol, and GHC's lines below its heading.
    let named = ["symbol:", "location:", "required:", "found:", "reason:"];
    let heading = so_far.first().is_some_and(|head| head.ends_with([']', ':']));
    if named.iter().any(|name| trimmed.starts_with(name))
        || heading && line.starts_with("    ") && so_far.len() < 20
    {
        return Next::Part;
    }
    if line.contains(": note: ")
        || trimmed.starts_with("note: ")
        || line.contains("candidate") && line.contains(": note:")
    {
        return Next::Part;
    }
    let after_note = so_far.last().is_some_and(|last| is_message(last));
    if after_note && so_far.len() < 80 { Next::Maybe } else { Next::Beyond }
}

/// A warning that ends with the name of a linter's rule, as `[SC2154]` or `[readability-else]`, is a linter's: compilers name
/// their options there.
fn of_linter(draft: &mut super::Draft) {
    let first = draft.lines.iter().find(|line| line.contains("arning: ")).map_or("", |line| line.trim_end());
    let name = first.strip_suffix(']').and_then(|rest| Some(rest.rsplit_once(" [")?.1)).unwrap_or_default();
    let is_rule = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ',');
    if name.len() > 2 && !name.starts_with('-') && name.chars().all(is_rule) {
        draft.kind = Some(Kind::Lint);
    }
}

fn is_message(line: &str) -> bool {
    [": error", ": note", ": warning", ": fatal error"].iter().any(|word| line.contains(word))
}

/// Lines that gcc prints before a message and that belong to it.
fn lead(line: &str) -> bool {
    let trimmed = line.trim_start();
    trimmed.starts_with("In file included from")
        || trimmed.starts_with("from ")
        || line.contains(": In ")
        || line.contains("required from ")
        || line.contains("required by ")
        || line.contains("In instantiation of")
}

const COMPILER_ERROR: Problem = problem(ERROR, Kind::Build, 92).follow(excerpt).lead(lead);
const COMPILER_FATAL: Problem = problem(FATAL, Kind::Build, 95).follow(excerpt).lead(lead);
const COMPILER_WARNING: Problem = problem(WARNING, Kind::Build, 60).follow(excerpt).lead(lead);

/// `b.c:(.text+0x24): undefined reference to `g'`, with a line `b.c:7: …`: the source that refers to it.
fn linker_place(draft: &mut Draft) {
    for line in &draft.lines {
        let Some((place, _)) = line.split_once(": undefined reference to ") else { continue };
        let place = place.strip_prefix("/usr/bin/ld: ").unwrap_or(place);
        let place = place.rsplit_once(": ").map_or(place, |(_, place)| place);
        let mut parts = place.splitn(3, ':');
        let file = parts.next().unwrap_or_default().rsplit(' ').next().unwrap_or_default();
        if file.contains('.') && !file.ends_with(".o") && !file.ends_with(".a") && !file.ends_with(')') {
            draft.file = Some(file.to_owned());
            draft.line = parts.next().and_then(|row| row.parse().ok());
            return;
        }
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "c.fatal",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:\t]*):(?P<l>\d+)(?::(?P<c>\d+))?: fatal error: (?P<m>.*)",
        acts: &[Act::Problem(COMPILER_FATAL)],
    },
    Rule {
        name: "c.error",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:\t]*):(?P<l>\d+)(?::(?P<c>\d+))?: (?:internal compiler )?[Ee]rror: (?P<m>.*)",
        acts: &[Act::Problem(COMPILER_ERROR)],
    },
    Rule {
        // A colon in the name of the file, or a name of a task without a blank after it.
        name: "c.error_after_colon",
        pattern: r"^(?P<f>[^\s:(]+:[^\s:(]*[^\s:(\d][^\s:(]*\.\w{1,6}):(?P<l>\d+)(?::(?P<c>\d+))?: error: (?P<m>.*)",
        acts: &[Act::Problem(COMPILER_ERROR)],
    },
    Rule {
        name: "c.warning",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:\t]*):(?P<l>\d+)(?::(?P<c>\d+))?: [Ww]arning: (?P<m>.*)",
        acts: &[Act::Problem(COMPILER_WARNING.refine(of_linter))],
    },
    Rule {
        name: "clang.total",
        pattern: r"^(?:\d+ warnings? and )?[1-9]\d* errors? generated(?: when compiling for .*)?\.?$",
        acts: &[Act::Sign(Sign::TotalOfErrors(ToolId::Clang)), Act::Summary],
    },
    Rule {
        name: "errors.total",
        pattern: r"^[1-9]\d* errors?(?: found)?\.?$",
        acts: &[Act::Sign(Sign::TotalOfErrors(ToolId::Compiler))],
    },
    Rule {
        name: "linker.failed",
        pattern: r"^(?:[\w./+-]*/)?(?:collect2(?:\.exe)?: (?:fatal )?error: ld returned |clang(?:\+\+)?(?:-[\d.]+)?: error: linker command failed|ld: symbol\(s\) not found)",
        acts: &[Act::Sign(Sign::TotalOfErrors(ToolId::Linker))],
    },
    Rule {
        name: "c.driver",
        pattern: r"^(?:[\w./+-]*/)?(?:clang|clang\+\+|gcc|g\+\+|cc|c\+\+|cc1|cc1plus|gfortran|as|ar|ranlib|f951|collect2|nvcc)(?:-[\d.]+)?: (?:fatal )?error: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 80))],
    },
    Rule {
        name: "linker.apple",
        pattern: r"^(?:Undefined symbols for architecture|duplicate symbol|ld: (?:error|symbol\(s\) not found|library not found|framework not found|building for|Undefined|can't|cannot|file not found|invalid|\d+ duplicate)|clang: error: linker)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 94).follow(indented_or_blank))],
    },
    Rule {
        name: "linker.gnu",
        pattern: r"^(?:[^\s:]*/)?(?:[\w-]+-)?(?:ld|lld|ld\.lld|ld\.gold|ld64\.lld|mold|wasm-ld|rust-lld|collect2)(?:\.bfd)?: (?:[^:]*:)* ?(?:in function|undefined|error|cannot find|multiple definition|fatal|ld returned)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 93).follow(linker_lines).refine(linker_place))],
    },
    Rule {
        name: "linker.undefined",
        pattern: r"^(?:[^\s:]+:)+(?:\([^)]*\):?)? undefined reference to .*",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 93).refine(linker_place))],
    },
    Rule {
        name: "make.ignored",
        pattern: r"^g?n?make(?:\[\d+\])?: (?:\*\*\* )?\[.*\] .*\(ignored\)$",
        acts: &[Act::Harmless, Act::Alone],
    },
    Rule {
        name: "make.error",
        pattern: r"^g?n?make(?:\[\d+\])?: \*\*\* (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 40)),
            Act::Sign(Sign::Failure(ToolId::Make)),
            Act::Summary,
        ],
    },
    Rule {
        // The make of BSD.
        name: "make.bsd_error",
        pattern: r"^\*\*\* (?:\[.*\] )?Error (?:code )?\d+(?: \(ignored\))?$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 40)),
            Act::Sign(Sign::Failure(ToolId::Make)),
            Act::Summary,
        ],
    },
    Rule {
        name: "scons.error",
        pattern: r"^scons: \*\*\* (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 40)),
            Act::Sign(Sign::Failure(ToolId::SconsTarget)),
            Act::Summary,
        ],
    },
    Rule {
        name: "scons.begun",
        pattern: r"^scons: Building targets \.\.\.$",
        acts: &[Act::Sign(Sign::Begins(ToolId::Scons))],
    },
    Rule {
        name: "scons.ended_badly",
        pattern: r"^scons: (?:building terminated because of errors|done building targets \(errors occurred during build\))\.$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Scons)), Act::Summary],
    },
    Rule {
        // With `-i` it prints this for any result of the targets, so it cancels its own failures.
        name: "scons.ended",
        pattern: r"^scons: done building targets\.$",
        acts: &[Act::Sign(Sign::Success(ToolId::Scons)), Act::Summary],
    },
    Rule {
        name: "ninja.failed",
        pattern: r"^FAILED: (?P<m>.*\.(?:o|obj|a|so|dylib|exe|d|stamp)\b.*|\[code=\d+\].*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 40)), Act::Sign(Sign::Failure(ToolId::Ninja))],
    },
    Rule {
        name: "ninja.stopped",
        pattern: r"^ninja: (?:build stopped|error|fatal): (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 45)),
            Act::Sign(Sign::Failure(ToolId::Ninja)),
            Act::Summary,
        ],
    },
    Rule {
        name: "cmake.error",
        pattern: r"^CMake Error(?: at (?P<f>[^:]+):(?P<l>\d+))?.*",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 93).follow(cmake_lines)),
            Act::Sign(Sign::Failure(ToolId::Cmake)),
        ],
    },
    Rule {
        name: "cmake.warning",
        pattern: r"^CMake (?:Deprecation )?Warning(?: \(dev\))?(?: at (?P<f>[^:]+):(?P<l>\d+))?.*",
        acts: &[Act::Problem(problem(WARNING, Kind::Build, 50).follow(cmake_lines))],
    },
    Rule {
        name: "cmake.incomplete",
        pattern: r"^(?:-- Configuring incomplete, errors occurred!|CMake Generate step failed)",
        acts: &[Act::Sign(Sign::Failure(ToolId::Cmake)), Act::Summary],
    },
    Rule {
        name: "gfortran.place",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:]+\.[fF]\w{0,4}):(?P<l>\d+)(?:[.:](?P<c>\d+)(?:-\d+)?)?:$",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Build, 85).follow(gfortran_lines).refine(gfortran_severity),
        )],
    },
    Rule {
        name: "c.undeclared",
        pattern: r"^(?:fatal error|error)(?: [A-Z]+\d+)?: (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 75).follow(one_more_indented))],
    },
    Rule {
        name: "msvc",
        pattern: r"^(?:\d+>)?\s*(?P<f>(?:[A-Za-z]:)?[^:(]+?)\s?\((?P<l>\d+)(?:,(?P<c>\d+))?(?:,\d+,\d+)?\)\s?: (?P<s>[Ff]atal [Ee]rror|[Ee]rror|[Ww]arning|[Nn]ote|[Ii]nfo|[Mm]essage|[Rr]emark)\b(?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 90).follow(indented_no_head))],
    },
    Rule {
        name: "msvc.linker",
        pattern: r"^(?:\d+>)?\s*[\w .\-/\\:]+ : (?P<s>fatal error|error|warning) [A-Z]+\d+: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 90))],
    },
    Rule {
        name: "quoted.place",
        pattern: r#"^(?:\w+: )?"(?P<f>[^"]+)", ?(?:line )?(?P<l>\d+)(?:[.:](?P<c>\d+))?[:,]?\s+(?P<s>[Ff]atal [Ee]rror|[Ee]rror|[Ww]arning|[Rr]emark|[Ii]nfo)\b(?P<m>.*)"#,
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 90).follow(indented_no_head))],
    },
    Rule {
        name: "ocaml.place",
        pattern: r#"^File "(?P<f>[^"]+)", lines? (?P<l>\d+)(?:-\d+)?(?:, characters (?P<c>\d+)-\d+)?:"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90).follow(ocaml_lines).refine(ocaml_severity))],
    },
];

fn indented_no_head(_: &[String], line: &str) -> Next {
    if line.ends_with(" Warning(s)") || line.ends_with(" Error(s)") {
        return Next::Beyond;
    }
    let deep = line.len() - line.trim_start().len();
    if deep >= 2 && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

fn one_more_indented(so_far: &[String], line: &str) -> Next {
    if so_far.len() < 12 { indented_no_head(so_far, line) } else { Next::Beyond }
}

fn linker_lines(_: &[String], line: &str) -> Next {
    let linker =
        line.contains("undefined reference") || line.contains(">>> ") || line.contains("first defined here");
    if linker || line.starts_with([' ', '\t']) && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

fn cmake_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("Call Stack") { Next::Part } else { indented_or_blank(so_far, line) }
}

fn gfortran_lines(so_far: &[String], line: &str) -> Next {
    let internal = |line: &String| line.starts_with("Internal Error");
    let ends = ["Error:", "Fatal Error:", "Warning:"].iter().any(|word| line.starts_with(word));
    if ends || so_far.last().is_some_and(internal) {
        Next::Last
    } else if line.starts_with("Internal Error") {
        // The inner error comes on a separate line.
        Next::Part
    } else if so_far.len() > 8 {
        Next::Beyond
    } else {
        Next::Maybe
    }
}

fn gfortran_severity(draft: &mut super::Draft) {
    if draft.lines.last().is_some_and(|line| line.starts_with("Warning:")) {
        draft.severity = Some(buildpool_protocol::report::Severity::Warning);
    }
    draft.spurious = draft.lines.len() == 1;
    let says =
        |line: &String| ["Error:", "Fatal Error:", "Warning:"].iter().any(|word| line.starts_with(word));
    draft.head = draft.lines.iter().rposition(says);
}

fn ocaml_lines(so_far: &[String], line: &str) -> Next {
    let excerpt =
        line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
    if excerpt || line.starts_with("Error") || line.starts_with("Warning") || line.starts_with([' ', '\t']) {
        Next::Part
    } else {
        one_more(so_far, "")
    }
}

fn ocaml_severity(draft: &mut super::Draft) {
    let says = |word: &str| draft.lines.iter().any(|line| line.starts_with(word));
    if says("Warning") && !says("Error") {
        draft.severity = Some(buildpool_protocol::report::Severity::Warning);
    }
    draft.head = draft.lines.iter().position(|line| line.starts_with("Error") || line.starts_with("Warning"));
}
