//! Output of gdb.

use crate::rules::{Diagnostic, ERROR, Effect, Kind, Next, Problem, Role, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("gdb") };

/// Beginnings and parts of paths that are not of the project: libc, Rust's and Go's libraries, and
/// dependencies.
const FOREIGN: [&str; 9] = [
    " at ../",
    " at ./",
    " at library/",
    " at /rustc/",
    " at /usr/",
    "/.cargo/registry/",
    "/rustlib/",
    "/site-packages/",
    "/node_modules/",
];

/// Functions of libtest below a test.
const TEST_RUNNER: &str = "test::run_test";

const THREADS: Problem =
    problem(ERROR, Kind::Runtime, 90).follow(threads).dispensable(is_foreign).owning().refine(hang);

/// Threads and their frames, up to the end of gdb.
fn threads(_: &[String], line: &str) -> Next {
    if line.trim().is_empty() {
        Next::Maybe
    } else if line.starts_with('#') || line.starts_with("Thread ") {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Returns true for a frame that is not of the project.
fn is_foreign(line: &str) -> bool {
    line.starts_with('#') && own_place(line).is_none()
}

/// Returns the location of a frame of the project.
fn own_place(line: &str) -> Option<&str> {
    let frame = line.starts_with('#') && !FOREIGN.iter().any(|part| line.contains(part));
    line.rsplit_once(" at ").filter(|_| frame).map(|(_, place)| place)
}

/// Returns the name of a frame's function.
fn function(line: &str) -> Option<&str> {
    let name = line.split_once(" (")?.0.rsplit(' ').next()?;
    Some(name).filter(|name| !name.contains("{closure"))
}

/// Keeps the frames of the project. The first thread is the one with most of them.
fn hang(diagnostic: &mut Diagnostic) {
    let blocks: Vec<&[String]> = diagnostic.lines.split(|line| line.trim().is_empty()).collect();
    let own = |block: &&[String]| block.iter().filter(|line| own_place(line).is_some()).count();
    let mut threads: Vec<&[String]> = blocks.into_iter().filter(|block| own(block) > 0).collect();
    threads.sort_by_key(|block| std::cmp::Reverse(own(block)));
    let Some(first) = threads.first() else { return };
    let place = first.iter().find_map(|line| own_place(line)).map(str::to_owned);
    let is_test = first.iter().any(|line| line.contains(TEST_RUNNER));
    let outermost =
        first.iter().rev().filter(|line| own_place(line).is_some()).find_map(|line| function(line));
    // The name of a test has no crate.
    let test = outermost.filter(|_| is_test).map(|name| name.split_once("::").map_or(name, |(_, name)| name));
    let test = test.map(str::to_owned);
    let is_kept = |line: &&String| !is_foreign(line) || line.starts_with("#0 ");
    let kept = threads.iter().map(|block| block.iter().filter(is_kept).cloned().collect::<Vec<String>>());
    diagnostic.lines = kept.collect::<Vec<_>>().join(&String::new());
    diagnostic.test = diagnostic.test.take().or(test);
    if let Some(place) = place {
        let _placed = crate::rules::set_place(diagnostic, &place);
    }
}

const RULES: &[Rule] = &[Rule {
    name: "gdb.thread",
    pattern: r"^Thread \d+ \((?:Thread 0x[0-9a-f]+ \(LWP \d+\)|LWP \d+|process \d+).*\):$",
    effects: &[Effect::Problem(THREADS.role(Role::Stacks))],
}];
