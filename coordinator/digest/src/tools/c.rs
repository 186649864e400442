//! Output of C and C++.

use crate::records::Event;
use crate::rules::{
    Diagnostic, ERROR, Effect, FATAL, Fails, Indicator, Kind, Next, Problem, Rule, WARNING,
    indented_or_blank, problem,
};
use crate::tool::{Tool, ToolId};
use serde_json::{Map, Value};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("C and C++") };

pub(super) const LINKER: Tool = Tool::named("linker");

pub(super) const CLANG: Tool = Tool::named("clang");

/// Source excerpts under a message: `  12 |  code`, `     |  ^~~`, or clang's bare source line above a caret line;
/// `note:` lines with the same.
pub(super) fn excerpt(so_far: &[String], line: &str) -> Next {
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
fn of_linter(diagnostic: &mut crate::rules::Diagnostic) {
    let first =
        diagnostic.lines.iter().find(|line| line.contains("arning: ")).map_or("", |line| line.trim_end());
    let name = first.strip_suffix(']').and_then(|rest| Some(rest.rsplit_once(" [")?.1)).unwrap_or_default();
    let is_rule = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ',');
    if name.len() > 2 && !name.starts_with('-') && name.chars().all(is_rule) {
        diagnostic.kind = Some(Kind::Lint);
        // shellcheck fails after each remark. Programs log `a.c:7: warning: listening [IPV64]` without a column.
        if is_code(name) && diagnostic.column.is_some() {
            diagnostic.fails = Fails::Always;
        }
    }
}

