//! Output of Python.

use super::compiler::{CHILD_DIED, DIED};
use super::pytest::{innermost, set, stack};
use crate::rules::{
    Diagnostic, ERROR, Effect, FATAL, Fails, Indicator, Kind, Next, Role, Rule, always, problem,
};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Python") };

/// Beginning of a traceback.
const HEADING: &str = "Traceback (most recent call last):";

/// The last location of the last traceback; of a group of exceptions, of its first one.
fn raised_at(diagnostic: &mut Diagnostic) {
    let begins = |line: &String| line.contains(HEADING) && !line.trim_start().starts_with('|');
    let from = diagnostic.lines.iter().rposition(begins).unwrap_or(0);
    let second = |line: &String| line.trim_start().starts_with("+-") && line.contains("- 2 -");
    let lines = &diagnostic.lines[from..];
    let until = lines.iter().position(second).unwrap_or(lines.len());
    let place = innermost(&lines[..until]);
    let names = |line: &String| line.starts_with(char::is_alphabetic) && !line.contains(HEADING);
    diagnostic.head = lines.iter().position(names).map(|at| from + at);
    set(diagnostic, place);
}

/// A traceback ends with the first line that is not indented, which names the exception; that of a group with its drawing.
fn traceback(so_far: &[String], line: &str) -> Next {
    let chained =
        ["Traceback (most recent", "+ Exception Group", "During handling of", "The above exception was"];
    let own = line.trim_start();
    if own.is_empty() {
        return Next::Maybe;
    }
    if own.starts_with(HEADING) && own.len() == line.len() && ended(so_far) {
        // Nothing chains it to the one before.
        return Next::Beyond;
    }
    if chained.iter().any(|start| own.starts_with(start)) {
        return Next::Part;
    }
    let is_drawn = |line: &str| {
        let own = line.trim_start();
        own.len() < line.len() && (own.starts_with('|') || own.starts_with("+-"))
    };
    let heading = so_far.iter().rev().find(|line| line.contains(HEADING) && !is_drawn(line));
    if heading.is_some_and(|heading| heading.trim_start().starts_with('+')) {
        let is_closed = so_far.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty());
        let is_closed =
            is_closed.is_some_and(|last| last.starts_with('+') && last[1..].chars().all(|c| c == '-'));
        return match (is_drawn(line), is_closed) {
            (true, _) => Next::Part,
            // Further lines of a message have no bar.
            (false, false) => Next::Maybe,
            (false, true) => Next::Beyond,
        };
    }
    if ended(so_far) { Next::Beyond } else { Next::Part }
}

/// Whether the exception's own line is there already.
fn ended(so_far: &[String]) -> bool {
    let last = so_far.iter().rev().find(|line| !line.trim().is_empty());
    so_far.len() > 1
        && last.is_some_and(|line| {
            !line.starts_with([' ', '\t'])
                && !line.starts_with("Traceback")
                && !line.starts_with("During handling")
                && !line.starts_with("The above")
        })
}

/// Location and test of a stack of `faulthandler`, which begins with the innermost frame: the first
/// frame of the project, and the last one of a test function.
fn fatal_place(diagnostic: &mut Diagnostic) {
    let own = |line: &str| {
        let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
        let (number, function) = rest.split_once(" in ")?;
        let is_foreign = file.starts_with('<')
            || ["/site-packages/", "/lib/python"].iter().any(|part| file.contains(part));
        (!is_foreign).then(|| (format!("{file}:{number}"), function.trim().to_owned()))
    };
    let frames: Vec<(String, String)> = diagnostic.lines.iter().filter_map(|line| own(line)).collect();
    if let Some((place, _)) = frames.first() {
        let _placed = crate::rules::set_place(diagnostic, place);
    }
    let test = frames.into_iter().rev().map(|(_, function)| function).find(|name| name.starts_with("test"));
    diagnostic.test = diagnostic.test.take().or(test);
}

fn fatal_lines(so_far: &[String], line: &str) -> Next {
    let known = line.starts_with("Current thread")
        || line.starts_with("Thread ")
        || line.starts_with("Extension modules");
    if line.trim().is_empty() {
        Next::Maybe
    } else if known || line.starts_with("  ") {
        stack(so_far, line)
    } else {
        Next::Beyond
    }
}

fn stack_if_indented(_: &[String], line: &str) -> Next {
    if line.starts_with("    ") && !line.trim().is_empty() { Next::Part } else { Next::Beyond }
}

