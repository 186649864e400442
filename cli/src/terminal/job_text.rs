//! Output of a job on a terminal: colours stay, other controls are shown escaped.
//!
//! A terminal executes control sequences. Those of a job could set the title, move the cursor over earlier lines or
//! answer as the user's input. So only those that colour text and those that erase the rest of a line pass.

use buildpool_protocol::shown;

/// Limit on the bytes of a sequence that passes. A longer one is shown escaped.
const SEQUENCE_BYTES_MAX: usize = 64;

/// Converts the output of one stream, piece by piece.
#[derive(Default, Debug)]
pub(super) struct JobText {
    /// The start of a character or of a sequence at the end of the last piece.
    held: Vec<u8>,
    /// Whether the last byte was a carriage return, which is shown as a line end.
    after_return: bool,
    /// Whether a colour may be in effect.
    is_coloured: bool,
}

/// The kind of text at the start of some bytes.
enum Start {
    /// This many bytes pass unchanged.
    Passes(usize),
    /// This many bytes are shown escaped.
    Escaped(usize),
    /// The next piece decides.
    Incomplete,
}

impl JobText {
    /// Returns the next piece for the terminal.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.held);
        input.extend_from_slice(piece);
        let mut out = Vec::with_capacity(input.len());
        let mut rest = &input[..];
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let plain = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..plain]);
            rest = &rest[plain..];
            match start(rest) {
                Start::Passes(length) => {
                    self.is_coloured |= length > 0;
                    out.extend_from_slice(&rest[..length]);
                    rest = &rest[length..];
                }
                Start::Escaped(_) if rest[0] == b'\r' => {
                    // A line end, so that no text is hidden by the text after it.
                    out.push(b'\n');
                    self.after_return = true;
                    rest = &rest[1..];
                }
                Start::Escaped(length) => {
                    out.extend_from_slice(shown::escaped(&rest[..length]).as_bytes());
                    rest = &rest[length..];
                }
                Start::Incomplete => {
                    self.held = rest.to_vec();
                    break;
                }
            }
        }
        out
    }

    /// Returns the end of the output: held bytes, and the end of colours.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut out = shown::escaped(&std::mem::take(&mut self.held)).into_bytes();
        if std::mem::take(&mut self.is_coloured) {
            out.extend_from_slice(b"\x1b[0m");
        }
        out
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x20..=0x7e)
}

/// Classifies the start of bytes of which the first one is not plain.
fn start(bytes: &[u8]) -> Start {
    match bytes {
        [] => Start::Passes(0),
        [0x1b, ..] => sequence(bytes),
        [0..=0x7f, ..] => Start::Escaped(1),
        [first, ..] => {
            let width = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            match std::str::from_utf8(&bytes[..width.min(bytes.len())]) {
                Ok(_) => Start::Escaped(width),
                Err(error) if bytes.len() < width && error.error_len().is_none() => Start::Incomplete,
                Err(_) => Start::Escaped(1),
            }
        }
    }
}

/// Classifies a sequence (ECMA-48): `ESC [ parameters m` selects colours, `ESC [ K` erases the rest of the line.
fn sequence(bytes: &[u8]) -> Start {
    let is_parameter = |byte: &u8| matches!(byte, b'0'..=b'9' | b';' | b':');
    match bytes.get(1) {
        None => return Start::Incomplete,
        Some(b'[') => {}
        Some(_) => return Start::Escaped(1),
    }
    let parameters = bytes[2..].iter().take(SEQUENCE_BYTES_MAX).take_while(|byte| is_parameter(byte)).count();
    match bytes.get(2 + parameters) {
        None => Start::Incomplete,
        Some(b'm') => Start::Passes(3 + parameters),
        Some(b'K') if parameters == 0 => Start::Passes(3),
        Some(_) => Start::Escaped(1),
    }
}

#[cfg(test)]
mod tests {
    use super::JobText;

    #[test]
    fn colours_pass_and_other_controls_are_shown_escaped_for_any_pieces() {
        for (output, expected) in [
            (&b"plain\ttext\n"[..], "plain\ttext\n"),
            (
                b"\x1b[1;38:5:1mred\x1b[0m \x1b[01m\x1b[Kgcc\x1b[m\n",
                "\x1b[1;38:5:1mred\x1b[0m \x1b[01m\x1b[Kgcc\x1b[m\n\x1b[0m",
            ),
            (b"\x1b]0;title\x07x", "\\x1b]0;title\\x07x"),
            (b"\x1b[2J\x1b[1A\x1b[2K\x1bc", "\\x1b[2J\\x1b[1A\\x1b[2K\\x1bc"),
            (b"a\r\nb\rc\r", "a\nb\nc\n"),
            (
                "\u{e4} \u{202e}x\u{200b}\u{9b}\u{1f600}".as_bytes(),
                "\u{e4} \\u{202e}x\\u{200b}\\u{9b}\u{1f600}",
            ),
            (b"\xff \xe4\n \xf0\x9f", "\\xff \\xe4\n \\xf0\\x9f"),
            (b"cut \x1b[3", "cut \\x1b[3"),
            (b"\x08\0\x0b", "\\x08\\x00\\x0b"),
        ] {
            for size in 1..=output.len() {
                let mut text = JobText::default();
                let mut shown: Vec<u8> = output.chunks(size).flat_map(|piece| text.push(piece)).collect();
                shown.extend(text.finish());
                assert_eq!(String::from_utf8(shown).unwrap(), expected, "{output:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_sequence_without_end_is_not_held() {
        let mut text = JobText::default();
        let endless = [&b"\x1b["[..], &[b'1'; 1_000]].concat();
        let shown = text.push(&endless);
        assert!(shown.starts_with(b"\\x1b[111") && text.held.is_empty(), "{}", text.held.len());
    }
}
