//! Converts one raw line into the text that a terminal would show: colours and cursor moves removed, overwritten progress dropped,
//! CI prefixes cut, NUL and other controls removed. The result may still be invalid UTF-8.

use crate::limits::LINE_BYTES_MAX;
use buildpool_protocol::shown::{escaped, sequence_length};
use memchr::memchr;

/// Possible beginning of a UTF-8 file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes of a line that are looked at together.
const CONTROL_BLOCK_BYTES: usize = 16;
/// The same for many lines.
const WIDE_BLOCK_BYTES: usize = 64;
/// Months as `ts` and syslog write them.
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Cleans lines; holds the buffer that lines with control bytes are rewritten in.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    buffer: Vec<u8>,
}

impl Cleaner {
    /// The line as shown. Costs one scan when there is nothing to remove.
    pub(crate) fn clean<'a>(&'a mut self, raw: &'a [u8]) -> &'a [u8] {
        self.rewritten(raw, false)
    }

    /// The line as an answer shows it. Controls that change neither colour nor place, such as a bell, invisible characters and
    /// bytes that are not UTF-8 are escaped.
    pub(crate) fn shown(&mut self, raw: &[u8]) -> String {
        escaped(self.rewritten(raw, true))
    }

    fn rewritten<'a>(&'a mut self, raw: &'a [u8], escapes: bool) -> &'a [u8] {
        let raw = strip_end(raw);
        if !has_control(raw) {
            return &raw[ci_prefix(raw)..];
        }
        self.buffer.clear();
        self.buffer.shrink_to(LINE_BYTES_MAX);
        for segment in raw.split(|byte| *byte == b'\r') {
            let kept = self.buffer.len();
            strip_escapes(segment, &mut self.buffer, escapes);
            // A later segment overwrites an earlier one, unless it draws nothing.
            if self.buffer[kept..].iter().all(|byte| *byte == b' ') {
                self.buffer.truncate(kept);
            } else {
                self.buffer.drain(..kept);
            }
        }
        &self.buffer[ci_prefix(&self.buffer)..]
    }
}

/// Whether any byte is a control byte; written so that the compiler looks at many at a time.
pub(crate) fn has_control(bytes: &[u8]) -> bool {
    let any = |block: &[u8]| block.iter().fold(false, |found, byte| found | is_control(*byte));
    let (blocks, rest) = bytes.as_chunks::<CONTROL_BLOCK_BYTES>();
    // The last block overlaps the one before it, so that no byte is looked at alone.
    match bytes.last_chunk::<CONTROL_BLOCK_BYTES>() {
        Some(last) => blocks.iter().any(|block| any(block)) || any(last),
        None => any(rest),
    }
}

/// Offset of the first control byte that is not a line feed, or the number of bytes.
pub(super) fn first_control(bytes: &[u8]) -> usize {
    let from = blocks_without_control::<WIDE_BLOCK_BYTES>(bytes);
    let from = from + blocks_without_control::<CONTROL_BLOCK_BYTES>(&bytes[from..]);
    let rest = &bytes[from..];
    from + rest.iter().position(|byte| is_control(*byte) && *byte != b'\n').unwrap_or(rest.len())
}

/// Number of bytes in blocks before the first one that has a control byte.
fn blocks_without_control<const BYTES: usize>(bytes: &[u8]) -> usize {
    let any = |block: &[u8; BYTES]| {
        block.iter().fold(false, |found, byte| found | (is_control(*byte) & (*byte != b'\n')))
    };
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    BYTES * blocks.iter().position(any).unwrap_or(blocks.len())
}

fn strip_end(mut raw: &[u8]) -> &[u8] {
    while let Some(rest) = raw.strip_suffix(b"\r") {
        raw = rest;
    }
    raw
}

const fn is_control(byte: u8) -> bool {
    (byte < 0x20) & (byte != b'\t') | (byte == 0x7f)
}

