//! Masks secrets in a stream before its first byte is stored, independent of its chunking.
//!
//! A value is matched in these forms. As it is. In base64, at each of the three offsets in a longer
//! text, in lines of any length. With any of its bytes percent-encoded, as encoders differ. The
//! lines of a multi-line value are matched separately, and so is a value without the white space
//! around it. The leftmost, longest match becomes `***`. Bytes at the end of a read that may start
//! a match are held back until they can be decided.

mod forms;
#[cfg(test)]
mod tests;

use forms::Forms;
use std::sync::Arc;

/// Replacement for a secret.
pub const MASK: &[u8] = b"***";

/// Masks one stream. The result does not depend on the chunking of the stream.
#[derive(Clone)]
pub struct Masker {
    forms: Arc<Forms>,
    held: Vec<u8>,
}

impl Masker {
    /// Creates a masker for these values. Empty values are ignored. Returns `None` if there is
    /// nothing to mask.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        Forms::new(values).map(|forms| Self { forms: Arc::new(forms), held: Vec::new() })
    }

    /// Returns a whole text with secrets masked. Held bytes of a stream are not affected.
    pub fn text(&self, text: &str) -> String {
        let mut masker = Self { forms: Arc::clone(&self.forms), held: Vec::new() };
        let mut out = Vec::with_capacity(text.len());
        masker.push(text.as_bytes(), &mut out);
        masker.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Adds bytes of the stream, and appends the decided bytes to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let decided = self.scan(out, false);
        self.held.drain(..decided);
    }

    /// Ends the stream: held-back bytes are not a secret.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        // The held-back bytes may contain a shorter secret.
        self.scan(out, true);
        self.held.clear();
    }

    /// Returns the number of held-back bytes.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Masks the bytes that can be decided, and returns their number.
    fn scan(&self, out: &mut Vec<u8>, is_all: bool) -> usize {
        let mut at = 0;
        let mut plain_from = 0;
        while at < self.held.len() {
            if !self.forms.may_start(self.held[at]) {
                at += 1;
                continue;
            }
            let found = self.forms.look(&self.held[at..]);
            if found.more && !is_all {
                break;
            }
            match found.longest {
                Some(length) => {
                    out.extend_from_slice(&self.held[plain_from..at]);
                    out.extend_from_slice(MASK);
                    at += length;
                    plain_from = at;
                }
                None => at += 1,
            }
        }
        out.extend_from_slice(&self.held[plain_from..at]);
        at
    }
}
