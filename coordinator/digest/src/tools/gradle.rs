//! Output of gradle.

use super::compiler::{CHILD_DIED, DIED};
use super::junit::java_place;
use crate::rules::{ERROR, Effect, Kind, Level, Next, Rule, TOTAL, TestEvent, indented, problem};
use crate::tool::{Apart, Includes, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    reports_its_end: true,
    selections: &["--tests"],
    apart: Apart::Always,
    builds: true,
    drives: true,
    includes: Includes::Only(ToolId::Surefire),
    rules: RULES,
    ..Tool::named("gradle")
};

pub(super) const OR_ANT: Tool = Tool {
    program: Some(ToolId::Gradle),
    apart: Apart::Always,
    builds: true,
    drives: true,
    ..Tool::named("gradle or ant")
};

/// The line of the source, the caret below it, and notes.
fn excerpt(so_far: &[String], line: &str) -> Next {
    let is_part = so_far.len() == 1 || line.starts_with(' ') && so_far.len() < 8 && !line.ends_with("FAILED");
    if is_part { Next::Part } else { Next::Beyond }
}

/// Gradle's paragraphs `* What went wrong:`.
fn gradle_lines(so_far: &[String], line: &str) -> Next {
    if line.starts_with("* Try:")
        || line.starts_with("BUILD FAILED")
        || line.starts_with("====")
        || so_far.len() > 40
    {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// `* Where:`, above the error: `Build file '/w/build.gradle' line: 6`.
fn gradle_where(line: &str) -> bool {
    let files = ["Build file '", "Settings file '", "Initialization script '", "Script '"];
    line == "* Where:" || files.iter().any(|file| line.starts_with(file)) && line.contains(" line: ")
}

/// The error is below its heading. Its reason is the deepest of the lines that begin there with `>`.
fn gradle_cause(diagnostic: &mut crate::rules::Diagnostic) {
    let place = diagnostic.lines.iter().find_map(|line| {
        let (file, row) = line.split_once('\'')?.1.split_once("' line: ")?;
        gradle_where(line).then(|| (file.to_owned(), row.trim().parse().ok()))
    });
    if let Some((file, row)) = place {
        (diagnostic.file, diagnostic.line) = (Some(file), row);
    }
    let heading =
        diagnostic.lines.iter().position(|line| line.starts_with("* What went wrong:")).unwrap_or(0);
    let is_reason = |line: &&String| line.trim_start().starts_with("> ");
    let deeper = diagnostic.lines.iter().skip(heading + 2).take_while(is_reason).count();
    let mut head = heading + 1 + deeper;
    // Groovy's compiler prints the message on the next line.
    head += usize::from(diagnostic.lines.get(head).is_some_and(|line| line.ends_with("> startup failed:")));
    diagnostic.head = Some(head.min(diagnostic.lines.len() - 1));
    gradle_echo(diagnostic);
}

/// Failed tests and sources that did not compile are reported at their own lines.
fn gradle_echo(diagnostic: &mut crate::rules::Diagnostic) {
    let echoes = ["There were failing tests", "Compilation failed; see", "Compilation error. See log"];
    if diagnostic.lines.iter().any(|line| echoes.iter().any(|echo| line.contains(echo))) {
        diagnostic.kind = Some(Kind::Consequence);
    } else if diagnostic.lines.iter().any(|line| line.starts_with("> No tests found for given includes")) {
        diagnostic.kind = Some(Kind::Test);
    }
}

/// `java.lang.AssertionError at OneTest.java:8`, the first that names a place; or a whole stack.
fn gradle_test(diagnostic: &mut crate::rules::Diagnostic) {
    java_place(diagnostic);
    if diagnostic.file.is_none() {
        let places: Vec<String> = diagnostic
            .lines
            .iter()
            .filter_map(|line| Some(line.rsplit_once(" at ")?.1.to_owned()))
            .filter(|place| !place.contains([' ', '(']) && place.contains('.'))
            .collect();
        let _found = places.iter().any(|place| crate::rules::set_place(diagnostic, place));
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "gradle.executor",
        pattern: r"^(?:> )?(?:Caused by: \S+: )?Process 'Gradle Test Executor \d+' finished with non-zero exit value (?:(?P<sig>1[2-9]\d)|\d+)\b",
        effects: &[Effect::Problem(DIED), Effect::WorkerDied],
    },
    Rule {
        name: "gradle.daemon",
        pattern: r"^(?:FAILURE: )?Gradle build daemon (?:disappeared unexpectedly|has been stopped: since)",
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "gradle.success",
        pattern: r"^BUILD SUCCESSFUL in ",
        effects: &[Effect::Own(|line| line.over(true)), Effect::Success, Effect::Summary],
    },
    Rule {
        name: "gradle.failed",
        pattern: r"^BUILD FAILED in ",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        // Gradle before version 5 prints no end of line after the name of a task.
        name: "gradle.after_task",
        pattern: r"^(?::[\w-]+)+(?P<f>/[^:\s]+\.(?:java|kt|groovy|scala)):(?P<l>\d+): (?P<s>error|warning): (?P<m>.*)",
        effects: &[Effect::Problem(problem(Level::Word, Kind::Build, 92).follow(excerpt))],
    },
    Rule {
        name: "gradle.wrong",
        pattern: r"^\* What went wrong:",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 75).follow(gradle_lines).lead(gradle_where).refine(gradle_cause),
        )],
    },
    Rule {
        name: "gradle.daemon_begins",
        pattern: r"^Starting a Gradle Daemon\b",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "gradle.task",
        pattern: r"^> Task (?P<t>\S+) FAILED$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule { name: "gradle.at_work", pattern: r"^> Task :\S+", effects: &[Effect::AtWork] },
    Rule {
        name: "gradle.begun",
        pattern: r"^(?P<t>\S.* > .+?) STARTED$",
        effects: &[Effect::IfKnown(ToolId::Gradle), Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "gradle.ended",
        pattern: r"^(?P<t>\S.* > .+?) (?:PASSED|FAILED|SKIPPED)(?: \([\d.]+m?s\))? ?$",
        effects: &[Effect::Test(TestEvent::Ended)],
    },
    Rule {
        name: "gradle.passed",
        pattern: r"^(?P<t>\S.* > .+?) PASSED(?: \([\d.]+m?s\))?$",
        effects: &[Effect::Own(|line| line.tally.tells_passes(ToolId::Gradle))],
    },
    Rule {
        name: "gradle.test",
        pattern: r"^(?P<t>\S.* > .+?) FAILED ?$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(indented).refine(gradle_test))],
    },
    Rule {
        name: "gradle.tests",
        pattern: r"^(?P<n>\d+) tests? completed, (?P<failed>\d+) failed(?:, (?P<skipped>\d+) skipped)?",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
];
