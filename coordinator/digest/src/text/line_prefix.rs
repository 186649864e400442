//! Prefix of a line before its own text: a program's time stamp, and the name of the task that a runner of several tasks
//! prints before each of its lines.

use super::clean::stamp_length;
use memchr::memchr3;
use std::ops::Range;

/// Longest name of a task, in bytes.
const TASK_BYTES_MAX: usize = 72;
/// Stamps and names that may follow each other.
const PARTS_MAX: usize = 4;

/// Words that tasks of packages are called by, alone or followed by `:more` or `-more`.
const TASKS: &[&str] = &[
    "build",
    "bundle",
    "check",
    "ci",
    "clean",
    "codegen",
    "compile",
    "coverage",
    "deploy",
    "dev",
    "docs",
    "e2e",
    "fmt",
    "format",
    "generate",
    "install",
    "integration",
    "lint",
    "postbuild",
    "prebuild",
    "prepare",
    "preview",
    "publish",
    "release",
    "serve",
    "start",
    "storybook",
    "test",
    "tests",
    "tsc",
    "type-check",
    "typecheck",
    "typegen",
    "types",
    "unit",
    "validate",
    "verify",
    "watch",
];

/// For each byte, whether a word of [`TASKS`] begins with it.
const BEGIN_TASKS: [bool; 256] = {
    let mut begin = [false; 256];
    let mut at = 0;
    while at < TASKS.len() {
        begin[TASKS[at].as_bytes()[0] as usize] = true;
        at += 1;
    }
    begin
};

/// Prefix of a line before its own text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinePrefix {
    /// Its length, in bytes.
    pub(crate) length: usize,
    /// Name of the task in the prefix; empty if there is no name.
    pub(crate) task: Range<usize>,
}

/// Prefix before the text of a line.
pub(crate) fn front(line: &[u8]) -> LinePrefix {
    let mut front = LinePrefix::default();
    for _ in 0..PARTS_MAX {
        let rest = &line[front.length..];
        let stamp = stamp_length(rest);
        if stamp > 0 {
            if rest[0] == b'#' {
                // BuildKit's number of the step.
                let step = rest.iter().position(|byte| *byte == b' ').unwrap_or(0);
                front.task = front.length..front.length + step;
            }
            front.length += stamp;
            front.length += arrow_length(&line[front.length..]);
            continue;
        }
        if !front.task.is_empty() {
            break;
        }
        let Some((name, length)) = task(rest) else { break };
        front.task = front.length..front.length + name;
        front.length += length;
    }
    front
}

/// The arrow that xcpretty puts before the lines of a tool, behind a stamp of fastlane.
fn arrow_length(rest: &[u8]) -> usize {
    let arrow = "\u{25b8} ".as_bytes();
    if rest.starts_with(arrow) { arrow.len() } else { 0 }
}

/// Bytes of a line's own beginning that are not its text.
pub(crate) fn front_length(line: &[u8]) -> usize {
    front(line).length
}

/// Bytes of a task's name at the front, and of the name with its separator.
fn task(line: &[u8]) -> Option<(usize, usize)> {
    let head = &line[..line.len().min(TASK_BYTES_MAX)];
    match head.first()? {
        b'[' => bracketed(head),
        b'a'..=b'z' | b'A'..=b'Z' | b'@' | b'0'..=b'9' | b'.' | b'+' => named(head),
        _ => None,
    }
}

/// `[0] `, `[1/3] `, `[test] `, `[pod/name/container] `, `[workflow/job]   | `.
fn bracketed(head: &[u8]) -> Option<(usize, usize)> {
    let end = head.iter().position(|byte| *byte == b']')?;
    let (name, after) = (&head[1..end], &head[end + 1..]);
    let barred = bar(after).filter(|_| name.contains(&b'/'));
    if let Some(bar) = barred {
        return Some((end + 1, end + 1 + bar));
    }
    let number =
        name.first().zip(name.last()).is_some_and(|ends| ends.0.is_ascii_digit() && ends.1.is_ascii_digit())
            && match name.iter().position(|byte| *byte == b'/') {
                None => name.len() <= 2 && name.iter().all(u8::is_ascii_digit),
                Some(at) => name.iter().enumerate().all(|(place, byte)| place == at || byte.is_ascii_digit()),
            };
    let known = number || name.starts_with(b"pod/") || is_task(name);
    (known && after.first() == Some(&b' ')).then_some((end + 1, end + 2))
}

/// Blanks and a bar with a blank after it, or at the end of the line.
fn bar(after: &[u8]) -> Option<usize> {
    let blanks = after.iter().take_while(|byte| **byte == b' ').count();
    if blanks == 0 || after.get(blanks) != Some(&b'|') {
        return None;
    }
    match after.get(blanks + 1) {
        None => Some(blanks + 1),
        Some(b' ') => Some(blanks + 2),
        Some(_) => None,
    }
}

fn named(head: &[u8]) -> Option<(usize, usize)> {
    let mark = memchr3(b':', b'|', b'>', head)?;
    match head[mark] {
        b'|' => {
            let name = head[..mark].strip_suffix(b" ")?.trim_ascii_end();
            let length = name.len() + bar(&head[name.len()..])?;
            is_service(name).then_some((name.len(), length))
        }
        b'>' => {
            // A derivation's name: words with hyphens and a version.
            let name = &head[..mark];
            let is_name = name.first().is_some_and(u8::is_ascii_lowercase)
                && name.contains(&b'-')
                && name.iter().all(|byte| is_name_byte(*byte));
            (is_name && head.get(mark + 1) == Some(&b' ')).then_some((mark, mark + 2))
        }
        _ => colon(head, mark),
    }
}

