//! javac, kotlinc, scalac, maven, gradle, JUnit, and the JVM's own errors.

use super::TestEvent::{Ended, Started};
use super::javascript::stack;
use super::{Act, Count, ERROR, FATAL, Indicator, Kind, Level, Next, Rule, Sign, WARNING, indented, problem};
use crate::tally::Counts;
use crate::tool::ToolId;
use buildpool_protocol::java;

const SUREFIRE: Count = |groups| {
    let (run, failed) = (groups.number("n"), groups.number("failed") + groups.number("errors"));
    let skipped = groups.number("skipped");
    Some(Counts { passed: run.saturating_sub(failed + skipped), failed, skipped, expected: 0 })
};

/// Indented lines with the same mark after `[ERROR]`.
fn maven_lines(so_far: &[String], line: &str) -> Next {
    let Some(rest) = line.strip_prefix("[ERROR]") else { return stack(so_far, line) };
    if rest.starts_with("   ") && !rest.trim().is_empty() { Next::Part } else { Next::Beyond }
}

/// The excerpt and the explanation, each line marked like the head.
fn scala3_lines(so_far: &[String], line: &str) -> Next {
    let marked = so_far.first().is_some_and(|head| head.starts_with('['));
    let body = if marked { line.split_once("] ").map_or("", |(_, body)| body) } else { line };
    let numbered = body.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    if numbered.starts_with('|') && so_far.len() < 40 { Next::Part } else { Next::Beyond }
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
fn gradle_cause(draft: &mut super::Draft) {
    let place = draft.lines.iter().find_map(|line| {
        let (file, row) = line.split_once('\'')?.1.split_once("' line: ")?;
        gradle_where(line).then(|| (file.to_owned(), row.trim().parse().ok()))
    });
    if let Some((file, row)) = place {
        (draft.file, draft.line) = (Some(file), row);
    }
    let heading = draft.lines.iter().position(|line| line.starts_with("* What went wrong:")).unwrap_or(0);
    let is_reason = |line: &&String| line.trim_start().starts_with("> ");
    let deeper = draft.lines.iter().skip(heading + 2).take_while(is_reason).count();
    let mut head = heading + 1 + deeper;
    // Groovy's compiler prints the message on the next line.
    head += usize::from(draft.lines.get(head).is_some_and(|line| line.ends_with("> startup failed:")));
    draft.head = Some(head.min(draft.lines.len() - 1));
    gradle_echo(draft);
}

/// Failed tests and sources that did not compile are reported at their own lines.
fn gradle_echo(draft: &mut super::Draft) {
    let echoes = ["There were failing tests", "Compilation failed; see", "Compilation error. See log"];
    if draft.lines.iter().any(|line| echoes.iter().any(|echo| line.contains(echo))) {
        draft.kind = Some(Kind::Consequence);
    } else if draft.lines.iter().any(|line| line.starts_with("> No tests found for given includes")) {
        draft.kind = Some(Kind::Test);
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "maven.begun",
        pattern: r"^\[INFO\] Scanning for projects\.\.\.$",
        acts: &[Act::Sign(Sign::Begins(ToolId::Maven))],
    },
    Rule {
        name: "maven.goal",
        pattern: r"^\[INFO\] --- \S+:(?P<u>[^\s:]+ \(\S+\)) @ (?P<w>\S+) ---$",
        acts: &[Act::Unit(ToolId::Maven)],
    },
    Rule {
        name: "maven.failed_unit",
        pattern: r"^\[ERROR\] Failed to execute goal \S+:(?P<u>[^\s:]+ \(\S+\)) on project (?P<w>[^\s:]+):",
        acts: &[Act::FailedUnit(ToolId::Maven)],
    },
    Rule {
        name: "maven.success",
        pattern: r"^\[INFO\] BUILD SUCCESS$",
        acts: &[Act::Over(ToolId::Surefire, true), Act::Sign(Sign::Success(ToolId::Maven)), Act::Summary],
    },
    Rule {
        name: "maven.failure",
        pattern: r"^\[(?:INFO|ERROR)\] BUILD (?:FAILURE|ERROR)$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Maven)), Act::Summary],
    },
    Rule {
        name: "maven.totals",
        pattern: r"^\[(?:INFO|ERROR|WARNING)\] Tests run: (?P<n>\d+), Failures: (?P<failed>\d+), Errors: (?P<errors>\d+), Skipped: (?P<skipped>\d+)(?:, Flakes: \d+)?$",
        acts: &[
            Act::Session(ToolId::Surefire),
            Act::Counts(ToolId::Surefire, SUREFIRE),
            Act::Summary,
            Act::Harmless,
        ],
    },
    Rule {
        name: "maven.class",
        pattern: r"^\[ERROR\] Tests run: \d+, .*(?:<<< (?:FAILURE|ERROR)!).*",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "surefire.goal",
        pattern: r"^\[INFO\] --- \S*(?:surefire|failsafe)\S*:(?P<t>[^\s:]+ \(\S+\) @ \S+) ---$",
        acts: &[Act::Part(ToolId::Surefire)],
    },
    Rule {
        // A quiet run names the goal and the module only here.
        name: "surefire.failed_goal",
        pattern: r"^\[ERROR\] Failed to execute goal \S*(?:surefire|failsafe)\S*:(?P<goal>[^\s:]+ \(\S+\)) on project (?P<project>[^\s:]+): ",
        acts: &[Act::FailedPart(ToolId::Surefire)],
    },
    Rule {
        name: "surefire.heading",
        pattern: r"^(?:\[INFO\] )? T E S T S$",
        acts: &[Act::Heading(ToolId::Surefire)],
    },
    Rule {
        name: "surefire.begun",
        pattern: r"^(?:\[INFO\] )?Running (?P<t>[\w$]+(?:\.[\w$]+)+)$",
        acts: &[Act::Test(ToolId::Surefire, Started)],
    },
    Rule {
        name: "surefire.ended",
        pattern: r"^(?:\[\w+\] )?Tests run: \d+, .*Time elapsed: .* in (?P<t>[\w$.]+)$",
        acts: &[Act::Test(ToolId::Surefire, Ended)],
    },
    Rule {
        name: "surefire.ended_unnamed",
        pattern: r"^(?:\[\w+\] )?Tests run: \d+, .*Time elapsed: [\d.,]+ s(?:ec)?(?: <<< (?:FAILURE|ERROR)!)?$",
        acts: &[Act::Ends(ToolId::Surefire)],
    },
    Rule {
        name: "maven.test",
        pattern: r"^\[ERROR\] (?P<t>\S.*?)  ?(?:--)? ?Time elapsed: .*<<< (?:FAILURE|ERROR)!",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(stack_any).refine(maven_test))],
    },
    Rule {
        name: "maven.place",
        pattern: r"^\[(?P<s>ERROR|WARNING)\] (?P<f>(?:[A-Za-z]:)?[^\s:\[]+):\[(?P<l>\d+),(?P<c>\d+)\] (?P<m>.*)",
        acts: &[Act::Problem(
            problem(Level::Word, Kind::Build, 94).follow(maven_lines).refine(maven_unmarked),
        )],
    },
    Rule {
        // Surefire ended the tests itself; where failures are ignored it goes on to its success.
        name: "surefire.timeout",
        pattern: r"^\[ERROR\] (?:Failed to execute goal .*: )?There was a timeout (?:or other error )?in the fork",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93)), Act::Cut(ToolId::Surefire)],
    },
    Rule {
        name: "maven.unresolved",
        pattern: r"^\[ERROR\] Failed to execute goal .*(?:Could not resolve dependencies|Could not find artifact|Fatal error compiling|No compiler is provided)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Build, 88)),
            Act::Sign(Sign::Failure(ToolId::Maven)),
            Act::Summary,
        ],
    },
    Rule {
        name: "maven.failed_goal",
        pattern: r"^\[ERROR\] Failed to execute goal (?P<m>.*)",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Consequence, 60)),
            Act::Sign(Sign::Failure(ToolId::Maven)),
            Act::Summary,
        ],
    },
    Rule {
        name: "maven.told_again",
        pattern: r"^\[ERROR\] (?:  +(?:The project .* has \d+ errors?$|.* -> \[Help \d+\]$)|The build could not read \d+ projects?\b)",
        acts: &[Act::Sign(Sign::FailureToo(ToolId::Maven)), Act::Harmless],
    },
    Rule {
        name: "maven.pom",
        pattern: r"^\[(?:FATAL|ERROR)\] (?:Non-parseable POM (?P<f>\S+?): )?(?P<m>.*) @ (?:.*, )?line (?P<l>\d+), column (?P<c>\d+)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 94))],
    },
    Rule {
        name: "maven.unplaced",
        pattern: r"^\[ERROR\] (?P<f>\S+\.(?:java|kt|groovy|scala)): (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90))],
    },
    Rule {
        // Only a failed build ends with this; it is all that `tail` leaves of it.
        name: "maven.help",
        pattern: r"^\[ERROR\] (?:-> \[Help \d+\]|\[Help \d+\] http|To see the full stack trace of the errors, re-run Maven|Re-run Maven using|For more information about the errors and possible solutions|After correcting the problems, you can resume the build|  mvn <args> -rf )",
        acts: &[Act::Sign(Sign::FailureToo(ToolId::Maven)), Act::Harmless],
    },
    Rule {
        name: "maven.chatter",
        pattern: r"^\[ERROR\] (?:\[Help|Re-run Maven|To see the full|For more information|After correcting|-> \[|Please refer|Failures:|Errors:|COMPILATION ERROR :|\[ERROR\] Some problems were encountered|$)",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "maven.failure_line",
        pattern: r"^\[ERROR\]   (?P<t>[^\s:()]+:\d+)(?:->\S+)* (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 92).bare().refine(maven_list))],
    },
    Rule {
        name: "surefire.flake",
        pattern: r"^\[WARNING\] (?P<t>(?:[a-z]\w*\.)*[A-Z][\w$]*\.[a-z_]\w*)(?:\([\w.$]+\))?$",
        acts: &[Act::Flaky, Act::Harmless],
    },
    Rule {
        name: "maven.warning",
        pattern: r"^\[(?:WARNING|WARN)\] (?P<m>\S.*)",
        acts: &[Act::Problem(problem(WARNING, Kind::Build, 50).follow(indented))],
    },
    Rule {
        name: "gradle.success",
        pattern: r"^BUILD SUCCESSFUL in ",
        acts: &[Act::Over(ToolId::Gradle, true), Act::Sign(Sign::Success(ToolId::Gradle)), Act::Summary],
    },
    Rule {
        name: "gradle.failed",
        pattern: r"^BUILD FAILED in ",
        acts: &[Act::Sign(Sign::Failure(ToolId::Gradle)), Act::Summary],
    },
    Rule {
        // Of Gradle before version 4, too.
        name: "ant.failed",
        pattern: r"^BUILD FAILED$",
        acts: &[Act::Sign(Sign::Failure(ToolId::GradleOrAnt)), Act::Summary],
    },
    Rule {
        // Of both. Ant prints it too if it is configured to ignore failures.
        name: "ant.success",
        pattern: r"^BUILD SUCCESSFUL$",
        acts: &[Act::Sign(Sign::TakesBack(ToolId::GradleOrAnt)), Act::Summary],
    },
    Rule {
        name: "gradle.wrong",
        pattern: r"^\* What went wrong:",
        acts: &[Act::Problem(
            problem(ERROR, Kind::Build, 75).follow(gradle_lines).lead(gradle_where).refine(gradle_cause),
        )],
    },
    Rule { name: "gradle.daemon_begins", pattern: r"^Starting a Gradle Daemon\b", acts: &[Act::Harmless] },
    Rule {
        name: "gradle.task",
        pattern: r"^> Task (?P<t>\S+) FAILED$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Gradle)), Act::Summary],
    },
    Rule { name: "gradle.at_work", pattern: r"^> Task :\S+", acts: &[Act::AtWork(ToolId::Gradle)] },
    Rule {
        name: "gradle.test_task",
        pattern: r"^> Task \S*:\w*[Tt]est\w*$",
        acts: &[Act::Heading(ToolId::Gradle)],
    },
    Rule {
        name: "gradle.begun",
        pattern: r"^(?P<t>\S.* > .+?) STARTED$",
        acts: &[Act::Test(ToolId::Gradle, Started)],
    },
    Rule {
        name: "gradle.ended",
        pattern: r"^(?P<t>\S.* > .+?) (?:PASSED|FAILED|SKIPPED)(?: \([\d.]+m?s\))?$",
        acts: &[Act::Test(ToolId::Gradle, Ended)],
    },
    Rule {
        name: "gradle.passed",
        pattern: r"^(?P<t>\S.* > .+?) PASSED(?: \([\d.]+m?s\))?$",
        acts: &[Act::TellsPasses(ToolId::Gradle)],
    },
    Rule {
        name: "gradle.test",
        pattern: r"^(?P<t>\S.* > .+?) FAILED$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 94).follow(indented).refine(gradle_test))],
    },
    Rule {
        name: "gradle.tests",
        pattern: r"^(?P<n>\d+) tests? completed, (?P<failed>\d+) failed(?:, (?P<skipped>\d+) skipped)?",
        acts: &[Act::Session(ToolId::Gradle), Act::Counts(ToolId::Gradle, SUREFIRE), Act::Summary],
    },
    Rule {
        name: "kotlin",
        pattern: r"^(?P<s>[ew]): (?:file://)?(?P<f>(?:[A-Za-z]:)?[^\s:]+):(?: \()?(?P<l>\d+)(?:, |:)(?P<c>\d+)\)?:? (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 93).follow(indented).refine(kotlin_severity))],
    },
    Rule {
        name: "checkstyle",
        pattern: r"^\[(?P<s>ERROR|WARN|INFO)\] (?P<f>(?:[A-Za-z]:)?[^\s:\[]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 88))],
    },
    Rule {
        name: "scala3",
        pattern: r"^(?:\[(?P<s>error|warn)\] )?-- (?:\[E\d+\] )?(?P<m>.*?): (?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+) -*$",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 94).follow(scala3_lines).owning())],
    },
    Rule {
        name: "sbt.chatter",
        pattern: r"^\[error\] (?:(?:one|two|three|four|\d+) errors? found|Total time: )",
        acts: &[Act::Harmless],
    },
    Rule {
        name: "sbt.task",
        pattern: r"^\[error\] \([^()]* / [^()]*\) (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 60)), Act::Sign(Sign::Failure(ToolId::Sbt))],
    },
    Rule {
        name: "sbt",
        pattern: r"^\[(?P<s>error|warn)\] (?P<f>[^\s:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 93).follow(sbt_lines))],
    },
    Rule {
        name: "sbt.error",
        pattern: r"^\[error\] (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 65))],
    },
    Rule {
        name: "sbt.success",
        pattern: r"^\[success\] Total time",
        acts: &[Act::Sign(Sign::Success(ToolId::Sbt)), Act::Summary],
    },
    Rule {
        name: "java.exception",
        pattern: r#"^(?:Exception in thread ".*" |Caused by: )?(?P<m>(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable)\b.*)"#,
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 86).follow(stack_any).refine(java_place))],
    },
    Rule {
        name: "java.oom",
        pattern: r#"^(?:Exception in thread ".*" |Terminating due to )?java\.lang\.OutOfMemoryError"#,
        acts: &[Act::Sign(Sign::Crash(Indicator::OutOfMemory))],
    },
    Rule {
        name: "jvm.crash",
        pattern: r"^# A fatal error has been detected by the Java Runtime Environment",
        acts: &[
            Act::Problem(problem(FATAL, Kind::Crash, 96).follow(hash_lines)),
            Act::Sign(Sign::Crash(Indicator::FatalError)),
        ],
    },
];

