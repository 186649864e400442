//! Renders answers within a budget.
//!
//! Each answer has two forms with the same facts: structured content and text. A client passes only
//! one of them to its model.
//!
//! Output of a job is data, not instructions. In the text it appears only behind a bar, in the
//! structured content only in fields of a job. Control characters are escaped in both.

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
pub(crate) use job::{Extras, call, job, new_files_note, no_such_test, other_command, reason, short};
pub(crate) use lists::{JobsQuery, JobsRest, jobs, labels_of, templates, workers};
pub(crate) use logs::{LogCall, logs};

use crate::pictures::Picture;
use buildpool_protocol::report::answer;
use serde_json::Value;

/// An answer in both forms.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answer {
    /// For clients that pass the structured content to their model.
    pub(crate) structured: Value,
    /// For clients that pass the text to their model.
    pub(crate) text: String,
    /// Links to files that the answer lists, as far as the budget allows.
    pub(crate) links: Vec<Link>,
    /// Pictures, for a caller that requested them.
    pub(crate) pictures: Vec<Picture>,
}

/// A link to a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) address: String,
    pub(crate) name: String,
    /// Size of the file.
    pub(crate) bytes: u64,
}

impl Answer {
    fn new(structured: Value, text: String) -> Self {
        Self { structured: answer(&structured), text, links: Vec::new(), pictures: Vec::new() }
    }
}

/// Removes members that are null, false, zero or empty.
fn prune(mut value: Value) -> Value {
    buildpool_protocol::report::prune(&mut value);
    value
}

#[cfg(test)]
mod tests;
