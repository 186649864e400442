//! Output of PHPUnit and Codeception.

use super::bats::place;
use super::dotnet::after_in;
use crate::machines::MatchedLine;
use crate::rules::{
    Diagnostic, ERROR, Effect, Kind, Level, Next, RUNS, Rule, TOTAL, TestEvent, boxed, problem, set_place,
};
use crate::tool::{Apart, Tool, ToolId};

pub(super) const TOOL: Tool = Tool {
    commands: &["phpunit", "pest", "paratest"],
    runs_tests: true,
    one_total: true,
    apart: Apart::Always,
    rules: RULES,
    ..Tool::named("PHPUnit")
};

/// Limit on lines between a program's header and its first marks. Settings stand between them.
const HEADER_LINES_MAX: u64 = 10;

/// The program that began last, which runs tests if marks follow.
#[derive(Debug)]
struct Program {
    /// Number of the line with its header, until its first marks.
    header: Option<u64>,
    /// It printed its test settings.
    has_settings: bool,
    /// Its marks include a failure.
    fails: bool,
    /// Number of the line with its first mark, if it stands alone.
    lone_mark: Option<u64>,
}

fn header(line: &mut MatchedLine<'_>) {
    let header = Some(line.position.number);
    let last = line.machines.take::<Program>();
    let (fails, lone_mark) = last.map_or((false, None), |last| (last.fails, last.lone_mark));
    line.machines.set(Program { header, has_settings: false, fails, lone_mark });
}

fn settings(line: &mut MatchedLine<'_>) {
    if let Some(program) = line.machines.get_mut::<Program>() {
        program.has_settings = program.header.is_some();
    }
}

/// A test ran, and a total follows, if the program has just begun. The total may be missing after all tests ran without a
/// failure. The line may have the number of finished tests (`k`) of all (`n`).
fn marks(line: &mut MatchedLine<'_>) {
    let (marks, all, at) = (line.text("marks"), line.groups.number("n"), line.position);
    let Some(program) = line.machines.get_mut::<Program>() else { return };
    let is_first = (at.after_blank || program.has_settings)
        && program.header.take().is_some_and(|header| at.number.abs_diff(header) <= HEADER_LINES_MAX);
    if is_first {
        line.tally.expects_total(ToolId::PhpUnit);
        program.fails = false;
        program.lone_mark = (marks == "." && !program.has_settings).then_some(at.number);
    }
    program.fails |= marks.contains(['F', 'E']);
    if all > 0 && line.groups.number("k") == all && !program.fails {
        line.tally.all_passed(ToolId::PhpUnit);
    }
}

/// The list of a directory, below a header: its first line looks like the mark of a test.
fn no_marks(line: &mut MatchedLine<'_>) {
    let Some(program) = line.machines.get_mut::<Program>() else { return };
    if program.lone_mark.take().is_some_and(|mark| mark + 1 == line.position.number) {
        line.tally.expects_no_total(ToolId::PhpUnit);
    }
}

