//! Recognizes lines that programs print below an error before they end: frames, excerpts and advice.

/// Beginnings of such lines, in the order of their first bytes.
const BEGINNINGS: &[&str] = &[
    ")",
    "- /",
    "Bun v",
    "Caused by",
    "For more ",
    "Help: ",
    "Hint",
    "More info",
    "Node.js v",
    "Note: ",
    "Origin: ",
    "Please ",
    "Require stack:",
    "See ",
    "Stack backtrace:",
    "Stack trace:",
    "Try ",
    "Usage:",
    "]",
    "^",
    "at ",
    "caused by",
    "help: ",
    "hint",
    "http://",
    "https://",
    "note: ",
    "stack backtrace:",
    "usage:",
    "|",
    "}",
    "~",
    "│",
    "╰",
    "╵",
    "─",
];

/// For each byte, the first one of [`BEGINNINGS`] with it and the first one behind those: most lines need no comparison.
const BY_FIRST_BYTE: [(u8, u8); 256] = {
    let mut by_first_byte = [(0, 0); 256];
    let mut at = 0;
    while at < BEGINNINGS.len() {
        let range = &mut by_first_byte[BEGINNINGS[at].as_bytes()[0] as usize];
        assert!(range.1 == 0 || range.1 as usize == at, "the beginnings are not in order");
        *range = (if range.1 == 0 { at as u8 } else { range.0 }, at as u8 + 1);
        at += 1;
    }
    by_first_byte
};

/// Returns true if the line adds nothing to the log but the context of an error above it, as far as its text shows.
pub(crate) fn is_trailing_context(line: &[u8]) -> bool {
    let Some(first) = line.first() else { return false };
    // `> 12 | text` is the line of the error.
    let is_numbered = || {
        let line = line.strip_prefix(b">").unwrap_or(line).trim_ascii_start();
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let rest = &line[digits..];
        digits > 0 && (rest.starts_with(b"  ") || rest.trim_ascii_start().starts_with(b"|"))
    };
    match first {
        b' ' | b'\t' => true,
        b'>' | b'0'..=b'9' => is_numbered(),
        b'#' => line.get(1).is_some_and(u8::is_ascii_digit) || line.trim_ascii_end() == b"#",
        _ => {
            let (from, to) = BY_FIRST_BYTE[usize::from(*first)];
            BEGINNINGS[from.into()..to.into()].iter().any(|beginning| line.starts_with(beginning.as_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_trailing_context;

    #[test]
    fn context_of_an_error_is_known() {
        for line in [
            "    at f (a.js:1:2)",
            "\tA::b() called at a.pl line 3",
            "Hint: = is not a valid operator. Did you mean == ?",
            "3   tasks:",
            "12 | let a = 1;",
            "#0 0x1 in main",
            "> 12 |     y.x",
            "╰─> See above for output.",
            "# ",
            "Bun v1.4.5 (Linux x64)",
        ] {
            assert!(is_trailing_context(line.as_bytes()), "{line}");
        }
        for line in ["done", "3 tests passed", "# pass 3", "- installed a", "12 files changed", "Finished"] {
            assert!(!is_trailing_context(line.as_bytes()), "{line}");
        }
    }
}
