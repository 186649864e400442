//! Output of JUnit.

use super::java::stack_any;
use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Rule, SORTS, TOTAL, indented, problem};
use crate::tool::{Announced, Apart, Tool, ToolId};
use buildpool_protocol::java;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("JUnit") };

pub(super) const JUNIT_4: Tool =
    Tool { program: Some(ToolId::JUnit), announces: Some(Announced::ByHeading), ..Tool::named("JUnit 4") };

pub(super) const CONTAINERS: Tool = Tool {
    program: Some(ToolId::JUnit),
    apart: Apart::Always,
    outlives_invocation: true,
    ..Tool::named("JUnit, of what contains tests,")
};

/// Maximum number of lines of a JUnitCore failure: its stacks are complete.
const FAILURE_LINES_MAX: usize = 80;

/// The test and its location: the two lines above the exception.
fn console_lead(line: &str) -> bool {
    let is_source = line.starts_with("    MethodSource [") || line.starts_with("    ClassSource [");
    is_source || line.starts_with("  ") && !line.starts_with("   ") && line.contains(':')
}

/// `  JUnit Jupiter:CalcTest:adds()`
fn console_failure(diagnostic: &mut Diagnostic) {
    let title = diagnostic.lines.first().filter(|line| !line.trim_start().starts_with("=> "));
    diagnostic.test = title.and_then(|line| Some(line.trim().split_once(':')?.1.to_owned()));
    java_place(diagnostic);
}

/// Up to the next failure, or the end of all: messages have lines of their own, blank ones too.
fn core_lines(so_far: &[String], line: &str) -> Next {
    let begins_other = line.split_once(") ").is_some_and(|(number, rest)| {
        number.parse::<u32>().is_ok() && rest.ends_with(')') && rest.contains('(')
    });
    if begins_other || line == "FAILURES!!!" || so_far.len() > FAILURE_LINES_MAX {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Other programs print numbered lines too; below JUnit's line is the exception with its stack.
fn core_failure(diagnostic: &mut Diagnostic) {
    let has_stack =
        diagnostic.lines.iter().any(|line| line.starts_with("\tat ") || line.starts_with("    at "));
    diagnostic.spurious = !has_stack;
    java_place(diagnostic);
}

/// A case of a JUnit report; its failure follows.
fn xml_case(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("<testcase ") && !line.ends_with("/>") && !line.ends_with("</testcase>")
}

fn xml_lines(so_far: &[String], line: &str) -> Next {
    let closed =
        |line: &str| line.contains("</failure>") || line.contains("</error>") || line.ends_with("/>");
    if so_far.last().is_some_and(|last| closed(last)) || so_far.len() > 60 {
        Next::Beyond
    } else if closed(line) {
        Next::Last
    } else {
        Next::Part
    }
}

/// The case names the test; the place is where the stack has it.
fn xml_failure(diagnostic: &mut Diagnostic) {
    let case = diagnostic.lines.first().cloned().unwrap_or_default();
    let value = |key: &str| {
        let (_, rest) = case.split_once(&format!(" {key}=\""))?;
        let (value, _) = rest.split_once('"')?;
        let named = [("&gt;", ">"), ("&lt;", "<"), ("&quot;", "\""), ("&#x22;", "\""), ("&amp;", "&")];
        Some(named.iter().fold(value.to_owned(), |value, (name, sign)| value.replace(name, sign)))
    };
    diagnostic.test = value("name");
    super::mocha::js_place(diagnostic);
    if diagnostic.file.is_none() {
        diagnostic.file = value("file");
        diagnostic.line = value("line").and_then(|line| line.parse().ok());
    }
}

/// The first frame of a stack that is not a framework's, `at app.Main.run(Main.java:5)`; in some without `at`.
pub(super) fn java_place(diagnostic: &mut crate::rules::Diagnostic) {
    let own = diagnostic.lines.iter().find_map(|line| {
        let line = line.trim();
        let (method, place) = line.strip_prefix("at ").unwrap_or(line).strip_suffix(')')?.rsplit_once('(')?;
        let (file, row) = place.rsplit_once(':')?;
        let is_frame = method.contains('.') && !method.contains(' ') && file.contains('.');
        let is_own = is_frame && !java::is_foreign(method);
        Some((file.to_owned(), row.parse().ok()?)).filter(|_| is_own)
    });
    if let Some((file, row)) = own {
        diagnostic.file = Some(file);
        diagnostic.line = Some(row);
    }
}

const RULES: &[Rule] = &[
    Rule {
        // As `printStackTrace` prints it; Python's exceptions are named alike, in other packages.
        name: "junit.thrown",
        pattern: r"^(?:java|javax|jakarta|org|com|net|kotlin|scala|android|androidx|junit)\.(?:[a-z]\w*\.)*[A-Z]\w*(?:Exception|Error|Failure|Throwable)(?:: (?P<m>.*))?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 86).follow(stack_any).refine(java_place))],
    },
    Rule {
        name: "junit.failed",
        pattern: r"^\s+=> (?P<m>[\w.$]+(?:Error|Exception|Failure)\b.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(indented).lead(console_lead).refine(console_failure),
        )],
    },
    Rule {
        name: "junit.counts",
        pattern: r"^\[\s+(?:(?P<passed>\d+) tests successful|(?P<failed>\d+) tests failed|(?P<skipped>\d+) tests (?:skipped|aborted))\s+\]$",
        effects: &[Effect::Adds(SORTS), Effect::Summary],
    },
    Rule {
        name: "junit.bad",
        pattern: r"^\[\s+[1-9]\d* containers failed\s+\]$",
        effects: &[Effect::Of(ToolId::JUnitContainers, &[Effect::Failure])],
    },
    Rule {
        name: "junit.other_counts",
        pattern: r"^\[\s+\d+ (?:containers (?:found|skipped|started|aborted|successful|failed)|tests (?:found|started))\s+\]$",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "junit4.failed",
        pattern: r"^\d+\) (?P<t>\S(?:.*\S)?\((?:[\w$]+\.)*[\w$]+\)|(?:[\w$]+\.)+[\w$]+)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).follow(core_lines).owning().refine(core_failure),
        )],
    },
    Rule {
        name: "junit4.time",
        pattern: r"^Time: [\d.,]+$",
        effects: &[Effect::Of(ToolId::JUnit4, &[Effect::Heading])],
    },
    Rule {
        name: "junit4.bad",
        pattern: r"^FAILURES!!!$",
        effects: &[Effect::Of(ToolId::JUnit4, &[Effect::Heading, Effect::Failure])],
    },
    Rule {
        name: "junit4.counts",
        pattern: r"^(?:Tests run: (?P<n>\d+),  Failures: (?P<failed>\d+)|OK \((?P<n2>\d+) tests?\))$",
        effects: &[Effect::Of(ToolId::JUnit4, &[Effect::Counts(TOTAL)]), Effect::Summary],
    },
    Rule {
        // A report that is printed and not written.
        name: "junit.bad_suite",
        pattern: r#"^\s*<testsuites? (?:[^>]* )?(?:failures|errors)=["'][1-9]"#,
        effects: &[Effect::Failure, Effect::Harmless],
    },
    Rule {
        name: "junit.failure",
        pattern: r#"^\s*(?:<testcase [^>]*[^/]>)?<(?:failure|error)\b"#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 88).lead(xml_case).follow(xml_lines).owning().refine(xml_failure),
        )],
    },
];
