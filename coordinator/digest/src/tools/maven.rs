//! Output of maven surefire.

use super::compiler::{CHILD_DIED, DIED};
use super::java::stack_any;
use super::junit::java_place;
use super::node::stack;
use crate::command::Command;
use crate::machines::MatchedLine;
use crate::rules::{
    BEGINS, Diagnostic, ERROR, Effect, Kind, Level, Next, Role, Rule, TOTAL, TestEvent, WARNING, indented,
    problem,
};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const SUREFIRE_TOOL: Tool = Tool {
    counts_in_builds: true,
    program: Some(ToolId::Maven),
    names_parts: true,
    optional_selection: selection,
    ..Tool::named("maven surefire")
};

pub(super) const TOOL: Tool = Tool {
    reports_its_end: true,
    may_end_early: &["exec:java"],
    commands: COMMANDS,
    selections: &["-Dtest"],
    apart: Apart::Always,
    builds: true,
    drives: true,
    rules: RULES,
    ..Tool::named("maven")
};

const COMMANDS: &[&str] = &["mvn", "mvnw", "mvnd"];
/// Options that accept it if no test has the given name.
const NO_MATTER_IF_NONE: &[&str] = &[
    "-DfailIfNoTests=false",
    "-Dsurefire.failIfNoTests=false",
    "-DfailIfNoSpecifiedTests=false",
    "-Dsurefire.failIfNoSpecifiedTests=false",
    "-Dit.failIfNoSpecifiedTests=false",
    "-Dfailsafe.failIfNoSpecifiedTests=false",
];

/// The test filter of a call that also accepts it if no test matches. Many modules have no test of the given name.
fn selection(command: &Command) -> Option<&str> {
    command.runs_of(COMMANDS).find_map(|words| {
        let of =
            |starts: &[&str]| words.iter().find(|word| starts.iter().any(|start| word.starts_with(start)));
        of(NO_MATTER_IF_NONE)?;
        if of(&["-DskipTests", "-DskipITs", "-Dmaven.test.skip"]).is_some() {
            return None;
        }
        of(&["-Dtest=", "-Dit.test="]).map(String::as_str)
    })
}

/// A failed goal names the part of the run in which tests failed.
fn failed_goal(line: &mut MatchedLine<'_>) {
    let part = format!("{} @ {}", line.text("goal"), line.text("project"));
    line.tally.failed_part(ToolId::Surefire, &part);
}

/// maven's lines about a dead test process: its command, its exit code, its test class.
fn forked(so_far: &[String], line: &str) -> Next {
    let own = line.strip_prefix("[ERROR] ").unwrap_or_default();
    let known = ["Command was ", "Error occurred in starting fork", "Process Exit Code: ", "Crashed tests:"];
    let class = so_far.last().is_some_and(|last| last.ends_with("Crashed tests:") || is_class(last))
        && !own.is_empty()
        && !own.contains(' ');
    if known.iter().any(|start| own.starts_with(start)) || class { Next::Part } else { Next::Beyond }
}

fn is_class(line: &str) -> bool {
    line.strip_prefix("[ERROR] ").is_some_and(|class| !class.contains(' ') && class.contains('.'))
}

/// Lines of a reason that ends with a colon: files with wrong formats.
fn reasons(so_far: &[String], line: &str) -> Next {
    if so_far.first().is_some_and(|head| head.ends_with(':')) && so_far.len() < 20 {
        maven_lines(so_far, line)
    } else {
        Next::Beyond
    }
}

/// Such a list is the cause.
fn listed(diagnostic: &mut Diagnostic) {
    if diagnostic.lines.len() > 1 {
        diagnostic.kind = Some(Kind::Lint);
    }
}

/// The violations of a rule, up to the next line of Maven.
fn violations(so_far: &[String], line: &str) -> Next {
    if line.starts_with('[') || so_far.len() > 60 { Next::Beyond } else { Next::Part }
}

/// A branch of a tree of dependencies.
fn is_of_tree(line: &str) -> bool {
    line.trim_start().starts_with("+-") || line == "and"
}