/// PHPUnit's failures: up to the next number or the last word.
fn phpunit_lines(so_far: &[String], line: &str) -> Next {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let next = digits > 0 && line[digits..].starts_with(") ");
    // A line of two hyphens separates the parts of the report. `--- Expected` is the title of a difference.
    let end = ["FAILURES!", "ERRORS!", "Tests: "].iter().any(|end| line.starts_with(end)) || line == "--";
    if next || end || so_far.len() > 40 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

fn php_lines(so_far: &[String], line: &str) -> Next {
    let frame = line.starts_with('#') || line.starts_with("Stack trace:") || line.starts_with("  thrown in");
    if frame && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

/// The place of a PHP error. The first frame outside of `vendor` replaces a place inside a dependency.
fn php_place(diagnostic: &mut Diagnostic) {
    after_in(diagnostic);
    let is_foreign = |file: &str| file.contains("/vendor/") || file.starts_with("vendor/");
    if !diagnostic.file.as_deref().is_some_and(is_foreign) {
        return;
    }
    let frames = diagnostic.lines.iter().filter_map(|line| {
        let (place, _) = line.strip_prefix('#')?.split_once(' ')?.1.split_once("): ")?;
        let (file, row) = place.rsplit_once('(')?;
        Some((file.to_owned(), row.parse::<u32>().ok()?))
    });
    if let Some((file, row)) = frames.into_iter().find(|(file, _)| !is_foreign(file)) {
        (diagnostic.file, diagnostic.line, diagnostic.column) = (Some(file), Some(row), None);
    }
}

fn has_place(diagnostic: &Diagnostic) -> bool {
    diagnostic.file.is_some()
}

/// The place is alone in a line of the box. The message is the first line with text.
fn in_box(diagnostic: &mut Diagnostic) {
    let lines =
        diagnostic.lines.iter().skip(1).map(|line| line.trim_start_matches([' ', '│', '┃', '|']).trim_end());
    let places: Vec<String> =
        lines.filter(|line| line.starts_with('/') && !line.contains(' ')).map(str::to_owned).collect();
    diagnostic.head = diagnostic
        .lines
        .iter()
        .skip(1)
        .position(|line| line.contains(char::is_alphanumeric))
        .map(|at| at + 1);
    let _found = places.iter().any(|place| set_place(diagnostic, place));
}

/// The message and the place of a failure of Codeception: ` Fail  …`, ` Test  tests/a/LoginCest.php`, `… at tests/a/LoginCest.php:9`.
fn scenario(diagnostic: &mut Diagnostic) {
    diagnostic.head = diagnostic.lines.iter().position(|line| line.starts_with(" Fail  "));
    let file = diagnostic.lines.iter().find_map(|line| line.strip_prefix(" Test  "));
    let file = file.map(|file| file.split(':').next().unwrap_or_default().to_owned());
    let row = file.as_deref().and_then(|file| {
        let mut steps =
            diagnostic.lines.iter().filter_map(|line| line.rsplit_once(" at ")?.1.strip_prefix(file));
        steps.find_map(|row| row.strip_prefix(':')?.parse().ok())
    });
    diagnostic.spurious = file.is_none();
    (diagnostic.file, diagnostic.line) = (file, row);
}

const RULES: &[Rule] = &[
    Rule {
        name: "phpunit.header",
        pattern: r"^PHPUnit \S+ by Sebastian Bergmann(?: and contributors)?\.$",
        effects: &[Effect::Own(header), RUNS],
    },
    Rule { name: "phpunit.runtime", pattern: r"^Runtime: +PHP \d", effects: &[Effect::Own(settings)] },
    Rule {
        // Output of `ls -a` and `find .` after the header of `phpunit --version`: its first line is a mark, too.
        name: "phpunit.no_marks",
        pattern: r"^\.(?:\.$|/)",
        effects: &[Effect::Own(no_marks)],
    },
    Rule {
        name: "phpunit.marks",
        pattern: r"^(?P<marks>[.FEWIRSDN]+)(?: +(?P<k>\d+) / (?P<n>\d+) \( *\d+%\))?$",
        effects: &[Effect::Own(marks)],
    },
    Rule {
        name: "phpunit.begun",
        pattern: r"^Test '(?P<t>[\w\\]+::[^']+)' started$",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "phpunit.ended",
        pattern: r"^Test '(?P<t>[\w\\]+::[^']+)' ended$",
        effects: &[Effect::Test(TestEvent::Ended)],
    },
    Rule {
        name: "phpunit.prepared",
        pattern: r"^Test Prepared \((?P<t>[\w\\]+::.+)\)$",
        effects: &[Effect::Test(TestEvent::Started)],
    },
    Rule {
        name: "phpunit.finished",
        pattern: r"^Test Finished \((?P<t>[\w\\]+::.+)\)$",
        effects: &[Effect::Test(TestEvent::Ended)],
    },
    Rule {
        name: "phpunit.testdox",
        pattern: r"^ \xe2\x9c\x98 (?P<t>\S.*)$",
        effects: &[
            Effect::IfKnown(ToolId::PhpUnit),
            Effect::Problem(problem(ERROR, Kind::Test, 88).follow(boxed).refine(in_box)),
        ],
    },
    Rule {
        name: "phpunit.numbered",
        pattern: r"^\d+\) (?P<t>[\w\\]+::\S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(phpunit_lines).owning().refine(place),
        )],
    },
    Rule {
        name: "codeception.numbered",
        pattern: r"^\d+\) (?P<t>\w+(?:Cept|Cest|Test): \S.*)$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Test, 93).follow(phpunit_lines).owning().refine(scenario),
        )],
    },
    Rule {
        name: "phpunit.summary",
        pattern: r"^(?:Tests: (?P<n>\d+), Assertions: \d+(?:, Errors: (?P<errors>\d+))?(?:, Failures: (?P<failed>\d+))?(?:, .*?Skipped: (?P<skipped>\d+))?(?:, .*?Incomplete: (?P<skipped2>\d+))?|OK \((?P<n2>\d+) tests?, \d+ assertions?\)$)",
        effects: &[Effect::Session, Effect::Counts(TOTAL), Effect::Summary],
    },
    Rule { name: "phpunit.bad", pattern: r"^(?:FAILURES!|ERRORS!)$", effects: &[Effect::Failure] },
    Rule {
        name: "php.error",
        pattern: r"^PHP (?P<s>(?:Parse|Fatal|Recoverable fatal) error|Warning|Deprecated|Notice): +(?P<m>.*)",
        effects: &[Effect::Problem(
            problem(Level::Word, Kind::Runtime, 90).follow(php_lines).refine(php_place).ended(has_place),
        )],
    },
];
