//! Output of any tool.

use super::c::indented_no_head;
use super::languages::of_compiler;
use crate::rules::{
    Act, Draft, ERROR, Kind, Level, Next, Role, Rule, Sign, WARNING, drawn, indented, paragraph, pointed,
    problem, set_place,
};
use crate::tool::{Tool, ToolId};

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("any tool") };

/// Text after a location on a separate line.
fn said(so_far: &[String], line: &str) -> Next {
    let says = ["rror", "arning", "ailed"].iter().any(|word| line.contains(word));
    if so_far.len() == 1 && !says || so_far.len() > 12 { Next::Beyond } else { paragraph(so_far, line) }
}

/// A location alone has no message. The line below has it.
fn alone(draft: &mut Draft) {
    draft.spurious = draft.lines.len() == 1;
    draft.head = Some(1);
}

/// A mark above an excerpt with a place is a compiler's.
fn marked(draft: &mut Draft) {
    pointed(draft);
    if draft.file.is_some() {
        draft.kind = Some(Kind::Build);
    }
}

/// `parse error at (chart/a.yaml:14): …`: the place in parentheses, if no line points to one.
fn named(draft: &mut Draft) {
    pointed(draft);
    if draft.file.is_none() {
        let first = draft.first().to_owned();
        let places = first.split('(').skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let _found = places
            .filter(|place| place.contains('.') && !place.contains(' ') && !place.contains("://"))
            .any(|place| set_place(draft, place));
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "errors.total",
        pattern: r"^[1-9]\d* errors?(?: found)?\.?$",
        acts: &[Act::Sign(Sign::TotalOfErrors(ToolId::Compiler))],
    },
    Rule {
        name: "quoted.place",
        pattern: r#"^(?:\w+: )?"(?P<f>[^"]+)", ?(?:line )?(?P<l>\d+)(?:[.:](?P<c>\d+))?[:,]?\s+(?P<s>[Ff]atal [Ee]rror|[Ee]rror|[Ww]arning|[Rr]emark|[Ii]nfo)\b(?P<m>.*)"#,
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 90).follow(indented_no_head))],
    },
    Rule {
        name: "generic.place_alone",
        pattern: r"^(?P<f>(?:\./|/)?[^\s:]+\.\w{1,8}):(?P<l>\d+):(?P<c>\d+)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 78).follow(said).refine(alone))],
    },
    Rule {
        name: "generic.place_severity",
        pattern: r"^\s*(?P<f>(?:[A-Za-z]:)?[^\s:(][^:(\t]*?)(?::(?P<l>\d+)(?::(?P<c>\d+))?|\((?P<l2>\d+)(?:,\s?(?P<c2>\d+))?\))(?::| -)? {0,2}(?:col: \d+ )?\[?(?P<s>[Ff]atal(?: [Ee]rror)?|FATAL|[Ee]rror|ERROR|[Ww]arning|WARN(?:ING)?|[Ii]nfo|INFO|[Nn]ote|NOTE|style|CRITICAL)\]?(?:\[[\w-]+\])?(?P<m>[: ].*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85).follow(indented).refine(of_compiler))],
    },
    Rule {
        name: "generic.task_prefix",
        pattern: r"^\s*\[\w+\] +(?P<f>(?:[A-Za-z]:)?[^\s:(\[][^:(\t]*?)(?::(?P<l>\d+)(?::(?P<c>\d+))?|\s?\((?P<l2>\d+)(?:,\s?(?P<c2>\d+))?\)) ?:? {0,2}(?:col: \d+ )?\[?(?P<s>[Ff]atal(?: [Ee]rror)?|[Ee]rror|ERROR|[Ww]arning|WARNING)\b(?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 85))],
    },
    Rule {
        // As puppet-lint has it.
        name: "generic.place_name_severity",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(][^:(\t]*\.\w{1,8}):(?P<l>\d+):[\w-]+:(?P<s>ERROR|WARNING|error|warning):(?P<m>\S.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85))],
    },
    Rule {
        name: "generic.severity_in_place",
        pattern: r#"^(?:[\w.-]+: )?(?P<s>[Ff]atal [Ee]rror|[Ee]rror|ERROR|[Ww]arning|WARNING) in "(?P<f>[^"]+)", line (?P<l>\d+)(?:, col(?:umn)? (?P<c>\d+))?: (?P<m>.*)"#,
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 88))],
    },
    Rule {
        // As the compilers of IAR have it.
        name: "generic.severity_code",
        pattern: r"^(?P<s>[Ff]atal [Ee]rror|[Ee]rror)\[[A-Z][A-Za-z]{0,3}\d{2,5}\]: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 85))],
    },
    Rule {
        name: "generic.place_code",
        pattern: r"^\s{0,4}(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.\w{1,8}):(?P<l>\d+)(?::(?P<c>\d+))?:? {1,2}(?P<m>\S.*)",
        acts: &[Act::Problem(problem(Level::Remark, Kind::Lint, 72).follow(indented))],
    },
    Rule {
        name: "generic.place_tight",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.\w{1,8}):(?P<l>\d+):(?P<m>[A-Z]\S*.*)",
        acts: &[Act::Problem(problem(Level::Remark, Kind::Lint, 70))],
    },
    Rule {
        name: "generic.place_parens",
        pattern: r"^(?P<f>(?:[A-Za-z]:)?[^\s:(]+\.\w{1,8})\((?P<l>\d+)(?:,(?P<c>\d+))?\): +(?P<m>\S.*)",
        acts: &[Act::Problem(problem(Level::Remark, Kind::Lint, 72).follow(indented))],
    },
    Rule {
        name: "generic.place_bracketed",
        pattern: r"^\[(?P<f>[^\]\s:]+\.\w{1,8}):(?P<l>\d+)(?::(?P<c>\d+))?\] (?P<m>\S.*)",
        acts: &[Act::Problem(problem(Level::Remark, Kind::Lint, 72))],
    },
    Rule {
        name: "generic.dash_failed",
        pattern: r"^(?P<t>[\w.:/\[\]-]+) - (?:failed|FAILED|error|ERROR)\b(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 80))],
    },
    Rule {
        name: "generic.severity",
        pattern: r"^\s{0,4}(?:\[(?:ERROR|Error|error|FATAL|Fatal|fatal|CRITICAL|SEVERE)\]:?|(?:ERROR|FATAL|CRITICAL|SEVERE)(?: ?\[[^\]]*\])?[:!]?|(?:Error|error|Fatal|fatal|Critical|critical)(?: ?\[[^\]]*\])?[:!]) (?P<m>\S.*)",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Runtime, 60).follow(drawn).refine(named).role(Role::Vague),
        )],
    },
    Rule {
        name: "generic.tool_severity",
        pattern: r"^(?:[\w./+-]+): (?P<s>fatal error|error|fatal|ERROR|FATAL|Error): (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Runtime, 74).follow(indented).role(Role::Vague))],
    },
    Rule {
        name: "generic.warning",
        pattern: r"^\s{0,4}(?:\[(?:WARNING|Warning|warning|WARN|warn)\]:?|(?:WARNING|WARN)(?: ?\[[^\]]*\])?:?|(?:Warning|warning)(?: ?\[[^\]]*\])?:) (?P<m>\S.*)",
        acts: &[Act::Problem(problem(WARNING, Kind::Runtime, 40).follow(indented))],
    },
    Rule {
        name: "generic.bullet",
        pattern: r"^\s*(?:\xe2\x9c\x98|\xe2\x9c\x96|\xe2\x9c\x97|\xc3\x97|\xe2\x9d\x8c) (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 70).follow(drawn).refine(marked).role(Role::Mark))],
    },
    Rule {
        name: "generic.failed",
        pattern: r"^(?:FAILED|FAIL|FAILURE)[: ]+(?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 72))],
    },
];
