//! Answers: each is made once, within a budget, and told twice: as structured content and as text. A client shows its
//! model one of the two, so each says everything.
//!
//! What a job wrote is data, not instructions. In the text it stands only behind a bar, in the structured content only in
//! fields of a job, and control characters are escaped in both.

mod budget;
mod build;
mod cut;
mod finding;
mod job;
mod lists;
mod logs;
mod text;

pub(crate) use budget::Budget;
pub(crate) use build::{BuildAnswer, build, listed};
pub(crate) use buildpool_protocol::shown::{one_line, printable};
pub(crate) use finding::finding;
pub(crate) use job::{Extras, files_came, job, other_command, reason, short};
pub(crate) use lists::{JobsAsked, jobs, labels_of, templates, workers};
pub(crate) use logs::{LogCall, logs};

use serde_json::Value;

/// An answer in both forms.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answer {
    /// For clients that give their model the structured content.
    pub(crate) structured: Value,
    /// For those that give it the text.
    pub(crate) text: String,
    /// To files that the answer lists, as far as there is room beside the text.
    pub(crate) links: Vec<Link>,
}

/// Leads to a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) address: String,
    pub(crate) name: String,
    /// Its size.
    pub(crate) bytes: u64,
}

impl Answer {
    fn new(structured: Value, text: String) -> Self {
        Self { structured, text, links: Vec::new() }
    }
}

/// A value without members that are null, false, zero or empty.
fn prune(mut value: Value) -> Value {
    buildpool_protocol::report::prune(&mut value);
    value
}

#[cfg(test)]
mod tests;
