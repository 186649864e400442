//! Shortens shown text without removing information that a reader needs. It never changes the
//! details of a finding.

use std::borrow::Cow;

/// Minimum length of a common prefix that is removed, in characters.
const PREFIX_CHARS_MIN: usize = 20;
/// Minimum number of digits of hexadecimal text that is masked.
const HASH_DIGITS_MIN: usize = 12;
/// Characters that tools draw along the left side of an excerpt.
const GUTTERS: [char; 6] = ['|', '│', '┃', '╷', '╵', '·'];

/// Compresses lines that belong together. The first line is the message. Hexadecimal at its start
/// or after `commit`, `digest` or `sha` stays, because the message is about it.
pub(crate) fn lines(lines: &[String], roots: &[String]) -> Vec<String> {
    without_common_prefix(each(lines, roots))
}

/// Compresses each line, with regard to the lines above and below it.
pub(crate) fn each<S: AsRef<str>>(lines: &[S], roots: &[String]) -> Vec<String> {
    let points = |index: Option<usize>| {
        index.and_then(|index| lines.get(index)).is_some_and(|line| points_at_columns(line.as_ref()))
    };
    let shortened = lines.iter().enumerate().map(|(index, text)| {
        let pointed_at = points(index.checked_sub(1)) || points(index.checked_add(1));
        shortened(text.as_ref(), roots, pointed_at)
    });
    shortened.collect()
}

/// Compresses one line whose neighbors are unknown.
pub(crate) fn line(text: &str, roots: &[String]) -> String {
    shortened(text, roots, false)
}

fn shortened(text: &str, roots: &[String], pointed_at: bool) -> String {
    let stamp = crate::text::stamp_length(text.as_bytes());
    let text = text.get(stamp..).unwrap_or(text);
    let text = relative(text, roots);
    let text = without_hashes(&text);
    if pointed_at { text.trim_end().to_owned() } else { squeezed(&text).into_owned() }
}

/// Makes paths inside a root relative to it. Other paths stay whole.
pub(crate) fn relative<'a>(text: &'a str, roots: &[String]) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for root in roots {
        let root = root.trim_end_matches('/');
        if root.len() < 2 || !text.contains(root) {
            continue;
        }
        let mut out = String::with_capacity(text.len());
        let mut rest: &str = &text;
        while let Some(at) = rest.find(root) {
            let after = &rest[at + root.len()..];
            let begins =
                !rest[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.'));
            if begins && after.starts_with('/') {
                out.push_str(&rest[..at]);
                rest = &after[1..];
            } else {
                out.push_str(&rest[..at + root.len()]);
                rest = after;
            }
        }
        out.push_str(rest);
        text = Cow::Owned(out);
    }
    text
}

/// Masks long hexadecimal with both a letter and a digit. Decimal numbers, `0x` addresses, and
/// hashes that are the subject of the text stay.
fn without_hashes(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    if bytes.len() < HASH_DIGITS_MIN {
        return text.into();
    }
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_hexdigit() {
            at += 1;
            continue;
        }
        let end = at + bytes[at..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let word = &bytes[at..end];
        let free = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
        let bounded = (at == 0 || free(bytes.get(at - 1))) && free(bytes.get(end));
        let mixed = word.iter().any(u8::is_ascii_alphabetic) && word.iter().any(u8::is_ascii_digit);
        let is_hash = word.len() >= HASH_DIGITS_MIN && bounded && mixed && !is_joined(bytes, at, end);
        if is_hash && !is_subject(&text[..at], &text[end..]) {
            let out = out.get_or_insert_with(String::new);
            out.push_str(&text[copied..at]);
            out.push_str("<HASH>");
            copied = end;
        }
        at = end;
    }
    match out {
        Some(mut out) => {
            out.push_str(&text[copied..]);
            out.into()
        }
        None => text.into(),
    }
}

/// Returns true if a hyphen joins the digits to other digits, as in a UUID.
fn is_joined(bytes: &[u8], at: usize, end: usize) -> bool {
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_hexdigit);
    let is_hyphen = |at: Option<usize>| at.and_then(|at| bytes.get(at)) == Some(&b'-');
    is_hyphen(at.checked_sub(1)) && is_digit(at.checked_sub(2))
        || is_hyphen(Some(end)) && is_digit(Some(end + 1))
}

