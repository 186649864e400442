//! Arguments of `completions` and `man`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "bash|zsh|fish", hide_possible_values = true)]
    pub(crate) shell: Shell,
}

/// A shell with a script for completions.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Directory for the pages, such as a `man1` of the manual's path; it is created if missing
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
