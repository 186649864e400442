//! Computes the verdict, the findings and a bounded text from a log, the ending of an attempt and
//! its report files.
//!
//! [`Digester`] takes a log's bytes in chunks of any size, in bounded memory. When the attempt has
//! ended, [`Digester::finish`] makes a [`Digest`] from the log and the [`Facts`]. The verdict does
//! not depend on how much is shown. [`Digest::render`] fills a `JobResult` within a budget, which
//! is spent on failures first.
//!
//! The crate does no I/O, reads no clock, uses no randomness, and never iterates over a `HashMap`.

mod claims;
mod command;
mod compress;
mod digest;
mod digester;
mod doubtful;
mod endings;
mod evidence;
mod facts;
mod found;
mod left_behind;
pub mod limits;
mod loading;
mod machine;
pub mod manifest;
mod noise;
mod probes;
mod prompts;
mod reason;
mod render;
mod reports;
#[macro_use]
mod rules;
mod runs;
mod signs;
mod tally;
mod template;
pub mod templates;
mod text;
mod tier;
mod tool;
mod tools;
mod transcript;
mod unclosed;
mod verdict;
mod view;
mod xcodebuild;

pub use digest::{Digest, Explanation};
pub use digester::{Digester, Live, Options, readable};
pub use facts::{Facts, History};
pub use left_behind::{Missed, missed};
pub use reports::TestResult;
pub use template::RAW;
pub use view::{COMMAND_CHARS_MAX, TextForm, TextPage, text, text_as};

/// Names of all recognizers, in the form `tool.rule`.
pub fn recognisers() -> Vec<&'static str> {
    rules::RuleSet::all().rules().map(|rule| rule.name).collect()
}

/// Patterns of all recognizers, in the order of [`recognisers`]. They match bytes, not Unicode. A
/// benchmark compares against the same number of patterns.
pub fn patterns() -> Vec<&'static str> {
    rules::RuleSet::all().rules().map(|rule| rule.pattern).collect()
}