/// Returns true if a message is about its hash: it is quoted, or the words around it name or compare it.
fn is_subject(before: &str, after: &str) -> bool {
    let quote = before.chars().next_back().filter(|c| matches!(c, '\'' | '"' | '`'));
    if quote.is_some_and(|quote| after.starts_with(quote)) {
        return true;
    }
    let start = before.char_indices().rev().nth(40).map_or(0, |(at, _)| at);
    let end = after.char_indices().nth(20).map_or(after.len(), |(at, _)| at);
    let (before, after) = (before[start..].to_ascii_lowercase(), after[..end].to_ascii_lowercase());
    [
        "commit", "revision", "digest", "sha", "checksum", "expected", "actual", "got", "want", "hash",
        "object", "left", "right", "equal", "pathspec", "==", "!=",
    ]
    .iter()
    .any(|word| before.contains(word))
        || ["mismatch", "==", "!=", "equal", "match"].iter().any(|word| after.contains(word))
        || before.trim().is_empty()
}

/// Replaces runs of blanks inside a line by one. Keeps indentation, and lines that point at columns
/// above or below them.
fn squeezed(text: &str) -> Cow<'_, str> {
    let blanks = |text: &str| text.len() - text.trim_start_matches([' ', '\t']).len();
    // In a diff the indentation comes after the sign, in pytest's excerpts after `>` or `E`.
    let sign = usize::from(text.starts_with(['+', '-', '>', 'E']) && text[1..].starts_with([' ', '\t']));
    let indent = sign + blanks(&text[sign..]);
    let (lead, body) = text.split_at(indent);
    if let Some(short) = without_rules(body) {
        return format!("{lead}{short}").into();
    }
    let points = body.contains('^') || body.contains('~') || body.contains(" | ") || is_excerpt(body);
    let trimmed = body.trim_end();
    if points || !(trimmed.contains("  ") || trimmed.contains('\t')) {
        return if trimmed.len() == body.len() { text.into() } else { text[..indent + trimmed.len()].into() };
    }
    let mut out = String::with_capacity(text.len());
    out.push_str(lead);
    let mut blank = false;
    for c in trimmed.chars() {
        let is_blank = matches!(c, ' ' | '\t');
        if !(is_blank && blank) {
            out.push(if is_blank { ' ' } else { c });
        }
        blank = is_blank;
    }
    out.into()
}

/// Returns true for a line of an excerpt after a drawn line: `3 │     foo + 1`, `12|   a`, `│   x`.
fn is_excerpt(body: &str) -> bool {
    let numbered = body.trim_start_matches(['>', '→', ' ']).trim_start_matches(|c: char| c.is_ascii_digit());
    body.starts_with(GUTTERS) || numbered.len() < body.len() && numbered.trim_start().starts_with(GUTTERS)
}

/// Returns true if a line marks columns of the line above or below it: carets, also after a drawn
/// line.
fn points_at_columns(line: &str) -> bool {
    let body = line.trim_start_matches(|c: char| c.is_whitespace() || GUTTERS.contains(&c));
    let mut marks = body.chars().take_while(|c| matches!(c, '^' | '~' | '-' | '─' | '┬' | '▲'));
    body.starts_with(['^', '~', '▲']) || marks.any(|c| matches!(c, '^' | '~' | '┬'))
}

/// Shortens drawn rules (`______ name ______`) to three characters at each end. Returns None if
/// there is no rule at both ends.
fn without_rules(body: &str) -> Option<String> {
    let mark = body.chars().next().filter(|c| matches!(c, '_' | '=' | '-' | '*' | '⎯' | '─'))?;
    let body = body.trim_end();
    let inner = body.trim_start_matches(mark);
    let length = |text: &str| text.chars().count();
    if length(body) - length(inner) < 6 {
        return None;
    }
    let three: String = std::iter::repeat_n(mark, 3).collect();
    let core = inner.trim_end_matches(mark);
    Some(if core.is_empty() {
        three
    } else if core.len() < inner.len() {
        format!("{three}{core}{three}")
    } else {
        format!("{three}{core}")
    })
}

