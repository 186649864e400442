//! Text that cannot pretend: no terminal sequences, no line ends of other kinds, no marks that turn the reading direction.

/// The text with only printable characters, tabs and plain line ends.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut characters),
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' | '\t' => out.push(character),
            // Vertical tab, form feed, next line, line and paragraph separators end a line for some readers.
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            c if c.is_control() || is_invisible(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// The same on one line.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).trim().replace('\n', " ⏎ ")
}

/// Marks of direction, tags and zero-width characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Leaves out a terminal sequence: `ESC [ … letter`, `ESC ] … BEL`, or ESC and one character.
fn skip_sequence(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => {
            while let Some(&next) = characters.peek() {
                if !matches!(next, ' '..='?') {
                    break;
                }
                characters.next();
            }
            if characters.peek().is_some_and(|c| matches!(c, '@'..='~')) {
                characters.next();
            }
        }
        Some(']') => {
            for next in characters.by_ref() {
                if matches!(next, '\u{7}' | '\u{9c}' | '\n') {
                    break;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{one_line, printable};

    #[test]
    fn only_plain_text_is_left() {
        for (text, expected) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("a\u{1b}]8;;http://x\u{7}link\u{1b}(B", "alinkB"),
            ("a\r\nb\rc\u{2028}d", "a\nb\nc\nd"),
            ("zero\u{200b}width \u{202e}turned\0", "zerowidth turned"),
            ("\u{1b}", ""),
            ("\u{1b}[31", ""),
        ] {
            assert_eq!(printable(text), expected, "{text:?}");
        }
        assert_eq!(one_line(" a\nb\u{85}c "), "a ⏎ b ⏎ c");
    }
}
