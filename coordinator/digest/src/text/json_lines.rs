//! Collects the lines of a JSON document that is printed with one value a line.

use crate::limits::DOCUMENT_BYTES_MAX;

/// Maximum number of open objects and arrays.
const DEPTH_MAX: usize = 64;

/// The document that is open in a stream.
#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    bytes: Vec<u8>,
    /// Offset of its first byte in the stream.
    from: u64,
}

impl JsonLines {
    /// Adds a line that begins at `from`. At the last line of a document, returns the document and its offset. Of a document
    /// longer than the limit, returns the beginning as a document.
    pub(crate) fn line(&mut self, line: &[u8], from: u64) -> Option<(u64, Vec<u8>)> {
        let may_begin = matches!(line.first(), Some(b'{' | b'['));
        if self.bytes.is_empty() && !may_begin {
            return None;
        }
        let text = line.trim_ascii_end();
        if matches!(text, b"{" | b"[" | b"[{") {
            self.bytes.clear();
            self.from = from;
        } else if self.bytes.is_empty() {
            return None;
        }
        if !is_of_document(line) {
            self.bytes = Vec::new();
            return None;
        }
        if self.bytes.len() + line.len() > DOCUMENT_BYTES_MAX {
            let document = std::mem::take(&mut self.bytes);
            return Some((self.from, closed_json(&document)?));
        }
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        if !matches!(text, b"}" | b"]" | b"}]") {
            return None;
        }
        Some((self.from, std::mem::take(&mut self.bytes)))
    }
}

/// The beginning of a document in JSON without its end, as a document: up to the last complete object in an array. `None` if
/// there is none.
pub(crate) fn closed_json(beginning: &[u8]) -> Option<Vec<u8>> {
    // The brackets that close the open objects and arrays, and those at the last cut.
    let (mut open, mut open_at_cut) = (Vec::new(), Vec::new());
    let mut cut = 0;
    let mut bytes = beginning.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                while bytes
                    .next()
                    .is_some_and(|(_, byte)| *byte != b'"' && (*byte != b'\\' || bytes.next().is_some()))
                {
                }
            }
            b'{' if open.len() < DEPTH_MAX => open.push(b'}'),
            b'[' if open.len() < DEPTH_MAX => open.push(b']'),
            b'{' | b'[' => break,
            b'}' | b']' => {
                if open.pop() != Some(*byte) {
                    break;
                }
                if *byte == b'}' && open.last() == Some(&b']') {
                    cut = at + 1;
                    open_at_cut.clone_from(&open);
                }
            }
            // Text instead of a document.
            _ if open.is_empty() => break,
            _ => {}
        }
    }
    open_at_cut.reverse();
    (cut > 0).then(|| [&beginning[..cut], &open_at_cut].concat())
}

/// Whether a line may be inside a document: it is indented, a bracket, or blank.
fn is_of_document(line: &[u8]) -> bool {
    matches!(line.first(), None | Some(b' ' | b'\t' | b'{' | b'}' | b'[' | b']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_several_lines_is_collected() {
        let mut lines = JsonLines::default();
        let document = "[\n  {\n    \"filename\": \"a.py\",\n    \"location\": {\"row\": 1, \"column\": 8},\n    \"message\": \"unused\"\n  }\n]";
        let log = format!("done\n{{\n text\nno\n{document}\n]\n");
        let mut at = 0;
        let mut found = Vec::new();
        for line in log.lines() {
            found.extend(lines.line(line.as_bytes(), at));
            at += line.len() as u64 + 1;
        }
        assert_eq!(found, [(16, format!("{document}\n").into_bytes())]);
    }

    #[test]
    fn a_long_document_is_read_up_to_the_limit() {
        let object = "  {\n    \"file\": \"a]}\\\"\",\n    \"lines\": [1, 2]\n  },\n";
        let log = format!("[\n{}]\n", object.repeat(DOCUMENT_BYTES_MAX / object.len() + 2));
        let mut lines = JsonLines::default();
        let found: Vec<_> = log.lines().filter_map(|line| lines.line(line.as_bytes(), 7)).collect();
        let [(7, document)] = found.as_slice() else { panic!("{} documents", found.len()) };
        let objects: Vec<serde_json::Value> = serde_json::from_slice(document).expect("it is closed");
        assert_eq!(objects.len(), DOCUMENT_BYTES_MAX / object.len());
    }

    #[test]
    fn the_beginning_of_a_document_is_closed() {
        for (beginning, document) in [
            (r#"[{"a":1},{"b":2"#, Some(r#"[{"a":1}]"#)),
            (r#"{"a":[{"b":[{"c":"]\"}"}],"d":{"e":1},"f"#, Some(r#"{"a":[{"b":[{"c":"]\"}"}]}]}"#)),
            (r#"{"a":{"b":1},"c""#, None),
            ("[1, 2", None),
            ("text [{}]", None),
            (r#"[{"a":1}}]"#, Some(r#"[{"a":1}]"#)),
            ("", None),
        ] {
            let closed = closed_json(beginning.as_bytes());
            let closed = closed.map(|document| String::from_utf8(document).expect("it is text"));
            assert_eq!(closed.as_deref(), document, "{beginning}");
        }
    }
}
