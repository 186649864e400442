//! Makes untrusted text of a job safe to display, so that it cannot imitate other output. A search
//! runs on the displayed text.

use std::fmt::Write;

/// Returns output of a job with only printable characters, tabs and plain line ends. Terminal sequences
/// are removed, and carriage returns become plain line ends. The remaining control, bidirectional and
/// zero-width characters are escaped.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        // Almost all text is plain.
        let (plain, other) = rest.split_at(plain_length(rest.as_bytes()));
        out.push_str(plain);
        rest = other;
        let Some(character) = rest.chars().next() else { return out };
        let mut length = character.len_utf8();
        match character {
            '\u{1b}' => length = sequence_length(rest.as_bytes()),
            '\r' if rest[length..].starts_with('\n') => {}
            '\r' => out.push('\n'),
            c => push_escaped(&mut out, c),
        }
        rest = &rest[length..];
    }
}

/// Number of bytes at the start that are printable ASCII characters, tabs or line feeds.
fn plain_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !matches!(byte, b'\t' | b'\n' | 0x20..=0x7e)).unwrap_or(bytes.len())
}

/// Returns log bytes as text without hidden characters. Escapes (`\x1b`, `\u{202e}`, `\xff`)
/// replace control characters except tab and line feed, bidirectional and zero-width characters,
/// and bytes that are not UTF-8.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        loop {
            let (plain, other) = rest.split_at(plain_length(rest.as_bytes()));
            out.push_str(plain);
            let mut characters = other.chars();
            let Some(character) = characters.next() else { break };
            push_escaped(&mut out, character);
            rest = characters.as_str();
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn push_escaped(out: &mut String, character: char) {
    let _ = match character {
        '\r' => out.write_str("\\r"),
        c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)),
        c if c.is_control() || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}') => {
            write!(out, "\\u{{{:x}}}", u32::from(c))
        }
        c => out.write_char(c),
    };
}

/// Returns JSON text in which each hidden character of a string is an escape of JSON, such as `\u009b`. The value stays the same.
pub fn json(text: String) -> String {
    let is_hidden =
        |c: char| c.is_control() && c != '\n' || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}');
    if !text.contains(is_hidden) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if !is_hidden(character) {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// Returns a name or a command with plain line ends. All other control characters, and the bidirectional and zero-width ones,
/// are escaped, and so are terminal sequences: a name without its hidden part would be the name of something else.
pub fn name(text: &str) -> String {
    if is_plain(text.as_bytes()) {
        return text.to_owned();
    }
    escaped(text.replace("\r\n", "\n").replace('\r', "\n").as_bytes())
}

/// Returns a name, a command or a message on one line, as [`name`].
pub fn one_line(text: &str) -> String {
    name(text.trim()).replace('\n', " ⏎ ")
}

/// Returns output of a job on one line, as [`printable`].
pub fn output_line(text: &str) -> String {
    printable(text).trim().replace('\n', " ⏎ ")
}

/// Returns true if [`printable`] leaves these bytes unchanged. It checks bytes, not characters, so
/// it returns false for all text that is not ASCII.
pub fn is_plain(bytes: &[u8]) -> bool {
    plain_length(bytes) == bytes.len()
}

/// Matches direction marks, tags and zero-width characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the length of the terminal sequence at the start of `bytes`, which is an ESC. A sequence
/// ends before the end of its line and between two characters. Of a truncated sequence only its
/// introducer is counted, because the bytes after it may be text.
///
/// Not from a library: `vte` 0.15 and `anstyle-parse` 0.2 drop all text after a control string without an end, so a cut
/// title would hide the error after it. On coloured compiler output they also need 2.5 and 3.3 times as long.
pub fn sequence_length(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'[') => {
            let inner = bytes[2..].iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
            2 + inner + usize::from(matches!(bytes.get(2 + inner), Some(0x40..=0x7e)))
        }
        // Control strings: titles, hyperlinks, pictures, time stamps.
        Some(b']' | b'P' | b'_' | b'^' | b'X') => 2 + string_length(&bytes[2..]),
        // A character set selection.
        Some(b'(' | b')' | b'*' | b'+') => 2 + usize::from(matches!(bytes.get(2), Some(0x30..=0x7e))),
        Some(0x20..=0x7e) => 2,
        _ => 1,
    }
}

/// Returns the length of a control string with its terminator: BEL, the string terminator in either
/// form, or an ESC, which starts another sequence. Returns 0 without a terminator.
fn string_length(bytes: &[u8]) -> usize {
    let is_end = |byte: &u8| matches!(byte, 0x7 | b'\n' | b'\r' | 0x1b | 0xc2);
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(is_end) {
        at += found;
        match (bytes[at], bytes.get(at + 1)) {
            (0x7, _) => return at + 1,
            (0x1b, Some(b'\\')) | (0xc2, Some(0x9c)) => return at + 2,
            (0x1b, _) => return at,
            (0xc2, _) => at += 1,
            _ => return 0,
        }
    }
    0
}