/// Appends a segment without escape sequences and control bytes. `CSI n G` to column 1 begins the line anew, and
/// backspace takes back one character: spinners use both. `escapes`: other control bytes are escaped.
fn strip_escapes(segment: &[u8], out: &mut Vec<u8>, escapes: bool) {
    let start = out.len();
    let mut rest = segment;
    while let Some(&byte) = rest.first() {
        if byte == 0x1b {
            let (length, column_one) = escape_length(rest);
            if column_one && out.len() > start && has_text_after(&rest[length..]) {
                out.truncate(start);
            }
            rest = &rest[length..];
        } else if byte == 0x08 {
            while out.len() > start && out.pop().is_some_and(|last| last & 0xc0 == 0x80) {}
            rest = &rest[1..];
        } else if is_control(byte) {
            if escapes {
                out.extend_from_slice(escaped(&[byte]).as_bytes());
            }
            rest = &rest[1..];
        } else {
            let end = rest.iter().position(|b| is_control(*b)).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
    }
}

/// Whether something is drawn after an escape sequence.
fn has_text_after(mut rest: &[u8]) -> bool {
    while let Some(&byte) = rest.first() {
        if byte == 0x1b {
            rest = &rest[escape_length(rest).0..];
        } else if is_control(byte) || byte == b' ' {
            rest = &rest[1..];
        } else {
            return true;
        }
    }
    false
}

/// Bytes of the escape sequence at the front, and whether it moves the cursor to column 1.
fn escape_length(bytes: &[u8]) -> (usize, bool) {
    let length = sequence_length(bytes);
    let column_one = matches!(&bytes[..length], b"\x1b[G" | b"\x1b[1G" | b"\x1b[0G");
    (length, column_one)
}

/// Bytes that a CI system puts before each line: a job and step name with a time stamp (`gh run view --log`), or a time
/// stamp in UTC alone (GitHub, Azure), or Buildkite's `bk;t=` when its escape byte is lost.
pub(crate) fn ci_prefix(line: &[u8]) -> usize {
    let at = if line.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    if let Some(length) = utc_stamp(&line[at..]) {
        return at + length + gitlab_length(&line[at + length..]);
    }
    if let Some(rest) = line[at..].strip_prefix(b"_bk;t=")
        && let Some(end) = memchr(0x07, &rest[..rest.len().min(24)])
    {
        return at + 6 + end + 1;
    }
    if let Some(first) = memchr(b'\t', &line[at..line.len().min(at + 120)])
        && let Some(second) = memchr(b'\t', &line[at + first + 1..line.len().min(at + first + 161)])
    {
        let stamp = at + first + 1 + second + 1;
        // Each job's log begins with a mark of its own.
        let stamp =
            stamp + if line[stamp..].starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        if let Some(length) = utc_stamp(&line[stamp..]) {
            return stamp + length;
        }
    }
    at
}

/// Bytes of GitLab's mark after its time stamp: the stream's number and kind, and `+` if the line continues: `01O `, `00E+`.
fn gitlab_length(line: &[u8]) -> usize {
    let known = line.len() >= 3
        && line[..2].iter().all(u8::is_ascii_hexdigit)
        && matches!(line[2], b'O' | b'E')
        && matches!(line.get(3), None | Some(b' ' | b'+'));
    if known { line.len().min(4) } else { 0 }
}

/// `2024-05-21T10:00:05.1234567Z ` at the front.
fn utc_stamp(line: &[u8]) -> Option<usize> {
    if !(line.len() >= 20
        && line[4] == b'-'
        && line[10] == b'T'
        && line[13] == b':'
        && line[0].is_ascii_digit())
    {
        return None;
    }
    let end = memchr(b'Z', &line[..line.len().min(34)])?;
    let stamp = &line[..end];
    if !stamp.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'T' | b':' | b'.')) {
        return None;
    }
    Some(end + 1 + usize::from(line.get(end + 1) == Some(&b' ')))
}

/// Bytes of a time stamp at the front, with its separator: `2024-05-21 10:00:05,123 `, `[10:00:05] `,
/// `[10:00:05]: `, `(10:00:05) `, `10:00:05.123 `, `May 21 10:00:05 `. 0 without a time stamp. Indentation after it stays.
pub(crate) fn stamp_length(line: &[u8]) -> usize {
    let (mut at, bracket) = match line.first() {
        Some(b'#') => return buildkit_length(line),
        Some(b'A'..=b'S') => return month_length(line),
        Some(b'[' | b'(') => (1, true),
        Some(byte) if byte.is_ascii_digit() => (0, false),
        _ => return 0,
    };
    let digits = |at: usize, shape: &[u8]| {
        line.get(at..at + shape.len()).is_some_and(|part| {
            part.iter().zip(shape).all(|(byte, like)| match like {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b' '),
                b'-' => matches!(byte, b'-' | b'/'),
                like => byte == like,
            })
        })
    };
    if digits(at, b"0000-00-00T00:00:00") {
        at += 19;
    } else if digits(at, b"00:00:00") {
        at += 8;
    } else {
        return 0;
    }
    if matches!(line.get(at), Some(b'.' | b',')) {
        let fraction = line[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        at += if fraction > 0 { fraction + 1 } else { 0 };
    }
    if line.get(at) == Some(&b'Z') {
        at += 1;
    } else if digits(at + 1, b"00:00") && matches!(line.get(at), Some(b'+' | b'-')) {
        at += 6;
    } else if digits(at + 1, b"0000") && matches!(line.get(at), Some(b'+' | b'-')) {
        at += 5;
    }
    if bracket {
        let close = if line[0] == b'[' { b']' } else { b')' };
        if line.get(at) != Some(&close) {
            return 0;
        }
        at += 1;
        at += usize::from(line.get(at) == Some(&b':'));
    }
    separator_length(&line[at..], bracket).map_or(0, |blanks| at + blanks)
}

