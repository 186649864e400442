//! Places that messages name in words: `on line 12 of a.scss`, `a.scss 12:5`, `"a.md:4:1"`, `a.js (1:7)`.

use crate::rules::{Diagnostic, Kind, pointed};
use regex::bytes::{Regex, RegexBuilder};
use std::sync::LazyLock;

/// A file's name, with an extension.
macro_rules! file {
    () => {
        r#"(?P<f>(?:[A-Za-z]:|file://)?[^\s:"'`()\[\]{},;<>]+\.[A-Za-z]\w{0,9}|(?:\S*/)?(?:Dockerfile|Makefile|SConstruct|Gemfile|Rakefile))"#
    };
}

/// Most lines of a message that are searched.
const LINES_MAX: usize = 30;

/// Layouts of worded places, the most exact first.
static LAYOUTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        concat!(r#"(?:^|[\s"'`(\[<@])"#, file!(), r#":(?P<l>\d+)(?::(?P<c>\d+))?(?:[-:"'`)\]>,.\s]|$)"#),
        concat!(r"(?:^|[\s\x22'`(\[])", file!(), r" ?\((?P<l>\d+)(?:[:,] ?(?P<c>\d+))?\)"),
        concat!(
            r#"\b(?:[Ii]n|[Oo]n|[Aa]t|[Oo]f|[Ff]ile):? (?:test |the )?(?:file )?["'`]?"#,
            file!(),
            r#"["'`]?,? (?:on |at |near )?line:? (?P<l>\d+)(?:,? (?:and )?(?:col(?:umn)?|char(?:acter)?s?):? (?P<c>\d+))?"#
        ),
        concat!(
            r#"\bline (?P<l>\d+)(?:,? col(?:umn)? (?P<c>\d+))? (?:of|in) (?:the )?(?:file )?["'`]?"#,
            file!()
        ),
        concat!(r"(?:^|\s)", file!(), r" (?P<l>\d+):(?P<c>\d+)(?:-[\d:]+)?(?:\s|$)"),
        concat!(r"(?:^|\s)", file!(), r": \S.* \((?P<l>\d+):(?P<c>\d+)\)$"),
    ]
    .iter()
    .map(|layout| RegexBuilder::new(layout).unicode(false).build().expect("a test reads each layout"))
    .collect()
});

/// Parts of paths that are not of the project.
const FOREIGN: &[&str] = &["node_modules", "site-packages", "/usr/lib", "/dist-packages", "://http"];

/// Sets the place of a problem that has none: where an arrow or a box points to, or a place in words. An error with
/// a column, an excerpt, or about the syntax of a file, is a build error.
pub(super) fn located(diagnostic: &mut Diagnostic) {
    if diagnostic.file.is_some() {
        return;
    }
    pointed(diagnostic);
    if diagnostic.file.is_none() {
        worded(diagnostic);
    }
    let reads_text =
        diagnostic.column.is_some() || has_excerpt(diagnostic) || is_about_syntax(diagnostic.first());
    if diagnostic.line.is_some() && diagnostic.file.is_some() && reads_text {
        diagnostic.kind = Some(Kind::Build);
    }
}

/// Sets the place that the lines name in words, if they name one.
pub(super) fn worded(diagnostic: &mut Diagnostic) {
    let found =
        diagnostic.lines.iter().take(LINES_MAX).filter(|line| !is_frame(line)).find_map(|line| find(line));
    if let Some((file, line, column)) = found {
        (diagnostic.file, diagnostic.line, diagnostic.column) = (Some(file), Some(line), column);
    }
}

/// Completes a place without a line, by the first place that the lines name in the same file.
pub(super) fn reread(diagnostic: &mut Diagnostic) {
    let file = diagnostic.file.take();
    worded(diagnostic);
    let is_same = |other: &String| {
        file.as_ref().is_none_or(|file| other.ends_with(file.as_str()) || file.ends_with(other.as_str()))
    };
    if diagnostic.file.as_ref().is_some_and(is_same) {
        diagnostic.file = file.or(diagnostic.file.take());
    } else {
        (diagnostic.file, diagnostic.line, diagnostic.column) = (file, None, None);
    }
}