/// Formats a number with its noun: `1 line`, `2,048 lines`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// Formats a number with thousands separators.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{counted, escaped, is_plain, json, one_line, output_line, printable, thousands};
    use proptest::prelude::*;

    #[test]
    fn numbers_are_grouped_and_nouns_agree_with_them() {
        assert_eq!([0, 7, 999, 1_000, 1_234_567].map(thousands), ["0", "7", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 2_048].map(|count| counted(count, "line")), ["0 lines", "1 line", "2,048 lines"]);
    }

    #[test]
    fn only_plain_text_is_left() {
        for (text, expected) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("\u{1b}[38;5;1merror\u{1b}[K\u{1b}[?25l: x", "error: x"),
            ("a\u{1b}]8;;http://x\u{7}link\u{1b}(B", "alink"),
            ("a\r\nb\rc\u{2028}d\u{b}\u{85}", "a\nb\nc\\u{2028}d\\x0b\\u{85}"),
            ("zero\u{200b}width \u{202e}turned\0", "zero\\u{200b}width \\u{202e}turned\\x00"),
            ("\u{1b}", ""),
            ("\u{1b}[31", ""),
            ("\u{1b}[31\u{e4}", "\u{e4}"),
            ("\u{1b}(\u{e4}", "\u{e4}"),
        ] {
            assert_eq!(printable(text), expected, "{text:?}");
        }
        assert_eq!(output_line(" \u{1b}[1ma\u{1b}[0m\nb "), "a ⏎ b");
        assert_eq!(one_line(" a\nb\u{85}c\r\nd "), "a ⏎ b\\u{85}c ⏎ d");
        assert_eq!(
            one_line("true \u{1b}]0;; echo hidden\u{7} # end"),
            "true \\x1b]0;; echo hidden\\x07 # end"
        );
    }

    #[test]
    fn escaped_text_hides_no_byte() {
        for (bytes, expected) in [
            (&b"plain\ttext\n"[..], "plain\ttext\n"),
            (b"\x1b[31mred\r\n", "\\x1b[31mred\\r\n"),
            (b"\xff\xe4 a\xc3\xa4\0", "\\xff\\xe4 a\u{e4}\\x00"),
            ("\u{202e}x\u{200b}\u{85}\u{2028}".as_bytes(), "\\u{202e}x\\u{200b}\\u{85}\\u{2028}"),
        ] {
            assert_eq!(escaped(bytes), expected);
        }
    }

    #[test]
    fn json_has_no_hidden_characters_and_the_same_value() {
        let value = serde_json::json!({"a": "x\u{9b}31m \u{202e}\u{7f}\u{e0041} \u{e4}\n", "b": "plain"});
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = json(text);
            assert!(shown.chars().all(|c| !c.is_control() || c == '\n'), "{shown:?}");
            assert!(shown.contains("x\\u009b31m \\u202e\\u007f\\udb40\\udc41 \u{e4}\\n"), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("it is JSON"), value);
        }
    }

    #[test]
    fn what_stands_behind_a_text_for_the_terminal_stays() {
        for kind in [']', 'P', '_', '^', 'X'] {
            for end in ["\u{7}", "\u{9c}", "\u{1b}\\"] {
                let text = format!(
                    "before \u{1b}{kind}8;;http://ä/\u{b5}{end}LINK\u{1b}{kind}8;;{end} after\nnext\n"
                );
                assert_eq!(printable(&text), "before LINK after\nnext\n", "{text:?}");
            }
            // Without a terminator, the hidden text is not a control string.
            for cut in ["\n", "\r\n", ""] {
                let text = format!("a\u{1b}{kind}b{cut}");
                assert_eq!(printable(&text), format!("ab{}", cut.trim_start_matches('\r')), "{text:?}");
            }
            assert_eq!(printable(&format!("a\u{1b}{kind}b\u{1b}[0mc\nd")), "ac\nd");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_can_pretend_is_left_and_no_line_end_is_lost(
            text in "([a-c\u{e4}\u{b5}\n\r\t\u{1b}\\[\\]P_X(0;m\\\\\u{7}\u{9c}\u{85}\u{202e}\0]){0,40}"
        ) {
            let shown = printable(&text);
            prop_assert!(shown.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{shown:?}");
            prop_assert!(shown.matches('\n').count() >= text.matches('\n').count(), "{text:?}: {shown:?}");
            prop_assert_eq!(&printable(&shown), &shown);
            prop_assert!(!is_plain(text.as_bytes()) || shown == text);
        }
    }
}