fn hash_lines(_: &[String], line: &str) -> Next {
    if line.starts_with('#') { Next::Part } else { Next::Beyond }
}

fn sbt_lines(_: &[String], line: &str) -> Next {
    let rest = line.strip_prefix("[error] ").or_else(|| line.strip_prefix("[warn] "));
    match rest {
        Some(rest) if rest.starts_with([' ', '\t']) || rest.trim_start().starts_with('^') => Next::Part,
        Some(rest) if rest.contains(':') && rest.starts_with('/') => Next::Beyond,
        _ => Next::Beyond,
    }
}

fn is_frame(line: &str) -> bool {
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

/// `wrongSum(app.OneTest)` is the test that reports and others call `app.OneTest.wrongSum`. Of JUnit 5's the class is where the
/// stack has the method.
fn maven_test(draft: &mut super::Draft) {
    let test = draft.test.take().unwrap_or_default();
    let class = test.strip_suffix(')').and_then(|test| test.rsplit_once('('));
    let class = class.filter(|(_, class)| !class.is_empty() && !class.contains([' ', ',']));
    let bare = test.split(['(', '{', '[']).next().unwrap_or_default();
    let of_frame = || {
        draft.lines.iter().find_map(|line| {
            let method = line.trim_start().strip_prefix("at ")?.split('(').next()?;
            let method = method.rsplit('/').next().unwrap_or(method);
            let (class, name) = method.rsplit_once('.')?;
            (name == bare && !bare.is_empty()).then(|| format!("{class}.{test}"))
        })
    };
    draft.test = Some(match class {
        Some((method, class)) => format!("{class}.{method}"),
        None if test.contains('.') => test,
        None => of_frame().unwrap_or(test),
    });
    // The exception has more information than the note that there was one.
    draft.head = (draft.lines.len() > 1).then_some(1);
    java_place(draft);
}

/// The second copy of a compiler's message marks all of its lines.
fn maven_unmarked(draft: &mut super::Draft) {
    for line in draft.lines.iter_mut().skip(1) {
        if let Some(rest) = line.strip_prefix("[ERROR] ") {
            *line = rest.to_owned();
        }
    }
}

/// Of the list at the end: `OneTest.wrongSum:8`, `OneTest>BaseTest.wrongSum:12->helper:7`. The file it names by the class only.
fn maven_list(draft: &mut super::Draft) {
    draft.test = draft.test.take().map(|test| {
        let test = test.rsplit_once(':').map_or(test.as_str(), |(test, _)| test);
        match test.split_once('>') {
            Some((class, inherited)) => {
                format!("{class}.{}", inherited.rsplit('.').next().unwrap_or(inherited))
            }
            None => test.to_owned(),
        }
    });
}

/// `java.lang.AssertionError at OneTest.java:8`, the first that names a place; or a whole stack.
fn gradle_test(draft: &mut super::Draft) {
    java_place(draft);
    if draft.file.is_none() {
        let places: Vec<String> = draft
            .lines
            .iter()
            .filter_map(|line| Some(line.rsplit_once(" at ")?.1.to_owned()))
            .filter(|place| !place.contains([' ', '(']) && place.contains('.'))
            .collect();
        let _found = places.iter().any(|place| super::set_place(draft, place));
    }
}

/// The first frame of a stack that is not a framework's, `at app.Main.run(Main.java:5)`; in some without `at`.
pub(super) fn java_place(draft: &mut super::Draft) {
    let own = draft.lines.iter().find_map(|line| {
        let line = line.trim();
        let (method, place) = line.strip_prefix("at ").unwrap_or(line).strip_suffix(')')?.rsplit_once('(')?;
        let (file, row) = place.rsplit_once(':')?;
        let is_frame = method.contains('.') && !method.contains(' ') && file.contains('.');
        let is_own = is_frame && !java::is_foreign(method);
        Some((file.to_owned(), row.parse().ok()?)).filter(|_| is_own)
    });
    if let Some((file, row)) = own {
        draft.file = Some(file);
        draft.line = Some(row);
    }
}

fn kotlin_severity(draft: &mut super::Draft) {
    let error = draft
        .lines
        .first()
        .is_some_and(|line| line.trim_start().contains("e: ") && !line.trim_start().starts_with("w: "));
    draft.severity = Some(if error {
        buildpool_protocol::report::Severity::Error
    } else {
        buildpool_protocol::report::Severity::Warning
    });
}