/// File, line and column of the first place in the line.
fn find(line: &str) -> Option<(String, u32, Option<u32>)> {
    let line = crate::text::clip_chars(line, 400);
    if !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    LAYOUTS.iter().find_map(|layout| {
        let groups = layout.captures(line.as_bytes())?;
        let text = |name: &str| std::str::from_utf8(groups.name(name)?.as_bytes()).ok();
        let number = |name: &str| text(name)?.parse().ok();
        let file = text("f")?.trim_start_matches("file://");
        let is_own = !FOREIGN.iter().any(|part| file.contains(part)) && !file.starts_with("//");
        is_own.then_some(())?;
        Some((file.to_owned(), number("l")?, number("c")))
    })
}

/// A frame of a stack is not the place of the message.
fn is_frame(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with("at ") || text.starts_with("from ")
}

/// Returns true if a line below the message marks a column, or draws the margin of an excerpt.
pub(super) fn has_excerpt(diagnostic: &Diagnostic) -> bool {
    diagnostic.lines.iter().skip(1).any(|line| {
        let text = line.trim_start_matches([' ', '\t', '|', '│', ':', '·', '>', '╷', '╵', '┃']);
        let is_caret =
            !text.trim().is_empty() && text.trim().chars().all(|c| matches!(c, '^' | '~' | '-' | '─' | '┬'));
        let digits = text.chars().take_while(char::is_ascii_digit).count();
        let margin = text[digits..].trim_start();
        is_caret && text.contains(['^', '~', '┬', '─'])
            || digits > 0 && margin.starts_with(['|', '│', '┃', '┆'])
    })
}

fn is_about_syntax(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    ["syntax error", "parse error", "parse failed", "cannot parse", "syntaxerror"]
        .iter()
        .any(|words| lower.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_words_are_read() {
        for (line, file, row, column) in [
            ("  src/app.scss 3:13  root stylesheet", "src/app.scss", 3, Some(13)),
            (
                "NameError: variable @a is undefined in /p/main.less on line 1, column 13:",
                "/p/main.less",
                1,
                Some(13),
            ),
            ("parse error near line 2 of file /p/a.m", "/p/a.m", 2, None),
            ("Error building site: \"/p/a.md:4:1\": failed", "/p/a.md", 4, Some(1)),
            ("RollupError: a.js (1:7): \"default\" is not exported", "a.js", 1, Some(7)),
            ("SyntaxError: /p/src/a.js: Unexpected token (2:10)", "/p/src/a.js", 2, Some(10)),
            ("error: cannot parse: a.py:2:2", "a.py", 2, Some(2)),
            ("  on main.tf line 12, in resource \"a\":", "main.tf", 12, None),
            ("  File \"/p/SConstruct\", line 2:", "/p/SConstruct", 2, None),
            ("    (file \"a.tcl\" line 2)", "a.tcl", 2, None),
            ("# (in test file a.bats, line 1)", "a.bats", 1, None),
            ("ERROR: [Synth 8-2715] syntax error near endmodule [/p/a.v:12]", "/p/a.v", 12, None),
            ("in expression starting at /p/a.jl:2", "/p/a.jl", 2, None),
            ("Syntax error at '}' (file: /p/a.pp, line: 3, column: 1)", "/p/a.pp", 3, Some(1)),
        ] {
            assert_eq!(find(line), Some((file.to_owned(), row, column)), "{line}");
        }
        for line in [
            "error: Unable to reach http://127.0.0.1:80/a",
            "Error: timed out after 12:30",
            "node v20.1:2",
            "/p/node_modules/a/b.js:1:2",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }
}
