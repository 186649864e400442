//! Lines below the first line of a finding that belong to it, and the locations that lines name.

use super::{Diagnostic, Next};

/// Following lines that are indented deeper than the head; a blank line ends it.
pub(crate) fn indented(so_far: &[String], line: &str) -> Next {
    if !line.trim().is_empty() && indentation(line) > so_far.first().map_or(0, |head| indentation(head)) {
        Next::Part
    } else {
        Next::Beyond
    }
}

/// Following lines that are indented deeper than the head, blank lines between them included.
pub(crate) fn indented_or_blank(so_far: &[String], line: &str) -> Next {
    if line.trim().is_empty() { Next::Maybe } else { indented(so_far, line) }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Lines that draw a box or an excerpt under a message, as rustc, miette, Elixir and many others do; and indented ones.
pub(crate) fn drawn(so_far: &[String], line: &str) -> Next {
    if is_drawing(line) && so_far.len() < 40 { Next::Part } else { indented(so_far, line) }
}

/// Everything up to the rule that closes a report, blank lines and that rule included.
pub(crate) fn up_to_rule(rule: &str, so_far: &[String], line: &str) -> Next {
    if line.starts_with(rule) {
        Next::Last
    } else if so_far.len() > 60 {
        Next::Beyond
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// Only lines that draw a box under a message.
pub(crate) fn boxed(so_far: &[String], line: &str) -> Next {
    if is_drawing(line) && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

pub(crate) fn is_drawing(line: &str) -> bool {
    let trimmed = line.trim_start();
    let numbered = trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    trimmed.starts_with(['│', '┃', '╭', '╰', '├', '└', '┌', '·', '╵', '╷'])
        || [",-[", "`-", ": "].iter().any(|mark| trimmed.starts_with(mark))
        || trimmed.starts_with("--> ")
        || trimmed.starts_with("help: ")
        || trimmed.len() != numbered.len() && numbered.starts_with(['|', '│'])
        || trimmed.starts_with('|')
}

/// The place that an arrow or the corner of a box points to: `--> a.rs:3:1`, `╭─[a.js:3:1]`, `└─ lib/a.ex:12:5: …`.
pub(crate) fn pointed(diagnostic: &mut Diagnostic) {
    if diagnostic.file.is_some() {
        return;
    }
    let places: Vec<String> = diagnostic
        .lines
        .iter()
        .filter_map(|line| {
            let trimmed = line.trim_start_matches([' ', '│', '┃', '|']);
            let arrow =
                ["--> ", "╭─[", ",-[", "┌─ ", "└─ "].iter().find_map(|mark| trimmed.strip_prefix(mark));
            Some(arrow?.trim_start().split([' ', ']']).next().unwrap_or_default().to_owned())
        })
        .collect();
    let _found = places.iter().any(|place| set_place(diagnostic, place));
}

/// A place's file, line and column, as a diagnostic has them.
pub(crate) type Place = (Option<String>, Option<u32>, Option<u32>);

/// Reads `file:line:column` or `file:line`; punctuation after it is ignored.
pub(crate) fn place(text: &str) -> Option<Place> {
    let text = text.trim().trim_end_matches([':', ',', ')', ']', '.', '(']);
    let (rest, last) = text.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let (file, line, column) = match rest.rsplit_once(':') {
        Some((file, line)) if line.parse::<u32>().is_ok() => (file, line.parse().ok(), Some(last)),
        _ => (rest, Some(last), None),
    };
    (!file.is_empty()).then(|| (Some(file.to_owned()), line, column))
}

/// Sets a diagnostic's location from such a text. Returns false if the text has no location.
pub(crate) fn set_place(diagnostic: &mut Diagnostic, text: &str) -> bool {
    match place(text) {
        Some((file, line, column)) => {
            (diagnostic.file, diagnostic.line, diagnostic.column) = (file, line, column);
            true
        }
        None => false,
    }
}

/// Most lines of a paragraph.
const PARAGRAPH_LINES_MAX: usize = 30;

/// Following lines up to a blank one; once some were indented, up to one that is not.
pub(crate) fn paragraph(so_far: &[String], line: &str) -> Next {
    let deep = |line: &str| line.starts_with([' ', '\t', '|', '+', '-', '>', '^']);
    let ends = so_far.len() > 2 && so_far.last().is_some_and(|last| deep(last)) && !deep(line);
    if line.trim().is_empty() || ends || so_far.len() >= PARAGRAPH_LINES_MAX {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// The next line only.
pub(crate) fn one_more(so_far: &[String], line: &str) -> Next {
    if so_far.len() == 1 && !line.trim().is_empty() { Next::Last } else { Next::Beyond }
}

/// The program always ends with such an error.
pub(crate) const fn always(_: &Diagnostic) -> bool {
    true
}
