//! Masks secrets in a stream before its first byte is stored, wherever the stream is cut.
//!
//! A value is looked for as it is; in base64, at each of the three places that it can have in a longer text, in lines of any
//! length; and with any of its bytes in percent form, whichever of them an encoder leaves alone. The lines of a value of
//! several lines are looked for by themselves too, and so is a value without the blanks around it. The leftmost, longest
//! occurrence becomes `***`. Bytes at the end of a read that may be the beginning of an occurrence are held back until they
//! can be judged.

mod forms;
#[cfg(test)]
mod tests;

use forms::Forms;
use std::sync::Arc;

/// What stands in place of a secret.
pub const MASK: &[u8] = b"***";

/// Masks one stream. The result does not depend on how the stream is cut.
#[derive(Clone)]
pub struct Masker {
    forms: Arc<Forms>,
    held: Vec<u8>,
}

impl Masker {
    /// For these values; empty ones are no secret. None if nothing is to be masked.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        Forms::new(values).map(|forms| Self { forms: Arc::new(forms), held: Vec::new() })
    }

    /// A whole text, masked. What this value was given of a stream does not matter.
    pub fn text(&self, text: &str) -> String {
        let mut masker = Self { forms: Arc::clone(&self.forms), held: Vec::new() };
        let mut out = Vec::with_capacity(text.len());
        masker.push(text.as_bytes(), &mut out);
        masker.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Takes bytes of the stream and adds to `out` what can be judged.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let decided = self.scan(out, false);
        self.held.drain(..decided);
    }

    /// The stream has ended: what was held back is no secret.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        // A held-back beginning may contain a shorter secret.
        self.scan(out, true);
        self.held.clear();
    }

    /// How many bytes wait to be judged.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Judges what can be judged; how many bytes that is.
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