/// Blanks between a stamp and the text: one; further blanks are the text's own indentation. A stamp without brackets may
/// have two before a word, as Jenkins and loggers with padded levels print. `None` if the text before it is not a stamp.
fn separator_length(rest: &[u8], bracket: bool) -> Option<usize> {
    match rest {
        // A blank line with a trimmed end.
        [] if bracket => Some(0),
        [b' ', b' ', text, ..] if !bracket && (text.is_ascii_alphanumeric() || *text == b'[') => Some(2),
        [b' ' | b'\t', ..] => Some(1),
        _ => None,
    }
}

/// Bytes of `May 21 10:00:05 `, as `ts` and syslog write. 0 without such a stamp.
fn month_length(line: &[u8]) -> usize {
    let Some(stamp) = line.get(..15) else { return 0 };
    let digit = |at: usize| stamp[at].is_ascii_digit();
    let is_time = stamp[3] == b' '
        && (digit(4) || stamp[4] == b' ')
        && digit(5)
        && stamp[6] == b' '
        && stamp[9] == b':'
        && stamp[12] == b':'
        && [7, 8, 10, 11, 13, 14].into_iter().all(digit);
    if !is_time || !MONTHS.contains(&&stamp[..3]) {
        return 0;
    }
    separator_length(&line[15..], false).map_or(0, |blanks| 15 + blanks)
}

/// Bytes of BuildKit's prefix of a step's output: `#8 2.101 `. 0 without a prefix.
fn buildkit_length(line: &[u8]) -> usize {
    let digits = |from: usize| line[from..].iter().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let step = digits(1);
    if step == 0 || line.get(1 + step) != Some(&b' ') {
        return 0;
    }
    let seconds = 2 + step + digits(2 + step);
    if seconds == 2 + step || line.get(seconds) != Some(&b'.') {
        return 0;
    }
    let end = seconds + 1 + digits(seconds + 1);
    if end > seconds + 1 && line.get(end) == Some(&b' ') { end + 1 } else { 0 }
}

/// Bytes as text, with replacements for invalid UTF-8. Almost all lines are valid, which is the faster check.
pub(crate) fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| with_escapes(bytes).into(), Into::into)
}

/// The text of bytes that are not all UTF-8. Each other byte is escaped: `\xff`.
#[cold]
fn with_escapes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&escaped(chunk.invalid()));
    }
    text
}

/// At most `chars` characters: the head, a count of the cut part, and the end. Never cuts inside a character.
pub(crate) fn clip_chars(text: &str, chars: usize) -> std::borrow::Cow<'_, str> {
    clipped(text, chars).0
}