/// Indented lines with the same mark after `[ERROR]`.
fn maven_lines(so_far: &[String], line: &str) -> Next {
    let Some(rest) = line.strip_prefix("[ERROR]") else { return stack(so_far, line) };
    if rest.starts_with("   ") && !rest.trim().is_empty() { Next::Part } else { Next::Beyond }
}

/// `wrongSum(app.OneTest)` is the test that reports and others call `app.OneTest.wrongSum`. Of JUnit 5's the class is where the
/// stack has the method.
fn maven_test(diagnostic: &mut Diagnostic) {
    let test = diagnostic.test.take().unwrap_or_default();
    let class = test.strip_suffix(')').and_then(|test| test.rsplit_once('('));
    let class = class.filter(|(_, class)| !class.is_empty() && !class.contains([' ', ',']));
    let bare = test.split(['(', '{', '[']).next().unwrap_or_default();
    let of_frame = || {
        diagnostic.lines.iter().find_map(|line| {
            let method = line.trim_start().strip_prefix("at ")?.split('(').next()?;
            let method = method.rsplit('/').next().unwrap_or(method);
            let (class, name) = method.rsplit_once('.')?;
            (name == bare && !bare.is_empty()).then(|| format!("{class}.{test}"))
        })
    };
    diagnostic.test = Some(match class {
        Some((method, class)) => format!("{class}.{method}"),
        None if test.contains('.') => test,
        None => of_frame().unwrap_or(test),
    });
    // The exception has more information than the note that there was one.
    diagnostic.head = (diagnostic.lines.len() > 1).then_some(1);
    java_place(diagnostic);
}

/// The second copy of a compiler's message marks all of its lines.
fn maven_unmarked(diagnostic: &mut Diagnostic) {
    for line in diagnostic.lines.iter_mut().skip(1) {
        if let Some(rest) = line.strip_prefix("[ERROR] ") {
            *line = rest.to_owned();
        }
    }
}

/// Of the list at the end: `OneTest.wrongSum:8`, `OneTest>BaseTest.wrongSum:12->helper:7`. The file it names by the class only.
fn maven_list(diagnostic: &mut Diagnostic) {
    diagnostic.test = diagnostic.test.take().map(|test| {
        let test = test.rsplit_once(':').map_or(test.as_str(), |(test, _)| test);
        match test.split_once('>') {
            Some((class, inherited)) => {
                format!("{class}.{}", inherited.rsplit('.').next().unwrap_or(inherited))
            }
            None => test.to_owned(),
        }
    });
}

