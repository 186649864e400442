//! From log bytes, an ending and reports to a verdict, findings and budgeted text: pure and incremental.
//!
//! [`Digester`] takes a log's bytes as they come, at any chunking, in bounded memory. When the attempt has ended,
//! [`Digester::finish`] makes a [`Digest`] of it and of the [`Facts`]: the verdict does not depend on how much is shown.
//! [`Digest::render`] fills a `JobResult` within a budget that is spent on failures first.
//!
//! No I/O, no clock, no randomness; no iteration over a `HashMap`.

mod claims;
mod command;
mod compress;
mod digest;
mod digester;
mod doubtful;
mod endings;
mod evidence;
mod facts;
mod family;
mod found;
mod left_behind;
pub mod limits;
mod loading;
mod machine;
pub mod manifest;
mod noise;
mod probes;
mod render;
mod reports;
mod rules;
mod runs;
mod signs;
mod tally;
mod template;
pub mod templates;
mod text;
mod tier;
mod toolbox;
mod transcript;
mod verdict;
mod view;
mod xcodebuild;

pub use digest::{Digest, Explanation};
pub use digester::{Digester, Live, Options};
pub use facts::{Facts, History};
pub use left_behind::{Missed, missed};
pub use template::RAW;
pub use view::{TextForm, TextPage, text, text_as};

/// Names of all recognisers: `tool.what`.
pub fn recognisers() -> Vec<&'static str> {
    rules::RuleSet::all().rules().map(|rule| rule.name).collect()
}

/// The patterns of all recognisers, in the same order: bytes, not Unicode. For a yardstick of as many.
pub fn patterns() -> Vec<&'static str> {
    rules::RuleSet::all().rules().map(|rule| rule.pattern).collect()
}
