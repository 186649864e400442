//! Output of any tool.

use super::c::{indented_no_head, is_code};
use super::eslint;
use super::other_compilers::{names_rule, of_compiler};
use super::places::{has_excerpt, located, worded};
use crate::rules::{
    Diagnostic, ERROR, Effect, Fails, Kind, Level, Next, Role, Rule, WARNING, after_text, drawn, indented,
    paragraph, pointed, problem, set_place,
};
use crate::tool::{Tool, ToolId};
use buildpool_protocol::report::Severity;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("any tool") };

/// Text after a location on a separate line.
fn said(so_far: &[String], line: &str) -> Next {
    let says = ["rror", "arning", "ailed"].iter().any(|word| line.contains(word));
    if so_far.len() == 1 && !says || so_far.len() > 12 { Next::Beyond } else { paragraph(so_far, line) }
}

/// A location alone has no message. The line below has it, or the line above begins with a code.
fn alone(diagnostic: &mut Diagnostic) {
    if is_coded(diagnostic.first()) {
        // Only the last code belongs to the place.
        let at = diagnostic.lines.iter().rposition(|line| is_coded(line)).unwrap_or(0);
        diagnostic.lines.drain(..at);
        if diagnostic.first().starts_with('W') {
            diagnostic.severity = Some(Severity::Warning);
        }
        diagnostic.kind = Some(Kind::Lint);
        return;
    }
    diagnostic.spurious = diagnostic.lines.len() == 1;
    diagnostic.head = Some(1);
}

/// An excerpt, or the lines at the same depth up to the place of an assertion: `at /p/A.scala:14`.
fn up_to_place(so_far: &[String], line: &str) -> Next {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let head = so_far.first().map_or(0, |head| depth(head));
    let text = line.trim_start();
    let is_same = head > 1 && depth(line) == head && text.starts_with(|c: char| c.is_ascii());
    match drawn(so_far, line) {
        Next::Beyond if is_same && is_assertion_place(text) => Next::Last,
        Next::Beyond if is_same && so_far.len() < 12 => Next::Maybe,
        next => next,
    }
}

/// An entry of a list, which may be the name of a test.
fn is_listed(line: &str) -> bool {
    line.starts_with(' ') && line.trim_start().starts_with("- ")
}

/// The entry right above a mark, and less deep, is the name of the test.
fn name_above(diagnostic: &mut Diagnostic) {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let head = diagnostic.lines.iter().take_while(|line| is_listed(line)).count();
    let name = head.checked_sub(1).map(|at| diagnostic.lines[at].clone());
    let is_above =
        name.as_deref().zip(diagnostic.lines.get(head)).is_some_and(|(name, mark)| depth(name) < depth(mark));
    diagnostic.lines.drain(..if is_above { head - 1 } else { head });
    if let Some(name) = name.filter(|_| is_above) {
        diagnostic.test = Some(name.trim_start().trim_start_matches("- ").to_owned());
        diagnostic.head = Some(1);
    }
}

/// Whether a line has only a place.
fn is_assertion_place(text: &str) -> bool {
    text.strip_prefix("at ").is_some_and(|place| {
        !place.trim_end().contains([' ', '(']) && place.contains('.') && crate::rules::place(place).is_some()
    })
}

/// A mark above an excerpt with a place is a compiler's. An assertion has its place below it.
fn marked(diagnostic: &mut Diagnostic) {
    name_above(diagnostic);
    pointed(diagnostic);
    if diagnostic.file.is_some() {
        diagnostic.kind = Some(Kind::Build);
        return;
    }
    let place = diagnostic.lines.iter().skip(1).map(|line| line.trim_start());
    let place = place.filter(|line| is_assertion_place(line)).find_map(|line| line.strip_prefix("at "));
    let place = place.map(str::to_owned);
    let _placed = place.is_some_and(|place| set_place(diagnostic, &place));
}

