//! How much an answer may have.

use super::Answer;
use buildpool_protocol::Verbosity;

/// Characters that no answer exceeds, whatever was asked for: more is taken away or put into a file by clients.
const CHARACTERS_MAX: usize = 40_000;
/// Lines and characters of an answer, by verbosity: never more than the pool's own budgets.
const MINIMAL: (usize, usize) = (100, 5_000);
const NORMAL: (usize, usize) = (400, 16_000);
const FULL: (usize, usize) = (1_000, 32_000);
/// Bytes that Codex passes on whole; it cuts more in the middle.
const CODEX_BYTES: usize = 10_000;
/// Parts of ten that the digest may fill; the rest is for the names of fields and for what only the gateway knows.
const DIGEST_TENTHS: usize = 7;

/// What both forms of an answer must fit into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    lines: usize,
    characters: usize,
    bytes: usize,
    /// Whether another verbosity would get this client more.
    is_largest: bool,
}

impl Budget {
    /// For a verbosity and a client, by the name that it gives itself.
    pub(crate) fn of(verbosity: Verbosity, client: &str) -> Self {
        let (lines, characters) = match verbosity {
            Verbosity::Minimal => MINIMAL,
            Verbosity::Normal => NORMAL,
            Verbosity::Full => FULL,
        };
        let bytes = client_bytes(client);
        Self { lines, characters, bytes, is_largest: characters.min(bytes) == FULL.1.min(bytes) }
    }

    /// For lists and parts of logs.
    pub(crate) fn of_lists(client: &str) -> Self {
        Self { lines: usize::MAX, characters: CHARACTERS_MAX, bytes: client_bytes(client), is_largest: true }
    }

    /// Whether the same call at another verbosity would say no more.
    pub(super) const fn is_largest(&self) -> bool {
        self.is_largest
    }

    /// What to ask the pool for, so that little has to be cut here.
    pub(crate) fn digest_characters(&self) -> usize {
        self.characters.min(self.bytes) * DIGEST_TENTHS / 10
    }

    /// What is left beside the larger form of an answer, in characters that are one byte each.
    pub(crate) fn room_beside(&self, answer: &Answer) -> usize {
        let longer = answer.structured.to_string().len().max(answer.text.len());
        self.characters.min(self.bytes).saturating_sub(longer)
    }

    /// By how many characters the larger form is too long; 0 when both fit.
    pub(crate) fn excess(&self, answer: &Answer) -> usize {
        let structured = answer.structured.to_string();
        let too_many_lines = if answer.text.lines().count() > self.lines { 1 } else { 0 };
        self.excess_of(&structured).max(self.excess_of(&answer.text)).max(too_many_lines)
    }

    fn excess_of(&self, text: &str) -> usize {
        text.chars().count().saturating_sub(self.characters).max(text.len().saturating_sub(self.bytes))
    }
}

fn client_bytes(client: &str) -> usize {
    if client.to_ascii_lowercase().contains("codex") { CODEX_BYTES } else { CHARACTERS_MAX * 4 }
}

const _: () =
    assert!(MINIMAL.1 <= Verbosity::Minimal.budget().1 && MINIMAL.0 <= Verbosity::Minimal.budget().0);
const _: () = assert!(NORMAL.1 <= Verbosity::Normal.budget().1 && NORMAL.0 <= Verbosity::Normal.budget().0);
const _: () = assert!(FULL.1 <= Verbosity::Full.budget().1 && FULL.0 <= Verbosity::Full.budget().0);
const _: () = assert!(FULL.1 <= CHARACTERS_MAX);
