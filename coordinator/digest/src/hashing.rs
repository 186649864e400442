//! Hashes of texts, and maps by them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// A map whose keys are hashes, which are not hashed again.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<AsIs>>;

/// Identity hasher for keys that are already 64-bit hashes.
#[derive(Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Returns a hash of a value that is not stored itself.
pub(crate) fn hashed(named: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    named.hash(&mut hasher);
    hasher.finish()
}

/// Hasher for keys that only this process compares: it takes eight bytes at a time.
#[derive(Default)]
pub(crate) struct FastHasher(pub(crate) u64);

impl FastHasher {
    pub(crate) fn number(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (product as u64).rotate_left(23) ^ (product >> 64) as u64;
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.number(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.number(u64::from_le_bytes(last));
        self.number(bytes.len() as u64);
    }
}

/// FNV-1a hasher. Its values are the same on every machine and in every version, because signatures
/// are stored.
#[derive(Clone, Copy)]
pub(crate) struct Fnv(pub(crate) u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
