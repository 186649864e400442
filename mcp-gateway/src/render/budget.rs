//! Size limits of answers.

use super::Answer;
use buildpool_protocol::Verbosity;

/// Limit on the characters of any answer. Clients truncate longer answers or write them to a file.
const CHARACTERS_MAX: usize = 40_000;
/// Limit of Codex in bytes. Codex cuts longer answers in the middle.
const CODEX_BYTES: usize = 10_000;
/// Characters of an answer for facts that the gateway adds: the chosen command, a note, next calls.
const EXTRAS_CHARACTERS: usize = 500;

/// Limits that both forms of an answer must meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    lines: usize,
    characters: usize,
    bytes: usize,
    /// Whether no other verbosity gives this client a larger budget.
    is_largest: bool,
}

impl Budget {
    /// Returns the budget for a verbosity and a client: the smaller of the pool's and of what the client
    /// takes. The client is identified by its reported name.
    pub(crate) fn of(verbosity: Verbosity, client: &str) -> Self {
        let (lines, characters) = verbosity.budget();
        let bytes = client_bytes(client);
        let is_largest = verbosity == Verbosity::Full || characters > bytes;
        Self { lines, characters: characters.min(CHARACTERS_MAX), bytes, is_largest }
    }

    /// Returns the budget for lists and parts of logs.
    pub(crate) fn of_lists(client: &str) -> Self {
        Self { lines: usize::MAX, characters: CHARACTERS_MAX, bytes: client_bytes(client), is_largest: true }
    }

    /// Returns true if the same call with another verbosity would not return more.
    pub(super) const fn is_largest(&self) -> bool {
        self.is_largest
    }

    /// Returns the same budget for an answer with a complete log, which may have many short lines.
    pub(super) const fn of_complete_log(self) -> Self {
        Self { lines: usize::MAX, ..self }
    }

    /// Returns the characters of both forms to request from the pool, so that little must be cut here.
    pub(crate) fn pool_characters(&self) -> usize {
        self.characters.min(self.bytes).saturating_sub(EXTRAS_CHARACTERS)
    }

    /// Returns the remaining budget after the larger form of an answer, in characters of one byte.
    pub(crate) fn room_beside(&self, answer: &Answer) -> usize {
        let longer = answer.structured.to_string().len().max(answer.text.len());
        self.characters.min(self.bytes).saturating_sub(longer)
    }

    /// Returns how many characters the larger form has over the budget; 0 if both forms fit.
    pub(crate) fn excess(&self, answer: &Answer) -> usize {
        self.excess_of_structured(answer).max(self.excess_of_text(answer))
    }

    /// Returns how many characters the structured content has over the budget.
    pub(super) fn excess_of_structured(&self, answer: &Answer) -> usize {
        self.excess_of(&answer.structured.to_string())
    }

    /// Returns how many characters the text has over the budget; at least 1 if it has too many lines.
    pub(super) fn excess_of_text(&self, answer: &Answer) -> usize {
        let too_many_lines = usize::from(answer.text.lines().count() > self.lines);
        self.excess_of(&answer.text).max(too_many_lines)
    }

    fn excess_of(&self, text: &str) -> usize {
        text.chars().count().saturating_sub(self.characters).max(text.len().saturating_sub(self.bytes))
    }
}

fn client_bytes(client: &str) -> usize {
    if client.to_ascii_lowercase().contains("codex") { CODEX_BYTES } else { CHARACTERS_MAX * 4 }
}