/// As [`clip_chars`], with the number of bytes that are left out.
pub(crate) fn clipped(text: &str, chars: usize) -> (std::borrow::Cow<'_, str>, u64) {
    if text.len() <= chars {
        return (text.into(), 0);
    }
    let count = text.chars().count();
    if count <= chars {
        return (text.into(), 0);
    }
    let note = 24;
    let kept = chars.saturating_sub(note);
    let head = kept * 3 / 4;
    let end = kept - head;
    let head_to = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let end_from = end.checked_sub(1).and_then(|nth| text.char_indices().nth_back(nth));
    let end_from = end_from.map_or(text.len(), |(at, _)| at);
    let shown = format!("{} …[{} chars]… {}", &text[..head_to], count - kept, &text[end_from..]);
    (shown.into(), (end_from - head_to) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_control_byte_is_found() {
        for length in 0..200 {
            let mut bytes = vec![b'x'; length];
            bytes.iter_mut().step_by(3).for_each(|byte| *byte = b'\n');
            bytes.iter_mut().step_by(5).for_each(|byte| *byte = b'\t');
            assert_eq!(first_control(&bytes), length);
            for at in (0..length).rev() {
                bytes[at] = if at % 2 == 0 { 0x1b } else { 0x7f };
                assert_eq!(first_control(&bytes), at);
            }
        }
    }

    #[track_caller]
    fn check(raw: &[u8], expected: &str) {
        let mut cleaner = Cleaner::default();
        assert_eq!(String::from_utf8_lossy(cleaner.clean(raw)), expected);
    }

    #[test]
    fn escapes_are_removed() {
        check(b"\x1b[1m\x1b[31merror\x1b[0m: no", "error: no");
        check(b"\x1b]8;;http://a/\x1b\\link\x1b]8;;\x1b\\ after", "link after");
        check(b"\x1b_bk;t=1700000000000\x07~~~ step", "~~~ step");
        check(b"ab\x1b[", "ab");
        check(b"\x1b(Bplain\x1b", "plain");
        check(b"nul\0s and \x07 bells", "nuls and  bells");
    }

    #[test]
    fn progress_keeps_the_last_state() {
        check(b"10%\r20%\rdone\r", "done");
        check(b"text\r", "text");
        check(b"text\r\x1b[K", "text");
        check(b"   ok\x1b[K\x1b[77G1/4\x1b[2G\x1b[1G \xe2\x9c\x97 broken\x1b[K", " ✗ broken");
        check(b"spin-\x08\\\x08|\x08ok", "spinok");
    }

    #[test]
    fn ci_prefixes_are_cut() {
        check(b"2024-05-21T10:00:05.1234567Z error: x", "error: x");
        check(b"\xef\xbb\xbf2024-05-21T10:00:05.1234567Z x", "x");
        check(b"build (mac)\tRun tests\t2024-05-21T10:00:05.1234567Z   indented", "  indented");
        check(b"build\tRun tests\t\xef\xbb\xbf2024-05-21T10:00:05.1234567Z x", "x");
        check(b"2024-05-21T10:00:05.1234567Z", "");
        check(b"2024-05-21T10:00:05.1234567Z     ^^^", "    ^^^");
        check(b"\x1b_bk;t=1700000000000\x07    ^^^", "    ^^^");
        check(b"2024-05-21T10:00:05.123456Z 01O     ^^^", "    ^^^");
        check(b"2024-05-21T10:00:05.123456Z 01O", "");
        check(b"2024-05-21T10:00:05.123456Z 01O --- FAIL: A", "--- FAIL: A");
        check(b"2024-05-21T10:00:05.123456Z 00E+ more", " more");
        check(b"2024-05-21T10:00:05.123456Z 010 x", "010 x");
        check(b"2024-05-21 not a stamp", "2024-05-21 not a stamp");
    }

    #[test]
    fn stamps_are_measured() {
        for (line, rest) in [
            ("2024-05-21 10:00:05,123 ERROR x", "ERROR x"),
            ("[2024-05-21T10:00:05+01:00] x", "x"),
            ("10:00:05 x", "x"),
            ("[10:00:05.1] x", "x"),
            ("[10:00:05]: x", "x"),
            ("(10:00:05) x", "x"),
            ("(10:00:05] x", "(10:00:05] x"),
            ("2024-11-09 22:03:15.508596+0100 App[1:2] x", "App[1:2] x"),
            ("2024 files", "2024 files"),
            ("[1/2] CC x", "[1/2] CC x"),
            ("10:00:05", "10:00:05"),
            ("[2026-11-21T04:12:13Z] Traceback", "Traceback"),
            ("[2026-11-21T04:12:13Z]   File", "  File"),
            ("[2026-11-21T04:12:13Z] ", ""),
            ("[2026-11-21T04:12:13Z]", ""),
            ("[04:12:13]     ^^^", "    ^^^"),
            ("(04:12:13)\tx", "x"),
            ("2026-11-21 04:12:13     x", "    x"),
            ("2026-11-21 04:12:13  INFO x", "INFO x"),
            ("04:12:13  x", "x"),
            ("04:12:13  --> a.rs:3:1", " --> a.rs:3:1"),
            ("04:12:13 \tat a.B", "\tat a.B"),
            ("Nov 21 04:12:13   File", "  File"),
            ("Nov  1 04:12:13 x", "x"),
            ("Nov 21 04:12:13", "Nov 21 04:12:13"),
            ("Now 21 04:12:13 x", "Now 21 04:12:13 x"),
            ("#8 2.101 npm error", "npm error"),
            ("#8 [4/5] RUN npm ci", "#8 [4/5] RUN npm ci"),
            ("#1 0x55 in main a.c:3", "#1 0x55 in main a.c:3"),
            ("#", "#"),
        ] {
            assert_eq!(&line[stamp_length(line.as_bytes())..], rest);
        }
    }

    #[test]
    fn clipping_keeps_both_ends_and_whole_characters() {
        let text = "ä".repeat(500);
        let clipped = clip_chars(&text, 100);
        assert!(clipped.chars().count() <= 100, "{clipped}");
        assert!(clipped.starts_with('ä') && clipped.ends_with('ä'));
    }
}