/// A letter or a sign above a box with a place. Alone it may be of any list.
fn marked_in_ascii(diagnostic: &mut Diagnostic) {
    marked(diagnostic);
    // An arrow to the cause is a sign of it too: `  `-> Missing field`.
    let has_arrow =
        diagnostic.lines.get(1).is_some_and(|line| line.starts_with("  `-> ") || line.starts_with("  |-> "));
    diagnostic.spurious = diagnostic.file.is_none() && !has_arrow;
}

/// Lines of a message and its excerpt. A line that ends with a colon has its message on the next one.
pub(super) fn announced(so_far: &[String], line: &str) -> Next {
    let announces = so_far.len() == 1 && so_far[0].trim_end().ends_with(':');
    let text = line.trim();
    if announces && !text.is_empty() { Next::Part } else { drawn(so_far, line) }
}

/// The message is the line above the place, and the excerpt below it.
fn framed(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start().trim_start_matches("> ").trim_start();
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    if so_far.len() < 20 && after.starts_with('|') { Next::Part } else { eslint::rows(so_far, line) }
}

/// Most lines of a message above its place.
const ABOVE_MAX: usize = 3;

/// Lines of a paragraph above a place, with the blank line between.
fn is_above_frame(line: &str) -> bool {
    line.trim().is_empty() || !line.starts_with(' ') && !line.ends_with("...")
}

/// Without an excerpt it is only a place, or the heading of a linter's rows.
fn has_frame(diagnostic: &mut Diagnostic) {
    let at = diagnostic.lines.iter().position(|line| {
        line.starts_with(' ') && diagnostic.file.as_deref().is_some_and(|file| line.contains(file))
    });
    if !has_excerpt(diagnostic) {
        diagnostic.lines.drain(..at.unwrap_or(0));
        eslint::worst_row(diagnostic);
        return;
    }
    diagnostic.kind = Some(Kind::Build);
    // The message is right above it, and the lines before it may be of another program.
    diagnostic.lines.drain(..at.unwrap_or(0).saturating_sub(ABOVE_MAX));
    let announces = |line: &String| line.ends_with("ailed.") || line.ends_with("ailed:") || line.is_empty();
    let begin = diagnostic.lines.iter().take_while(|line| announces(line)).count();
    diagnostic.lines.drain(..begin);
    diagnostic.head = Some(0);
}

/// A failure that says why is not the name of a test.
fn said_why(diagnostic: &mut Diagnostic) {
    let words =
        ["an't ", "annot ", "ould not ", "nable to ", " not found", "ultiple ", "nvalid ", "xpected "];
    let first = diagnostic.first().to_owned();
    if words.iter().any(|word| first.contains(word)) {
        diagnostic.kind = Some(Kind::Runtime);
        worded(diagnostic);
    }
}

/// A sentence about an error is none.
fn sorted(diagnostic: &mut Diagnostic) {
    let word = diagnostic.first().trim_start().split(' ').next().unwrap_or_default().to_ascii_lowercase();
    diagnostic.spurious =
        matches!(word.as_str(), "the" | "this" | "that" | "an" | "no" | "any" | "a" | "if" | "on");
    located(diagnostic);
}

