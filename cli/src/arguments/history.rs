//! Arguments of `tests` and `events`.

use super::values::{count, whole};
use super::{Form, PoolOptions};
use crate::completion;
use clap::Args;
use clap_complete::engine::ArgValueCandidates;

#[derive(Args, Debug)]
pub(crate) struct TestsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// List only tests that passed and failed with the same tree
    #[arg(long)]
    pub(crate) flaky: bool,
    /// List the slowest tests first
    #[arg(long)]
    pub(crate) slow: bool,
    /// List only tests whose newest result is a failure
    #[arg(long)]
    pub(crate) failing: bool,
    /// List only tests of this project
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<String>,
    /// Count only results of this branch
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Count only results of this worker
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::workers))]
    pub(crate) worker: Option<String>,
    /// Maximum number of tests
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..=10_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) form: Form,
}

#[derive(Args, Debug)]
pub(crate) struct EventsArguments {
    #[command(flatten)]
    pub(crate) pool: PoolOptions,
    /// Begin after the event with this id; 0 begins with the oldest stored event
    #[arg(long, value_name = "ID", allow_negative_numbers = true, value_parser = count)]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) form: Form,
}
