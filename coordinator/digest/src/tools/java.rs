//! Output of Java.

use super::junit::java_place;
use crate::rules::{Diagnostic, ERROR, Effect, FATAL, Indicator, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Java") };

fn hash_lines(_: &[String], line: &str) -> Next {
    if line.starts_with('#') { Next::Part } else { Next::Beyond }
}

pub(super) fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with("at ")
}

/// An exception of any package: `java.lang.AssertionError: no`, `org.junit.ComparisonFailure: no`.
fn is_thrown(line: &str) -> bool {
    let name = line.split([':', ' ']).next().unwrap_or_default();
    let is_class = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase());
    let dotted = name.rsplit_once('.').is_some_and(|(package, class)| !package.is_empty() && is_class(class));
    dotted && !name.contains(['/', '(', '[', '='])
}

/// A Java stack: `at`, `Caused by`, `... n more`, and the message's own further lines.
pub(super) fn stack_any(so_far: &[String], line: &str) -> Next {
    let trimmed = line.trim_start();
    let frame = is_frame(line)
        || trimmed.starts_with("Caused by:")
        || trimmed.starts_with("... ")
        || trimmed.starts_with("Suppressed:");
    let head = so_far.len() < 8 && !trimmed.is_empty() && !line.starts_with('[');
    let exception =
        so_far.len() == 1 && (trimmed.contains("Exception") || is_thrown(line)) || trimmed.contains("Error:");
    if frame || head && (line.starts_with([' ', '\t']) || exception) {
        Next::Part
    } else if head && !so_far.iter().any(|line| is_frame(line)) {
        // A line of the message, if the stack comes after it.
        Next::Maybe
    } else {
        Next::Beyond
    }
}

fn is_of_main_thread(diagnostic: &Diagnostic) -> bool {
    diagnostic.first().starts_with("Exception in thread \"main\"")
        || diagnostic.first().starts_with("Caught: ")
}

const RULES: &[Rule] = &[
    Rule {
        name: "java.exception",
        pattern: r#"^(?:Exception in thread ".*" |Caused by: |Caught: )?(?P<m>(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable)\b.*)"#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 86).follow(stack_any).refine(java_place).ended(is_of_main_thread),
        )],
    },
    Rule {
        name: "java.oom",
        pattern: r#"^(?:Exception in thread ".*" |Terminating due to )?java\.lang\.OutOfMemoryError"#,
        effects: &[Effect::Crash(Indicator::OutOfMemory)],
    },
    Rule {
        name: "jvm.crash",
        pattern: r"^# A fatal error has been detected by the Java Runtime Environment",
        effects: &[
            Effect::Problem(problem(FATAL, Kind::Crash, 96).follow(hash_lines)),
            Effect::Crash(Indicator::FatalError),
        ],
    },
    Rule {
        name: "jvm.frame",
        pattern: r"^# Problematic frame:$",
        effects: &[Effect::Crash(Indicator::FatalError)],
    },
];