const RULES: &[Rule] = &[
    Rule {
        name: "maven.forked_vm",
        pattern: r"^(?:\[ERROR\] )?(?:\S.* )?(?:ExecutionException |\S+Exception: )?(?:The forked VM terminated without (?:properly saying|saying properly) goodbye|The forked VM was terminated)",
        effects: &[Effect::Problem(DIED.follow(forked)), Effect::WorkerDied],
    },
    Rule {
        name: "maven.forked_code",
        pattern: r"^\[ERROR\] Process Exit Code: (?P<sig>1[2-9]\d)$",
        effects: &[Effect::Within("The forked VM", &CHILD_DIED)],
    },
    Rule { name: "maven.begun", pattern: r"^\[INFO\] Scanning for projects\.\.\.$", effects: &[BEGINS] },
    Rule {
        name: "maven.goal",
        pattern: r"^\[INFO\] --- \S+:(?P<u>[^\s:]+ \(\S+\)) @ (?P<w>\S+) ---$",
        effects: &[Effect::Own(|line| line.works_on(ToolId::Maven))],
    },
    Rule {
        name: "maven.failed_unit",
        pattern: r"^\[ERROR\] Failed to execute goal \S+:(?P<u>[^\s:]+ \(\S+\)) on project (?P<w>[^\s:]+):",
        effects: &[Effect::Own(|line| line.fails_at(ToolId::Maven))],
    },
    Rule {
        name: "maven.success",
        pattern: r"^\[INFO\] BUILD SUCCESS$",
        effects: &[
            Effect::Of(ToolId::Surefire, &[Effect::Own(|line| line.over(true))]),
            Effect::Success,
            Effect::Summary,
        ],
    },
    Rule {
        name: "maven.failure",
        pattern: r"^\[(?:INFO|ERROR)\] BUILD (?:FAILURE|ERROR)$",
        effects: &[Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "maven.totals",
        pattern: r"^\[(?:INFO|ERROR|WARNING)\] Tests run: (?P<n>\d+), Failures: (?P<failed>\d+), Errors: (?P<errors>\d+), Skipped: (?P<skipped>\d+)(?:, Flakes: \d+)?$",
        effects: &[
            Effect::Of(ToolId::Surefire, &[Effect::Session, Effect::Counts(TOTAL)]),
            Effect::Summary,
            Effect::Harmless,
        ],
    },
    Rule {
        name: "maven.class",
        pattern: r"^\[ERROR\] Tests run: \d+, .*(?:<<< (?:FAILURE|ERROR)!).*",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "surefire.goal",
        pattern: r"^\[INFO\] --- \S*(?:surefire|failsafe)\S*:(?P<t>[^\s:]+ \(\S+\) @ \S+) ---$",
        effects: &[Effect::Of(ToolId::Surefire, &[Effect::Own(|line| line.part())])],
    },
    Rule {
        // A quiet run names the goal and the module only here.
        name: "surefire.failed_goal",
        pattern: r"^\[ERROR\] Failed to execute goal \S*(?:surefire|failsafe)\S*:(?P<goal>[^\s:]+ \(\S+\)) on project (?P<project>[^\s:]+): ",
        effects: &[Effect::Own(failed_goal)],
    },
    Rule {
        name: "surefire.heading",
        pattern: r"^(?:\[INFO\] )? T E S T S$",
        effects: &[Effect::Of(ToolId::Surefire, &[Effect::Heading])],
    },
    Rule {
        name: "surefire.begun",
        pattern: r"^(?:\[INFO\] )?Running (?P<t>[\w$]+(?:\.[\w$]+)+)$",
        effects: &[
            Effect::IfKnown(ToolId::Surefire),
            Effect::Of(ToolId::Surefire, &[Effect::Test(TestEvent::Started)]),
        ],
    },
    Rule {
        name: "surefire.ended",
        pattern: r"^(?:\[\w+\] )?Tests run: \d+, .*Time elapsed: .* in (?P<t>[\w$.]+)$",
        effects: &[Effect::Of(ToolId::Surefire, &[Effect::Test(TestEvent::Ended)])],
    },
    Rule {
        name: "surefire.ended_unnamed",
        pattern: r"^(?:\[\w+\] )?Tests run: \d+, .*Time elapsed: [\d.,]+ s(?:ec)?(?: <<< (?:FAILURE|ERROR)!)?$",
        effects: &[Effect::Own(|line| line.tally.ends(ToolId::Surefire))],
    },
    Rule {
        name: "maven.test",
        pattern: r"^\[ERROR\] (?P<t>\S.*?)  ?(?:--)? ?Time elapsed: .*<<< (?:FAILURE|ERROR)!",
        effects: &[Effect::Problem(problem(ERROR, Kind::Test, 94).follow(stack_any).refine(maven_test))],
    },
    Rule {
        name: "maven.place",
        pattern: r"^\[(?P<s>ERROR|WARNING)\] (?P<f>(?:[A-Za-z]:)?[^\s:\[]+):\[(?P<l>\d+),(?P<c>\d+)\] (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Build, 94).follow(maven_lines).refine(maven_unmarked),
        )],
    },
    Rule {
        // Surefire ended the tests itself; where failures are ignored it goes on to its success.
        name: "surefire.timeout",
        pattern: r"^\[ERROR\] (?:Failed to execute goal .*: )?There was a timeout (?:or other error )?in the fork",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Test, 93)),
            Effect::Own(|line| line.tally.cut(ToolId::Surefire)),
        ],
    },
    Rule {
        name: "maven.unresolved",
        pattern: r"^\[ERROR\] Failed to execute goal .*(?:Could not resolve dependencies|Could not find artifact|Fatal error compiling|No compiler is provided)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 88)), Effect::Failure, Effect::Summary],
    },
    Rule {
        name: "maven.failed_goal",
        pattern: r"^\[ERROR\] Failed to execute goal (?P<m>.*)",
        effects: &[
            Effect::Problem(problem(ERROR, Kind::Consequence, 60).follow(reasons).refine(listed)),
            Effect::Failure,
            Effect::Summary,
        ],
    },
    Rule {
        name: "maven.told_again",
        pattern: r"^\[ERROR\] (?:  +(?:The project .* has \d+ errors?$|.* -> \[Help \d+\]$)|The build could not read \d+ projects?\b)",
        effects: &[Effect::Own(|line| line.fails_too()), Effect::Harmless],
    },
    Rule {
        name: "maven.pom",
        pattern: r"^\[(?:FATAL|ERROR)\] (?:Non-parseable POM (?P<f>\S+?): )?(?P<m>.*) @ (?:.*, )?line (?P<l>\d+), column (?P<c>\d+)$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 94))],
    },
    Rule {
        name: "maven.unplaced",
        pattern: r"^\[ERROR\] (?P<f>\S+\.(?:java|kt|groovy|scala)): (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90))],
    },
    Rule {
        // Only a failed build ends with this; it is all that `tail` leaves of it.
        name: "maven.help",
        pattern: r"^\[ERROR\] (?:-> \[Help \d+\]|\[Help \d+\] http|To see the full stack trace of the errors, re-run Maven|Re-run Maven using|For more information about the errors and possible solutions|After correcting the problems, you can resume the build|  mvn <args> -rf )",
        effects: &[Effect::Own(|line| line.fails_too()), Effect::Harmless],
    },
    Rule {
        name: "maven.chatter",
        pattern: r"^\[ERROR\] (?:\[Help|Re-run Maven|To see the full|For more information|After correcting|-> \[|Please refer|Run 'mvn |Failures:|Errors:|COMPILATION ERROR :|\[ERROR\] Some problems were encountered|$)",
        effects: &[Effect::Harmless],
    },
    Rule {
        name: "maven.failure_line",
        pattern: r"^\[ERROR\]   (?P<t>[^\s:()]+:\d+)(?:->\S+)* (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 92).bare().refine(maven_list).role(Role::Listed),
        )],
    },
    Rule {
        name: "surefire.flake",
        pattern: r"^\[WARNING\] (?P<t>(?:[a-z]\w*\.)*[A-Z][\w$]*\.[a-z_]\w*)(?:\([\w.$]+\))?$",
        effects: &[Effect::Own(|line| line.tally.names_flaky(&line.text("t"))), Effect::Harmless],
    },
    Rule {
        // A rule of the enforcer plugin, and the list of its violations.
        name: "maven.enforcer",
        pattern: r"^\[(?:ERROR|WARNING)\] Rule \d+: (?P<m>\S+ failed with message:.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 92).follow(violations).dispensable(is_of_tree),
        )],
    },
    Rule {
        name: "maven.warning",
        pattern: r"^\[(?:WARNING|WARN)\] (?P<m>\S.*)",
        effects: &[Effect::Problem(problem(WARNING, Kind::Build, 50).follow(indented))],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_maven_is_asked_for_are_known() {
        let mind_none = "-Dsurefire.failIfNoSpecifiedTests=false";
        for (line, asked) in [
            (format!("mvn --batch-mode test -Dtest='a b' {mind_none}"), Some("-Dtest=a b")),
            (format!("sh -c 'cd a && ./mvnw {mind_none} -Dit.test=B verify'"), Some("-Dit.test=B")),
            ("mvn test -Dtest=A".to_owned(), None),
            (format!("mvn test {mind_none}"), None),
            (format!("mvn install -DskipTests -Dtest=A {mind_none}"), None),
            (format!("gradle test -Dtest=A {mind_none}"), None),
        ] {
            assert_eq!(selection(&Command::new(&line)), asked, "{line}");
        }
    }
}