/// A code and a message above a place: `E3002 message`.
fn is_coded(line: &str) -> bool {
    let code = line.strip_prefix(['E', 'W', 'I']).and_then(|rest| rest.split_once(' '));
    code.is_some_and(|(digits, _)| digits.len() > 2 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A remark with a code or with the name of a rule is a linter's, which fails after each remark. Another one may be of any
/// program, unless the log ends with it. Programs log `main.go:23: cipher ready (SHA256)` without a column, so a code alone
/// needs one. `grep -n` prints no blank before the text.
pub(super) fn remark(diagnostic: &mut Diagnostic) {
    let text = diagnostic.after_place();
    let first = text.split(' ').next().unwrap_or_default();
    let is_warning =
        first.ends_with("Warning:") || text.contains("[Warning/") || text.ends_with(" [warning]");
    let code = first.split([':', '/']).next().unwrap_or_default();
    let code = code.strip_prefix('[').and_then(|code| code.strip_suffix(']')).unwrap_or(code);
    let last = text.trim_end_matches(|c: char| matches!(c, '[' | ']' | ' ') || c.is_ascii_digit());
    let in_brackets = text.rsplit(['(', '[']).next().unwrap_or_default().trim_end_matches([')', ']']);
    let has_column = diagnostic.column.is_some();
    let names_code_and_rule =
        first.split_once('/').is_some_and(|(code, name)| is_code(code) && name.contains('-'));
    let is_of_linter = has_column && (is_code(code) || is_code(in_brackets) || names_rule(text))
        || names_code_and_rule
        || text.ends_with(']')
            && last.ends_with(|c: char| c.is_ascii_lowercase())
            && names_rule(&format!("{last}]"))
        || text.contains(" ==> ")
        || text.ends_with("% confidence)")
        || has_column && (text.ends_with(" [error]") || text.contains(" [Error/"))
        || diagnostic
            .lines
            .get(1)
            .is_some_and(|line| line.trim().split_once(": ").is_some_and(|(code, _)| is_code(code)))
        || text.starts_with("- Unknown word (")
        || has_column && (is_cop(first) || text.contains("\" is a misspelling of \""));
    let rest =
        diagnostic.file.as_deref().and_then(|file| after_text(diagnostic.first(), file)).unwrap_or_default();
    let is_flush = rest
        .split_once(' ')
        .is_some_and(|(place, message)| place.ends_with([':', ']']) && !message.starts_with([' ', '*']));
    if is_of_linter && !is_warning {
        diagnostic.fails = Fails::Always;
    } else if (has_column && is_flush || is_code(code)) && !is_warning {
        diagnostic.fails = Fails::AtEnd;
    }
}

/// The name of a rule of RuboCop and its relatives: `Style/StringLiterals:`.
fn is_cop(word: &str) -> bool {
    let is_name = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase()) && part.len() > 3;
    word.strip_suffix(':').and_then(|name| name.split_once('/')).is_some_and(|(department, name)| {
        is_name(department) && is_name(name) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The lines of a unified diff.
fn hunks(so_far: &[String], line: &str) -> Next {
    let is_part = match so_far.len() {
        1 => line.starts_with("+++ "),
        2 => line.starts_with("@@ -"),
        _ => line.is_empty() || line.starts_with([' ', '+', '-', '@', '\\']) && !line.starts_with("--- "),
    };
    if is_part && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

/// The place is the first changed line. Without a hunk it is not a diff.
fn first_change(diagnostic: &mut Diagnostic) {
    let start = diagnostic
        .lines
        .get(2)
        .and_then(|hunk| hunk.strip_prefix("@@ -")?.split([',', ' ']).next()?.parse::<u32>().ok());
    let unchanged = diagnostic.lines.iter().skip(3).take_while(|line| !line.starts_with(['+', '-'])).count();
    diagnostic.spurious = start.is_none();
    diagnostic.head = Some(unchanged + 3).filter(|head| *head < diagnostic.lines.len());
    diagnostic.line = start.map(|start| start.saturating_add(unchanged as u32));
    let (old, new) = (diagnostic.first(), diagnostic.lines.get(1).map_or("", String::as_str));
    // yapf and shfmt fail after such a diff.
    if old.ends_with("\t(original)") && new.ends_with("\t(reformatted)") || old.ends_with(".sh.orig") {
        diagnostic.fails = Fails::Always;
    }
    if let Some(file) = &mut diagnostic.file {
        let own = file.strip_suffix(".orig").unwrap_or(file);
        *file = own.strip_prefix("a/").unwrap_or(own).to_owned();
    }
}

/// `parse error at (chart/a.yaml:14): …`: the place in parentheses, if no line points to one.
fn named(diagnostic: &mut Diagnostic) {
    located(diagnostic);
    if diagnostic.file.is_none() {
        let first = diagnostic.first().to_owned();
        let places = first.split('(').skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let _found = places
            .filter(|place| place.contains('.') && !place.contains(' ') && !place.contains("://"))
            .any(|place| set_place(diagnostic, place));
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "errors.total",
        pattern: r"^[1-9]\d* errors?(?: found)?\.?$",
        effects: &[Effect::Of(ToolId::Compiler, &[Effect::ErrorTotal])],
    },
    Rule {
        name: "quoted.place",
        pattern: r#"^(?:\w+: )?"(?P<f>[^"]+)", ?(?:line )?(?P<l>\d+)(?:[.:](?P<c>\d+))?[:,]?\s+(?P<s>[Ff]atal [Ee]rror|[Ee]rror|[Ww]arning|[Rr]emark|[Ii]nfo)\b(?P<m>.*)"#,
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 90).follow(indented_no_head))],
    },
    Rule {
        name: "generic.place_alone",
        pattern: r"^(?P<f>(?:\./|/)?[^\s:]+\.\w{1,8}):(?P<l>\d+):(?P<c>\d+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 78).lead(is_coded).follow(said).refine(alone),
        )],
    },
    Rule {
        name: "generic.place_severity",
        pattern: r"^\s*(?P<f>(?:[A-Za-z]:)?[^\s:(][^:(\t]*?)(?::(?P<l>\d+)(?:[:.](?P<c>\d+))?(?:-\d+(?:[:.]\d+)?)?|\((?P<l2>\d+)(?:,\s?(?P<c2>\d+))?\))(?::| -)? {0,2}(?:col: \d+ )?[\[(]?(?P<s>[Ff]atal(?: [Ee]rror)?|FATAL|[Ee]rror|ERROR|SEVERE|[Ww]arning|WARN(?:ING)?|[Ii]nfo|INFO|[Nn]ote|NOTE|style|CRITICAL|Suggestion)(?:/\d)?[\])]?(?:\[[\w-]+\])?(?P<m>[: ].*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Lint, 85).follow(indented).refine(of_compiler),
        )],
    },
    Rule {
        // `parser error : …`, `type error: …`
        name: "generic.place_sort",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:(\t]*\.\w{1,8}):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<k>[a-z]+) (?P<s>error|warning) ?: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 88).follow(indented_no_head))],
    },
    Rule {
        // `ERROR: a.xml:12: …`, `e: file:///p/A.kt:1:17 …`
        name: "generic.severity_place",
        pattern: r"^(?P<s>[Ff]atal(?: [Ee]rror)?|FATAL|[Ee]rror|ERROR|[Ww]arning|WARNING)(?: ?\[[\w -]+\])?: ?(?:file://)?(?P<f>(?:[A-Za-z]:)?[^\s:()\x22'`]+\.[A-Za-z]\w{0,7}):(?P<l>\d+)(?::(?P<c>\d+))?(?::| -)? (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 86).follow(drawn))],
    },
    Rule {
        name: "generic.line_code",
        pattern: r"^(?:\d+|-): (?P<k>[A-Z]\d{1,4}) (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 72).fails(Fails::AtEnd))],
    },
    Rule {
        name: "generic.place_below",
        pattern: r"^ {1,4}(?P<f>[^\s:]+\.\w{1,8}):(?P<l>\d+):(?P<c>\d+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Lint, 84).lead(is_above_frame).follow(framed).owning().refine(has_frame),
        )],
    },
    Rule {
        // As rolldown has it.
        name: "generic.code_in_brackets",
        pattern: r"^\[[A-Z]+(?:_[A-Z]+)+\] (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 85).follow(drawn).refine(marked_in_ascii))],
    },
    Rule {
        name: "generic.task_prefix",
        pattern: r"^\s*\[\w+\] +(?P<f>(?:[A-Za-z]:)?[^\s:(\[][^:(\t]*?)(?::(?P<l>\d+)(?::(?P<c>\d+))?|\s?\((?P<l2>\d+)(?:,\s?(?P<c2>\d+))?\)) ?:? {0,2}(?:col: \d+ )?\[?(?P<s>[Ff]atal(?: [Ee]rror)?|[Ee]rror|ERROR|[Ww]arning|WARNING)\b(?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 85))],
    },
    Rule {
        // As puppet-lint has it.
        name: "generic.place_name_severity",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:(\t]*\.\w{1,8}):(?P<l>\d+):[\w-]+:(?P<s>ERROR|WARNING|error|warning):(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Lint, 85))],
    },
    Rule {
        name: "generic.severity_in_place",
        pattern: r#"^(?:[\w.-]+: )?(?P<s>[Ff]atal [Ee]rror|[Ee]rror|ERROR|[Ww]arning|WARNING) in "(?P<f>[^"]+)", line (?P<l>\d+)(?:, col(?:umn)? (?P<c>\d+))?: (?P<m>.*)"#,
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 88))],
    },
    Rule {
        // As the compilers of IAR have it.
        name: "generic.severity_code",
        pattern: r"^(?P<s>[Ff]atal [Ee]rror|[Ee]rror)\[[A-Z][A-Za-z]{0,3}\d{2,5}\]: (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 85))],
    },
    Rule {
        name: "generic.place_code",
        pattern: r"^\s{0,4}(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.\w{1,8}):(?P<l>\d+)(?::(?P<c>\d+))?:? {1,2}(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 72).follow(indented).refine(remark))],
    },
    Rule {
        // As PMD has it.
        name: "generic.place_tabs",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.\w{1,8}):(?P<l>\d+):\t(?P<k>[A-Z]\w+):\t(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 80).fails(Fails::Always))],
    },
    Rule {
        name: "generic.place_tight",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.\w{1,8}):(?P<l>\d+):(?P<m>[A-Z]\S*.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 70).refine(remark))],
    },
    Rule {
        name: "generic.place_parens",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.\w{1,8})\((?P<l>\d+)(?:,(?P<c>\d+))?\): +(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 72).follow(indented).refine(remark))],
    },
    Rule {
        name: "generic.place_bracketed",
        pattern: r"^\[(?P<f>[^\]\s:]+\.\w{1,8}):(?P<l>\d+)(?::(?P<c>\d+))?\] (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Remark, Kind::Lint, 72).refine(remark))],
    },
    Rule {
        // Formatters print only the change that they would make.
        name: "generic.diff",
        pattern: r"^--- (?P<f>[^\s:]+\.\w{1,8})(?:[ \t].*)?$",
        effects: &[Effect::Problem(
            problem(Level::Remark, Kind::Lint, 45).follow(hunks).refine(first_change),
        )],
    },
    Rule {
        name: "generic.dash_failed",
        pattern: r"^(?P<t>[\w.:/\[\]-]+) - (?:failed|FAILED|error|ERROR)\b(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 80))],
    },
    Rule {
        name: "generic.severity",
        pattern: r"^\s{0,4}(?:\[(?:ERROR|Error|error|FATAL|Fatal|fatal|CRITICAL|SEVERE)\]:?|(?:ERROR|FATAL|CRITICAL|SEVERE)(?: ?\[[^\]]*\])?[:!]?|(?:Error|error|Fatal|fatal|Critical|critical)(?: ?\[[^\]]*\])?[:!]) (?P<m>\S.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 60).follow(announced).refine(named).role(Role::Vague),
        )],
    },
    Rule {
        name: "generic.tool_severity",
        pattern: r"^(?:[\w./+-]+): (?P<s>fatal error|error|fatal|ERROR|FATAL|Error): (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Runtime, 74).follow(announced).refine(located).role(Role::Vague),
        )],
    },
    Rule {
        // What the tools of Unix print before they give up.
        name: "generic.giving_up",
        pattern: r"^[a-z][\w.-]*(?: error)?: (?:.*[:;] ?exiting now|Exiting with failure status.*|Child returned status \d+|.*\(see previous errors\).*)\.?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Consequence, 40))],
    },
    Rule {
        // `Parse error: …`, `semgrep error: …`
        name: "generic.sort_of_error",
        pattern: r"^[A-Za-z][\w.-]* error: (?P<m>\S.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 60).follow(announced).refine(sorted).role(Role::Vague),
        )],
    },
    Rule {
        // A level before the name of a logger, or before a dash: `ERROR:root:…`, `ERROR   -  …`
        name: "generic.logged",
        pattern: r"^(?P<s>ERROR|CRITICAL|FATAL|WARNING)(?::[\w.-]+:| +- +)(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Runtime, 60).refine(worded).role(Role::Vague))],
    },
    Rule {
        // Pairs with a level, as loggers of Go print them: `time=… level=error msg="…"`
        name: "generic.pairs",
        pattern: r#"^(?:[\w.-]+=(?:"[^"]*"|[^\s"]*) ){0,6}level="?(?P<s>fatal|panic|critical|crit|error|err|warning|warn|FATAL|PANIC|ERROR|WARN)"? (?P<m>.*)"#,
        effects: &[Effect::Problem(problem(Level::Word, Kind::Runtime, 60).role(Role::Vague))],
    },
    Rule {
        // As logrus prints them to a terminal.
        name: "generic.logrus",
        pattern: r"^(?:ERRO|FATA)\[\d+\] (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 60).refine(worded).role(Role::Vague))],
    },
    Rule {
        // As charmbracelet/log prints them.
        name: "generic.short_level",
        pattern: r"^(?:ERRO|FATA) (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 60).refine(worded).role(Role::Vague))],
    },
    Rule {
        // `cp: cannot stat 'a': …`, `gzip: stdin: not in gzip format`
        name: "generic.tool_says",
        pattern: r"^[a-z][\w.+-]*:(?: [^:]{1,60}:)? +(?:\[\w+\] )?(?P<m>(?:[\w]+ \x22[^\x22]*\x22 failed: |[Cc]annot|[Cc]an't|[Cc]ould ?n[o']t|[Uu]nable to|[Ff]ailed to|not in |[Ii]nvalid|[Uu]nrecognized|[Uu]nknown|[Uu]nterminated|[Uu]nmatched|[Ii]llegal|[Nn]o such\b).*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 55).follow(indented).role(Role::Vague))],
    },
    Rule {
        // `Failed to connect to bus: …`, `Could not resolve host: …`
        name: "generic.sentence",
        pattern: r"^(?:Failed to|Cannot|Can't|Could ?n[o']t|Unable to) (?P<m>[a-z]\S* \S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 50).refine(located).role(Role::Vague))],
    },
    Rule {
        name: "generic.warning",
        pattern: r"^\s{0,4}(?:\[(?:WARNING|Warning|warning|WARN|warn)\]:?|(?:WARNING|WARN)(?: ?\[[^\]]*\])?:?|(?:Warning|warning)(?: ?\[[^\]]*\])?:) (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Runtime, 40).follow(indented))],
    },
    Rule {
        name: "generic.bullet",
        pattern: r"^\s*(?:\xe2\x9c\x98|\xe2\x9c\x96|\xe2\x9c\x97|\xc3\x97|\xe2\x9d\x8c)(?: |   )(?P<m>\S.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 70)
                .lead(is_listed)
                .follow(up_to_place)
                .refine(marked)
                .role(Role::Mark),
        )],
    },
    Rule {
        name: "generic.letter",
        pattern: r"^ {2}x (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 80).follow(drawn).refine(marked_in_ascii))],
    },
    Rule {
        name: "generic.sign",
        pattern: r"^ {2}(?:!|\xe2\x9a\xa0) (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Lint, 70).follow(drawn).refine(marked_in_ascii))],
    },
    Rule {
        name: "generic.failed",
        pattern: r"^(?:FAILED|FAIL|FAILURE)[: ]+(?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 72).refine(said_why))],
    },
    Rule {
        name: "generic.named_fatal",
        pattern: r"^\[[\w.-]+\] FATAL: (?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 70).role(Role::Vague))],
    },
];