/// Removes a long common prefix from all lines except the first, which keeps its severity word.
fn without_common_prefix(lines: Vec<String>) -> Vec<String> {
    let full: Vec<&String> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
    if full.len() < 3 {
        return lines;
    }
    let mut prefix: &str = full[0];
    for line in &full[1..] {
        let shared = prefix
            .char_indices()
            .zip(line.chars())
            .find(|((_, a), b)| a != b)
            .map_or_else(|| prefix.len().min(line.len()), |((at, _), _)| at);
        prefix = &prefix[..shared];
    }
    // The cut is never inside a word and never only indentation.
    let cut = prefix.rfind([' ', ']', '\t']).map_or(0, |at| at + 1);
    let prefix = prefix[..cut].to_owned();
    if prefix.trim_start().chars().count() < PREFIX_CHARS_MIN {
        return lines;
    }
    let severity =
        ["ERROR", "error", "FATAL", "WARN", "warning", "INFO"].iter().find(|word| prefix.contains(**word));
    let mark = severity.map_or_else(|| "… ".to_owned(), |word| format!("… {word} "));
    lines
        .iter()
        .enumerate()
        .map(|(index, line)| match line.strip_prefix(prefix.as_str()) {
            Some(rest) if index > 0 => format!("{mark}{rest}"),
            _ => line.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(line(text, &["/home/ci/proj".to_owned()]), expected);
    }

    #[test]
    fn stamps_go() {
        check("2024-05-21T10:00:05.123Z [ERROR] Connection failed", "[ERROR] Connection failed");
        check("[10:00:05] Connection failed", "Connection failed");
    }

    #[test]
    fn paths_become_relative_to_the_workspace_only() {
        check("/home/ci/proj/src/a.rs:3:4: error: x", "src/a.rs:3:4: error: x");
        check("at (/home/ci/proj/b.js:1)", "at (b.js:1)");
        check("/home/ci/project2/src/a.rs:3", "/home/ci/project2/src/a.rs:3");
        check("/usr/include/c++/12/bits/stl_algo.h:1", "/usr/include/c++/12/bits/stl_algo.h:1");
        check("https://example.com/home/ci/proj/x", "https://example.com/home/ci/proj/x");
    }

    #[test]
    fn hashes_go_unless_they_matter() {
        check("Container abc123def456 failed to start", "Container <HASH> failed to start");
        check("at 1700000000000000 ns", "at 1700000000000000 ns");
        check("0x00007fff5fbff8c0 in main", "0x00007fff5fbff8c0 in main");
        check("couldn't find commit abc123def4567890", "couldn't find commit abc123def4567890");
        check("expected digest sha256:abc123def4567890", "expected digest sha256:abc123def4567890");
        check("facade deadbeefcafe word", "facade deadbeefcafe word");
        for kept in [
            "AssertionError: 'a94a8fe5ccb19ba6' is not 'b94a8fe5ccb19ba6'",
            "error: pathspec 'abc123def4567890' did not match any file(s) known to git",
            "ValueError: abc123def4567890 mismatch",
            "assert abc123def4567890 == abc123def4567891",
        ] {
            check(kept, kept);
        }
        let device = "on 8A1B2C3D-0000-4E5F-9ABC-0123456789AB (Booted)";
        check(device, device);
    }

    #[test]
    fn blanks_go_but_columns_stay() {
        check("a    b\t\tc  ", "a b c");
        check("    return  x", "    return x");
        check("      |     ^^^^ here", "      |     ^^^^ here");
        check("   12 |     let  x", "   12 |     let  x");
    }

    #[test]
    fn carets_stay_under_what_they_point_at() {
        for excerpt in [
            ["    error: undefined variable \"foo\"", "    │", "  3 │     foo  + 1", "    │     ^^^"],
            ["error: Unknown", "  ┌─ /src/a.gleam:3:5", "3 │   let  x = foo", "  │            ^^^"],
            ["Error: src/app.ts:3:5 - error TS2551", "", "3     this.nmae  = 1;", "      ~~~~"],
            [
                "AssertionError: expected 1",
                "      2| it('a',  () => {",
                "      3|   expect(1)",
                "       |             ^",
            ],
            ["Invalid expression", "  on main.tf line 3", "│   3:   ami    = foo", "│          ^^^"],
            [
                "  File \"a.py\", line 1",
                "    x  =  (1 +",
                "           ^",
                "SyntaxError: '(' was never closed",
            ],
            [
                "E     File \"a.py\", line 1",
                "E       class Parser",
                "E                   ^",
                "E   SyntaxError: expected ':'",
            ],
        ] {
            let before = excerpt.map(str::to_owned);
            assert_eq!(lines(&before, &[]), before);
        }
        assert_eq!(lines(&["a    b".to_owned(), "c    d".to_owned()], &[]), ["a b", "c d"]);
    }

    #[test]
    fn common_prefix_is_named_once_and_keeps_the_severity() {
        let text = |rest: &str| format!("[ERROR] [com.mycompany.runner.DockerExecutor] {rest}");
        let out =
            lines(&[text("Starting container"), text("Pulling image"), String::new(), text("Failed")], &[]);
        assert_eq!(out[0], text("Starting container"));
        assert_eq!(out[1], "… ERROR Pulling image");
        assert_eq!(out[3], "… ERROR Failed");
    }
}