/// `web-1`, `web.1`, `web_1`, `web:test`, `+target`: names that runners of several programs make.
fn is_service(name: &[u8]) -> bool {
    if name.is_empty() || !name.iter().all(|byte| is_name_byte(*byte) || matches!(byte, b':' | b'/' | b'@')) {
        return false;
    }
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let counted = digits > 0
        && name.len() > digits + 1
        && matches!(name[name.len() - digits - 1], b'-' | b'_' | b'.')
        && name[0].is_ascii_alphabetic();
    counted
        || name[0] == b'+'
        || name.iter().position(|byte| *byte == b':').is_some_and(|at| is_task(&name[at + 1..]))
}

/// `pkg:test: `, `packages/a test: `, `@scope/pkg: `, `pkg:test | `.
fn colon(head: &[u8], mark: usize) -> Option<(usize, usize)> {
    let name = &head[..mark];
    let after = &head[mark + 1..];
    if after.first() == Some(&b' ') {
        let is_scoped = name.first() == Some(&b'@')
            && name.contains(&b'/')
            && name[1..].iter().all(|byte| is_name_byte(*byte) || *byte == b'/');
        let of_package = || {
            let at = name.iter().position(|byte| *byte == b' ')?;
            let (package, task) = (&name[..at], &name[at + 1..]);
            let is_path = package == b"."
                || package.contains(&b'/')
                    && package.iter().all(|byte| is_name_byte(*byte) || matches!(byte, b'/' | b'@'));
            (is_path && is_task(task)).then_some(())
        };
        return (is_scoped || of_package().is_some()).then_some((mark, mark + 2));
    }
    if !BEGIN_TASKS[usize::from(*after.first()?)] {
        return None;
    }
    let is_package =
        !name.is_empty() && name.iter().all(|byte| is_name_byte(*byte) || matches!(byte, b'/' | b'@'));
    if !is_package {
        return None;
    }
    let end = after
        .windows(2)
        .position(|two| two == b": ")
        .or_else(|| after.ends_with(b":").then(|| after.len() - 1));
    if let Some(end) = end.filter(|end| is_task(&after[..*end])) {
        let whole = mark + 1 + end;
        return Some((whole, (whole + 2).min(head.len())));
    }
    let task = after.iter().position(|byte| *byte == b' ')?;
    let length = mark + 1 + task + bar(&after[task..])?;
    is_task(&after[..task]).then_some((mark + 1 + task, length))
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+')
}

fn is_task(name: &[u8]) -> bool {
    let Some(first) = name.first().filter(|first| BEGIN_TASKS[usize::from(**first)]) else { return false };
    TASKS.iter().filter(|task| task.as_bytes()[0] == *first).any(|task| {
        name.strip_prefix(task.as_bytes()).is_some_and(|rest| {
            rest.is_empty()
                || matches!(rest[0], b':' | b'-' | b'_')
                    && rest.iter().all(|byte| is_name_byte(*byte) || *byte == b':')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_and_names_of_tasks_come_before_the_text() {
        for (line, task, text) in [
            ("a:test: FAIL src/b.test.js", "a:test", "FAIL src/b.test.js"),
            ("@acme/web:build:   indented", "@acme/web:build", "  indented"),
            ("web:test:unit: x", "web:test:unit", "x"),
            ("@acme/web: FAIL a", "@acme/web", "FAIL a"),
            ("packages/a test: FAIL a", "packages/a test", "FAIL a"),
            (". test: x", ". test", "x"),
            ("web-1  | panic: x", "web-1", "panic: x"),
            ("web-1  |", "web-1", ""),
            ("web.1  |  x", "web.1", " x"),
            ("10:00:05 db_1 | x", "db_1", "x"),
            ("[0] error: x", "[0]", "error: x"),
            ("[1/3] error: x", "[1/3]", "error: x"),
            ("[test] FAIL a", "[test]", "FAIL a"),
            ("[CI/test]   | FAIL a", "[CI/test]", "FAIL a"),
            ("[pod/a/b] x", "[pod/a/b]", "x"),
            ("+test | x", "+test", "x"),
            ("web:lint | x", "web:lint", "x"),
            ("hello-1.0> x", "hello-1.0", "x"),
            ("#9 1.455 error[E0308]: x", "#9", "error[E0308]: x"),
            ("2024-05-21 10:00:05 web-1 | x", "web-1", "x"),
        ] {
            let front = front(line.as_bytes());
            assert_eq!((&line[front.task], &line[front.length..]), (task, text), "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_a_task_is_text() {
        for line in [
            "src/a.rs:12:5: error: x",
            "error: x",
            "a.o:main.c: x",
            "ld:script:5: syntax error",
            "std::vector: x",
            "12 | code",
            "   | ^^^",
            "a | b",
            "File      | % Stmts | % Branch",
            "src/a.js  |   85.7 |",
            "[INFO] x",
            "[error] x",
            "[foo] x",
            "mysql> select",
            "E  x: test: y",
            "test a::b ... ok",
            "warning: test: x",
            "see build: it works",
            "INFO:werkzeug: x",
            "http://a/b: x",
        ] {
            assert_eq!(front_length(line.as_bytes()), 0, "{line}");
        }
    }
}
