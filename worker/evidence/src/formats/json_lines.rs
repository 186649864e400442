//! Extracts JSON events, one per line, from other output.

use crate::limits::LINE_BYTES_MAX;
use crate::text;
use serde::de::DeserializeOwned;

/// Counts of lines that could not be read.
#[derive(Default)]
pub(super) struct Unread {
    /// Lines that contain only a part of an event.
    torn: u64,
    /// Lines that exceed the length limit.
    long: u64,
}

impl Unread {
    /// Returns the reason why events are missing, or `None`.
    pub(super) fn cut(&self) -> Option<String> {
        let parts = text::counted(self.torn, "line is a part of an event", "lines are parts of events");
        (self.torn > 0).then(|| format!("{parts}; the stream may be cut short"))
    }

    pub(super) fn note(&self) -> Option<String> {
        let lines = text::counted(self.long, "line is", "lines are");
        (self.long > 0).then(|| format!("{lines} longer than the {LINE_BYTES_MAX} bytes that are read"))
    }
}

/// Passes each event to `each`. Output of a test may precede an event on its line. `openings` lists
/// the first bytes of events.
pub(super) fn json_lines<T: DeserializeOwned>(
    bytes: &[u8],
    openings: &[&str],
    mut each: impl FnMut(T),
) -> Unread {
    let mut unread = Unread::default();
    let mut is_first = true;
    let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let was_first = std::mem::replace(&mut is_first, false);
        if line.len() > LINE_BYTES_MAX {
            unread.long += 1;
            continue;
        }
        if line.starts_with(b"{") {
            match serde_json::from_slice(line) {
                Ok(event) => each(event),
                Err(_) => unread.torn += u64::from(is_torn(line, is_last, openings)),
            }
        } else if let Some(from) = opening_in(line, openings) {
            match serde_json::from_slice(&line[from..]) {
                Ok(event) => each(event),
                Err(_) => unread.torn += 1,
            }
        } else {
            unread.torn += u64::from(was_first && is_end(line));
        }
    }
    unread
}

/// Returns true if a line starts like an event. For the last line, a prefix of an opening also
/// counts.
fn is_torn(line: &[u8], is_last: bool, openings: &[&str]) -> bool {
    openings
        .iter()
        .map(|opening| opening.as_bytes())
        .any(|opening| line.starts_with(opening) || (is_last && opening.starts_with(line)))
}

fn opening_in(line: &[u8], openings: &[&str]) -> Option<usize> {
    openings.iter().filter_map(|opening| memchr::memmem::find(line, opening.as_bytes())).min()
}

/// Returns true if a line is the end of an object without its beginning.
fn is_end(line: &[u8]) -> bool {
    let count = |wanted: u8| line.iter().filter(|byte| **byte == wanted).count();
    line == b"}" || (line.ends_with(b"}") && count(b'}') > count(b'{') && count(b'"') > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct TestEvent {
        a: u32,
    }

    fn read(text: &str) -> (Vec<u32>, u64) {
        let mut seen = Vec::new();
        let unread =
            json_lines(text.as_bytes(), &["{\"a\":", "{ \"a\":"], |event: TestEvent| seen.push(event.a));
        (seen, unread.torn)
    }

    #[test]
    fn events_are_found_among_output_and_parts_of_them_counted() {
        assert_eq!(read("{\"a\":1}\r\n\n{ \"a\": 2 }"), (vec![1, 2], 0));
        assert_eq!(read("printed{\"a\":1}\n{ printed: 7 }\n[1]\n{\n  \"x\"\n}\n"), (vec![1], 0));
        assert_eq!(read("{\"a\":1}\n{\"a\":"), (vec![1], 1));
        assert_eq!(read("{\"a\":1}\n{ \""), (vec![1], 1));
        assert_eq!(read("\"b\":\"x\"}\n{\"a\":1}"), (vec![1], 1));
        assert_eq!(read("}\n{\"a\":1}"), (vec![1], 1));
        assert_eq!(read("warning: { \"x\" }\n{\"a\":1}"), (vec![1], 0));
    }
}
