//! Computes the verdict, the findings and a bounded text from a log, the ending of an attempt and
//! its report files.
//!
//! [`Digester`] takes a log's bytes in chunks of any size, in bounded memory. When the attempt has
//! ended, [`Digester::finish`] makes a [`Digest`] from the log and the [`Facts`]. The verdict does
//! not depend on how much is shown. [`Digest::render`] fills a `JobResult` within a budget, which
//! is spent on failures first.
//!
//! The crate does no I/O, reads no clock, uses no randomness, and never iterates over a `HashMap`.

mod attempt_facts;
mod bad_end;
mod command;
mod compress;
mod configure_probes;
mod contradicted;
mod digest;
mod digester;
mod exit_codes;
mod findings;
mod hashing;
mod keyword_lines;
mod left_behind;
pub mod limits;
mod load_failures;
mod machine_faults;
mod machines;
pub mod manifest;
mod noise;
mod prompts;
mod reason;
mod records;
mod render;
mod reports;
mod standing_error;
#[macro_use]
mod rules;
mod answer_text;
mod markers;
mod missing_total;
mod ranking;
mod runs;
mod tally;
mod template;
pub mod templates;
mod text;
mod tool;
mod tools;
mod trailing_context;
mod transcript;
mod verdict;

pub use answer_text::{COMMAND_CHARS_MAX, TextForm, TextPage, text, text_as};
pub use attempt_facts::{Facts, History};
pub use digest::{Digest, Explanation};
pub use digester::{Digester, Live, Options, readable};
pub use left_behind::{Missed, missed};
pub use reports::TestResult;
pub use template::RAW;

/// Names of all recognizers, in the form `tool.rule`: the rules, then the formats of records.
pub fn recognisers() -> Vec<&'static str> {
    let rules = rules::RuleSet::all();
    let formats = tool::ToolId::record_formats().map(|format| format.name);
    rules.rules().map(|rule| rule.name).chain(formats).collect()
}

/// Patterns of all rules, in the order of [`recognisers`]. They match bytes, not Unicode. A
/// benchmark compares against the same number of patterns.
pub fn patterns() -> Vec<&'static str> {
    rules::RuleSet::all().rules().map(|rule| rule.pattern).collect()
}