/// Whether a word is a linter's code, such as `SC2086` or `E501`.
pub(super) fn is_code(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    (1..=5).contains(&(word.len() - digits.len()))
        && (2..=5).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Extensions of the files that cppcheck reads.
const C_EXTENSIONS: &[&str] = &["c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "ipp", "tpp"];

/// cppcheck exits with 0 after its errors.
pub(super) fn accepted(diagnostic: &mut Diagnostic) {
    let file = diagnostic.file.as_deref().unwrap_or_default();
    let is_c = file.rsplit('.').next().is_some_and(|extension| C_EXTENSIONS.contains(&extension));
    if is_c && is_of_cppcheck(diagnostic.first()) {
        diagnostic.fails = Fails::Never;
    }
}

/// Whether the line ends like a cppcheck remark: `[nullPointer]`.
fn is_of_cppcheck(line: &str) -> bool {
    let id = line.trim_end().strip_suffix(']').and_then(|line| line.rsplit_once(" [")).map(|(_, id)| id);
    id.is_some_and(|id| {
        id.len() > 6
            && id.starts_with(|c: char| c.is_ascii_lowercase())
            && id.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}

/// An error of gcc in JSON without a place: a file that is not there, an option that it does not know.
pub(super) fn unplaced_error(object: &Map<String, Value>) -> Option<Event> {
    let is_error = matches!(object.get("kind")?.as_str()?, "error" | "fatal error");
    let has_no_place = object.get("locations")?.as_array()?.is_empty() && object.contains_key("children");
    let message = object.get("message")?.as_str().filter(|_| is_error && has_no_place)?;
    let diagnostic = Diagnostic { lines: vec![format!("error: {message}")], ..Diagnostic::default() };
    Some(Event::Problem(problem(ERROR, Kind::Build, 90).fails(Fails::Always), Box::new(diagnostic)))
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

const COMPILER_ERROR: Problem = problem(ERROR, Kind::Build, 92).follow(excerpt).lead(lead).refine(accepted);

const COMPILER_FATAL: Problem = problem(FATAL, Kind::Build, 95).follow(excerpt).lead(lead);

const COMPILER_WARNING: Problem = problem(WARNING, Kind::Build, 60).follow(excerpt).lead(lead);

/// `b.c:(.text+0x24): undefined reference to `g'`, with a line `b.c:7: …`: the source that refers to it.
fn linker_place(diagnostic: &mut Diagnostic) {
    // `--warn-unresolved-symbols`: the program is linked.
    let warns = |line: &String| line.contains(": warning: ");
    let fails = |line: &String| line.contains("undefined reference") || line.contains("error: ");
    if diagnostic.lines.iter().any(warns) && !diagnostic.lines.iter().any(|line| fails(line) && !warns(line))
    {
        diagnostic.spurious = true;
    }
    for line in &diagnostic.lines {
        let Some((place, _)) = line.split_once(": undefined reference to ") else { continue };
        let place = place.strip_prefix("/usr/bin/ld: ").unwrap_or(place);
        // gold: `/tmp/a.o:b.c:function main: error`.
        let place = place.strip_suffix(": error").unwrap_or(place);
        let place = place.split_once(".o:").map_or(place, |(_, place)| place);
        let place = place.rsplit_once(": ").map_or(place, |(_, place)| place);
        let mut parts = place.splitn(3, ':');
        let file = parts.next().unwrap_or_default().rsplit(' ').next().unwrap_or_default();
        if file.contains('.') && !file.ends_with(".o") && !file.ends_with(".a") && !file.ends_with(')') {
            diagnostic.file = Some(file.to_owned());
            diagnostic.line = parts.next().and_then(|row| row.parse().ok());
            return;
        }
    }
}

pub(super) fn indented_no_head(_: &[String], line: &str) -> Next {
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

fn gfortran_severity(diagnostic: &mut crate::rules::Diagnostic) {
    if diagnostic.lines.last().is_some_and(|line| line.starts_with("Warning:")) {
        diagnostic.severity = Some(buildpool_protocol::report::Severity::Warning);
    }
    diagnostic.spurious = diagnostic.lines.len() == 1;
    let says =
        |line: &String| ["Error:", "Fatal Error:", "Warning:"].iter().any(|word| line.starts_with(word));
    diagnostic.head = diagnostic.lines.iter().rposition(says);
}

fn what(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && line.trim_start().starts_with("what():") { Next::Last } else { Next::Beyond }
}

const RULES: &[Rule] = &[
    Rule {
        name: "c.fatal",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:\t]*):(?P<l>\d+)(?::(?P<c>\d+))?: fatal error: (?P<m>.*)",
        effects: &[Effect::Problem(COMPILER_FATAL)],
    },
    Rule {
        name: "c.error",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:\t]*):(?P<l>\d+)(?::(?P<c>\d+))?: (?:internal compiler )?[Ee]rror: (?P<m>.*)",
        effects: &[Effect::Problem(COMPILER_ERROR)],
    },
    Rule {
        // A colon in the name of the file, or a name of a task without a blank after it.
        name: "c.error_after_colon",
        pattern: r"^(?P<f>[^\s:(]+:[^\s:(]*[^\s:(\d][^\s:(]*\.\w{1,6}):(?P<l>\d+)(?::(?P<c>\d+))?: error: (?P<m>.*)",
        effects: &[Effect::Problem(COMPILER_ERROR)],
    },
    Rule {
        name: "c.warning",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:\t]*):(?P<l>\d+)(?::(?P<c>\d+))?: [Ww]arning: (?P<m>.*)",
        effects: &[Effect::Problem(COMPILER_WARNING.refine(of_linter))],
    },
    Rule {
        name: "clang.total",
        pattern: r"^(?:\d+ warnings? and )?[1-9]\d* errors? generated(?: when compiling for .*)?\.?$",
        effects: &[Effect::Of(ToolId::Clang, &[Effect::ErrorTotal]), Effect::Summary],
    },
    Rule {
        name: "linker.failed",
        pattern: r"^(?:[\w./+-]*/)?(?:collect2(?:\.exe)?: (?:fatal )?error: ld returned |clang(?:\+\+)?(?:-[\d.]+)?: error: linker command failed|ld: symbol\(s\) not found)",
        effects: &[Effect::Of(ToolId::Linker, &[Effect::ErrorTotal])],
    },
    Rule {
        name: "c.driver",
        pattern: r"^(?:[\w./+-]*/)?(?:c(?:lang(?:\+\+)?|c(?:1(?:plus)?)?|\+\+|ollect2)|g(?:cc|\+\+|fortran)|a[rs]|ranlib|f951|nvcc)(?:-[\d.]+)?: (?:fatal )?error: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 80).fails(Fails::Always))],
    },
    Rule {
        name: "linker.apple",
        pattern: r"^(?:Undefined symbols for architecture|duplicate symbol|ld: (?:error|symbol\(s\) not found|library not found|framework not found|building for|Undefined|can't|cannot|file not found|invalid|\d+ duplicate)|clang: error: linker)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 94).follow(indented_or_blank))],
    },
    Rule {
        // Others may be above a warning, or of a probe.
        name: "linker.gnu_error",
        pattern: r"^(?:[^\s:]*/)?(?:[\w-]+-)?(?:ld|lld|ld\.lld|ld\.gold|ld64\.lld|mold|wasm-ld|rust-lld|collect2)(?:\.bfd)?(?:-\d+)?: (?:[^:]*:)* ?(?:undefined (?:reference|symbol)|error: (?:undefined|duplicate|cannot open|ld returned)|multiple definition|ld returned)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 93).follow(linker_lines).refine(linker_place).fails(Fails::Always),
        )],
    },
    Rule {
        name: "linker.gnu",
        pattern: r"^(?:[^\s:]*/)?(?:[\w-]+-)?(?:ld|lld|ld\.lld|ld\.gold|ld64\.lld|mold|wasm-ld|rust-lld|collect2)(?:\.bfd)?(?:-\d+)?: (?:[^:]*:)* ?(?:in function|undefined|error|cannot (?:find|open)|multiple definition|fatal|ld returned|final link failed|file (?:format )?not recognized|relocation |unrecogni[sz]ed |DSO missing|region .* overflowed)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 93).follow(linker_lines).refine(linker_place),
        )],
    },
    Rule {
        name: "linker.undefined",
        pattern: r"^(?:[^\s:]+:)+(?:\([^)]*\):?|function [^:]*:)?(?: error:)? undefined reference to .*",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 93).refine(linker_place))],
    },
    Rule {
        name: "gfortran.place",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:]+\.[fF]\w{0,4}):(?P<l>\d+)(?:[.:](?P<c>\d+)(?:-\d+)?)?:$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 85).follow(gfortran_lines).refine(gfortran_severity),
        )],
    },
    Rule {
        name: "c.undeclared",
        pattern: r"^(?:fatal error|error)(?: [A-Z]+\d+)?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 75).follow(one_more_indented))],
    },
    Rule {
        name: "cxx.terminate",
        pattern: r"^(?:libc\+\+abi(?:\.dylib)?: )?terminat(?:e called|ing)(?: (?:after throwing|due to|without|with|recursively|because).*)?",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 95).follow(what)),
            Effect::Crash(Indicator::UncaughtException),
        ],
    },
    Rule {
        name: "c.assert",
        pattern: r"^(?:\S+: )?(?P<f>[^\s:]+):(?P<l>\d+): .*: Assertion .* failed\.",
        effects: &[Effect::Problem(problem(FATAL, Kind::Crash, 95)), Effect::Crash(Indicator::FatalError)],
    },
    Rule {
        name: "c.gave_up",
        pattern: r"^compilation terminated\.$",
        effects: &[Effect::Failure, Effect::Harmless],
    },
];
