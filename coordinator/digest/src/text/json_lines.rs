//! Collects the lines of a JSON document that is printed with one value a line.

use crate::limits::DOCUMENT_BYTES_MAX;

/// The document that is open in a stream.
#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    bytes: Vec<u8>,
    /// Offset of its first byte in the stream.
    from: u64,
}

impl JsonLines {
    /// Adds a line that begins at `from`. At the last line of a document, returns the document and its offset. A document
    /// longer than the limit is dropped.
    pub(crate) fn line(&mut self, line: &[u8], from: u64) -> Option<(u64, Vec<u8>)> {
        let text = line.trim_ascii_end();
        if matches!(text, b"{" | b"[" | b"[{") {
            self.bytes.clear();
            self.from = from;
        } else if self.bytes.is_empty() {
            return None;
        }
        if self.bytes.len() + line.len() > DOCUMENT_BYTES_MAX || !is_of_document(line) {
            self.bytes = Vec::new();
            return None;
        }
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        if !matches!(text, b"}" | b"]" | b"}]") {
            return None;
        }
        Some((self.from, std::mem::take(&mut self.bytes)))
    }
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
}