/// Other programs name their errors alike, and draw an excerpt.
fn excerpt(so_far: &[String], line: &str) -> Next {
    let deep = stack_if_indented(so_far, line);
    let is_place = so_far.len() == 1 && line.starts_with("  File ");
    if is_place
        || line.trim_start().starts_with("--> ")
        || crate::rules::is_drawing(line) && so_far.len() < 20
    {
        Next::Part
    } else {
        deep
    }
}

/// The code, the caret and the error under a place without a traceback's heading.
fn syntax(so_far: &[String], line: &str) -> Next {
    if so_far.len() > 6 {
        Next::Beyond
    } else if line.starts_with("    ") {
        Next::Part
    } else if line.contains("Error: ") && !line.starts_with(' ') {
        Next::Last
    } else {
        Next::Beyond
    }
}

fn syntax_only(diagnostic: &mut Diagnostic) {
    diagnostic.spurious = !diagnostic.lines.last().is_some_and(|line| line.contains("Error: "));
    diagnostic.head = diagnostic.lines.len().checked_sub(1);
}

/// A program may log an exception raised in a function. A frame in `<module>` means that no function caught it. Of chained
/// exceptions, the last one counts.
fn is_of_module(diagnostic: &Diagnostic) -> bool {
    let begins = |line: &String| line.contains(HEADING) && !line.trim_start().starts_with('|');
    let from = diagnostic.lines.iter().rposition(begins).unwrap_or(0);
    let is_frame = |line: &&String| line.trim_start_matches([' ', '|']).starts_with("File \"");
    let frame = diagnostic.lines[from..].iter().find(is_frame);
    frame.is_some_and(|frame| frame.ends_with(", in <module>") || frame.contains("runpy"))
}

const RULES: &[Rule] = &[
    Rule {
        name: "python.pool_died",
        pattern: r"^(?:E +)?(?:\w+\.)*BrokenProcessPool: (?P<m>.*)",
        effects: &[Effect::Problem(DIED), CHILD_DIED],
    },
    Rule {
        name: "python.fatal_signal",
        pattern: concat!(r"^(?:\S.* )?Fatal Python error: (?P<sig>", words!(), r")$"),
        effects: &[Effect::Crash(Indicator::Died(""))],
    },
    Rule {
        name: "python.traceback",
        pattern: r"^\s*(?:\+ Exception Group )?Traceback \(most recent call last\):$",
        effects: &[
            Effect::Problem(
                problem(ERROR, Kind::Runtime, 88)
                    .follow(traceback)
                    .refine(raised_at)
                    .role(Role::Trace)
                    .ended(is_of_module),
            ),
            Effect::Own(|line| line.markers.raised = None),
        ],
    },
    Rule {
        name: "python.oom",
        pattern: r"^(?:[A-Za-z_]\w*\.)*_?(?:Array)?MemoryError(?:: .*)?$",
        effects: &[Effect::Within(
            HEADING,
            &Effect::Own(|line| line.markers.raised = Some(line.marker(Indicator::OutOfMemory))),
        )],
    },
    Rule {
        name: "python.fatal",
        // The program that runs a test may have begun its line.
        pattern: r"^(?:\S+\.py(?:::\S+)? |\w+ \([\w.]+\) \.\.\. )?[.FEsxX]*Fatal Python error: (?P<m>.*)",
        effects: &[
            Effect::Problem(
                problem(FATAL, Kind::Crash, 96).follow(fatal_lines).refine(fatal_place).role(Role::Stacks),
            ),
            Effect::Crash(Indicator::FatalError),
        ],
    },
    Rule {
        name: "python.exception",
        pattern: r"^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout)(?:: (?P<m>.*))?$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 72).follow(excerpt).refine(super::places::located),
        )],
    },
    Rule {
        name: "python.syntax",
        pattern: r#"^  File "(?P<f>[^"]+)", line (?P<l>\d+)$"#,
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 80).follow(syntax).refine(syntax_only).ended(always),
        )],
    },
    Rule {
        // The message of an exception alone, as programs print it that catch all of them.
        name: "python.message",
        pattern: r"^(?P<m>'[\w.]+' object (?:has no attribute '\w+'|is not (?:callable|iterable|subscriptable)))$",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 70).role(Role::Vague))],
    },
    Rule {
        // Of argparse and optparse.
        name: "python.arguments",
        pattern: r"^[\w./-]+: error: (?P<m>(?:argument [^:]+: |the following arguments are required: |unrecognized arguments: |one of the arguments |no such option: ).*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 86).fails(Fails::OutsideTests))],
    },
    Rule {
        name: "python.start",
        pattern: r"^\S*(?:python|pypy)[\d.]*(?:\.exe)?: (?P<m>.*(?:No module named|can't |cannot |Error while|No code object|is a package).*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Runtime, 90).ended(always))],
    },
];
